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
from xmlpunct.punctuations.ownership import ANYTHING
from xmlpunct.punctuations.punctuation import Punctuation, combine, covers
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.single_attribute import closed_values
from xmlpunct.schema import Schema
from xmlpunct.types.pattern import EMPTY, WILDCARD, Pattern, Range, Values


class JointCover:
    """Derives punctuations with ``*`` for ``dropped`` attributes from some that together close all values of these.

    ``<hour=5, sid=S1>`` and ``<hour=5, sid=S2>`` together close hour 5 once they cover the domain of sid. A punctuation
    is retained until closed values, or another punctuation, cover everything that it could still help to close. Closed
    values are remembered, fused, while they overlap a retained punctuation. All punctuations of a batch are fused
    before the values that they close are computed.

    On several shards, closed values that every shard emits are remembered for ever. When a punctuation lists values of
    this shard (`Ownership`), they are emitted again for these values, because other shards may not close them.

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
        self.ownership = ANYTHING
        """The received and emitted punctuations that must be emitted although implied."""

    def add(self, punctuations: Sequence[Punctuation]) -> PunctuationBatch:
        """Receive punctuations; return the new ones that they imply, each with ``*`` for all dropped attributes."""
        batch = PunctuationBatch.of(punctuations)
        if len(batch.parts) > 1:
            return PunctuationBatch.concat([self.add(part) for part in batch.parts])
        if batch.position is not None and batch.position not in self._dropped:
            is_lasting = self.ownership.lasting(batch)
            if not (is_lasting and any(not self._lifted(row.outline).is_everything for row in self._open)):
                if is_lasting:
                    self._past.update(batch)
                self._forget(batch)
                return batch
        if batch.position is not None and batch.position in self._dropped:
            return self._add_values(batch, batch.position)
        implied: dict[Punctuation, None] = {}
        attributes = self.schema.attributes
        rows: dict[Row, None] = {}
        received: list[Punctuation] = []
        for p in self._closing_null(batch):
            dropped_positions = [i for i in p.constrained if i in self._dropped]
            open_positions = [i for i in dropped_positions if not attributes[i].closed_by(p.patterns[i])]
            lifted = (
                _without(p, set(dropped_positions).difference(open_positions)) if dropped_positions else p
            )
            if not open_positions:
                implied[lifted] = None
            elif any(attributes[i].reach(p.patterns[i]) is EMPTY for i in p.constrained):
                continue  # no tuple can match it
            else:
                row = self._open.add(lifted, open_positions[0])
                self._overtake(row, lifted.patterns[row.position])
                rows[row] = None
            received.append(p)
        for row in rows:
            if len(self._open.values(row)):
                implied.update(dict.fromkeys(c for c in self._closures(row) if self._is_new(c)))
        if self.ownership:
            implied.update(dict.fromkeys(self._recall(received, implied)))
        closed = PunctuationBatch(implied)
        self._forget(closed)
        return closed

    def _add_values(self, batch: PunctuationBatch, position: int) -> PunctuationBatch:
        """`add` of a columnar batch on a dropped attribute."""
        if position in self._nullable:
            return PunctuationBatch()  # only ``*`` closes null
        row = Row(position, Punctuation.everything(self.schema))
        self._open.add_values(row, closed_values(batch))
        implied = dict.fromkeys(c for c in self._closures(row) if self._is_new(c))
        if self.ownership:
            implied.update(dict.fromkeys(self._recall([], implied)))
        closed = PunctuationBatch(implied)
        self._forget(closed)
        return closed

    def _is_new(self, c: Punctuation) -> bool:
        """Whether ``c`` is not implied by earlier closed values, or must be emitted all the same."""
        return not self._closed.covers(c) or self.ownership.needs(c)

    def _overtake(self, new: Row, values: Pattern) -> None:
        """Drop what a new range covers: <S1, (,5]> after <S1, (,6]>."""
        if not any(isinstance(q, Range) for q in new.outline.patterns):
            return
        for row in self._open.overlapping_rows(new.outline, new.position):
            if row == new:
                continue
            if covers(new.outline, row.outline) and not self.ownership.needs(self._lifted(row.outline)):
                open_values = self._open.values(row)
                open_values.remove(values)
                if not len(open_values):
                    self._open.remove([row])

    def _recall(self, received: list[Punctuation], new_closed: Collection[Punctuation]) -> list[Punctuation]:
        """Earlier closed values combined with the received lists, and new closed values with earlier lists."""
        recalled: list[tuple[Punctuation, Punctuation]] = []
        for lifted in dict.fromkeys(map(self._lifted, received)):
            if lifted not in new_closed:
                recalled += ((lifted, q) for q in self._past.overlapping(lifted))
        lasting = [q for q in new_closed if self.ownership.lasts(q)]
        if lasting:
            named = dict.fromkeys(self._lifted(row.outline) for row in self._open)
            recalled += product(named, lasting)
            self._past.update(lasting)
        combined = [(combine(p, q), q) for p, q in recalled]
        return [c for c, q in combined if c is not None and c != q and self.ownership.needs(c)]

    def _closing_null(self, batch: PunctuationBatch) -> Sequence[Punctuation]:
        """The punctuations with ``*`` at every nullable dropped attribute: only ``*`` closes null."""
        closing = [some for some in batch.alike if self._nullable.isdisjoint(some[0].constrained)]
        if len(closing) < 2:
            return closing[0] if closing else []
        return [p for p in batch if self._nullable.isdisjoint(p.constrained)]  # in their order

    def _closures(self, new: Row) -> list[Punctuation]:
        """The largest punctuations that ``new`` and other rows close together."""
        outline = self._lifted(new.outline)
        rows = [new, *(row for row in self._open.overlapping_rows(outline) if row != new)]
        attributes = self.schema.attributes
        for i in self._dropped.intersection((new.position, *new.outline.constrained)):
            # A value of i that no constraining row has can be closed only by rows that do not constrain i.
            constraining = [
                row for row in rows if row.position == i or row.outline.patterns[i] is not WILDCARD
            ]
            if not self._open.may_span(whole(attributes[i]), constraining, i):
                return []
        outlines = [self._lifted(row.outline) for row in rows]
        dropped_positions = {
            i for row in rows for i in (row.position, *row.outline.constrained)
        } & self._dropped
        axes = [
            Axis(attributes[i], [self._open.part(row, i) for row in rows]) for i in sorted(dropped_positions)
        ]
        everything = (1 << len(rows)) - 1
        if first_open(axes, everything) is not None:
            return []
        closures: list[Punctuation] = []
        seen: set[tuple[Punctuation, int]] = set()

        def search(kept: Punctuation, chosen: int) -> None:
            """Choose a row for the first cell that the chosen ones leave open, and go on."""
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

    def _forget(self, new_closed: PunctuationBatch) -> None:
        """Remember new closed values that overlap retained punctuations; drop the punctuations that they cover."""
        if not len(self._open) or not len(new_closed):
            return
        outlines = {row: self._lifted(row.outline) for row in self._open}
        position = new_closed.position
        if position is not None and any(
            outline.patterns[position] is WILDCARD for outline in outlines.values()
        ):
            self._closed.update(new_closed)
            overlapping, touched = {}, list(outlines)
        else:
            overlapping = {c: self._open.overlapping_rows(c) for c in new_closed}
            self._closed.update(c for c, rows in overlapping.items() if rows)
            touched = list(dict.fromkeys(row for rows in overlapping.values() for row in rows))
        covered = [row for row in touched if self._closed.cover(outlines[row])]
        self._open.remove(covered)
        # Some values of a list overlap no open row.
        lists = (c for c in overlapping if any(isinstance(q, Values) for q in c.patterns))
        reached = dict.fromkeys((*(outlines[row] for row in covered), *lists))
        self._closed.leave(reached, lambda c: bool(self._open.overlapping_rows(c)))

    def __len__(self) -> int:
        return len(self._open) + len(self._closed) + (0 if self._past.has_end else len(self._past))

    @property
    def _parts(self) -> dict[str, frames.SnapshotPart]:
        return {"open": self._open, "found": self._closed, "past": self._past}

    def snapshot(self) -> Snapshot:
        """The retained punctuations and closed values, for a checkpoint."""
        return frames.snapshot_of(self._parts)

    def restore(self, snapshot: Snapshot) -> None:
        """The inverse of `snapshot`."""
        frames.restore(self._parts, snapshot)


_PATIENCE = 10_000
"""How many choices for a cover are tried: a bound on what many overlaps can cost.

Giving up loses a promise, never the truth.
"""


def _without(p: Punctuation, positions: Container[int]) -> Punctuation:
    """``p`` with ``*`` at some positions."""
    patterns = list(p.patterns)
    for i in p.constrained:
        if i in positions:
            patterns[i] = WILDCARD
    return Punctuation(p.schema, patterns)
