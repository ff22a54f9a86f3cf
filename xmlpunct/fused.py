"""Punctuations that agree on all attributes but one, as one: for matching, and to remember many in a few numbers."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from xmlpunct import patterns as pt
from xmlpunct.bundle import Bundle
from xmlpunct.patterns import WILDCARD, Cut, Pattern, Range, Wildcard
from xmlpunct.punctset import PunctuationSet
from xmlpunct.punctuation import Punctuation, from_frame, to_frame
from xmlpunct.schema import Attribute, Schema
from xmlpunct.types import INT

PAST = 64
"""So many punctuations, fused, does a `Past` remember: each new one may be combined with all of them."""


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

    def touched(self, row: Row, pattern: Pattern) -> list[Pattern]:
        """The fused patterns of a row in which some value matches a pattern."""
        if isinstance(pattern, Wildcard):
            return self.patterns(row)
        lows, highs = self._rows[row]
        type_ = self.schema.attributes[row[0]].type
        found = ((bisect_right(highs, low), bisect_left(lows, high)) for low, high in pt.cuts(pattern))
        places = dict.fromkeys(i for first, last in found for i in range(first, last))
        return [pt.between(type_, lows[i], highs[i]) for i in places]


class Past:
    """What has been said, to tell what it implies of new punctuations: as it was, and where that is too much, fused.

    It forgets what came first where there is too much that does not fuse. Then something that it implies is not said
    for itself, and what had to be said for itself comes later than it could, with what implies it.

    >>> s = Schema.parse("sid STRING, hour INT")
    >>> past = Past(s, most=2)
    >>> past.update([Punctuation.of(s, sid="S1", hour=hour) for hour in (5, 6, 8)])
    >>> [str(p) for p in past.overlapping(Punctuation.of(s, hour="(,7]"))]
    ['<S1, [5,6]>']
    """

    def __init__(self, schema: Schema, most: int = PAST) -> None:
        self.schema, self.most = schema, most
        self._everything = Punctuation.everything(schema)
        self._recent = PunctuationSet(schema)
        self._fused = Fused(schema)
        self._outlines: dict[int, PunctuationSet] = {}
        """For each place the outlines of the rows that are fused there."""

    @property
    def complete(self) -> bool:
        """Whether the end has been said."""
        return self._everything in self._recent

    def update(self, punctuations: Sequence[Punctuation]) -> None:
        """Remember some."""
        if isinstance(punctuations, Bundle) and len(punctuations) > self.most:
            self._fuse(self._runs(punctuations))
            return
        self._recent.update(punctuations)
        if len(self._recent) > self.most:
            recent, self._recent = self._recent, PunctuationSet(self.schema)
            self._fuse(p for p in recent if not p.is_everything)
            self._recent.update(p for p in recent if p.is_everything)

    def _fuse(self, punctuations: Iterable[Punctuation]) -> None:
        """Remember some as fused; forget the oldest rows where that are too many, of a row too long all."""
        for p in punctuations:
            row = self._fused.add(p, _liveliest(p))
            outlines = self._outlines.setdefault(row[0], PunctuationSet(self.schema))
            outlines.add(self._fused.outline(row))
        for row in list(self._fused):
            if len(self._fused) <= self.most:
                break
            self._outlines[row[0]].discard([self._fused.outline(row)])
            self._fused.discard([row])

    def _runs(self, bundle: Bundle) -> Sequence[Punctuation]:
        """Those of a bundle, fused; none if they do not fuse, or nobody knows how in a column."""
        type_ = self.schema.attributes[bundle.place].type
        if type_ is not INT:
            return []
        values = np.sort(bundle.values.to_numpy())
        gaps = np.flatnonzero(np.diff(values) > 1)
        if len(gaps) >= self.most:
            return []
        firsts, lasts = values[np.append(0, gaps + 1)], values[np.append(gaps, len(values) - 1)]
        patterns: list[Pattern] = [WILDCARD] * len(self.schema)
        found = []
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
            patterns[bundle.place] = pt.ordinals(type_, first, last)
            found.append(Punctuation(self.schema, patterns))
        return found

    def overlapping(self, p: Punctuation) -> list[Punctuation]:
        """All that some tuple could match together with ``p``."""
        found = self._recent.overlapping(p)
        for place, outlines in self._outlines.items():
            for outline in outlines.overlapping(p):
                patterns = list(outline.patterns)
                for pattern in self._fused.touched((place, outline.patterns), p.patterns[place]):
                    patterns[place] = pattern
                    found.append(Punctuation(self.schema, patterns))
        return found

    def may_overlap(self, bundle: Bundle) -> bool:
        """Whether some of it may match a tuple that one of a bundle matches. It need not, if the answer is yes."""
        if not len(self) or not len(bundle):
            return False
        type_ = self.schema.attributes[bundle.place].type
        patterns: list[Pattern] = [WILDCARD] * len(self.schema)
        patterns[bundle.place] = pt.interval(type_, bundle.values.min(), bundle.values.max(), True, True)
        return bool(self.overlapping(Punctuation(self.schema, patterns)))

    def __len__(self) -> int:
        return len(self._recent) + len(self._fused)

    def snapshot(self) -> pl.DataFrame:
        """What is remembered, for a checkpoint."""
        recent = to_frame(self.schema, self._recent)
        place = pl.Series("$place", [None] * recent.height, dtype=pl.Int64())
        return pl.concat([recent.insert_column(0, place), self._fused.snapshot()])

    def restore(self, snapshot: pl.DataFrame) -> None:
        """Take what a snapshot remembers."""
        is_recent = snapshot["$place"].is_null()
        recent = from_frame(self.schema, snapshot.filter(is_recent).drop("$place"))
        self._recent = PunctuationSet(self.schema, recent)
        self._fused = Fused.restored(self.schema, snapshot.filter(~is_recent))
        self._outlines = {}
        for row in self._fused:
            self._outlines.setdefault(row[0], PunctuationSet(self.schema)).add(self._fused.outline(row))


def _liveliest(p: Punctuation) -> int:
    """The attribute in which a punctuation is likeliest to fuse with the next one."""
    types = p.schema.attributes
    return max(p.constrained, key=lambda i: (isinstance(p.patterns[i], Range), types[i].type.discrete, i))
