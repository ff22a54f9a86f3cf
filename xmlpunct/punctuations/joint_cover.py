"""Punctuations taken together: what they cover, and what they close, that none of them does alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Sequence
from functools import reduce
from itertools import product
from math import prod
from operator import and_

from xmlpunct.base import frames
from xmlpunct.base.frames import Snapshot
from xmlpunct.punctuations.fused import Fused, Part, Past, Row, liveliest
from xmlpunct.punctuations.grid import Axis, first_open, whole
from xmlpunct.punctuations.ownership import ANYTHING, Ownership
from xmlpunct.punctuations.punctuation import Punctuation, combine, covers
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.types import pattern as pt
from xmlpunct.types.cut_points import between
from xmlpunct.types.pattern import EMPTY, WILDCARD, Pattern, Range, Values


class Closed(Fused):
    """What has been closed, fused. It is remembered while it overlaps what somebody retains."""

    def update(self, punctuations: Iterable[Punctuation]) -> None:
        """Add some, and forget the rows that they cover: <(,5], (,5]> once <(,6], (,9]> is closed."""
        for p in punctuations:
            new = self.add(p, liveliest(p))
            self.discard([row for row in self.near(p) if row != new and self._is_within(row, p)])

    def _is_within(self, row: Row, p: Punctuation) -> bool:
        """Whether ``p`` covers a row; only the end covers the end."""
        place, patterns = row[0], list(row[1])
        if place < 0:
            return False
        ends = self.values(row).ends
        if ends is not None:
            patterns[place] = between(self.schema.attributes[place].type, *ends)
        return covers(p, Punctuation(self.schema, patterns))

    def cover(self, p: Punctuation) -> bool:
        """`jointly_cover` by all that is closed; only the end covers the end.

        >>> s = Schema.parse("sid STRING, hour INT")
        >>> closed = Closed(s)
        >>> closed.update(Punctuation.of(s, hour=hour) for hour in (5, 6, 7))
        >>> closed.cover(Punctuation.of(s, hour="[5,7]")), closed.cover(Punctuation.of(s, sid="S1"))
        (True, False)
        """
        if p.is_everything:
            return self.complete
        return _cover(self, self.near(p), p)

    def leave(self, p: Punctuation, is_retained: Callable[[Punctuation], bool]) -> None:
        """Forget what overlaps ``p``, which is retained no longer, and overlaps nothing else that is."""
        for row in self.near(p):
            place, patterns = row[0], list(row[1])
            if place < 0:
                gone = not is_retained(self.outline(row))
            else:
                values = self.values(row)
                for pattern in values.overlapping(p.patterns[place]):
                    patterns[place] = pattern
                    if not is_retained(Punctuation(self.schema, patterns)):
                        values.remove(pattern)
                gone = not len(values)
            if gone:
                self.discard([row])


class JointCover:
    """What punctuations say about the other attributes once, alone or together, they close all ``dropped`` ones.

    ``<hour=5, sid=S1>`` and ``<hour=5, sid=S2>`` together close hour 5 once they cover the domain of sid. A punctuation
    is retained until what is closed, or another punctuation, covers all that it could still contribute to. What is
    closed is remembered, fused, while it overlaps a retained one. A batch is taken as a whole: its punctuations are
    fused first, and what they close is looked for once.

    On several shards (`spread`) what is closed, and every shard has to say, is remembered for good. When a punctuation
    names this shard's values, what is closed about them is said again, since other shards may not get so far.

    >>> s = Schema.parse("hour INT, done BOOLEAN NOT NULL")
    >>> joint = JointCover(s, [1])
    >>> [joint.add([Punctuation.of(s, hour=5, done=done)]) for done in (True, False)]
    [PunctuationBatch([]), PunctuationBatch([<5, *>])]
    """

    def __init__(self, schema: Schema, dropped: Iterable[int]) -> None:
        self.schema, self._dropped = schema, frozenset(dropped)
        self._nullable = frozenset(i for i in self._dropped if schema.attributes[i].nullable)
        self._open, self._closed = Fused(schema), Closed(schema)
        self._past = Past(schema)
        self._ownership = ANYTHING

    def spread(self, ownership: Ownership) -> None:
        """Run on one of several shards. ``ownership`` is about what comes in and what comes out."""
        self._ownership = ownership

    def add(self, punctuations: Sequence[Punctuation]) -> PunctuationBatch:
        """Take punctuations; return those that are now known, each with ``*`` for all dropped attributes."""
        batch = PunctuationBatch.of(punctuations)
        if len(batch.parts) > 1:
            return PunctuationBatch.concat([self.add(part) for part in batch.parts])
        if batch.place is not None and batch.place not in self._dropped:
            is_lasting = self._ownership.lasting(batch)
            if not (is_lasting and len(self._open)):
                if is_lasting:
                    self._past.update(batch)
                self._forget(batch)
                return batch
        known: dict[Punctuation, None] = {}
        attributes = self.schema.attributes
        rows: dict[Row, None] = {}
        heard: list[Punctuation] = []
        for p in self._closing_null(batch):
            said = [i for i in p.constrained if i in self._dropped]
            open_places = [i for i in said if not attributes[i].closed_by(p.patterns[i])]
            lifted = _without(p, set(said).difference(open_places)) if said else p
            if not open_places:
                known[lifted] = None
            elif any(attributes[i].reach(p.patterns[i]) is EMPTY for i in p.constrained):
                continue  # it is about no tuple that can come
            else:
                row = self._open.add(lifted, open_places[0])
                self._overtake(row, lifted.patterns[row[0]])
                rows[row] = None
            heard.append(p)
        for row in rows:
            if len(self._open.values(row)):
                known.update(dict.fromkeys(c for c in self._closures(row) if self._is_news(c)))
        if self._ownership:
            known.update(dict.fromkeys(self._recall(heard, known)))
        closed = PunctuationBatch(known)
        self._forget(closed)
        return closed

    def _is_news(self, c: Punctuation) -> bool:
        """Whether what was closed before does not imply ``c``, or somebody has to hear it all the same."""
        return not self._closed.covers(c) or self._ownership.needs(c)

    def _overtake(self, new: Row, values: Pattern) -> None:
        """Retain no longer what a new range covers: <S1, (,5]> once <S1, (,6]> is said."""
        outline = self._open.outline(new)
        if not any(isinstance(q, Range) for q in outline.patterns):
            return
        for row in self._open.near(outline, new[0]):
            if row == new:
                continue
            other = self._open.outline(row)
            if covers(outline, other) and not self._ownership.needs(self._lifted(other)):
                known = self._open.values(row)
                known.remove(values)
                if not len(known):
                    self._open.discard([row])

    def _recall(self, heard: list[Punctuation], fresh: Collection[Punctuation]) -> list[Punctuation]:
        """What the past says about the values that some name, and what is new about values named before."""
        recalled: list[tuple[Punctuation, Punctuation]] = []
        for lifted in dict.fromkeys(map(self._lifted, heard)):
            if lifted not in fresh:
                recalled += ((lifted, q) for q in self._past.overlapping(lifted))
        lasting = [q for q in fresh if self._ownership.lasts(q)]
        if lasting:
            named = dict.fromkeys(self._lifted(self._open.outline(row)) for row in self._open)
            recalled += product(named, lasting)
            self._past.update(lasting)
        combined = [(combine(p, q), q) for p, q in recalled]
        return [c for c, q in combined if c is not None and c != q and self._ownership.needs(c)]

    def _closing_null(self, batch: PunctuationBatch) -> Sequence[Punctuation]:
        """Those with ``*`` wherever null may be: nothing else closes null."""
        closing = [some for some in batch.alike if self._nullable.isdisjoint(some[0].constrained)]
        if len(closing) < 2:
            return closing[0] if closing else []
        return [p for p in batch if self._nullable.isdisjoint(p.constrained)]  # in their order

    def _closures(self, new: Row) -> list[Punctuation]:
        """The largest punctuations that ``new`` and others close together."""
        outline = self._lifted(self._open.outline(new))
        rows = [new, *(row for row in self._open.near(outline) if row != new)]
        attributes = self.schema.attributes
        for i in self._dropped.intersection((new[0], *self._open.outline(new).constrained)):
            # A value that none of the rows constraining i has is left to rows that do without all of those.
            constraining = [row for row in rows if row[0] == i or row[1][i] is not WILDCARD]
            if not _spans(whole(attributes[i]), self._open, constraining, i):
                return []
        outlines = [self._lifted(self._open.outline(row)) for row in rows]
        said = {i for row in rows for i in (row[0], *self._open.outline(row).constrained)} & self._dropped
        axes = [Axis(attributes[i], [self._open.part(row, i) for row in rows]) for i in sorted(said)]
        everything = (1 << len(rows)) - 1
        if first_open(axes, everything) is not None:
            return []
        closures: list[Punctuation] = []
        seen: set[tuple[Punctuation, int]] = set()

        def search(kept: Punctuation, chosen: int) -> None:
            """Choose a row for the first place that the chosen ones leave open, and go on."""
            if (kept, chosen) in seen or any(covers(c, kept) for c in closures) or len(seen) > _PATIENCE:
                return
            seen.add((kept, chosen))
            path = first_open(axes, chosen)
            if path is None:
                closures.append(kept)
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
        return [c for c in closures if not any(c is not d and covers(d, c) for d in closures)]

    def _lifted(self, p: Punctuation) -> Punctuation:
        """``p`` with ``*`` for all dropped attributes."""
        return _without(p, self._dropped)

    def _forget(self, fresh: PunctuationBatch) -> None:
        """Remember what is closed while it overlaps what is retained; drop what it covers."""
        if not len(self._open) or not len(fresh):
            return
        outlines = {row: self._lifted(self._open.outline(row)) for row in self._open}
        place = fresh.place
        if place is not None and any(outline.patterns[place] is WILDCARD for outline in outlines.values()):
            self._closed.extend(fresh)
            near, touched = {}, list(outlines)
        else:
            near = {c: self._open.near(c) for c in fresh}
            self._closed.update(c for c, rows in near.items() if rows)
            touched = list(dict.fromkeys(row for rows in near.values() for row in rows))
        covered = [row for row in touched if self._closed.cover(outlines[row])]
        self._open.discard(covered)
        lists = (c for c in near if any(isinstance(q, Values) for q in c.patterns))
        for p in dict.fromkeys((*(outlines[row] for row in covered), *lists)):
            self._closed.leave(p, lambda c: bool(self._open.near(c)))  # some values of a list overlap no row

    def __len__(self) -> int:
        return len(self._open) + len(self._closed) + (0 if self._past.complete else len(self._past))

    @property
    def _parts(self) -> dict[str, frames.SnapshotPart]:
        return {"open": self._open, "found": self._closed, "past": self._past}

    def snapshot(self) -> Snapshot:
        """What is retained, for a checkpoint."""
        return frames.snapshot_of(self._parts)

    def restore(self, snapshot: Snapshot) -> None:
        """Take what a snapshot retained."""
        frames.restore(self._parts, snapshot)


_PATIENCE = 10_000
"""How many choices for a cover, or places of a grid, are tried: a bound on what many overlaps can cost.

