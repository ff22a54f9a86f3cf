"""A sorted index of punctuations that have one range and constants."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from xmlpunct.base.arrow_memory import Flags, booleans
from xmlpunct.base.frames import join
from xmlpunct.punctuations.forms import FormKey, range_key
from xmlpunct.punctuations.punctuation import Punctuation, Tuple
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_index import IndexBounds, PunctuationIndex
from xmlpunct.schema import Schema
from xmlpunct.types import Type
from xmlpunct.types.cut_points import Cut, cuts
from xmlpunct.types.ordinals import Ordinals, is_numbered, ordinals_of
from xmlpunct.types.pattern import WILDCARD, Constant, Range, Wildcard

CHUNK = 32
"""Largest number of ranges in a chunk: one insertion moves no more (`benchmarks/scaling.py --only growth`)."""


class Ranges(PunctuationIndex):
    """A sorted index of punctuations that have a range in one attribute and constants in others.

    >>> s = Schema.parse("sid STRING, hour INT")
    >>> closed = Ranges(s, [], 1)
    >>> [closed.add(Punctuation.of(s, hour=text)) for text in ("[1,5]", "[4,9]", "[20,)")]
    [True, True, True]
    >>> closed.mask(s.frame([("S1", 0), ("S1", 5), ("S2", 9), ("S2", 10)])).to_list()
    [False, True, True, False]
    >>> closed.matched(s.frame([("S1", 5), ("S1", 6)]))
    PunctuationBatch([<*, [1,5]>, <*, [4,9]>])
    """

    def __init__(
        self, schema: Schema, constant_positions: Sequence[int] = (), range_position: int = -1
    ) -> None:
        super().__init__(schema, constant_positions, range_position)
        self._type = schema.attributes[range_position].type
        self.in_columns = self.ranged = not constant_positions and is_numbered(self._type)
        self._cached: Grid | None = None
        self._ends: dict[Tuple, Ends] | None = None
        self._insertion_numbers: dict[Punctuation, int] = {}
        self._next_number = 0
        self._pending_changes: list[tuple[PunctuationBatch, bool]] = []
        """Batches that were added (True) or discarded (False) and are not yet in ``_ends``."""
        self._pending_count = 0

    def _key(self, p: Punctuation) -> FormKey:
        return range_key(p) if self.ranged else p

    def _on_add(self, p: Punctuation) -> None:
        self._cached = None
        if (ends := self._current_ends()) is not None:
            self._insert(ends, p)

    def _on_remove(self, p: Punctuation) -> None:
        self._cached = None
        if (ends := self._current_ends()) is not None:
            self._delete(ends, p)

    def _on_batch_change(self, batch: PunctuationBatch, is_added: bool) -> None:
        self._cached = None
        self._pending_count += len(batch)
        if self._ends is None or self._pending_count > len(self):  # then `candidates` sorts all of them anew
            self._ends, self._pending_changes, self._pending_count = None, [], 0
        else:
            self._pending_changes.append((batch, is_added))

    def _current_ends(self) -> dict[Tuple, Ends] | None:
        """``_ends`` after all pending changes."""
        changes, self._pending_changes, self._pending_count = self._pending_changes, [], 0
        if self._ends is not None:
            for batch, is_added in changes:
                for p in batch:
                    if is_added:
                        self._insert(self._ends, p)
                    elif p in self._insertion_numbers:
                        self._delete(self._ends, p)
        return self._ends

    def _insert(self, ends: dict[Tuple, Ends], p: Punctuation) -> None:
        self._insertion_numbers[p] = self._next_number
        by_constants = ends.setdefault(p.keys(self.constant_positions), Ends())
        by_constants.add(self._next_number, p, *cuts(p.patterns[self.range_position])[0])
        self._next_number += 1

    def _delete(self, ends: dict[Tuple, Ends], p: Punctuation) -> None:
        key = p.keys(self.constant_positions)
        ends[key].discard(self._insertion_numbers.pop(p), *cuts(p.patterns[self.range_position])[0])
        if not ends[key].members:
            del ends[key]

    def may_match(self, bounds: Callable[[str], IndexBounds]) -> bool:
        low, high = bounds(self.schema.names[self.range_position])
        if low is None:
            return False
        grid = self._grid
        first, last = grid.numbers(pl.Series([low, high], dtype=self._type.dtype))
        return bool(((grid.firsts <= last) & (grid.lasts >= first)).any())

    def mask(self, tuples: pl.DataFrame) -> pl.Series:
        return booleans(self._grid.has(*self._grid.positions(tuples)))

    def matched(self, tuples: pl.DataFrame) -> PunctuationBatch:
        return self.all().take(np.flatnonzero(self._grid.containing(*self._grid.positions(tuples))))

    def candidates(self, p: Punctuation) -> Iterable[Punctuation]:
        if self.are_few or all(p.patterns[i] is WILDCARD for i in self.positions):
            return self
        by_constants = self._current_ends()
        if by_constants is None:
            self._ends = by_constants = {}
            self._insertion_numbers = {}
            for q in self:
                self._insert(by_constants, q)
        if all(isinstance(p.patterns[i], Constant) for i in self.constant_positions):
            ends = by_constants.get(p.keys(self.constant_positions))
            groups = [] if ends is None else [ends]
        else:
            groups = sorted(by_constants.values(), key=lambda ends: next(iter(ends.members)))
        pattern = p.patterns[self.range_position]
        if isinstance(pattern, Wildcard):
            return [q for ends in groups for q in ends.members.values()]
        pieces = cuts(pattern)
        return [q for ends in groups for q in ends.candidates(pieces[0][0], pieces[-1][1])]

    @property
    def _grid(self) -> Grid:
        if self._cached is None:
            name = self.schema.names[self.range_position]
            if self.ranged:
                self._cached = Grid(name, self._type, *self.all().bounds)
            else:
                self._cached = self._grid_of_ranks(name)
        return self._cached

    def _grid_of_ranks(self, name: str) -> Grid:
        """The grid of ranges that have no ordinals or are combined with constants."""
        ranges: list[Range] = [p.patterns[self.range_position] for p in self]  # type: ignore[misc]
        lows, highs = (
            pl.Series(name, bounds, dtype=self._type.dtype)
            for bounds in ([r.low for r in ranges], [r.high for r in ranges])
        )
        bounds = pl.concat([lows, highs]).drop_nulls().unique().sort()
        firsts = _ranks(bounds, lows) + [not r.low_closed for r in ranges]
        firsts[lows.is_null().to_numpy()] = 0
        lasts = _ranks(bounds, highs) - [not r.high_closed for r in ranges]
        lasts[highs.is_null().to_numpy()] = 2 * bounds.len() + 1
        groups: dict[Tuple, tuple[int, Punctuation]] = {}
        stretches = [groups.setdefault(p.keys(self.constant_positions), (len(groups), p))[0] for p in self]
        columns = {}
        for i in self.constant_positions:
            values = [p.patterns[i].value for _, p in groups.values()]  # type: ignore[attr-defined]
            columns[self.schema.names[i]] = pl.Series(values, dtype=self.schema.attributes[i].type.dtype)
        keys = pl.DataFrame({**columns, "$stretch": pl.Series(range(len(groups)), dtype=pl.Int64)})
        return Grid(name, self._type, firsts, lasts, bounds, np.array(stretches), keys)


@dataclass
class Grid:
    """Ranges as intervals of integers, ``firsts`` to ``lasts``, and the mapping of tuples to these integers.

    For a numbered type the integers are its ordinals. For another type they are ranks among the sorted ``bounds`` of
    all ranges: a bound has an odd rank, and values between two bounds have the even rank between theirs. So one binary
    search decides whether any range contains a value. With constants, each distinct combination is a row of ``keys``
    and has its own block of integers. ``stretches`` has the block of each range.
    """

    name: str
    type: Type
    firsts: Ordinals
    lasts: Ordinals
    bounds: pl.Series | None = None
    stretches: Ordinals | None = None
    keys: pl.DataFrame | None = None

    def numbers(self, column: pl.Series) -> Ordinals:
        """The integers of values; arbitrary for nulls."""
        return ordinals_of(self.type, column) if self.bounds is None else _ranks(self.bounds, column)

    def positions(self, tuples: pl.DataFrame) -> tuple[Ordinals, Flags | None]:
        """For each tuple its integer, and a flag whether it has one; the flags are None if all are true."""
        column = tuples[self.name]
        numbers = self.numbers(column)
        has_number = column.is_not_null().to_numpy() if column.null_count() else None
        if self.keys is None or self.keys.width == 1:
            return numbers, has_number
        names = self.keys.columns[:-1]
        stretches = join(tuples.select(names), self.keys, names, "left", order="left")["$stretch"]
        is_indexed = stretches.is_not_null().to_numpy()
        numbers = stretches.fill_null(0).to_numpy() * self._width + numbers
        return numbers, is_indexed if has_number is None else is_indexed & has_number

    def has(self, numbers: Ordinals, has_number: Flags | None) -> Flags:
        """For each integer, whether any range contains it."""
        firsts, farthest = self._sorted
        positions = np.searchsorted(firsts, numbers, side="right") - 1
        hit: Flags = (positions >= 0) & (farthest[np.maximum(positions, 0)] >= numbers)
        return hit if has_number is None else hit & has_number

    def containing(self, numbers: Ordinals, has_number: Flags | None) -> Flags:
        """For each range, whether it contains any of the integers."""
        sorted_numbers = np.sort(numbers if has_number is None else numbers[has_number])
        if not len(sorted_numbers):
            return np.zeros(len(self.firsts), np.bool_)
        lows, highs = self._lows_and_highs
        positions = np.searchsorted(sorted_numbers, lows, side="left")
        return (positions < len(sorted_numbers)) & (
            sorted_numbers[np.minimum(positions, len(sorted_numbers) - 1)] <= highs
        )

    @property
    def _width(self) -> int:
        """The number of integers in a block."""
        return 0 if self.bounds is None else 2 * self.bounds.len() + 2

    @property
    def _lows_and_highs(self) -> tuple[Ordinals, Ordinals]:
        if self.stretches is None:
            return self.firsts, self.lasts
        return self.stretches * self._width + self.firsts, self.stretches * self._width + self.lasts

    @cached_property
    def _sorted(self) -> tuple[Ordinals, Ordinals]:
        """The sorted starts of the ranges, and the running maximum of their ends.

        Blocks are disjoint and ascending, so they need no separate search.
        """
        lows, highs = self._lows_and_highs
        order = np.argsort(lows, kind="stable")
        return lows[order], np.maximum.accumulate(highs[order])


class Ends:
    """An ordered index of ranges by start, in chunks, each with the maximum end of its ranges.

    An insertion or removal moves at most one chunk, and a search for overlaps reads few chunks.

    >>> s = Schema.parse("hour INT")
    >>> ends = Ends()
    >>> for number, text in enumerate(("[1,5]", "[4,9]", "[2,30]")):
    ...     p = Punctuation.of(s, hour=text)
    ...     ends.add(number, p, *cuts(p.patterns[0])[0])
    >>> [str(p) for p in ends.candidates((0, 6, 0), (0, 8, 0))]
    ['<[2,30]>', '<[4,9]>']
    """

    def __init__(self) -> None:
        self.members: dict[int, Punctuation] = {}
        self._chunks: list[list[tuple[Cut, int, Cut]]] = []
        """(start, number, end) of each range, in order."""
        self._firsts: list[tuple[Cut, int, Cut]] = []
        """The first entry of each chunk."""
        self._reach: list[Cut] = []
        """The maximum end in each chunk."""
        self._farthest: list[Cut] = []
        """The maximum end in each chunk and all chunks before it."""

    def add(self, number: int, p: Punctuation, low: Cut, high: Cut) -> None:
        """Add a punctuation under a unique number."""
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
        """Remove the punctuation with this number."""
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
        """Replace ``count`` chunks from position ``at``."""
        replaced = slice(at, at + count)
        self._chunks[replaced] = chunks
        self._firsts[replaced] = [chunk[0] for chunk in chunks]
        self._reach[replaced] = [max(end for _, _, end in chunk) for chunk in chunks]
        self._farthest[replaced] = self._reach[at : at + len(chunks)]
        self._update_farthest(at, at + len(chunks))

    def _update_farthest(self, begin: int, end: int) -> None:
        """Update `_farthest` for chunks ``begin`` to ``end`` and for later chunks while it changes."""
        for i in range(begin, len(self._reach)):
            farthest = max(self._farthest[i - 1], self._reach[i]) if i else self._reach[0]
            if i >= end and self._farthest[i] == farthest:
                break
            self._farthest[i] = farthest

    def candidates(self, low: Cut, high: Cut) -> list[Punctuation]:
        """The punctuations whose ranges overlap an interval, in order of start."""
        chunks = range(bisect_right(self._farthest, low), bisect_left(self._firsts, (high,)))
        return [
            self.members[number]
            for i in chunks
            if self._reach[i] > low
            for begin, number, end in self._chunks[i]
            if end > low and begin < high
        ]


def _ranks(bounds: pl.Series, values: pl.Series) -> Ordinals:
    """The ranks of values among sorted bounds (see `Grid`); arbitrary for nulls."""
    below: Ordinals = bounds.search_sorted(values, side="left").to_numpy().astype(np.int64)
    below += bounds.search_sorted(values, side="right").to_numpy()
    return below
