"""The least number over each place, of spans of places; and within each span, of places."""

from __future__ import annotations

import numpy as np

from xmlpunct.operators.relations.slots import Numbers


def least_over(starts: Numbers, ends: Numbers, numbers: Numbers, size: int, none: int) -> Numbers:
    """For each of ``size`` places the least number of a span ``[start, end)`` that has it, else ``none``.

    No span is empty. Each is covered by two of a length that is a power of two. From the longest on, those of one
    length are passed on to their halves.

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
        which = order[cuts[level] : cuts[level + 1]]
        length = 1 << level
        np.minimum.at(least, starts[which], numbers[which])
        np.minimum.at(least, ends[which] - length, numbers[which])
        if level:  # what holds from a place on for this length holds for both halves
            half = length // 2
            halves = least.copy()
            np.minimum(halves[half:], least[:-half], out=halves[half:])
            least = halves
    return least


def least_within(numbers: Numbers, starts: Numbers, ends: Numbers) -> Numbers:
    """For each span ``[start, end)``, which is not empty, the least of the numbers at its places.

    Each is covered by two of a length that is a power of two. The least within one of these is that of its halves.

    >>> least_within(np.array([7, 5, 9, 6]), np.array([0, 2, 0]), np.array([1, 4, 4])).tolist()
    [7, 6, 5]
    """
    least = np.empty(len(starts), np.int64)
    levels = np.frexp((ends - starts).astype(np.float64))[1] - 1
    for level in range(int(levels.max(initial=-1)) + 1):
        length = 1 << level
        if level:
            numbers = np.minimum(numbers[: -length // 2], numbers[length // 2 :])
        which = np.flatnonzero(levels == level)
        least[which] = np.minimum(numbers[starts[which]], numbers[ends[which] - length])
    return least
