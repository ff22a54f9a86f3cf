"""Punctuations taken together: the first value that they leave open, and what they close by all of them.

Both are asked of a *grid*. Along each attribute (an `Axis`) the bounds of all patterns cut the values that can
occur into cells, and a pattern matches a cell as a whole or not at all. So a finite search decides about all
values, whatever their number. Sets of patterns are sets of bits.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, pairwise
from operator import and_

import polars as pl

from xmlpunct import patterns as pt
from xmlpunct.bundle import Bundle
from xmlpunct.patterns import EMPTY, WILDCARD, Cut, Pattern, Wildcard
from xmlpunct.punctset import PunctuationSet, jointly_cover
from xmlpunct.punctuation import Punctuation, combine, covers, from_frame, to_frame
from xmlpunct.schema import Attribute, Schema


@dataclass(frozen=True, slots=True)
class Part:
    """Some values of one attribute: intervals in ascending order, and whether null is among them."""

    intervals: tuple[tuple[Cut, Cut], ...]
    null: bool

    @classmethod
    def of(cls, attribute: Attribute, pattern: Pattern) -> Part:
        """What a pattern matches."""
        if isinstance(pattern, Wildcard):
            return cls((pt.ends(attribute.type),), True)
        return cls(tuple(pt.cuts(pattern)), False)


NULL = Part((), True)
"""Null alone, which no pattern describes."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Values between two places, all of which the same parts contain (the bits of ``rows``); or null."""

    low: Cut | None
    high: Cut | None
    rows: int


class Axis:
    """The cells of one attribute, in an order of its values, given the part of it that each row has."""

    def __init__(
        self, attribute: Attribute, parts: Sequence[Part], descending: bool = False, nulls_first: bool = False
    ) -> None:
        self.attribute, self.descending, self.nulls_first = attribute, descending, nulls_first
        allowed = Part.of(attribute, attribute.domain).intervals
        turns: dict[Cut, int] = {}
        nulls, space = 0, 1 << len(parts)
        for cut in (cut for interval in allowed for cut in interval):
            turns[cut] = turns.get(cut, 0) ^ space
        for i, part in enumerate(parts):
            nulls |= part.null << i
            for low, high in part.intervals:
                turns[low] = turns.get(low, 0) ^ (1 << i)
                turns[high] = turns.get(high, 0) ^ (1 << i)
        self.cells: list[Cell] = []
        marks, rows = sorted(turns), 0
        for low, high in pairwise(marks):
            rows ^= turns[low]
            if rows & space:
                self.cells.append(Cell(low, high, rows ^ space))
        if descending:
            self.cells.reverse()
        if attribute.nullable:
            self.cells.insert(0 if nulls_first else len(self.cells), Cell(None, None, nulls))
        self.closed = -1
        """The rows that have every cell."""
        for cell in self.cells:
            self.closed &= cell.rows


def first_open(axes: Sequence[Axis], rows: int) -> list[int] | None:
    """The first place of the grid, in lexicographic order, that none of ``rows`` has; None: they have all.

    It is a path of cells, one per axis; where it ends early, the rest does not matter, for no row is left.
    """
    if not axes:
        return None if rows else []
    closed = [*accumulate((axis.closed for axis in reversed(axes)), and_, initial=-1)][-2::-1]
    """For each axis the rows that have every cell of all axes behind it."""
    path, left = [0], [rows]
    while path:
        cells, behind = axes[len(path) - 1].cells, closed[len(path) - 1]
        while path[-1] < len(cells) and left[-1] & cells[path[-1]].rows & behind:
            path[-1] += 1
        if path[-1] == len(cells):  # nothing is open here: go on with the next cell of the axis before
            path.pop()
            left.pop()
            path[-1:] = [place + 1 for place in path[-1:]]
            continue
        here = left[-1] & cells[path[-1]].rows
        if not here:
            return path
        path.append(0)
        left.append(here)
    return None


Row = tuple[int, tuple[Pattern, ...]]
"""A place, and patterns for all attributes, of which the one there is ``*`` and stands for fused intervals.

The place -1 is none: the patterns are meant as they are.
"""


