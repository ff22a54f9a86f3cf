"""Punctuations that agree on all attributes but one, fused in that one: to match many, and to remember many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from xmlpunct.base import frames
from xmlpunct.base.frames import Snapshot
from xmlpunct.punctuations.punctuation import Punctuation, combine, covers, from_frame, to_frame
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_index import FEW_PUNCTUATIONS
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types.cut_points import Interval, cuts, ends
from xmlpunct.types.interval_set import IntervalSet
from xmlpunct.types.ordinals import is_numbered
from xmlpunct.types.pattern import WILDCARD, Pattern, Range, Wildcard, interval

PAST = 64
"""How many punctuations, fused, a `Past` remembers.

It bounds the work, for a new punctuation may be combined with all of them. A stream that closes values in order needs
one; what is forgotten delays a promise, and makes none untrue.
"""


@dataclass(frozen=True, slots=True)
class Part:
    """Some values of one attribute: intervals in ascending order, and whether null is among them."""

    intervals: tuple[Interval, ...]
    null: bool

    @classmethod
    def of(cls, attribute: Attribute, pattern: Pattern) -> Part:
        """What a pattern matches."""
        if isinstance(pattern, Wildcard):
            return cls((ends(attribute.type),), True)
        return cls(tuple(cuts(pattern)), False)


NULL = Part((), True)
"""Null alone, which no pattern describes."""


Row = tuple[int, tuple[Pattern, ...]]
"""A place, and patterns for all attributes; the pattern there is ``*`` and stands for fused intervals.

