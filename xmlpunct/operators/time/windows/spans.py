"""Spans: what punctuations close of a timestamp, per pattern of the other attributes, as whole intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from xmlpunct.base.frames import Snapshot, restore, snapshot_of
from xmlpunct.operators.state import StateCell
from xmlpunct.punctuations.closed_set import ClosedSet, Row, closed_values
from xmlpunct.punctuations.ownership import ANYTHING, Ownership
from xmlpunct.punctuations.punctuation import Punctuation, combine, covers
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.types import Type
from xmlpunct.types.interval_set import IntervalSet
from xmlpunct.types.pattern import EMPTY, WILDCARD, ordinals

Span = tuple[int, int]
"""The first and the last ordinal of an interval of instants."""


@dataclass(frozen=True)
class Grown:
    """What is newly closed for all tuples that ``q`` matches; q leaves the timestamp open.

    ``spans`` are the whole intervals, as far as they have grown; ``before`` is all that was closed before.
    """

    q: Punctuation
    before: IntervalSet
    spans: list[Span]

    def known(self) -> list[Span]:
        """The intervals from which these have grown."""
        within = (ordinals(self.before.type, *span) for span in self.spans)
        return [span for pattern in within for span in spans_of(self.before.overlapping(pattern))]


class Spans:
    """Fuses the closed instants of a stream: for each tuple e those t for which a punctuation matches <e, t>.

    Where several punctuations match a tuple, what they close of it is one set of instants. So what goes out has, for
    each tuple, every interval that grew, whole. It retains the intervals of each q, unless another covers them or q is
    closed for ever.

    >>> s = Schema.parse("sid STRING, ts INT NOT NULL")
    >>> spans = Spans(s, "ts")
    >>> def add(**patterns):
    ...     grown = spans.add(PunctuationBatch([Punctuation.of(s, **patterns)]))
    ...     print(*(f"{g.q}: {g.spans}" for g in grown))
    >>> add(ts="[0,5]")
    <*, *>: [(0, 5)]
    >>> add(sid="S1", ts="[6,9]")
    <S1, *>: [(0, 9)]
    >>> add(ts="[6,7]")
    <*, *>: [(0, 7)]
    """

    def __init__(self, schema: Schema, timestamp: str) -> None:
        self.schema, self._place = schema, schema.index(timestamp)
        self._attribute = schema[timestamp]
        self.type = self._attribute.type
        self.ends = self.type.ordinal(self.type.lowest), self.type.ordinal(self.type.highest)
        self._everything = Punctuation.everything(schema)
        self._rows = ClosedSet(schema)
        self._outlines = PunctuationSet(schema)
        self._ended = StateCell(False)
        self._ownership = ANYTHING
        outside = ~IntervalSet(self.type, [self._attribute.reach(ordinals(self.type, None, None))])
        self.opening = self._close(self._everything, outside) if len(outside) else []
        """What is closed from the start: what the timestamp's domain leaves out."""

    def spread(self, ownership: Ownership) -> None:
        """Run on one of several shards. ``ownership`` is about the timestamp's own schema."""
        self._ownership = ownership

    @property
    def is_simple(self) -> bool:
        """Whether a punctuation that leaves the timestamp open closes nothing beyond itself."""
        return len(self._outlines) == (self._everything in self._outlines)

    def add(self, batch: PunctuationBatch) -> list[Grown]:
        """Take punctuations; return what has grown."""
        if batch.place == self._place:
            return self._close(self._everything, closed_values(batch))
        grown: list[Grown] = []
        for p in batch:
            if any(self.schema.attributes[i].reach(p.patterns[i]) is EMPTY for i in p.constrained):
                continue  # it is about no tuple that can come
            patterns = [
                WILDCARD if a.closed_by(pattern) else pattern
                for a, pattern in zip(self.schema, p.patterns, strict=True)
            ]
            at, patterns[self._place] = patterns[self._place], WILDCARD
            closed = IntervalSet.everything(self.type) if at is WILDCARD else IntervalSet(self.type, [at])
            grown += self._close(Punctuation(self.schema, patterns), closed)
        return grown

    def _close(self, q: Punctuation, closed: IntervalSet) -> list[Grown]:
        """Take note that some instants are closed for q, and of what follows for what q has in common with others."""
        near = [] if self._ended.value else self._outlines.overlapping(q)
        before = self._covering(q, near)
        whole = _union(self.type, [before, closed])
        fresh = closed & ~before
        if not len(fresh):
            again = self._ownership.needs(q)  # others may be unable to say what implies it
            return [Grown(q, IntervalSet(self.type), _touched(before, closed))] if again else []
        grown = [Grown(q, before, _touched(whole, fresh))]
        is_for_ever = len(whole) == 1 and spans_of(whole)[0] == self.ends
        for both in _common(q, [r for r in near if not covers(r, q)]):
            known = self._covering(both, near)
            spans = _touched(_union(self.type, [known, closed]), fresh)
            if not set(spans) <= set(grown[0].spans) and len(fresh & ~known):
                grown.append(Grown(both, known, spans))
        for r in near:
            if r != q and covers(q, r) and not len(self._values(r) & ~whole):
                self._forget(r)
                if self._ownership.needs(r):
                    grown.append(Grown(r, IntervalSet(self.type), _touched(whole, fresh)))
        if is_for_ever:
            self._forget(q)
            self._ended.value |= q.is_everything
        else:
            self._retain(q, closed)
        return grown

    def _covering(self, q: Punctuation, near: Iterable[Punctuation]) -> IntervalSet:
        """What is closed for all of q."""
        if self._ended.value:
            return IntervalSet.everything(self.type)
        return _union(self.type, [self._values(r) for r in near if covers(r, q)])

    def _values(self, q: Punctuation) -> IntervalSet:
        return self._rows.values(Row(self._place, q))

    def _retain(self, q: Punctuation, closed: IntervalSet) -> None:
        self._rows.add_values(Row(self._place, q), closed)
        self._outlines.add(q)

    def _forget(self, q: Punctuation) -> None:
        if q in self._outlines:
            self._rows.remove([Row(self._place, q)])
            self._outlines.remove(q)

    # As a part of the state

    def __len__(self) -> int:
        return 0 if self._ended.value else len(self._rows)

    def snapshot(self) -> Snapshot:
        """What is retained, for a checkpoint."""
        return snapshot_of({"rows": self._rows, "ended": self._ended})

    def restore(self, snapshot: Snapshot) -> None:
        """Take what a snapshot retained."""
        restore({"rows": self._rows, "ended": self._ended}, snapshot)
        self._outlines = PunctuationSet(self.schema, (row.outline for row in self._rows))


