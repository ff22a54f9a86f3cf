"""Range-minimum queries: the least number over each position, and the least number within each span."""

from __future__ import annotations

import numpy as np

from xmlpunct.operators.relations.slots import Numbers


def least_over(starts: Numbers, ends: Numbers, numbers: Numbers, size: int, none: int) -> Numbers:
    """For each of ``size`` positions the least number of a span ``[start, end)`` that contains it, else ``none``.

    No span is empty. Two spans whose length is a power of two cover it. From the longest length on, each is replaced by
    its halves. Returns an array of shape (size,).

    >>> least_over(np.array([0, 1, 1]), np.array([4, 3, 2]), np.array([7, 5, 9]), 5, 99).tolist()
    [7, 5, 5, 7, 99]
    """
    least = np.full(size, none, np.int64)
    if not len(starts):
        return least
    levels = np.frexp((ends - starts).astype(np.float64))[1] - 1
    order = np.argsort(levels, kind="stable")
    cuts = np.searchsorted(levels[order], np.arange(int(levels.max()) + 2))
    for level in range(int(levels.max()), -1, -1):
        selected = order[cuts[level] : cuts[level + 1]]
        length = 1 << level
        np.minimum.at(least, starts[selected], numbers[selected])
        np.minimum.at(least, ends[selected] - length, numbers[selected])
        if level:  # a span's number holds for both halves
            half = length // 2
            halves = least.copy()
            np.minimum(halves[half:], least[:-half], out=halves[half:])
            least = halves
    return least


def least_within(numbers: Numbers, starts: Numbers, ends: Numbers) -> Numbers:
    """For each span ``[start, end)``, selected is not empty, the least number at its positions; shape (spans,).

    Two spans whose length is a power of two cover it. The least number of each is the lesser one of its halves.

    >>> least_within(np.array([7, 5, 9, 6]), np.array([0, 2, 0]), np.array([1, 4, 4])).tolist()
    [7, 6, 5]
    """
    least = np.empty(len(starts), np.int64)
    levels = np.frexp((ends - starts).astype(np.float64))[1] - 1
    for level in range(int(levels.max(initial=-1)) + 1):
        length = 1 << level
        if level:
            numbers = np.minimum(numbers[: -length // 2], numbers[length // 2 :])
        selected = np.flatnonzero(levels == level)
        least[selected] = np.minimum(numbers[starts[selected]], numbers[ends[selected] - length])
    return least