class Fused:
    """Punctuations for *matching*: those that agree on all attributes but one are one row, fused in that one.

    Items closed one by one, in whatever order, take as many intervals as there are gaps between them.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._rows: dict[Row, tuple[list[Cut], list[Cut]]] = {}

    def add(self, p: Punctuation, place: int) -> Row:
        """Add a punctuation, to be fused in the attribute at ``place`` (-1, or one it does not constrain: none)."""
        if place < 0 or p.patterns[place] is WILDCARD:
            row: Row = -1, p.patterns
            self._rows[row] = [], []
            return row
        row = place, (*p.patterns[:place], WILDCARD, *p.patterns[place + 1 :])
        lows, highs = self._rows.setdefault(row, ([], []))
        for low, high in pt.cuts(p.patterns[place]):
            pt.fuse(lows, highs, low, high)
        return row

    def discard(self, rows: Iterable[Row]) -> None:
        """Take out some rows."""
        for row in rows:
            self._rows.pop(row, None)

    def part(self, row: Row, place: int) -> Part:
        """What a row has of the attribute at a place."""
        if row[0] == place:
            return Part(tuple(zip(*self._rows[row], strict=True)), False)
        return Part.of(self.schema.attributes[place], row[1][place])

    def intervals(self, place: int, patterns: Sequence[Pattern]) -> tuple[list[Cut], list[Cut]]:
        """The fused intervals, as their lows and highs, of what agrees with ``patterns`` but at a place."""
        return self._rows.get((place, (*patterns[:place], WILDCARD, *patterns[place + 1 :])), ([], []))

    def patterns(self, row: Row) -> list[Pattern]:
        """The fused patterns of a row, in ascending order."""
        type_ = self.schema.attributes[row[0]].type
        return [pt.between(type_, low, high) for low, high in zip(*self._rows[row], strict=True)]

    def outline(self, row: Row) -> Punctuation:
        """A punctuation that covers a row: ``*`` in the attribute in which it is fused."""
        return Punctuation(self.schema, row[1])

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __len__(self) -> int:
        return sum(len(lows) or 1 for lows, _ in self._rows.values())

    def snapshot(self) -> pl.DataFrame:
        """The rows as a data frame: punctuations, and the place in which each was fused."""
        places, found = [], []
        for place, rest in self._rows:
            for pattern in [WILDCARD] if place < 0 else self.patterns((place, rest)):
                places.append(place)
                whole = rest if place < 0 else (*rest[:place], pattern, *rest[place + 1 :])
                found.append(Punctuation(self.schema, whole))
        return to_frame(self.schema, found).insert_column(0, pl.Series("$place", places, dtype=pl.Int64()))

    @classmethod
    def restored(cls, schema: Schema, frame: pl.DataFrame) -> Fused:
        """The inverse of `snapshot`."""
        found = cls(schema)
        for place, p in zip(frame["$place"], from_frame(schema, frame.drop("$place")), strict=True):
            found.add(p, place)
        return found


class JointCover:
    """What punctuations say about some attributes alone, having closed all ``dropped`` ones, by themselves or together.

    ``<hour=5, sid=S1>`` and ``<hour=5, sid=S2>`` together close hour 5 once they cover the domain of sid. A punctuation
    is retained until those that were found cover what it could still contribute to.
    """

    def __init__(self, schema: Schema, dropped: Iterable[int]) -> None:
        self.schema, self._dropped = schema, frozenset(dropped)
        self._nullable = frozenset(i for i in self._dropped if schema.attributes[i].nullable)
        self._open = Fused(schema)
        self._found = PunctuationSet(schema)

    def add(self, punctuations: Sequence[Punctuation]) -> Sequence[Punctuation]:
        """Take punctuations; return those that are now known, each with ``*`` for all dropped attributes."""
        if (
            isinstance(punctuations, Bundle)
            and punctuations.place not in self._dropped
            and not len(self._open)
        ):
            return punctuations
        found: dict[Punctuation, None] = {}
        attributes = self.schema.attributes
        for p in self._closing_null(punctuations):
            said = [i for i in p.constrained if i in self._dropped]
            if not said and not len(self._open):  # the usual case
                found[p] = None
                continue
            open_places = [i for i in said if not attributes[i].closed_by(p.patterns[i])]
            whole = _without(p, set(said).difference(open_places))
            if not open_places:
                fresh = [whole]
            elif any(attributes[i].reach(p.patterns[i]) is EMPTY for i in p.constrained):
                continue  # it is about no tuple that can come
            else:
                row = self._open.add(whole, open_places[0])
                fresh = [c for c in self._closures(row) if c not in self._found]
            found.update(dict.fromkeys(fresh))
            self._forget(fresh)
        return list(found)

    def _closing_null(self, punctuations: Sequence[Punctuation]) -> Sequence[Punctuation]:
        """Those with ``*`` wherever null may be: nothing else closes that, and whoever has it needs no others."""
        if isinstance(punctuations, Bundle):
            return [] if punctuations.place in self._nullable else punctuations
        return [p for p in punctuations if self._nullable.isdisjoint(p.constrained)]

    def _closures(self, new: Row) -> list[Punctuation]:
        """The largest punctuations that ``new`` and others close together."""
        outline = self._lifted(self._open.outline(new))
        rows, outlines = [new], [outline]
        for row in self._open:
            if row != new and combine(outline, other := self._lifted(self._open.outline(row))) is not None:
                rows.append(row)
                outlines.append(other)
        attributes = self.schema.attributes
        axes = []
        # All of them have all of any other attribute.
        said = {i for row in rows for i in (row[0], *self._open.outline(row).constrained)}
        for i in sorted(said & self._dropped):
            parts = [self._open.part(row, i) for row in rows]
            if not _spans(attributes[i], parts):
                return []
            axes.append(Axis(attributes[i], parts))
        everything = (1 << len(rows)) - 1
        if first_open(axes, everything) is not None:
            return []
        found: list[Punctuation] = []
        seen: set[tuple[Punctuation, int]] = set()

        def search(kept: Punctuation, chosen: int) -> None:
            """Choose a row for the first place that the chosen ones leave open, and go on."""
            if (kept, chosen) in seen or any(covers(c, kept) for c in found) or len(seen) > _PATIENCE:
                return
            seen.add((kept, chosen))
            path = first_open(axes, chosen)
            if path is None:
                found.append(kept)
                return
            path += [0] * (len(axes) - len(path))
            there = reduce(and_, (axis.cells[c].rows for axis, c in zip(axes, path, strict=True)), everything)
            ways = []
            for i, other in enumerate(outlines):
                if there >> i & 1 and (both := combine(kept, other)) is not None:
                    if both == kept:  # it costs nothing, so no other way is better
                        ways = [(both, i)]
                        break
                    ways.append((both, i))
            for both, i in ways:
                search(both, chosen | 1 << i)

        search(outline, 1)
        return [c for c in found if not any(c is not d and covers(d, c) for d in found)]

    def _lifted(self, p: Punctuation) -> Punctuation:
        """``p`` with ``*`` for all dropped attributes."""
        return _without(p, self._dropped)

    def _forget(self, fresh: list[Punctuation]) -> None:
        """Remember what was found as long as it overlaps what is retained; drop what it covers."""
        if not len(self._open):
            return
        self._found.update(fresh)
        for row in list(self._open):
            outline = self._lifted(self._open.outline(row))
            touched = any(combine(c, outline) is not None for c in fresh)
            if touched and jointly_cover(self._found.overlapping(outline), outline):
                self._open.discard([row])
        outlines = [self._open.outline(row) for row in self._open]
        self._found.discard(
            [c for c in self._found if all(combine(c, outline) is None for outline in outlines)]
        )

    def __len__(self) -> int:
        return len(self._open) + len(self._found)

    def snapshot(self) -> dict[str, pl.DataFrame]:
        """What is retained, for a checkpoint."""
        return {"open": self._open.snapshot(), "found": self._found.snapshot()}

    def restore(self, snapshot: Mapping[str, pl.DataFrame]) -> None:
        """Take what a snapshot retained."""
        self._open = Fused.restored(self.schema, snapshot["open"])
        self._found = PunctuationSet.restored(self.schema, snapshot["found"])


_PATIENCE = 10_000
"""How many choices are tried for a cover. Giving up loses a promise, never the truth."""


def _without(p: Punctuation, places: Container[int]) -> Punctuation:
    """``p`` with ``*`` at some places."""
    patterns = list(p.patterns)
    for i in p.constrained:
        if i in places:
            patterns[i] = WILDCARD
    return Punctuation(p.schema, patterns)


def _spans(attribute: Attribute, parts: Sequence[Part]) -> bool:
    """A quick no: whether the first and the last allowed value are among the parts at all."""
    low, high = (
        Part.of(attribute, attribute.domain).intervals[0][0],
        Part.of(attribute, attribute.domain).intervals[-1][1],
    )
    pieces = [part.intervals for part in parts if part.intervals]
    return any(p[0][0] <= low for p in pieces) and any(p[-1][1] >= high for p in pieces)