_PATIENCE = 256
"""How many things in common with others are looked at: a bound on what many overlaps can cost.

Giving up loses a promise, never the truth.
"""


def _common(q: Punctuation, others: Iterable[Punctuation]) -> list[Punctuation]:
    """What q has in common with one or several of others, each once, without q."""
    found: dict[Punctuation, None] = {}
    for r in others:
        for one in [q, *found][:_PATIENCE]:
            both = combine(one, r)
            if both is not None and both != q:
                found[both] = None
    return list(found)


def _union(type_: Type, sets: Sequence[IntervalSet]) -> IntervalSet:
    """The values that any of some sets has, as a set of its own."""
    firsts, lasts = ([end for s in sets for end in s.bounds[side].tolist()] for side in (0, 1))
    return IntervalSet.of_bounds(type_, firsts, lasts)


def spans_of(instants: IntervalSet) -> list[Span]:
    """The intervals of a set, by their first and last ordinals."""
    return list(zip(*(bound.tolist() for bound in instants.bounds), strict=True))


def _touched(whole: IntervalSet, part: IntervalSet) -> list[Span]:
    """The intervals of a set that have something of a part of it."""
    (firsts, lasts), (begins, _) = whole.bounds, part.bounds
    at = np.minimum(begins.searchsorted(firsts), len(begins) - 1)
    has = (begins[at] >= firsts) & (begins[at] <= lasts)
    return list(zip(firsts[has].tolist(), lasts[has].tolist(), strict=True))
