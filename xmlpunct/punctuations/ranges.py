"""Punctuations with one range, and constants beside it, looked up in sorted order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from xmlpunct.arrow import Flags, booleans
from xmlpunct.frames import join
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.cuts import Cut, cuts
from xmlpunct.punctuations.forms import Key, range_key
from xmlpunct.punctuations.index import Bounds, PunctuationIndex
from xmlpunct.punctuations.numbered import Ordinals, is_numbered, ordinals_of
from xmlpunct.punctuations.pattern import WILDCARD, Constant, Range, Wildcard
from xmlpunct.punctuations.punctuation import Punctuation, Tuple
from xmlpunct.schema import Schema
from xmlpunct.types import Type

CHUNK = 32
"""So many ranges at most are moved to add one (`benchmarks/scaling.py --only growth`)."""


class Ranges(PunctuationIndex):
    """Punctuations with a range in one attribute and constants in the others, looked up in sorted order.

    >>> s = Schema.parse("sid STRING, hour INT")
    >>> closed = Ranges(s, [], 1)
    >>> [closed.add(Punctuation.of(s, hour=text)) for text in ("[1,5]", "[4,9]", "[20,)")]
    [True, True, True]
    >>> closed.mask(s.frame([("S1", 0), ("S1", 5), ("S2", 9), ("S2", 10)])).to_list()
    [False, True, True, False]
    >>> closed.matched(s.frame([("S1", 5), ("S1", 6)]))
    PunctuationBatch([<*, [1,5]>, <*, [4,9]>])
    """

    def __init__(self, schema: Schema, equal: Sequence[int] = (), place: int = -1) -> None:
        super().__init__(schema, equal, place)
        self._type = schema.attributes[place].type
        self.in_columns = self.ranged = not equal and is_numbered(self._type)
        self._cached: Grid | None = None
        self._ends: dict[Tuple, Ends] | None = None
        self._numbers: dict[Punctuation, int] = {}
        self._next = 0
        self._changes: list[tuple[PunctuationBatch, bool]] = []
        """Batches that were added, or if the flag is False discarded, and that ``_ends`` has yet to take note of."""
        self._changed_count = 0

    def _key(self, p: Punctuation) -> Key:
        return range_key(p) if self.ranged else p

    def _entered(self, p: Punctuation) -> None:
        self._cached = None
        if (ends := self._settled()) is not None:
            self._enter(ends, p)

    def _left(self, p: Punctuation) -> None:
        self._cached = None
        if (ends := self._settled()) is not None:
            self._leave(ends, p)

    def _changed(self, batch: PunctuationBatch, is_added: bool) -> None:
        self._cached = None
        self._changed_count += len(batch)
        if self._ends is None or self._changed_count > len(self):  # then `near` sorts them anew
            self._ends, self._changes, self._changed_count = None, [], 0
        else:
            self._changes.append((batch, is_added))

    def _settled(self) -> dict[Tuple, Ends] | None:
        """``_ends``, with all changes."""
        changes, self._changes, self._changed_count = self._changes, [], 0
        if self._ends is not None:
            for batch, is_added in changes:
                for p in batch:
                    if is_added:
                        self._enter(self._ends, p)
                    elif p in self._numbers:
                        self._leave(self._ends, p)
        return self._ends

    def _enter(self, ends: dict[Tuple, Ends], p: Punctuation) -> None:
        self._numbers[p] = self._next
        ends.setdefault(p.keys(self.equal), Ends()).add(self._next, p, *cuts(p.patterns[self.place])[0])
        self._next += 1

    def _leave(self, ends: dict[Tuple, Ends], p: Punctuation) -> None:
        key = p.keys(self.equal)
        ends[key].discard(self._numbers.pop(p), *cuts(p.patterns[self.place])[0])
        if not ends[key].members:
            del ends[key]

    def may_match(self, bounds: Callable[[str], Bounds]) -> bool:
        low, high = bounds(self.schema.names[self.place])
        if low is None:
            return False
        grid = self._grid
        first, last = grid.numbers(pl.Series([low, high], dtype=self._type.dtype))
        return bool(((grid.firsts <= last) & (grid.lasts >= first)).any())

    def mask(self, tuples: pl.DataFrame) -> pl.Series:
        return booleans(self._grid.has(*self._grid.places(tuples)))

    def matched(self, tuples: pl.DataFrame) -> PunctuationBatch:
        return self.all().take(np.flatnonzero(self._grid.met(*self._grid.places(tuples))))

    def near(self, p: Punctuation) -> Iterable[Punctuation]:
        if self.are_few or all(p.patterns[i] is WILDCARD for i in self.places):
            return self
        by_constants = self._settled()
        if by_constants is None:
            self._ends = by_constants = {}
            self._numbers = {}
            for q in self:
                self._enter(by_constants, q)
        if all(isinstance(p.patterns[i], Constant) for i in self.equal):
            ends = by_constants.get(p.keys(self.equal))
            groups = [] if ends is None else [ends]
        else:
            groups = sorted(by_constants.values(), key=lambda ends: next(iter(ends.members)))
        pattern = p.patterns[self.place]
        if isinstance(pattern, Wildcard):
            return [q for ends in groups for q in ends.members.values()]
        pieces = cuts(pattern)
        return [q for ends in groups for q in ends.near(pieces[0][0], pieces[-1][1])]

    @property
    def _grid(self) -> Grid:
        if self._cached is None:
            name = self.schema.names[self.place]
            if self.ranged:
                self._cached = Grid(name, self._type, *self.all().bounds)
            else:
                self._cached = self._ranked(name)
        return self._cached

    def _ranked(self, name: str) -> Grid:
        """The grid of ranges whose bounds have no ordinals, or that have constants beside them."""
        ranges: list[Range] = [p.patterns[self.place] for p in self]  # type: ignore[misc]
        lows, highs = (
            pl.Series(name, bounds, dtype=self._type.dtype)
            for bounds in ([r.low for r in ranges], [r.high for r in ranges])
        )
        bounds = pl.concat([lows, highs]).drop_nulls().unique().sort()
        firsts = _ranks(bounds, lows) + [not r.low_closed for r in ranges]
        firsts[lows.is_null().to_numpy()] = 0
        lasts = _ranks(bounds, highs) - [not r.high_closed for r in ranges]
        lasts[highs.is_null().to_numpy()] = 2 * bounds.len() + 1
        beside: dict[Tuple, tuple[int, Punctuation]] = {}
        stretches = [beside.setdefault(p.keys(self.equal), (len(beside), p))[0] for p in self]
        columns = {}
        for i in self.equal:
            values = [p.patterns[i].value for _, p in beside.values()]  # type: ignore[attr-defined]
            columns[self.schema.names[i]] = pl.Series(values, dtype=self.schema.attributes[i].type.dtype)
        keys = pl.DataFrame({**columns, "$stretch": pl.Series(range(len(beside)), dtype=pl.Int64)})
        return Grid(name, self._type, firsts, lasts, bounds, np.array(stretches), keys)


@dataclass
class Grid:
    """Some ranges as intervals of integers, ``firsts`` to ``lasts``, and how tuples get numbers like them.

    Of a numbered type these are the ordinals. Of another type the ``bounds`` of all ranges, in order, number the
    values: a bound has an odd number, what lies between two bounds the even one between theirs. So one search tells
    whether any range has a value. Each row of ``keys``, the constants, has a stretch of numbers to itself;
    ``stretches`` has that of each range.
    """

    name: str
    type: Type
    firsts: Ordinals
    lasts: Ordinals
    bounds: pl.Series | None = None
    stretches: Ordinals | None = None
    keys: pl.DataFrame | None = None

    def numbers(self, column: pl.Series) -> Ordinals:
        """The numbers of values; anything for nulls."""
        return ordinals_of(self.type, column) if self.bounds is None else _ranks(self.bounds, column)

    def places(self, tuples: pl.DataFrame) -> tuple[Ordinals, Flags | None]:
        """For each tuple its number, and a flag whether it has one; None if all have."""
        column = tuples[self.name]
        numbers = self.numbers(column)
        there = column.is_not_null().to_numpy() if column.null_count() else None
        if self.keys is None or self.keys.width == 1:
            return numbers, there
        names = self.keys.columns[:-1]
        stretches = join(tuples.select(names), self.keys, names, "left", order="left")["$stretch"]
        known = stretches.is_not_null().to_numpy()
        numbers = stretches.fill_null(0).to_numpy() * self._width + numbers
        return numbers, known if there is None else known & there

    def has(self, numbers: Ordinals, there: Flags | None) -> Flags:
        """For each number, whether any of the ranges has it."""
        firsts, farthest = self._sorted
        at = np.searchsorted(firsts, numbers, side="right") - 1
        hit: Flags = (at >= 0) & (farthest[np.maximum(at, 0)] >= numbers)
        return hit if there is None else hit & there

    def met(self, numbers: Ordinals, there: Flags | None) -> Flags:
        """For each range, whether it has any of some numbers."""
        known = np.sort(numbers if there is None else numbers[there])
        if not len(known):
            return np.zeros(len(self.firsts), np.bool_)
        lows, highs = self._lows_and_highs
        at = np.searchsorted(known, lows, side="left")
        return (at < len(known)) & (known[np.minimum(at, len(known) - 1)] <= highs)

    @property
    def _width(self) -> int:
        """How many numbers a stretch has."""
        return 0 if self.bounds is None else 2 * self.bounds.len() + 2

    @property
    def _lows_and_highs(self) -> tuple[Ordinals, Ordinals]:
        if self.stretches is None:
            return self.firsts, self.lasts
        return self.stretches * self._width + self.firsts, self.stretches * self._width + self.lasts

    @cached_property
    def _sorted(self) -> tuple[Ordinals, Ordinals]:
        """Where the ranges begin, in order, and the farthest end of all that begin up to there.

        A stretch's numbers are above all those before it.
        """
        lows, highs = self._lows_and_highs
        order = np.argsort(lows, kind="stable")
        return lows[order], np.maximum.accumulate(highs[order])


class Ends:
    """Punctuations by where their range begins, in chunks, each with the farthest end of its ranges.

    So adding and removing one moves a chunk at most, and those that overlap an interval stand in few chunks.

    >>> s = Schema.parse("hour INT")
    >>> ends = Ends()
    >>> for number, text in enumerate(("[1,5]", "[4,9]", "[2,30]")):
    ...     p = Punctuation.of(s, hour=text)
    ...     ends.add(number, p, *cuts(p.patterns[0])[0])
    >>> [str(p) for p in ends.near((0, 6, 0), (0, 8, 0))]
    ['<[2,30]>', '<[4,9]>']
    """

    def __init__(self) -> None:
        self.members: dict[int, Punctuation] = {}
        self._chunks: list[list[tuple[Cut, int, Cut]]] = []
        """Begin, number and end of each range, in order."""
        self._firsts: list[tuple[Cut, int, Cut]] = []
        """The first of each chunk."""
        self._reach: list[Cut] = []
        """The farthest end in each chunk."""
        self._farthest: list[Cut] = []
        """The farthest end in each chunk and all those before it."""

    def add(self, number: int, p: Punctuation, low: Cut, high: Cut) -> None:
        """Take one, under a number that no other has."""
        self.members[number], entry = p, (low, number, high)
        at = max(bisect_right(self._firsts, entry) - 1, 0)
        chunk = self._chunks[at] if self._chunks else []
        insort(chunk, entry)
        if len(chunk) > CHUNK:
            self._replace(at, 1, [chunk[: CHUNK // 2], chunk[CHUNK // 2 :]])
        elif not self._chunks:
            self._replace(0, 0, [chunk])
        else:
            self._firsts[at] = chunk[0]
            if high > self._reach[at]:
                self._reach[at] = high
                self._update_farthest(at, at + 1)

    def discard(self, number: int, low: Cut, high: Cut) -> None:
        """Take out the one of that number."""
        del self.members[number]
        entry = low, number, high
        at = bisect_right(self._firsts, entry) - 1
        chunk = self._chunks[at]
        del chunk[bisect_left(chunk, entry)]
        if not chunk:
            self._replace(at, 1, [])
        else:
            self._firsts[at] = chunk[0]
            if high == self._reach[at]:
                self._reach[at] = max(end for _, _, end in chunk)
                self._update_farthest(at, at + 1)

    def _replace(self, at: int, count: int, chunks: list[list[tuple[Cut, int, Cut]]]) -> None:
        """Put chunks in the place of so many."""
        replaced = slice(at, at + count)
        self._chunks[replaced] = chunks
        self._firsts[replaced] = [chunk[0] for chunk in chunks]
        self._reach[replaced] = [max(end for _, _, end in chunk) for chunk in chunks]
        self._farthest[replaced] = self._reach[at : at + len(chunks)]
        self._update_farthest(at, at + len(chunks))

    def _update_farthest(self, begin: int, end: int) -> None:
        """Find the farthest ends anew, of some chunks and of those behind them that these concern."""
        for i in range(begin, len(self._reach)):
            farthest = max(self._farthest[i - 1], self._reach[i]) if i else self._reach[0]
            if i >= end and self._farthest[i] == farthest:
                break
            self._farthest[i] = farthest

    def near(self, low: Cut, high: Cut) -> list[Punctuation]:
        """Those that overlap an interval, in the order in which their ranges begin."""
        chunks = range(bisect_right(self._farthest, low), bisect_left(self._firsts, (high,)))
        return [
            self.members[number]
            for i in chunks
            if self._reach[i] > low
            for begin, number, end in self._chunks[i]
            if end > low and begin < high
        ]


def _ranks(bounds: pl.Series, values: pl.Series) -> Ordinals:
    """The numbers of values among bounds; anything for nulls."""
    below: Ordinals = bounds.search_sorted(values, side="left").to_numpy().astype(np.int64)
    below += bounds.search_sorted(values, side="right").to_numpy()
    return below