Giving up loses a promise, never the truth.
"""


def _without(p: Punctuation, places: Container[int]) -> Punctuation:
    """``p`` with ``*`` at some places."""
    patterns = list(p.patterns)
    for i in p.constrained:
        if i in places:
            patterns[i] = WILDCARD
    return Punctuation(p.schema, patterns)


def jointly_cover(pieces: Iterable[Punctuation], covered: Punctuation) -> bool:
    """Whether some punctuations together match whatever ``covered`` matches (and the schema allows).

    The answer is exact for grids of at most 10,000 places. For larger ones only punctuations that differ in one
    attribute are taken together.

    >>> s = Schema.parse("sid STRING, hour INT")
    >>> pieces = [Punctuation.of(s, hour=hour) for hour in ("(,4]", "[7,)")]
    >>> pieces += [Punctuation.of(s, hour="[5,6]", sid=sid) for sid in ("(,S5]", "(S5,)")]
    >>> [jointly_cover(pieces, Punctuation.of(s, hour=hour, sid="(,)")) for hour in ("[3,9]", "*")]
    [True, False]
    """
    fused = Fused(covered.schema)
    rows = [fused.add(piece, liveliest(piece)) for piece in pieces]
    return _cover(fused, dict.fromkeys(rows), covered)


def _cover(fused: Fused, rows: Iterable[Row], covered: Punctuation) -> bool:
    """`jointly_cover` by some rows."""
    attributes = covered.schema.attributes
    near = Fused(covered.schema)  # the rows, with ``*`` for what has all that is to be covered
    for place, rest in rows:
        kept = [
            WILDCARD if q is WILDCARD or pt.covers(q, attributes[i].reach(covered.patterns[i])) else q
            for i, q in enumerate(rest)
        ]
        if place < 0 or fused.values((place, rest)).covers(attributes[place].reach(covered.patterns[place])):
            left = Punctuation(covered.schema, kept)
            if left.is_everything:
                return True
            near.add(left, left.constrained[-1])
        else:
            reach = attributes[place].reach(covered.patterns[place])
            near.join((place, tuple(kept)), fused.values((place, rest)).overlapping(reach))
    rows = list(near)
    places = {i for row in rows for i in (row[0], *near.outline(row).constrained)}
    within = {i: attributes[i].reach(covered.patterns[i]) for i in sorted(places)}
    alone = [row for row in rows if not near.outline(row).constrained]
    if any(near.values(row).covers(within[row[0]]) for row in alone):
        return True
    parts = {i: Part.of(attributes[i], reach) for i, reach in within.items()}
    if len(rows) < 2 or not all(_spans(part, near, rows, i) for i, part in parts.items()):
        return False
    axes = [Axis(attributes[i], [near.part(row, i) for row in rows], within=parts[i]) for i in within]
    small = prod(len(axis.cells) for axis in axes) <= _PATIENCE
    return small and first_open(axes, (1 << len(rows)) - 1) is None


def _spans(within: Part, fused: Fused, rows: Sequence[Row], place: int) -> bool:
    """A quick no: whether the ends of what is to be covered at a place are among some rows at all."""
    if within.null and not any(row[0] != place and row[1][place] is WILDCARD for row in rows):
        return False
    if not within.intervals:
        return True
    low, high = within.intervals[0][0], within.intervals[-1][1]
    ends = [pair for row in rows if (pair := fused.ends(row, place)) is not None]
    return any(first <= low for first, _ in ends) and any(last >= high for _, last in ends)
