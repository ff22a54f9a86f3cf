"""The interval set: some values of one type, as disjoint intervals in ascending order.

It answers what a stream has promised about an attribute, whether several patterns together cover a domain, what they
leave open, and what closed values say of values computed from them. The set is always *fused*: no interval touches
the next. So two sets are equal if and only if their intervals are, and a stream that closes hour after hour is one
interval, however it said so.

An interval runs from one *cut* to another. A cut is a place between two neighbouring values. For *numbered* types,
whose ordinals fit 64 bits (INT, DATE, TIMESTAMP, BOOLEAN, DECIMAL of up to 18 digits), two int64 arrays hold the first
and the last ordinal of each interval, so a million intervals are added and searched at once. For the others (DOUBLE,
STRING, longer DECIMAL) two lists hold the cuts. Null belongs to no interval.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import numpy as np
import polars as pl

from xmlpunct.arrow import booleans, integers
from xmlpunct.frames import any_of
from xmlpunct.punctuations import cuts as ct
from xmlpunct.punctuations import pattern as pt
from xmlpunct.punctuations.cuts import Cut, Interval
from xmlpunct.punctuations.numbered import Ordinals, is_numbered, ordinal_bounds, ordinals_of
from xmlpunct.punctuations.pattern import EMPTY, Pattern, Wildcard
from xmlpunct.types import DOUBLE, Type, Value

_NONE: Ordinals = np.empty(0, np.int64)


class IntervalSet:
    """A set of values of ``type``.

    >>> from xmlpunct.types import INT
    >>> hours = IntervalSet(INT, [pt.interval(INT, 17, 20, True, False), pt.constant(INT, 5)])
    >>> print(hours)
    5 [17,19]
    """

    __slots__ = ("_columns", "_firsts", "_highs", "_lasts", "_lows", "_new", "_numbered", "type")

    def __init__(self, type_: Type, patterns: Iterable[Pattern] = ()) -> None:
        self.type, self._numbered = type_, is_numbered(type_)
        self._firsts, self._lasts = _NONE, _NONE
        """Of a numbered type: the first and the last ordinal of each interval."""
        self._new: list[tuple[int, int]] = []
        self._columns: list[tuple[Ordinals, Ordinals]] = []
        """Intervals that are yet to be fused with those, singly and in columns."""
        self._lows: list[Cut] = []
        self._highs: list[Cut] = []
        """Of another type: the cuts at which each interval begins and ends."""
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
        made = cls(type_)
        for low, high in intervals:
            made._add(low, high)
        return made

    @classmethod
    def of_bounds(cls, type_: Type, firsts: Iterable[int], lasts: Iterable[int]) -> IntervalSet:
        """The set of a numbered type with these `bounds`.

        >>> from xmlpunct.types import INT
        >>> print(IntervalSet.of_bounds(INT, [5, 7], [5, 8]))
        5 [7,8]
        """
        made = cls(type_)
        made._new = list(zip(firsts, lasts, strict=True))
        return made

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
            raise ValueError("* describes null, which belongs to no interval")
        for low, high in ct.cuts(pattern):
            self._add(low, high)

    def _add(self, low: Cut, high: Cut) -> None:
        if self._numbered:
            self._new.append((low[1], high[1] - 1))
            return
        first, last = bisect_left(self._highs, low), bisect_right(self._lows, high)
        if first < last:  # it touches some, which become one with it
            low, high = min(low, self._lows[first]), max(high, self._highs[last - 1])
        self._lows[first:last], self._highs[first:last] = [low], [high]

    def add_values(self, column: pl.Series) -> None:
        """Add the values of a column, nulls left out.

        >>> from xmlpunct.types import INT
        >>> hours = IntervalSet(INT)
        >>> hours.add_values(pl.Series([3, 1, None, 2]))
        >>> print(hours)
        [1,3]
        """
        known = column.drop_nulls() if column.null_count() else column
        if self._numbered:
            if len(known):
                values = ordinals_of(self.type, known)
                self._columns.append((values, values))
            return
        for value in known.unique():
            self.add(pt.constant(self.type, value))

    def add_ranges(self, lows: pl.Series, highs: pl.Series) -> None:
        """Add the values between inclusive bounds of a numbered type; null for none.

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
        if self._numbered and len(other):
            self._columns.append(other.bounds)
        for low, high in zip(other._lows, other._highs, strict=True):
            self._add(low, high)

    def remove(self, pattern: Pattern) -> None:
        """Take out the values that a pattern describes.

        >>> from xmlpunct.types import INT
        >>> hours = IntervalSet.everything(INT)
        >>> hours.remove(pt.values(INT, [5, 7]))
        >>> print(hours)
        (,4] 6 [8,)
        """
        rest = self & ~IntervalSet(self.type, [pattern])
        self._firsts, self._lasts = rest.bounds if self._numbered else (self._firsts, self._lasts)
        self._lows, self._highs = rest._lows, rest._highs

    def forget(self, count: int) -> None:
        """Take out the lowest intervals.

        >>> from xmlpunct.types import INT
        >>> hours = IntervalSet(INT, [pt.values(INT, [5, 7, 9])])
        >>> hours.forget(2)
        >>> print(hours)
        9
        """
        if self._numbered:
            firsts, lasts = self.bounds
            self._firsts, self._lasts = firsts[count:], lasts[count:]
        del self._lows[:count], self._highs[:count]

    # Asking

    @property
    def bounds(self) -> tuple[Ordinals, Ordinals]:
        """Of a numbered type: the first and the last ordinals of the intervals, in ascending order.

        >>> from xmlpunct.types import INT
        >>> [array.tolist() for array in IntervalSet(INT, [pt.values(INT, [5, 7, 8])]).bounds]
        [[5, 7], [5, 8]]
        """
        if self._new or self._columns:
            self._fuse()
        return self._firsts, self._lasts

    @property
    def ends(self) -> Interval | None:
        """From the first to the last cut; None of a set without values.

        >>> from xmlpunct.types import INT
        >>> IntervalSet(INT, [pt.values(INT, [5, 7, 8])]).ends
        ((0, 5, 0), (0, 9, 0))
        """
        if not len(self):
            return None
        if self._numbered:
            firsts, lasts = self.bounds
            return (0, int(firsts[0]), 0), (0, int(lasts[-1]) + 1, 0)
        return self._lows[0], self._highs[-1]

    def intervals(self) -> list[Interval]:
        """The intervals, each from one cut to another.

        >>> from xmlpunct.types import DOUBLE
        >>> IntervalSet(DOUBLE, [pt.interval(DOUBLE, 1, 2, True, False)]).intervals()
        [((0, (False, 1.0), 0), (0, (False, 2.0), 0))]
        """
        if not self._numbered:
            return list(zip(self._lows, self._highs, strict=True))
        pairs = zip(*(bound.tolist() for bound in self.bounds), strict=True)
        return [((0, first, 0), (0, last + 1, 0)) for first, last in pairs]

    def patterns(self) -> list[Pattern]:
        """The intervals as constants and ranges, in ascending order.

        >>> from xmlpunct.types import INT
        >>> IntervalSet(INT, [pt.values(INT, [5, 7, 8])]).patterns()
        [<Constant 5>, <Range [7,8]>]
        """
        return [ct.between(self.type, low, high) for low, high in self.intervals()]

    def covers(self, pattern: Pattern) -> bool:
        """Whether every value that a pattern describes is in the set. Never so for ``*``.

        >>> from xmlpunct.types import INT
        >>> hours = IntervalSet(INT, [pt.values(INT, [5, 7, 8])])
        >>> hours.covers(pt.values(INT, [5, 8])), hours.covers(pt.interval(INT, 5, 8, True, True))
        (True, False)
        """
        if isinstance(pattern, Wildcard):
            return False
        return all(self._has(low, high) for low, high in ct.cuts(pattern))

    def _has(self, low: Cut, high: Cut) -> bool:
        if self._numbered:
            firsts, lasts = self.bounds
            at = int(firsts.searchsorted(low[1], side="right")) - 1
            return at >= 0 and int(lasts[at]) >= high[1] - 1
        at = bisect_right(self._lows, low) - 1
        return at >= 0 and self._highs[at] >= high

    def overlapping(self, pattern: Pattern) -> IntervalSet:
        """The intervals that have a value which a pattern describes: all of them for ``*``.

        >>> from xmlpunct.types import INT
        >>> print(IntervalSet(INT, [pt.values(INT, [1, 5, 6, 9])]).overlapping(pt.values(INT, [2, 6])))
        [5,6]
        """
        if isinstance(pattern, Wildcard):
            return self
        overlaps = IntervalSet(self.type)
        for low, high in ct.cuts(pattern):
            if self._numbered:
                firsts, lasts = self.bounds
                at = slice(lasts.searchsorted(low[1]), firsts.searchsorted(high[1] - 1, side="right"))
                overlaps._new += zip(firsts[at].tolist(), lasts[at].tolist(), strict=True)
                continue
            first, last = bisect_right(self._highs, low), bisect_left(self._lows, high)
            for interval in zip(self._lows[first:last], self._highs[first:last], strict=True):
                overlaps._add(*interval)
        return overlaps

    def missing(self, pattern: Pattern) -> IntervalSet:
        """The values that a pattern describes and the set does not have.

        >>> from xmlpunct.types import INT
        >>> print(IntervalSet(INT, [pt.values(INT, [1, 5])]).missing(pt.interval(INT, 4, 9, True, True)))
        4 [6,9]
        """
        asked = IntervalSet(self.type, [pattern])
        near = self.overlapping(pattern)
        return asked & ~near if len(near) else asked

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
            values, firsts, lasts = _ranked(self.type, column, self._lows, self._highs)
        at = np.searchsorted(firsts, values, side="right") - 1
        inside = (at >= 0) & (values <= lasts[np.maximum(at, 0)])
        return booleans(inside & column.is_not_null().to_numpy() if column.null_count() else inside)

    def __contains__(self, value: Value) -> bool:
        """Whether a value is in the set; null never is.

        >>> from xmlpunct.types import INT
        >>> 18 in IntervalSet(INT, [pt.interval(INT, 17, 20, True, False)])
        True
        """
        return value is not None and self.covers(pt.constant(self.type, value))

    def __iter__(self) -> Iterator[Pattern]:
        """The intervals as patterns.

        >>> from xmlpunct.types import BOOLEAN
        >>> list(IntervalSet(BOOLEAN, [pt.constant(BOOLEAN, True)]))
        [<Constant true>]
        """
        return iter(self.patterns())

    def __len__(self) -> int:
        """How many intervals there are.

        >>> from xmlpunct.types import INT
        >>> len(IntervalSet(INT, [pt.values(INT, [5, 7, 8])]))
        2
        """
        return len(self.bounds[0]) if self._numbered else len(self._lows)

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

    # Sets made of others

    def __and__(self, other: IntervalSet) -> IntervalSet:
        """The values that both have.

        >>> from xmlpunct.types import INT
        >>> print(IntervalSet(INT, [pt.values(INT, [1, 2, 5])]) & IntervalSet(INT, [pt.values(INT, [2, 3, 5])]))
        2 5
        """
        mine, theirs, both = self.intervals(), other.intervals(), list[Interval]()
        i = j = 0
        while i < len(mine) and j < len(theirs):
            low, high = max(mine[i][0], theirs[j][0]), min(mine[i][1], theirs[j][1])
            if low < high:
                both.append((low, high))
            if mine[i][1] < theirs[j][1]:
                i += 1
            else:
                j += 1
        return IntervalSet.of_intervals(self.type, both)

    def __invert__(self) -> IntervalSet:
        """The complement: the values that it does not have.

        >>> from xmlpunct.types import STRING
        >>> print(~IntervalSet(STRING, [pt.constant(STRING, "b")]))
        (,b) (b,)
        """
        bottom, top = ct.ends(self.type)
        marks = [bottom, *(cut for interval in self.intervals() for cut in interval), top]
        gaps = [gap for gap in list(pairwise(marks))[::2] if gap[0] < gap[1]]
        return IntervalSet.of_intervals(self.type, gaps)

    def image(self, of: Callable[[Pattern], Pattern], type_: Type) -> IntervalSet:
        """The set of the images of its intervals, of another type.

        >>> from xmlpunct.types import INT
        >>> seconds = IntervalSet(INT, [pt.interval(INT, 0, 7199, True, True)])
        >>> print(seconds.image(lambda p: pt.interval(INT, p.low // 3600, p.high // 3600, True, True), INT))
        [0,1]
        """
        return IntervalSet(type_, map(of, self))

    def _fuse(self) -> None:
        """Take in what is new."""
        new = np.array(self._new, np.int64).reshape(-1, 2)
        if not len(self._firsts) and len(new) == 1 and not self._columns:  # most sets have one interval
            self._firsts, self._lasts, self._new = new[:, 0], new[:, 1], []
            return
        firsts = np.concatenate((self._firsts, new[:, 0], *(low for low, _ in self._columns)))
        lasts = np.concatenate((self._lasts, new[:, 1], *(high for _, high in self._columns)))
        self._new, self._columns = [], []
        order = np.argsort(firsts, kind="stable")
        firsts, reached = firsts[order], np.maximum.accumulate(lasts[order])
        # What begins behind a gap begins an interval; none but the first begins at the lowest ordinal of all.
        apart = (firsts[1:] > reached[:-1]) & (firsts[1:] - 1 > reached[:-1])
        begins = np.concatenate(([True], apart))
        self._firsts, self._lasts = firsts[begins], reached[np.append(begins[1:], True)]