The place -1: nothing is fused.
"""


class Fused:
    """Punctuations that agree on all attributes but one are one row, fused in that one.

    Items closed one by one, in whatever order, take as many intervals as there are gaps between them.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._rows: dict[Row, IntervalSet | None] = {}
        """For each row its fused values; None where nothing is fused."""
        self._outlines: PunctuationSet | None = None
        """The outlines of all rows, once `near` was asked."""
        self._places: dict[Punctuation, list[int]] = {}
        """For each outline the places in which rows are fused."""

    def add(self, p: Punctuation, place: int) -> Row:
        """Add a punctuation, to be fused in the attribute at ``place`` (-1, or one it does not constrain: none)."""
        if place < 0 or p.patterns[place] is WILDCARD:
            row: Row = -1, p.patterns
            if row not in self._rows:
                self._enter(row, None)
            return row
        row = place, (*p.patterns[:place], WILDCARD, *p.patterns[place + 1 :])
        self._entered(row).add(p.patterns[place])
        return row

    def extend(self, batch: PunctuationBatch) -> Row:
        """Add a batch in columns, all of which are one row."""
        assert batch.place is not None
        row = batch.place, (WILDCARD,) * len(self.schema)
        if batch.ranged:
            self._entered(row).add_ranges(*batch.columns)
        else:
            self._entered(row).add_values(batch.values)
        return row

    def join(self, row: Row, values: IntervalSet) -> None:
        """Add fused values to a row."""
        self._entered(row).update(values)

    def _entered(self, row: Row) -> IntervalSet:
        """The fused values of a row, which is made if it is not there."""
        values = self._rows.get(row)
        if values is None:
            values = IntervalSet(self.schema.attributes[row[0]].type)
            self._enter(row, values)
        return values

    def _enter(self, row: Row, values: IntervalSet | None) -> None:
        self._rows[row] = values
        if self._outlines is not None:
            outline = self.outline(row)
            self._outlines.add(outline)
            self._places.setdefault(outline, []).append(row[0])

    def discard(self, rows: Iterable[Row]) -> None:
        """Take out some rows."""
        for row in rows:
            if row in self._rows:
                del self._rows[row]
                if self._outlines is not None:
                    outline = self.outline(row)
                    self._places[outline].remove(row[0])
                    if not self._places[outline]:
                        del self._places[outline]
                        self._outlines.remove(outline)

    def near(self, p: Punctuation, place: int | None = None) -> list[Row]:
        """The rows whose outline some tuple could match together with ``p``; only those fused at a place, if given.

        >>> s = Schema.parse("sid STRING, hour INT")
        >>> fused = Fused(s)
        >>> rows = [fused.add(Punctuation.of(s, sid=sid, hour=5), 1) for sid in ("S1", "S2")]
        >>> fused.near(Punctuation.of(s, sid="S2")) == rows[1:]
        True
        """
        if len(self._rows) <= FEW_PUNCTUATIONS:
            rows = self._rows if place is None else [row for row in self._rows if row[0] == place]
            return [row for row in rows if combine(self.outline(row), p) is not None]
        if self._outlines is None:
            self._outlines, self._places = PunctuationSet(self.schema), {}
            for row in self._rows:
                self._enter(row, self._rows[row])
        return [
            (i, outline.patterns)
            for outline in self._outlines.overlapping(p)
            for i in self._places[outline]
            if place is None or i == place
        ]

    def part(self, row: Row, place: int) -> Part:
        """What a row has of the attribute at a place."""
        if row[0] == place:
            return Part(tuple(self.values(row).intervals()), False)
        return Part.of(self.schema.attributes[place], row[1][place])

    def ends(self, row: Row, place: int) -> Interval | None:
        """The first and the last cut of what a row has of the attribute at a place; None of nothing but null."""
        if row[0] == place:
            return self.values(row).ends
        pieces = Part.of(self.schema.attributes[place], row[1][place]).intervals
        return (pieces[0][0], pieces[-1][1]) if pieces else None

    @property
    def complete(self) -> bool:
        """Whether the end is among them."""
        return (-1, (WILDCARD,) * len(self.schema)) in self._rows

    def overlaps(self, p: Punctuation) -> bool:
        """Whether some tuple could match one of them together with ``p``."""
        return any(
            row[0] < 0 or bool(len(self.values(row).overlapping(p.patterns[row[0]]))) for row in self.near(p)
        )

    def covers(self, p: Punctuation) -> bool:
        """Whether one row has all that ``p`` matches, beside the same patterns or ``*``.

        >>> s = Schema.parse("sid STRING, hour INT")
        >>> fused = Fused(s)
        >>> row = fused.add(Punctuation.of(s, hour="[5,9]"), 1)
        >>> fused.covers(Punctuation.of(s, hour=7)), fused.covers(Punctuation.of(s, sid="S1"))
        (True, False)
        """
        return any(
            covers(self.outline(row), p) and (row[0] < 0 or self.values(row).covers(p.patterns[row[0]]))
            for row in self.near(p)
        )

    def values(self, row: Row) -> IntervalSet:
        """The fused values of a row; none of one that is not there."""
        values = self._rows.get(row)
        return IntervalSet(self.schema.attributes[row[0]].type) if values is None else values

    def missing(self, place: int, patterns: Sequence[Pattern]) -> IntervalSet:
        """What of the pattern at a place is not there yet, beside the other patterns."""
        row = place, (*patterns[:place], WILDCARD, *patterns[place + 1 :])
        return self.values(row).missing(patterns[place])

    def outline(self, row: Row) -> Punctuation:
        """A punctuation that covers a row: ``*`` in the attribute in which it is fused."""
        return Punctuation(self.schema, row[1])

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __len__(self) -> int:
        return sum(1 if values is None else len(values) for values in self._rows.values())

    def snapshot(self) -> Snapshot:
        """The rows, for a checkpoint: punctuations, and the place in which each was fused."""
        if not self._rows:
            return {}
        places, punctuations = [], []
        for place, rest in self._rows:
            for pattern in [WILDCARD] if place < 0 else self.values((place, rest)):
                places.append(place)
                whole = rest if place < 0 else (*rest[:place], pattern, *rest[place + 1 :])
                punctuations.append(Punctuation(self.schema, whole))
        frame = to_frame(self.schema, punctuations)
        return {"rows": frame.insert_column(0, pl.Series("$place", places, dtype=pl.Int64()))}

    def restore(self, snapshot: Snapshot) -> None:
        """Take the rows of a snapshot."""
        self._rows, self._outlines = {}, None
        for frame in snapshot.values():
            for place, p in zip(frame["$place"], from_frame(self.schema, frame.drop("$place")), strict=True):
                self.add(p, place)


