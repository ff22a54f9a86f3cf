"""The timeline: what punctuations close of a timestamp, per pattern of the other attributes, as prefixes."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

import polars as pl

from xmlpunct.base.frames import Snapshot, restore, snapshot_of
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.punctuations.closed_set import ClosedSet, Row, closed_values
from xmlpunct.punctuations.ownership import ANYTHING, Ownership
from xmlpunct.punctuations.punctuation import Punctuation, combine, covers, from_frame, to_frame
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.types.cut_points import cuts
from xmlpunct.types.interval_set import IntervalSet
from xmlpunct.types.pattern import EMPTY, WILDCARD, Pattern, interval, ordinals


class Timeline:
    """Fuses the closed instants of a stream into prefixes: from the first instant that can come, without a gap.

    A tuple e is closed up to the least instant at which no punctuation matches <e, t>. This says so for patterns q of
    the other attributes (punctuations with ``*`` for the timestamp). It retains how far each q has come, and
    *islands*: instants closed for a q with a gap before them. An island counts once what is closed reaches it, for the
    q that both have in common. So what goes out closes each tuple as far as all punctuations together do.

    >>> from xmlpunct.types import INT
    >>> s = Schema.parse("sid STRING, ts INT NOT NULL")
    >>> timeline = Timeline(s, "ts", Instants(INT))
    >>> def add(**patterns):
    ...     grown = timeline.add(PunctuationBatch([Punctuation.of(s, **patterns)]))
    ...     print(*(f"{q} to {bound}" for q, _, bound in grown))
    >>> add(ts="[0,5]")
    <BLANKLINE>
    >>> add(sid="S1", ts="(,-1]")
    <S1, *> to 5
    >>> add(ts="(,7]")
    <*, *> to 7
    """

    def __init__(self, schema: Schema, timestamp: str, instants: Instants) -> None:
        self.schema, self.instants, self._place = schema, instants, schema.index(timestamp)
        self._everything = Punctuation.everything(schema)
        self._reached: dict[Punctuation, int] = {}
        """For each q the last instant of its prefix, unless another covers it or it is T's end (but of all)."""
        self._whose = PunctuationSet(schema)
        """The keys of ``_reached``."""
        self._queue: list[tuple[int, int, Punctuation]] = []
        """A heap of ``_reached``, by instant, with some that are there no longer."""
        self._pushed = 0
        self._islands, self._outlines = ClosedSet(schema), PunctuationSet(schema)
        self._ownership = ANYTHING
        self._every = [None if a.nullable else interval(a.type, None, None, False, False) for a in schema]
        """For each NOT NULL attribute the pattern of all its values."""
        attribute = schema[timestamp]
        outside = ~IntervalSet(attribute.type, [attribute.reach(ordinals(attribute.type, None, None))])
        self.opening = self._add_spans(outside)
        """What is closed from the start: what the timestamp's domain leaves out."""

    def spread(self, ownership: Ownership) -> None:
        """Run on one of several shards. ``ownership`` is about the timestamp's own schema."""
        self._ownership = ownership

    @property
    def is_simple(self) -> bool:
        """Whether a punctuation that leaves the timestamp open closes nothing beyond itself and implies nothing."""
        alone = all(q.is_everything for q in self._reached)
        return alone and not len(self._islands) and not self._ownership

    def add(self, batch: PunctuationBatch) -> list[Grown]:
        """Take punctuations; return the prefixes that have grown."""
        if batch.place == self._place:
            return self._add_spans(closed_values(batch))
        grown = _Growth()
        for p in batch:
            patterns = list(p.patterns)
            for i in p.constrained:
                patterns[i] = self._as_said(i, patterns[i])
            if EMPTY in patterns:
                continue  # it is about no tuple that can come
            at, patterns[self._place] = patterns[self._place], WILDCARD
            q = Punctuation(self.schema, patterns)
            if at is WILDCARD:
                self._close(q, self.instants.first, self.instants.last, grown)
                continue
            for low, high in cuts(at):
                self._close(q, low[1], high[1] - 1, grown)
        return list(grown)

    def _as_said(self, place: int, pattern: Pattern) -> Pattern:
        """A pattern of an attribute: ``*`` if it leaves nothing open, ``{}`` if it matches nothing that can come."""
        attribute = self.schema.attributes[place]
        if attribute.domain is WILDCARD:
            return WILDCARD if pattern == self._every[place] else pattern
        if attribute.reach(pattern) is EMPTY:
            return EMPTY
        return WILDCARD if attribute.closed_by(pattern) else pattern

    def _add_spans(self, closed: IntervalSet) -> list[Grown]:
        """Some instants are closed for all tuples."""
        grown = _Growth()
        for first, last in _spans(closed):
            self._close(self._everything, first, last, grown)
        return list(grown)

    def _close(self, q: Punctuation, first: int, last: int, grown: _Growth) -> None:
        """Take note that the instants from ``first`` to ``last`` are closed for q, and of all that follows."""
        todo = [(q, first, min(last, self.instants.last))] if first <= self.instants.last else []
        while todo:
            q, first, last = todo.pop()
            near = self._whose.overlapping(q) if not q.is_everything else [q] * (q in self._reached)
            before = max((self._reached[r] for r in near if covers(r, q)), default=self.instants.first - 1)
            if last <= before:
                if self._ownership.needs(q):  # others may be unable to say what implies it
                    grown.add(q, self.instants.first - 1, before)
                continue
            if first <= before + 1:
                todo += self._extend(q, before, last, grown)
            else:
                todo += self._settle(q, first, last)

    def _extend(
        self, q: Punctuation, before: int, last: int, grown: _Growth
    ) -> Iterator[tuple[Punctuation, int, int]]:
        """The prefix of q grows; give the prefixes that grow with it."""
        grown.add(q, before, last)
        for r in self._overtaken(q, last):
            self._forget(r)
            if r != q:
                grown.drop(r)
                if self._ownership.needs(r):
                    grown.add(r, self.instants.first - 1, last)
        if last < self.instants.last or q.is_everything:
            self._reach(q, last)
        for outline in self._outlines.overlapping(q) if len(self._outlines) else ():
            row = Row(self._place, outline)
            island = self._islands.values(row)
            touched = [(a, b) for a, b in _spans(island) if a <= last + 1]
            both = combine(q, outline)
            if both is not None and touched and touched[-1][1] > last:
                yield both, self.instants.first, touched[-1][1]
            if touched and covers(q, outline):
                island.remove(ordinals(self.instants.type, None, touched[-1][1]))
                if not len(island):
                    self._islands.remove([row])
                    self._outlines.remove(outline)

    def _settle(self, q: Punctuation, first: int, last: int) -> Iterator[tuple[Punctuation, int, int]]:
        """Retain an island of q; give the prefixes that reach it already."""
        span = ordinals(self.instants.type, first, last)
        row = self._islands.add(q.with_pattern(self._place, span), self._place)
        self._outlines.add(q)
        ((first, last),) = _spans(self._islands.values(row).overlapping(span))
        for r in self._whose.overlapping(q):
            both = combine(q, r)
            if both is not None and first - 1 <= self._reached[r] < last:
                yield both, self.instants.first, last

    # How far each q has come

    def _reach(self, q: Punctuation, last: int) -> None:
        self._reached[q] = last
        self._whose.add(q)
        if len(self._queue) > 2 * len(self._reached) + 64:
            self._queue = [(last, i, q) for i, (q, last) in enumerate(self._reached.items())]
            self._pushed = len(self._queue)
            heapify(self._queue)
        self._pushed += 1
        heappush(self._queue, (last, self._pushed, q))

    def _overtaken(self, q: Punctuation, last: int) -> list[Punctuation]:
        """Those that q covers and that have not come further."""
        if not q.is_everything:
            near = self._whose.overlapping(q)
            return [r for r in near if self._reached[r] <= last and covers(q, r)]
        overtaken = dict[Punctuation, None]()
        while self._queue and self._queue[0][0] <= last:
            bound, _, r = heappop(self._queue)
            if self._reached.get(r) == bound:
                overtaken[r] = None
        return list(overtaken)

    def _forget(self, q: Punctuation) -> None:
        del self._reached[q]
        self._whose.remove(q)

    # As a part of the state

    def __len__(self) -> int:
        ended = self._reached.get(self._everything) == self.instants.last
        return 0 if ended else len(self._reached) + len(self._islands)

    def snapshot(self) -> Snapshot:
        """What is retained, for a checkpoint."""
        frame = to_frame(self.schema, self._reached)
        bounds = pl.Series("$bound", list(self._reached.values()), dtype=pl.Int64)
        return {"reached": frame.insert_column(0, bounds), **snapshot_of({"islands": self._islands})}

    def restore(self, snapshot: Snapshot) -> None:
        """Take what a snapshot retained."""
        self._reached, self._queue, self._whose = {}, [], PunctuationSet(self.schema)
        frame = snapshot["reached"]
        for bound, q in zip(frame["$bound"], from_frame(self.schema, frame.drop("$bound")), strict=True):
            self._reach(q, bound)
        restore({"islands": self._islands}, snapshot)
        self._outlines = PunctuationSet(self.schema, (row.outline for row in self._islands))


Grown = tuple[Punctuation, int, int]
"""A pattern q of the other attributes, where its prefix ended before for all of q, and where it ends now."""


class _Growth:
    """The prefixes that have grown, each as far as it has come, without those that others cover."""

    def __init__(self) -> None:
        self._grown: dict[Punctuation, tuple[int, int]] = {}

    def add(self, q: Punctuation, before: int, last: int) -> None:
        """The prefix of q has grown."""
        known = self._grown.get(q, (before, last))
        self._grown[q] = min(before, known[0]), max(last, known[1])

    def drop(self, q: Punctuation) -> None:
        """Another prefix covers that of q."""
        self._grown.pop(q, None)

    def __iter__(self) -> Iterator[Grown]:
        return ((q, before, last) for q, (before, last) in self._grown.items())


def _spans(instants: IntervalSet) -> list[tuple[int, int]]:
    """The intervals of a set, by their first and last ordinals."""
    return list(zip(*(bound.tolist() for bound in instants.bounds), strict=True))
