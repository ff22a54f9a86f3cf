"""The interval set: some values of one type, as disjoint intervals in ascending order.

It holds the closed values of an attribute. It decides whether several patterns together cover a domain, which values
they leave open, and which values computed from closed values are closed. The set is always *fused*: no interval touches
the next. So two sets are equal if and only if their intervals are, and a stream that closes hour after hour is one
interval, whatever punctuations it emits.

An interval runs from one *cut* to another. A cut is a position between two neighbouring values. Two sorted lists hold
the cuts. For *numbered* types, whose ordinals fit 64 bits (INT, DATE, TIMESTAMP, BOOLEAN, DECIMAL of up to 18 digits),
the lists are moved into arrays (`OrdinalIntervals`) before they become long. So a million intervals are added and
searched at once, and adding an interval does not move a million other ones. Null belongs to no interval.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise, starmap

import numpy as np
import polars as pl

from xmlpunct.base.arrow_memory import booleans
from xmlpunct.base.frames import any_of
from xmlpunct.types import Type, Value
from xmlpunct.types import cut_points as ct
from xmlpunct.types import pattern as pt
from xmlpunct.types.cut_points import Cut, Interval
from xmlpunct.types.cut_ranks import ranked
from xmlpunct.types.ordinal_intervals import OrdinalBounds, OrdinalIntervals, share_of
from xmlpunct.types.ordinals import Ordinals, is_numbered, ordinal_bounds, ordinals_of
from xmlpunct.types.pattern import EMPTY, Pattern, Wildcard

_NONE: Ordinals = np.empty(0, np.int64)
FEW = 8
"""At most this number of intervals is added one by one instead of as a column."""


class IntervalSet:
    """A set of values of ``type``.

    >>> from xmlpunct.types import INT
    >>> hours = IntervalSet(INT, [pt.interval(INT, 17, 20, True, False), pt.constant(INT, 5)])
    >>> print(hours)
    5 [17,19]
    """

    __slots__ = ("_arrays", "_columns", "_highs", "_lows", "_numbered", "type")

    def __init__(self, type_: Type, patterns: Iterable[Pattern] = ()) -> None:
        self.type, self._numbered = type_, is_numbered(type_)
        self._lows: list[Cut] = []
        self._highs: list[Cut] = []
        """The cuts at which each interval begins and ends."""
        self._arrays: OrdinalIntervals | None = None
        """For a numbered type: further intervals, none of which touches one in the lists."""
        self._columns: list[OrdinalBounds] = []
        """Further intervals, to be merged into the arrays. They may overlap other intervals of the set."""
        for pattern in patterns:
            self.add(pattern)

    @classmethod
    def everything(cls, type_: Type) -> IntervalSet:
        """All values of a type.

        >>> from xmlpunct.types import BOOLEAN
        >>> print(IntervalSet.everything(BOOLEAN))
        (,)
        """
        return cls(type_, [pt.interval(type_, None, None, False, False)])

    @classmethod
    def of_intervals(cls, type_: Type, intervals: Iterable[Interval]) -> IntervalSet:
        """The set of some intervals, each from one cut to another.

        >>> from xmlpunct.types import INT
        >>> print(IntervalSet.of_intervals(INT, ct.cuts(pt.values(INT, [5, 6, 9]))))
        [5,6] 9
        """
        result = cls(type_)
        for low, high in intervals:
            result._add(low, high)
        return result

    @classmethod
    def of_bounds(cls, type_: Type, firsts: Iterable[int], lasts: Iterable[int]) -> IntervalSet:
        """The set of a numbered type with these `bounds`.

        >>> from xmlpunct.types import INT
        >>> print(IntervalSet.of_bounds(INT, [5, 7], [5, 8]))
        5 [7,8]
        """
        result = cls(type_)
        result._columns = [(np.array([*firsts], np.int64), np.array([*lasts], np.int64))]
        return result

    # Changing

    def add(self, pattern: Pattern) -> None:
        """Add the values that a pattern describes. ValueError for ``*``, which describes null too.

        >>> from xmlpunct.types import INT
        >>> hours = IntervalSet(INT)
        >>> for hour in (17, 19, 18):
        ...     hours.add(pt.constant(INT, hour))
        >>> print(hours)
        [17,19]
        """
        if isinstance(pattern, Wildcard):
            raise ValueError("* matches null, which belongs to no interval")
        for low, high in ct.cuts(pattern):
            self._add(low, high)

    def _add(self, low: Cut, high: Cut) -> None:
        for touched in self._pop(low, high, touching=True):  # fuse them with the new interval
            low, high = min(low, touched[0]), max(high, touched[1])
        self._insert(low, high)

    def _insert(self, low: Cut, high: Cut) -> None:
        """Add an interval that touches no interval of the set."""
        index = bisect_left(self._lows, low)
        self._lows.insert(index, low)
        self._highs.insert(index, high)
        if self._numbered and len(self._lows) > share_of(self._arrays):
            self._merge()

    def _pop(self, low: Cut, high: Cut, touching: bool = False) -> list[Interval]:
        """Remove the intervals that overlap an interval, or touch it.

        Returns one interval from the first to the last of them; or two, one each for the arrays and the lists.
        """
        popped = []
        if (arrays := self._merged_arrays()) is not None:
            ends = arrays.pop(low[1], high[1] - 1, touching)
            popped = [] if ends is None else [_interval(*ends)]
        lows, highs = self._lows, self._highs
        if touching:
            first, last = bisect_left(highs, low), bisect_right(lows, high)
        else:
            first, last = bisect_right(highs, low), bisect_left(lows, high)
        if first < last:
            popped.append((lows[first], highs[last - 1]))
            del lows[first:last], highs[first:last]
        return popped

    def add_values(self, column: pl.Series) -> None:
        """Add the values of a column, without nulls.

        >>> from xmlpunct.types import INT
        >>> hours = IntervalSet(INT)
        >>> hours.add_values(pl.Series([3, 1, None, 2]))
        >>> print(hours)
        [1,3]
        """
        non_null = column.drop_nulls() if column.null_count() else column
        if self._numbered:
            if len(non_null):
                values = ordinals_of(self.type, non_null)
                self._columns.append((values, values))
            return
        for value in non_null.unique():
            self.add(pt.constant(self.type, value))

    def add_ranges(self, lows: pl.Series, highs: pl.Series) -> None:
        """Add the values between inclusive bounds of a numbered type; a null bound is unbounded.

        >>> from xmlpunct.types import INT
        >>> hours = IntervalSet(INT)
        >>> hours.add_ranges(pl.Series([None, 7]), pl.Series([6, 9]))
        >>> print(hours)
        (,9]
        """
        if len(lows):
            self._columns.append(ordinal_bounds(self.type, lows, highs))

    def update(self, other: IntervalSet) -> None:
        """Add the values of another set.

        >>> from xmlpunct.types import INT
        >>> hours = IntervalSet(INT, [pt.constant(INT, 5)])
        >>> hours.update(IntervalSet(INT, [pt.values(INT, [6, 9])]))
        >>> print(hours)
        [5,6] 9
        """
        if self._numbered and len(other) > FEW:
            self._columns.append(other.bounds)
            return
        for low, high in other.intervals():
            self._add(low, high)

    def remove(self, pattern: Pattern) -> None:
        """Remove the values that a pattern describes.

        >>> from xmlpunct.types import INT
        >>> hours = IntervalSet.everything(INT)
        >>> hours.remove(pt.values(INT, [5, 7]))
        >>> print(hours)
        (,4] 6 [8,)
        """
        for low, high in ct.cuts(pattern):
            for first, last in self._pop(low, high):
                if first < low:
                    self._insert(first, low)
                if high < last:
                    self._insert(high, last)

    def forget(self, count: int) -> None:
        """Remove the ``count`` lowest intervals.

        >>> from xmlpunct.types import INT
        >>> hours = IntervalSet(INT, [pt.values(INT, [5, 7, 9])])
        >>> hours.forget(2)
        >>> print(hours)
        9
        """
        if self._numbered:
            firsts, lasts = self.bounds
            self._arrays = OrdinalIntervals(firsts[count:], lasts[count:])
        del self._lows[:count], self._highs[:count]

    # Reading

    @property
    def bounds(self) -> tuple[Ordinals, Ordinals]:
        """For a numbered type: the first and the last ordinals of the intervals, in ascending order.

        >>> from xmlpunct.types import INT
        >>> [array.tolist() for array in IntervalSet(INT, [pt.values(INT, [5, 7, 8])]).bounds]
        [[5, 7], [5, 8]]
        """
        if self._lows:
            self._merge()
        arrays = self._merged_arrays()
        return (_NONE, _NONE) if arrays is None else arrays.bounds

    @property
    def ends(self) -> Interval | None:
        """The first and the last cut; None for an empty set.

        >>> from xmlpunct.types import INT
        >>> IntervalSet(INT, [pt.values(INT, [5, 7, 8])]).ends
        ((0, 5, 0), (0, 9, 0))
        """
        arrays, ends = self._merged_arrays(), list(zip(self._lows[:1], self._highs[-1:], strict=True))
        if arrays is not None and (array_ends := arrays.ends) is not None:
            ends.append(_interval(*array_ends))
        return (min(low for low, _ in ends), max(high for _, high in ends)) if ends else None

    @property
    def spans(self) -> list[tuple[int, int]]:
        """For a numbered type: the first and the last ordinal of each interval.

        >>> from xmlpunct.types import INT
        >>> IntervalSet(INT, [pt.values(INT, [5, 7, 8])]).spans
        [(5, 5), (7, 8)]
        """
        return [(low[1], high[1] - 1) for low, high in self.intervals()]

    def intervals(self) -> list[Interval]:
        """The intervals, each from one cut to another.

        >>> from xmlpunct.types import DOUBLE
        >>> IntervalSet(DOUBLE, [pt.interval(DOUBLE, 1, 2, True, False)]).intervals()
        [((0, (False, 1.0), 0), (0, (False, 2.0), 0))]
        """
        if self._merged_arrays() is None:
            return list(zip(self._lows, self._highs, strict=True))
        return _intervals(self.bounds)

    def covers(self, values: Pattern | IntervalSet) -> bool:
        """Whether every value of a pattern, or of another set, is in the set. Always False for ``*``.

        >>> from xmlpunct.types import INT
        >>> hours = IntervalSet(INT, [pt.values(INT, [5, 7, 8])])
        >>> hours.covers(pt.values(INT, [5, 8])), hours.covers(pt.interval(INT, 5, 8, True, True))
        (True, False)
        """
        return not isinstance(values, Wildcard) and all(starmap(self._has, _cuts(values)))

    def _has(self, low: Cut, high: Cut) -> bool:
        arrays = self._merged_arrays()
        if arrays is not None and arrays.has(low[1], high[1] - 1):
            return True
        index = bisect_right(self._lows, low) - 1
        return index >= 0 and self._highs[index] >= high

    def overlapping(self, values: Pattern | IntervalSet) -> IntervalSet:
        """The intervals that contain a value of a pattern, or of another set: all of them for ``*``.

        >>> from xmlpunct.types import INT
        >>> print(IntervalSet(INT, [pt.values(INT, [1, 5, 6, 9])]).overlapping(pt.values(INT, [2, 6])))
        [5,6]
        """
        if isinstance(values, Wildcard):
            return self
        overlaps = IntervalSet(self.type)
        if self._numbered and isinstance(values, IntervalSet) and len(values) > FEW:
            (firsts, lasts), (begins, ends) = self.bounds, values.bounds
            index = np.minimum(ends.searchsorted(firsts), len(ends) - 1)
            hit = (ends[index] >= firsts) & (begins[index] <= lasts)
            overlaps._columns.append((firsts[hit], lasts[hit]))
            return overlaps
        arrays = self._merged_arrays()
        for low, high in _cuts(values):
            first, last = bisect_right(self._highs, low), bisect_left(self._lows, high)
            intervals = list(zip(self._lows[first:last], self._highs[first:last], strict=True))
            if arrays is not None:
                bounds = arrays.overlapping(low[1], high[1] - 1)
                if len(bounds[0]) <= FEW:
                    intervals += _intervals(bounds)
                else:
                    overlaps._columns.append(bounds)
            for interval in intervals:
                overlaps._add(*interval)
        return overlaps

    def missing(self, values: Pattern | IntervalSet) -> IntervalSet:
        """The values of a pattern, or of another set, that the set does not have.

        >>> from xmlpunct.types import INT
        >>> print(IntervalSet(INT, [pt.values(INT, [1, 5])]).missing(pt.interval(INT, 4, 9, True, True)))
        4 [6,9]
        """
        described = values if isinstance(values, IntervalSet) else IntervalSet(self.type, [values])
        overlapping = self.overlapping(values)
        return described & ~overlapping if len(overlapping) else described

    def mask(self, column: pl.Series) -> pl.Series:
        """For each value of a column, whether it is in the set.

        >>> from xmlpunct.types import DOUBLE
        >>> warm = IntervalSet(DOUBLE, [pt.interval(DOUBLE, 20, None, False, False)])
        >>> warm.mask(pl.Series([20.0, 20.5, float("nan"), None])).to_list()
        [False, True, True, False]
        """
        if not len(self):
            return any_of([], len(column))
        if self._numbered:
            values, (firsts, lasts) = ordinals_of(self.type, column), self.bounds
        else:
            values, firsts, lasts = ranked(self.type, column, self._lows, self._highs)
        index = np.searchsorted(firsts, values, side="right") - 1
        inside = (index >= 0) & (values <= lasts[np.maximum(index, 0)])
        return booleans(inside & column.is_not_null().to_numpy() if column.null_count() else inside)

    def __contains__(self, value: Value) -> bool:
        """Whether a value is in the set; False for null.

        >>> from xmlpunct.types import INT
        >>> 18 in IntervalSet(INT, [pt.interval(INT, 17, 20, True, False)])
        True
        """
        return value is not None and self.covers(pt.constant(self.type, value))

    def __iter__(self) -> Iterator[Pattern]:
        """The intervals as constants and ranges, in ascending order.

        >>> from xmlpunct.types import INT
        >>> list(IntervalSet(INT, [pt.values(INT, [5, 7, 8])]))
        [<Constant 5>, <Range [7,8]>]
        """
        return (ct.between(self.type, low, high) for low, high in self.intervals())

    def __len__(self) -> int:
        """The number of intervals.

        >>> from xmlpunct.types import INT
        >>> len(IntervalSet(INT, [pt.values(INT, [5, 7, 8])]))
        2
        """
        arrays = self._merged_arrays()
        return len(self._lows) + (0 if arrays is None else len(arrays))

    def __eq__(self, other: object) -> bool:
        """Whether two sets have the same values.

        >>> from xmlpunct.types import INT
        >>> IntervalSet(INT, [pt.constant(INT, 1), pt.constant(INT, 2)]) == IntervalSet(INT, [pt.values(INT, [1, 2])])
        True
        """
        if not isinstance(other, IntervalSet):
            return NotImplemented
        return self.type == other.type and self.intervals() == other.intervals()

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return " ".join(map(str, self)) or str(EMPTY)

    # Set operations

    def __and__(self, other: IntervalSet) -> IntervalSet:
        """The values that are in both sets.

        >>> from xmlpunct.types import INT
        >>> print(IntervalSet(INT, [pt.values(INT, [1, 2, 5])]) & IntervalSet(INT, [pt.values(INT, [2, 3, 5])]))
        2 5
        """
        left, right, common = self.intervals(), other.intervals(), list[Interval]()
        i = j = 0
        while i < len(left) and j < len(right):
            low, high = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
            if low < high:
                common.append((low, high))
            if left[i][1] < right[j][1]:
                i += 1
            else:
                j += 1
        return IntervalSet.of_intervals(self.type, common)

    def __invert__(self) -> IntervalSet:
        """The complement: the values that are not in the set.

        >>> from xmlpunct.types import STRING
        >>> print(~IntervalSet(STRING, [pt.constant(STRING, "b")]))
        (,b) (b,)
        """
        bottom, top = ct.ends(self.type)
        marks = [bottom, *(cut for interval in self.intervals() for cut in interval), top]
        gaps = [gap for gap in list(pairwise(marks))[::2] if gap[0] < gap[1]]
        return IntervalSet.of_intervals(self.type, gaps)

    def _merge(self) -> None:
        """Merge the lists and the columns into the arrays."""
        recent = [low[1] for low in self._lows], [high[1] - 1 for high in self._highs]
        parts = [(np.array(recent[0], np.int64), np.array(recent[1], np.int64)), *self._columns]
        parts += [] if self._arrays is None else [self._arrays.bounds]
        self._lows, self._highs, self._columns = [], [], []
        self._arrays = OrdinalIntervals.of(parts)

    def _merged_arrays(self) -> OrdinalIntervals | None:
        """The arrays, after merging the columns into them."""
        if self._columns:
            self._merge()
        return self._arrays


def _cuts(values: Pattern | IntervalSet) -> list[Interval]:
    """The intervals of a pattern or of a set."""
    return values.intervals() if isinstance(values, IntervalSet) else ct.cuts(values)


def _interval(first: int, last: int) -> Interval:
    """The interval from one ordinal to another."""
    return (0, first, 0), (0, last + 1, 0)


def _intervals(bounds: OrdinalBounds) -> list[Interval]:
    """The intervals with these bounds."""
    return [_interval(*pair) for pair in zip(*(bound.tolist() for bound in bounds), strict=True)]