class Past:
    """What has been said, to tell what it implies about new punctuations; fused where there is too much.

    What still does not fit is forgotten, the oldest first. What it implies is then said later, together with a
    punctuation that implies it.

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

    @property
    def complete(self) -> bool:
        """Whether the end has been said."""
        return self._everything in self._recent

    def update(self, punctuations: Sequence[Punctuation]) -> None:
        """Remember some."""
        batch = PunctuationBatch.of(punctuations)
        if batch.place is not None and not batch.ranged and len(batch) > self.most:
            self._fuse(self._runs(batch, batch.place))
            return
        self._recent.update(batch)
        if len(self._recent) > self.most:
            recent, self._recent = self._recent, PunctuationSet(self.schema)
            self._fuse(p for p in recent if not p.is_everything)
            self._recent.update(p for p in recent if p.is_everything)

    def _fuse(self, punctuations: Iterable[Punctuation]) -> None:
        """Remember some as fused; forget the oldest rows, each as a whole, while there are too many."""
        for p in punctuations:
            self._fused.add(p, liveliest(p))
        excess = len(self._fused) - self.most
        for row in list(self._fused):
            if excess <= 0:
                break
            excess -= len(self._fused.values(row))
            self._fused.discard([row])

    def _runs(self, batch: PunctuationBatch, place: int) -> Sequence[Punctuation]:
        """Those of a batch, fused; none if they do not fuse."""
        fused = IntervalSet(self.schema.attributes[place].type)
        if is_numbered(fused.type):
            fused.add_values(batch.values)
        patterns: list[Pattern] = [WILDCARD] * len(self.schema)
        runs = []
        for pattern in fused if len(fused) <= self.most else ():
            patterns[place] = pattern
            runs.append(Punctuation(self.schema, patterns))
        return runs

    def overlapping(self, p: Punctuation) -> list[Punctuation]:
        """All that some tuple could match together with ``p``."""
        overlaps = self._recent.overlapping(p)
        for place, rest in self._fused.near(p):
            patterns = list(rest)
            for pattern in self._fused.values((place, rest)).overlapping(p.patterns[place]):
                patterns[place] = pattern
                overlaps.append(Punctuation(self.schema, patterns))
        return overlaps

    def may_overlap(self, batch: PunctuationBatch) -> bool:
        """Whether some of it may match a tuple that one of a batch matches; False is certain."""
        if not len(self) or not len(batch):
            return False
        if batch.place is None or batch.ranged:
            return True
        type_, values = self.schema.attributes[batch.place].type, batch.values
        patterns: list[Pattern] = [WILDCARD] * len(self.schema)
        patterns[batch.place] = interval(type_, values.min(), values.max(), True, True)
        return bool(self.overlapping(Punctuation(self.schema, patterns)))

    def __len__(self) -> int:
        return len(self._recent) + len(self._fused)

    @property
    def _parts(self) -> dict[str, frames.SnapshotPart]:
        return {"recent": self._recent, "fused": self._fused}

    def snapshot(self) -> Snapshot:
        """What is remembered, for a checkpoint."""
        return frames.snapshot_of(self._parts)

    def restore(self, snapshot: Snapshot) -> None:
        """Take what a snapshot remembers."""
        frames.restore(self._parts, snapshot)


def liveliest(p: Punctuation) -> int:
    """The attribute in which a punctuation is likeliest to fuse with the next one; -1 of the end."""
    types = p.schema.attributes
    return max(
        p.constrained, default=-1, key=lambda i: (isinstance(p.patterns[i], Range), types[i].type.discrete, i)
    )
