"""The least number over each place, of spans of places."""

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
