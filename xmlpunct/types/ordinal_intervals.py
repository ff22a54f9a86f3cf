"""Disjoint intervals of ordinals in two arrays: the bulk of an `IntervalSet` of a numbered type."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from xmlpunct.types.ordinals import Ordinals

_LEAST, _GREATEST = -(2**63), 2**63 - 1

RECENT, SHARE = 256, 32
"""Changes are buffered outside the arrays, up to `RECENT` or a ``SHARE``-th of the intervals, then merged into them.

So an interval is copied some `SHARE` times, whatever their number (`benchmarks/scaling.py --only growth`).
"""

OrdinalBounds = tuple[Ordinals, Ordinals]
"""The first and the last ordinals of intervals: int64 arrays of shape (n,)."""


class OrdinalIntervals:
    """Disjoint intervals in ascending order, none of which touches the next.

    Intervals are added all at once, and removed one by one. A removal moves no interval: it marks the interval by an
    end below its beginning. Marked intervals are dropped together.

    >>> intervals = OrdinalIntervals.of([(np.array([1, 5, 9]), np.array([2, 6, 9]))])
    >>> intervals.pop(3, 5, touching=True), len(intervals)
    ((1, 6), 1)
    """

    __slots__ = ("_firsts", "_is_shared", "_lasts", "_removed")

    def __init__(self, firsts: Ordinals, lasts: Ordinals) -> None:
        self._firsts, self._lasts, self._removed = firsts, lasts, 0
        self._is_shared = True
        """Whether another object may read the arrays."""

    @classmethod
    def of(cls, columns: Iterable[OrdinalBounds]) -> OrdinalIntervals:
        """The intervals of some columns, in any order, fused if they overlap or touch."""
        firsts, lasts = (np.concatenate(ends) for ends in zip(*columns, strict=True))
        order = np.argsort(firsts, kind="stable")
        firsts, reached = firsts[order], np.maximum.accumulate(lasts[order])
        begins, ends = np.ones(len(firsts), np.bool_), np.ones(len(firsts), np.bool_)
        # A fused interval begins after a gap. The first comparison excludes -2^63, for which - 1 would overflow.
        begins[1:] = (firsts[1:] > reached[:-1]) & (firsts[1:] - 1 > reached[:-1])
        ends[:-1] = begins[1:]
        return cls(firsts[begins], reached[ends])

    @property
    def bounds(self) -> OrdinalBounds:
        """The bounds of all intervals."""
        if self._removed:
            self._compact()
        self._is_shared = True
        return self._firsts, self._lasts

    @property
    def ends(self) -> tuple[int, int] | None:
        """The first ordinal of the first interval, and the last ordinal of the last; None if empty."""
        if not len(self):
            return None
        size, candidates = len(self._firsts), self._removed + 1  # at least one of these many is not removed
        first, last = self._alive(0, candidates)[0], self._alive(size - candidates, size)[-1]
        return int(self._firsts[first]), int(self._lasts[last])

    def has(self, first: int, last: int) -> bool:
        """Whether one interval has all ordinals from ``first`` to ``last``."""
        index = int(self._firsts.searchsorted(first, side="right")) - 1
        return index >= 0 and int(self._lasts[index]) >= last

    def overlapping(self, first: int, last: int) -> OrdinalBounds:
        """The intervals that overlap the interval from ``first`` to ``last``."""
        alive = self._alive(*self._index_range(first, last))
        return self._firsts[alive], self._lasts[alive]

    def pop(self, first: int, last: int, touching: bool = False) -> tuple[int, int] | None:
        """Remove the intervals that overlap (or touch) an interval. Returns their first and last ordinal, or None."""
        begin, end = self._index_range(max(first - touching, _LEAST), min(last + touching, _GREATEST))
        alive = self._alive(begin, end)
        if not len(alive):
            return None
        popped = int(self._firsts[alive[0]]), int(self._lasts[alive[-1]])
        # The first interval may begin at the least ordinal, so that no mark could be below it: drop it instead.
        if begin == 0:
            self._removed -= end - len(alive)
            self._firsts, self._lasts = self._firsts[end:], self._lasts[end:]
        else:
            if self._is_shared:
                self._lasts, self._is_shared = self._lasts.copy(), False
            self._lasts[begin:end] = self._firsts[begin:end] - 1
            self._removed += len(alive)
            if self._removed > share_of(self):
                self._compact()
        return popped

    def _compact(self) -> None:
        """Drop the removed intervals."""
        alive = self._alive(0, len(self._firsts))
        self._firsts, self._lasts, self._removed = self._firsts[alive], self._lasts[alive], 0
        self._is_shared = False

    def _index_range(self, first: int, last: int) -> tuple[int, int]:
        """The index range of the intervals that overlap an interval, including removed ones."""
        return int(self._lasts.searchsorted(first)), int(self._firsts.searchsorted(last, side="right"))

    def _alive(self, begin: int, end: int) -> Ordinals:
        """The indices, from ``begin`` to ``end``, of the intervals that are not removed."""
        return np.flatnonzero(self._lasts[begin:end] >= self._firsts[begin:end]) + begin

    def __len__(self) -> int:
        return len(self._firsts) - self._removed


def share_of(intervals: OrdinalIntervals | None) -> int:
    """The number of changes that may be buffered outside these intervals."""
    return max(RECENT, 0 if intervals is None else len(intervals) // SHARE)