def _ranked(
    type_: Type, column: pl.Series, lows: list[Cut], highs: list[Cut]
) -> tuple[Ordinals, Ordinals, Ordinals]:
    """The numbers of a column's values, and the first and last numbers of the intervals, in the same order.

    Values at which there are cuts have odd numbers; what lies between two of them has the even one between.
    """
    beyond = type_.ordinal(type_.highest) + 1 if type_.discrete else None
    keys = sorted({cut[1] for cut in (*lows, *highs) if cut[0] == 0} - {beyond})
    values_at = (
        [type_.at(key) for key in keys]
        if type_.discrete
        else [ct.value_at(type_, (0, key, 0)) for key in keys]
    )
    marks = pl.Series(values_at, dtype=type_.dtype)
    if type_ is DOUBLE:
        column, marks = (_in_total_order(values) for values in (column, marks))
    known = column.fill_null(marks[0]) if column.null_count() and len(marks) else column
    values = marks.search_sorted(known, side="left").to_numpy().astype(np.int64)
    values += marks.search_sorted(known, side="right").to_numpy()

    def number(cut: Cut) -> int:
        side, key, after = cut
        return (side > 0) * (2 * len(keys) + 1) if side else 2 * bisect_left(keys, key) + 1 + after

    firsts = np.array([number(low) for low in lows], np.int64)
    return values, firsts, np.array([number(high) - 1 for high in highs], np.int64)


def _in_total_order(column: pl.Series) -> pl.Series:
    """DOUBLEs as integers in the same order, of which NaN is the greatest."""
    # polars takes + 0.0 for nothing, and so keeps -0.
    bits = (column.fill_nan(float("nan")).to_numpy() + 0.0).view(np.int64)
    return integers("", np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits))
