"""Punctuations with a range in one attribute and constants in others: found and matched by sorting.

The bounds of all ranges, in order, number the values of the attribute: a bound has an odd number, what lies
between two bounds the even number between theirs. With that a range is an interval of integers whatever its
type, and whether any of many ranges has a value is one search in sorted numbers. Each value of the
constants has a stretch of numbers to itself.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.arrow import booleans
from xmlpunct.frames import join
from xmlpunct.punctuations.cuts import Cut, cuts
from xmlpunct.punctuations.pattern import WILDCARD, Constant, Range, constant
from xmlpunct.punctuations.punctuation import Punctuation, Tuple, combine
from xmlpunct.schema import Schema

Numbers = NDArray[np.int64]


class Ends:
    """Punctuations by where their range begins, and by where it ends."""

    def __init__(self) -> None:
        self.members: dict[int, Punctuation] = {}
        self._lows: list[tuple[Cut, int]] = []
        self._highs: list[tuple[Cut, int]] = []

    def add(self, number: int, p: Punctuation, low: Cut, high: Cut) -> None:
        """Take one, under a number that no other has."""
        self.members[number] = p
        insort(self._lows, (low, number))
        insort(self._highs, (high, number))

    def discard(self, number: int, low: Cut, high: Cut) -> None:
        """Take out the one of that number."""
        del self.members[number]
        del self._lows[bisect_left(self._lows, (low, number))]
        del self._highs[bisect_left(self._highs, (high, number))]

    @property
    def lowest(self) -> Cut:
        """Where the first of them begins."""
        return self._lows[0][0]

    @property
    def highest(self) -> Cut:
        """Where the last of them ends."""
        return self._highs[-1][0]

    def near(self, low: Cut, high: Cut) -> list[Punctuation]:
        """At least those that overlap an interval: all that begin before its end, or end after its begin."""
        before = bisect_left(self._lows, (high, -1))
        after = bisect_left(self._highs, (low, math.inf))
        found = self._lows[:before] if before < len(self._highs) - after else self._highs[after:]
        return [self.members[number] for _, number in found]


@dataclass(frozen=True)
class Grid:
    """The numbers of some punctuations' ranges (``lows`` to ``highs``), and how tuples get theirs."""

    keys: pl.DataFrame
    bounds: pl.Series
    lows: Numbers
    highs: Numbers

    def numbers(self, tuples: pl.DataFrame) -> Numbers:
        """For each tuple its number; a negative one has no range."""
        column = tuples[self.bounds.name]
        numbers = _number(self.bounds, column)
        numbers[column.is_null().to_numpy()] = -1
        names = self.keys.columns[:-1]
        if not names:
            return numbers
        stretch = join(tuples.select(names), self.keys, names, "left", order="left")["$stretch"]
        at = stretch.fill_null(-1).to_numpy()
        return np.where((at < 0) | (numbers < 0), -1, at * self.width + numbers)

    @property
    def width(self) -> int:
        """How many numbers a stretch has."""
        return 2 * self.bounds.len() + 2


