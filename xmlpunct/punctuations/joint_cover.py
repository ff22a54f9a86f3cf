"""Joint covers: the punctuations that several punctuations close together, and none of them alone."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Sequence
from functools import reduce
from itertools import product
from operator import and_

from xmlpunct.base import frames
from xmlpunct.base.frames import Snapshot
from xmlpunct.punctuations.closed_set import REMEMBERED, ClosedSet, Row
from xmlpunct.punctuations.grid import Axis, first_open, whole
from xmlpunct.punctuations.ownership import ANYTHING, Ownership
from xmlpunct.punctuations.punctuation import Punctuation, combine, covers
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.types.pattern import EMPTY, WILDCARD, Pattern, Range, Values


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
        self._open, self._closed = ClosedSet(schema), ClosedSet(schema, drops_implied=True)
        self._past = ClosedSet(schema, limit=REMEMBERED)
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
                self._overtake(row, lifted.patterns[row.place])
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
        if not any(isinstance(q, Range) for q in new.outline.patterns):
            return
        for row in self._open.overlapping_rows(new.outline, new.place):
            if row == new:
                continue
            if covers(new.outline, row.outline) and not self._ownership.needs(self._lifted(row.outline)):
                known = self._open.values(row)
                known.remove(values)
                if not len(known):
                    self._open.remove([row])

    def _recall(self, heard: list[Punctuation], fresh: Collection[Punctuation]) -> list[Punctuation]:
        """What the past says about the values that some name, and what is new about values named before."""
        recalled: list[tuple[Punctuation, Punctuation]] = []
        for lifted in dict.fromkeys(map(self._lifted, heard)):
            if lifted not in fresh:
                recalled += ((lifted, q) for q in self._past.overlapping(lifted))
        lasting = [q for q in fresh if self._ownership.lasts(q)]
        if lasting:
            named = dict.fromkeys(self._lifted(row.outline) for row in self._open)
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
        outline = self._lifted(new.outline)
        rows = [new, *(row for row in self._open.overlapping_rows(outline) if row != new)]
        attributes = self.schema.attributes
        for i in self._dropped.intersection((new.place, *new.outline.constrained)):
            # A value that none of the rows constraining i has is left to rows that do without all of those.
            constraining = [row for row in rows if row.place == i or row.outline.patterns[i] is not WILDCARD]
            if not self._open.may_span(whole(attributes[i]), constraining, i):
                return []
        outlines = [self._lifted(row.outline) for row in rows]
        said = {i for row in rows for i in (row.place, *row.outline.constrained)} & self._dropped
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
        outlines = {row: self._lifted(row.outline) for row in self._open}
        place = fresh.place
        if place is not None and any(outline.patterns[place] is WILDCARD for outline in outlines.values()):
            self._closed.update(fresh)
            near, touched = {}, list(outlines)
        else:
            near = {c: self._open.overlapping_rows(c) for c in fresh}
            self._closed.update(c for c, rows in near.items() if rows)
            touched = list(dict.fromkeys(row for rows in near.values() for row in rows))
        covered = [row for row in touched if self._closed.cover(outlines[row])]
        self._open.remove(covered)
        # Some values of a list overlap no open row.
        lists = (c for c in near if any(isinstance(q, Values) for q in c.patterns))
        for p in dict.fromkeys((*(outlines[row] for row in covered), *lists)):
            self._closed.leave(p, lambda c: bool(self._open.overlapping_rows(c)))

    def __len__(self) -> int:
        return len(self._open) + len(self._closed) + (0 if self._past.has_end else len(self._past))

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
"""How many choices for a cover are tried: a bound on what many overlaps can cost.

Giving up loses a promise, never the truth.
"""


def _without(p: Punctuation, places: Container[int]) -> Punctuation:
    """``p`` with ``*`` at some places."""
    patterns = list(p.patterns)
    for i in p.constrained:
        if i in places:
            patterns[i] = WILDCARD
    return Punctuation(p.schema, patterns)
