"""Disjoint intervals of ordinals in two arrays: the bulk of an `IntervalSet` of a numbered type."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from xmlpunct.types.ordinals import Ordinals

_LEAST, _GREATEST = -(2**63), 2**63 - 1

RECENT, SHARE = 256, 32
"""More than `RECENT` changes and a ``SHARE``-th of the intervals, taken note of beside the arrays, are taken into them.

So an interval is copied some `SHARE` times, however many there are (`benchmarks/scaling.py --only growth`).
"""

Bounds = tuple[Ordinals, Ordinals]
"""The first and the last ordinals of some intervals (int64, shape (n,))."""


class OrdinalIntervals:
    """Disjoint intervals in ascending order, none of which touches the next.

    Intervals come all at once, and are removed one by one. A removed one ends before it begins, until some
    have gathered: so a removal moves nothing.

    >>> some = OrdinalIntervals.of([(np.array([1, 5, 9]), np.array([2, 6, 9]))])
    >>> some.pop(3, 5, touching=True), len(some)
    ((1, 6), 1)
    """

    __slots__ = ("_firsts", "_is_shared", "_lasts", "_removed")

    def __init__(self, firsts: Ordinals, lasts: Ordinals) -> None:
        self._firsts, self._lasts, self._removed = firsts, lasts, 0
        self._is_shared = True
        """Whether another object may read the arrays."""

    @classmethod
    def of(cls, columns: Iterable[Bounds]) -> OrdinalIntervals:
        """The intervals of some columns, in whatever order, fused where they overlap or touch."""
        firsts, lasts = (np.concatenate(ends) for ends in zip(*columns, strict=True))
        order = np.argsort(firsts, kind="stable")
        firsts, reached = firsts[order], np.maximum.accumulate(lasts[order])
        begins, ends = np.ones(len(firsts), np.bool_), np.ones(len(firsts), np.bool_)
        # What begins behind a gap begins an interval; none but the first begins at the lowest ordinal of all.
        begins[1:] = (firsts[1:] > reached[:-1]) & (firsts[1:] - 1 > reached[:-1])
        ends[:-1] = begins[1:]
        return cls(firsts[begins], reached[ends])

    @property
    def bounds(self) -> Bounds:
        """All intervals."""
        if self._removed:
            self._compact()
        self._is_shared = True
        return self._firsts, self._lasts

    @property
    def ends(self) -> tuple[int, int] | None:
        """The first and the last ordinal of all."""
        if not len(self):
            return None
        size, most = len(self._firsts), self._removed + 1  # of one more than were removed, one is there
        first, last = self._alive(0, most)[0], self._alive(size - most, size)[-1]
        return int(self._firsts[first]), int(self._lasts[last])

    def has(self, first: int, last: int) -> bool:
        """Whether one of them has all ordinals from one to another."""
        at = int(self._firsts.searchsorted(first, side="right")) - 1
        return at >= 0 and int(self._lasts[at]) >= last

    def overlapping(self, first: int, last: int) -> Bounds:
        """The intervals that overlap one."""
        alive = self._alive(*self._between(first, last))
        return self._firsts[alive], self._lasts[alive]

    def pop(self, first: int, last: int, touching: bool = False) -> tuple[int, int] | None:
        """Remove the intervals that overlap one, or touch it; return where they begin and end. None if none do."""
        begin, end = self._between(max(first - touching, _LEAST), min(last + touching, _GREATEST))
        alive = self._alive(begin, end)
        if not len(alive):
            return None
        popped = int(self._firsts[alive[0]]), int(self._lasts[alive[-1]])
        if (
            begin == 0
        ):  # and no interval but the first may begin at the least ordinal, before which there is none
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

    def _between(self, first: int, last: int) -> tuple[int, int]:
        """From which place to which other one the intervals stand that overlap one."""
        return int(self._lasts.searchsorted(first)), int(self._firsts.searchsorted(last, side="right"))

    def _alive(self, begin: int, end: int) -> Ordinals:
        """The places, from one to another, of the intervals that were not removed."""
        return np.flatnonzero(self._lasts[begin:end] >= self._firsts[begin:end]) + begin

    def __len__(self) -> int:
        return len(self._firsts) - self._removed


def share_of(intervals: OrdinalIntervals | None) -> int:
    """How many changes are taken note of beside some intervals."""
    return max(RECENT, 0 if intervals is None else len(intervals) // SHARE)