class Spans:
    """Punctuations of ``schema`` with constants at the places ``equal`` and a range at ``place``, no more.

    >>> s = Schema.parse("sid STRING, hour INT")
    >>> spans = Spans(s, (), 1)
    >>> for text in ("[1,5]", "[4,9]", "[20,)"):
    ...     spans.add(Punctuation.of(s, hour=text))
    >>> spans.mask(s.frame([("S1", 0), ("S1", 5), ("S2", 9), ("S2", 10)])).to_list()
    [False, True, True, False]
    """

    def __init__(self, schema: Schema, equal: Sequence[int], place: int) -> None:
        self.schema, self.equal, self.place = schema, tuple(equal), place
        self._at: dict[Tuple, Ends] = {}
        self._numbers: dict[Punctuation, int] = {}
        self._next = 0
        self._cached: Grid | None = None

    constant = False

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes that they constrain."""
        return tuple(self.schema.names[i] for i in (*self.equal, self.place))

    def constants(self) -> pl.DataFrame:
        """There are none."""
        raise NotImplementedError

    def at(self, places: Iterable[int]) -> list[Punctuation]:
        """There are none."""
        raise NotImplementedError

    def may_match(self, bounds: Callable[[str], tuple[Any, Any]]) -> bool:
        """Whether a tuple within bounds, given by attribute, may match any."""
        low, high = bounds(self.schema.names[self.place])
        if low is None:
            return False
        type_ = self.schema.attributes[self.place].type
        first, last = cuts(constant(type_, low))[0][0], cuts(constant(type_, high))[0][1]
        return any(ends.lowest < last and ends.highest > first for ends in self._at.values())

    @staticmethod
    def form(p: Punctuation) -> tuple[tuple[int, ...], int] | None:
        """Where ``p`` has constants and where its one range; None if it is of another form."""
        ranges = [i for i in p.constrained if isinstance(p.patterns[i], Range)]
        equal = tuple(i for i in p.constrained if isinstance(p.patterns[i], Constant))
        return (equal, ranges[0]) if len(ranges) == 1 and len(equal) + 1 == len(p.constrained) else None

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, p: Punctuation) -> None:
        """Take a punctuation that is not in."""
        self._cached = None
        self._numbers[p] = self._next
        self._at.setdefault(p.keys(self.equal), Ends()).add(self._next, p, *cuts(p.patterns[self.place])[0])
        self._next += 1

    def discard(self, p: Punctuation) -> None:
        """Take out a punctuation that is in."""
        self._cached = None
        key = p.keys(self.equal)
        ends = self._at[key]
        ends.discard(self._numbers.pop(p), *cuts(p.patterns[self.place])[0])
        if not ends.members:
            del self._at[key]

    def overlapping(self, p: Punctuation) -> list[Punctuation]:
        """Those that some tuple could match together with ``p``."""
        if all(isinstance(p.patterns[i], Constant) for i in self.equal):
            found = self._at.get(p.keys(self.equal))
            groups = [found] if found is not None else []
        else:
            groups = sorted(self._at.values(), key=lambda ends: next(iter(ends.members)))
        pieces = cuts(p.patterns[self.place]) if p.patterns[self.place] is not WILDCARD else []
        near = (g.near(pieces[0][0], pieces[-1][1]) if pieces else g.members.values() for g in groups)
        return [q for group in near for q in group if combine(p, q) is not None]

    def mask(self, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple, whether it matches any of them."""
        grid = self._grid()
        numbers = grid.numbers(tuples)
        # A stretch's numbers are above all those before it.
        return booleans((numbers >= 0) & any_has(grid.lows, grid.highs, numbers))

    def matched(self, tuples: pl.DataFrame) -> list[Punctuation]:
        """Those that some tuple matches."""
        grid = self._grid()
        hit = has_any(grid.lows, grid.highs, np.unique(grid.numbers(tuples)))
        return [p for p, is_hit in zip(self._numbers, hit.tolist(), strict=True) if is_hit]

    def _grid(self) -> Grid:
        if self._cached is None:
            self._cached = self._build()
        return self._cached

    def _build(self) -> Grid:
        attribute = self.schema.attributes[self.place]
        ranges: list[Range] = [p.patterns[self.place] for p in self._numbers]  # type: ignore[misc]
        dtype = attribute.type.dtype
        lows = pl.Series([r.low for r in ranges], dtype=dtype)
        highs = pl.Series([r.high for r in ranges], dtype=dtype)
        bounds = pl.concat([lows, highs]).drop_nulls().unique().sort().alias(attribute.name)
        stretches: dict[Tuple, int] = {}
        at = np.array([stretches.setdefault(p.keys(self.equal), len(stretches)) for p in self._numbers])
        width = 2 * bounds.len() + 2
        first = _number(bounds, lows) + [not r.low_closed for r in ranges]
        first[lows.is_null().to_numpy()] = 0
        last = _number(bounds, highs) - [not r.high_closed for r in ranges]
        last[highs.is_null().to_numpy()] = width - 1
        firsts = {p.keys(self.equal): p for p in reversed(self._numbers)}
        columns: dict[str, pl.Series] = {}
        for i in self.equal:
            a = self.schema.attributes[i]
            values = [firsts[key].patterns[i].value for key in stretches]  # type: ignore[attr-defined]
            columns[a.name] = pl.Series(a.name, values, dtype=a.type.dtype)
        keys = pl.DataFrame({**columns, "$stretch": pl.Series(range(len(stretches)), dtype=pl.Int64)})
        return Grid(keys, bounds, at * width + first, at * width + last)


def any_has(lows: Numbers, highs: Numbers, numbers: Numbers) -> NDArray[np.bool_]:
    """For each number, whether any of some ranges, in whatever order, has it."""
    order = np.argsort(lows, kind="stable")
    farthest = np.maximum.accumulate(highs[order])  # of all that begin up to here
    found = np.searchsorted(lows[order], numbers, side="right") - 1
    return (found >= 0) & (farthest[np.maximum(found, 0)] >= numbers)


def has_any(lows: Numbers, highs: Numbers, numbers: Numbers) -> NDArray[np.bool_]:
    """For each of some ranges, whether it has any of some sorted numbers."""
    if not len(numbers):
        return np.zeros(len(lows), np.bool_)
    found = np.searchsorted(numbers, lows, side="left")
    return (found < len(numbers)) & (numbers[np.minimum(found, len(numbers) - 1)] <= highs)


def _number(bounds: pl.Series, values: pl.Series) -> Numbers:
    """The numbers of values among bounds; anything for nulls."""
    below: Numbers = bounds.search_sorted(values, side="left").to_numpy().astype(np.int64)
    below += bounds.search_sorted(values, side="right").to_numpy()
    return below
