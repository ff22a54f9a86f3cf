"""Spans: which values of one attribute punctuations close together, for which keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xmlpunct.base import frames
from xmlpunct.base.frames import Snapshot
from xmlpunct.punctuations.closed_set import ClosedSet, Row
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.ownership import Ownership
from xmlpunct.punctuations.punctuation import Punctuation, combine, covers
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.types import Type
from xmlpunct.types import pattern as pt
from xmlpunct.types.cut_points import between, cuts, ends, value_at
from xmlpunct.types.interval_set import IntervalSet
from xmlpunct.types.pattern import WILDCARD, Pattern

MANY = 64
"""Of so many overlapping sets of keys at most the spans are united. Giving up loses a promise, never the truth."""


class Spans:
    """The largest intervals of an attribute that are closed, for keys, whatever the other attributes are.

    A span is a punctuation over the keys and the attribute: ``<hour=5, temp=(80,)>``. Punctuations that touch are one
    span, and what the attribute's domain leaves out is closed from the start. Null belongs to no span.

    >>> s = Schema.parse("hour INT, temp INT CHECK (temp BETWEEN 0 AND 99)")
    >>> spans = Spans(s, ["hour"], "temp")
    >>> [str(p) for p in spans.opening()]
    ['<*, (,-1]>', '<*, [100,)>']
    >>> [str(p) for p in spans.add([Punctuation.of(s, hour=5, temp="[80,89]")])]
    ['<5, [80,89]>']
    >>> [str(p) for p in spans.add([Punctuation.of(s, temp="[90,)")])]
    ['<*, [90,)>', '<5, [80,)>']
    """

    def __init__(self, schema: Schema, keys: Sequence[str], name: str) -> None:
        self._places = [schema.index(key) for key in (*keys, name)]
        self.schema = Schema.of(schema.attributes[i] for i in self._places)
        self._joint = JointCover(schema, set(range(len(schema))).difference(self._places))
        self._fused = ClosedSet(self.schema)
        self._outlines = PunctuationSet(self.schema)
        """The keys of what is fused, with ``*`` for the attribute."""
        type_, domain = schema[name].type, schema[name].domain
        self._never = IntervalSet(type_)
        if domain is not WILDCARD:
            self._never = ~IntervalSet(type_, [domain])
        self._every = pt.interval(type_, None, None, False, False)

    def spread(self, ownership: Ownership) -> None:
        """As `JointCover.spread`."""
        self._joint.spread(ownership)

    def place_of(self, name: str) -> int:
        """Where an attribute of the spans stands in the punctuations that come."""
        return self._places[self.schema.index(name)]

    def opening(self) -> list[Punctuation]:
        """What is closed from the start."""
        return self._of([WILDCARD] * (len(self.schema) - 1), self._never)

    def _of(self, keys: Sequence[Pattern], values: IntervalSet) -> list[Punctuation]:
        patterns = (between(values.type, *interval) for interval in values.intervals())
        return [Punctuation(self.schema, (*keys, pattern)) for pattern in patterns]

    def add(
        self, punctuations: Sequence[Punctuation], is_asked: Callable[[Pattern], bool] = lambda _: True
    ) -> list[Punctuation]:
        """Take punctuations; return the spans that they are part of, if their intervals are asked for.

        ``is_asked`` holds for all that is larger than what it holds for: an interval without an end above, say.
        """
        spans: dict[Punctuation, None] = {}
        for c in self._joint.add(punctuations).rebase(self.schema, self._places):
            *keys, pattern = c.patterns
            pattern = self._every if pattern is WILDCARD else pattern
            at = len(keys)
            row = self._fused.add(Punctuation(self.schema, (*keys, pattern)), at)
            own = row.outline
            self._outlines.add(own)
            near = [(own, self._fused.values(row))]
            others = [
                (outline, self._fused.values(Row(at, outline)))
                for outline in self._outlines.overlapping(own)
                if outline != own
            ]
            most = _united(self._never, near[0][1], *(values for _, values in others)).overlapping(pattern)
            if not any(is_asked(span) for span in most):
                continue
            for outline, values in others:
                for keyed, known in near[:MANY]:
                    both = combine(keyed, outline)
                    if both == keyed:
                        near[near.index((keyed, known))] = (keyed, _united(known, values))
                    elif both is not None:
                        near.append((both, _united(known, values)))
            for keyed, known in near:
                touched = _united(known, self._never).overlapping(pattern)
                spans.update(dict.fromkeys(self._of(keyed.patterns[:at], touched)))
        return [span for span in spans if is_asked(span.patterns[at])]

    def open(self, keys: Sequence[Pattern]) -> IntervalSet:
        """The values of the attribute that are not closed for all of some keys.

        >>> s = Schema.parse("hour INT, temp INT CHECK (temp BETWEEN 0 AND 99)")
        >>> spans = Spans(s, ["hour"], "temp")
        >>> _ = spans.add([Punctuation.of(s, hour=5, temp="[80,89]"), Punctuation.of(s, temp="[90,)")])
        >>> print(spans.open([pt.constant(s["hour"].type, 5)]))
        [0,79]
        """
        outline, closed = Punctuation(self.schema, (*keys, WILDCARD)), _united(self._never, self._never)
        for q in self._outlines.overlapping(outline):
            if covers(q, outline):
                closed.update(self._fused.values(Row(len(keys), q)))
        return ~closed

    def forget(self, closed: Sequence[Punctuation]) -> None:
        """Forget the spans of keys for which nobody asks any more: ``closed`` are punctuations over keys and ``*``."""
        at = len(self.schema) - 1
        for c in closed:
            gone = [outline for outline in self._outlines.overlapping(c) if covers(c, outline)]
            self._outlines.discard(gone)
            self._fused.remove(Row(at, outline) for outline in gone)

    def __len__(self) -> int:
        return len(self._joint) + len(self._fused)

    @property
    def _parts(self) -> dict[str, frames.SnapshotPart]:
        return {"joint": self._joint, "fused": self._fused}

    def snapshot(self) -> Snapshot:
        """What is retained, for a checkpoint."""
        return frames.snapshot_of(self._parts)

    def restore(self, snapshot: Snapshot) -> None:
        """Take what a snapshot retained."""
        frames.restore(self._parts, snapshot)
        self._outlines = PunctuationSet(self.schema, (row.outline for row in self._fused))


def _united(first: IntervalSet, *others: IntervalSet) -> IntervalSet:
    """The values of any."""
    union = IntervalSet(first.type)
    for some in (first, *others):
        union.update(some)
    return union


def unbounded(type_: Type, span: Pattern, below: bool) -> bool:
    """Whether nothing lies below, or above, a span."""
    end = int(not below)
    return cuts(span)[0][end] == ends(type_)[end]


def inside(type_: Type, span: Pattern, is_low: bool, strict: bool) -> Pattern:
    """The values x, none of them null, for which a span has all that is at least x, or at most x, up to its other end.

    ``strict``: all that is above x, or below it.

    >>> from xmlpunct.types import INT
    >>> span = pt.interval(INT, 5, 9, True, True)
    >>> [str(inside(INT, span, is_low, strict)) for is_low in (True, False) for strict in (False, True)]
    ['[5,)', '[4,)', '(,9]', '(,10]']
    """
    cut = cuts(span)[0][int(not is_low)]
    if unbounded(type_, span, is_low):
        return pt.interval(type_, None, None, False, False)
    if type_.discrete:
        at = cut[1] - strict if is_low else cut[1] - 1 + strict
        value, closed = type_.at(at), True
    else:
        value, closed = value_at(type_, cut), strict or bool(cut[2]) != is_low
    bounds = (value, None, closed, False) if is_low else (None, value, False, closed)
    return pt.interval(type_, *bounds)
