"""The closed values of one attribute, for patterns of the other attributes, and how they grow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from xmlpunct.base import frames
from xmlpunct.base.frames import Snapshot
from xmlpunct.punctuations.closed_set import ClosedSet, Row, closed_values
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.ownership import ANYTHING, Ownership
from xmlpunct.punctuations.punctuation import Punctuation, combine, covers
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.types import Type
from xmlpunct.types import pattern as pt
from xmlpunct.types.cut_points import cuts, ends, value_at
from xmlpunct.types.interval_set import IntervalSet
from xmlpunct.types.pattern import EMPTY, WILDCARD, Pattern

MANY = 256
"""The most intersections of outlines that are considered at once: a bound on what many overlaps can cost.

Giving up delays a punctuation, and never makes one untrue.
"""


@dataclass(frozen=True)
class Growth:
    """Newly closed values of the attribute, for all tuples that ``outline`` matches.

    ``whole`` has the closed intervals that have grown, each with its old and its new values. ``before`` has all values
    that were closed for the outline before.
    """

    outline: Punctuation
    whole: IntervalSet
    before: IntervalSet


class ClosedAttribute:
    """The values of the attribute ``name`` that punctuations have closed, for each pattern of the other attributes.

    Several punctuations can match a tuple. All values that they close for the tuple are one set, so each `Growth` has
    whole intervals, also for the intersections of outlines. Values outside of a declared domain are closed from the
    start. Null is closed by ``*`` alone, and belongs to no interval.

    With ``keys``, outlines have patterns of these attributes only. A punctuation counts once it closes all values of
    the remaining attributes, alone or jointly (`JointCover`).

    Intervals are forgotten if another outline covers them. With ``forgets_complete``, outlines for which all values are
    closed are forgotten: the operator drops their tuples, so it needs no more of their intersections.

    >>> s = Schema.parse("sid STRING, hour INT")
    >>> closed = ClosedAttribute(s, "hour")
    >>> def add(**patterns):
    ...     grown = closed.add([Punctuation.of(s, **patterns)])
    ...     print(*(f"{growth.outline}: {growth.whole}" for growth in grown))
    >>> add(hour="[0,5]")
    <*, *>: [0,5]
    >>> add(sid="S1", hour="[6,9]")
    <S1, *>: [0,9]
    >>> add(hour="[6,7]")
    <*, *>: [0,7]
    """

    def __init__(
        self, schema: Schema, name: str, keys: Sequence[str] | None = None, forgets_complete: bool = False
    ) -> None:
        self._forgets_complete = forgets_complete
        self._positions = [*range(len(schema))] if keys is None else [schema.index(n) for n in (*keys, name)]
        self.schema = schema if keys is None else Schema.of(schema.attributes[i] for i in self._positions)
        """The schema of the outlines."""
        self._joint = JointCover(schema, set(range(len(schema))).difference(self._positions))
        self._everything = Punctuation.everything(self.schema)
        self._rows = ClosedSet(self.schema)
        self._ownership = ANYTHING
        attribute, self._place = self.schema[name], self.schema.index(name)
        self.type = attribute.type
        self._outside = IntervalSet(self.type)
        if attribute.domain is not WILDCARD:
            self._outside = ~IntervalSet(self.type, [attribute.domain])

    def spread(self, ownership: Ownership) -> None:
        """Run on one of several shards. ``ownership`` is about the input; with keys, it applies to the joint covers."""
        self._joint.spread(ownership)
        if self.schema is self._joint.schema:
            self._ownership = ownership

    def position_of(self, name: str) -> int:
        """The position in the input of an attribute of the outlines."""
        return self._positions[self.schema.index(name)]

    @property
    def opening(self) -> list[Growth]:
        """The values that are closed from the start."""
        is_open = not len(self._outside)
        return [] if is_open else [Growth(self._everything, self._outside, IntervalSet(self.type))]

    @property
    def is_simple(self) -> bool:
        """Whether a punctuation that leaves the attribute open closes nothing beyond itself."""
        return all(row.outline.is_everything for row in self._rows)

    def add(
        self, punctuations: Sequence[Punctuation], is_needed: Callable[[Pattern], bool] = lambda _: True
    ) -> list[Growth]:
        """Receive punctuations; return what has grown.

        Intersections of outlines are looked for only if ``is_needed`` holds for one of the intervals that they can have
        together. It must hold for all intervals that contain an interval for which it holds.
        """
        batch = PunctuationBatch.of(punctuations)
        if self.schema is not self._joint.schema:
            batch = self._joint.add(batch).rebase(self.schema, self._positions)
        if batch.place == self._place:
            return self._close(self._everything, closed_values(batch), is_needed)
        attributes = self.schema.attributes
        grown: list[Growth] = []
        for p in batch:
            if any(attributes[i].reach(p.patterns[i]) is EMPTY for i in p.constrained):
                continue  # no tuple can match it
            patterns = list(p.patterns)
            for i in p.constrained:
                if attributes[i].closed_by(patterns[i]):
                    patterns[i] = WILDCARD
            at, patterns[self._place] = patterns[self._place], WILDCARD
            values = IntervalSet.everything(self.type) if at is WILDCARD else IntervalSet(self.type, [at])
            grown += self._close(Punctuation(self.schema, patterns), values, is_needed)
        return grown

    def _close(
        self, outline: Punctuation, values: IntervalSet, is_needed: Callable[[Pattern], bool]
    ) -> list[Growth]:
        """Record that values are closed for an outline; return what has grown."""
        near = self._outlines_overlapping(outline)
        before = self._closed_for(outline, near)
        fresh = before.missing(values)
        if not len(fresh):
            must_repeat = self._ownership.needs(outline)  # other shards may be unable to emit what implies it
            whole = before.overlapping(values)
            return [Growth(outline, whole, IntervalSet(self.type))] if must_repeat else []
        all_closed = united(self.type, [before, values])
        whole = all_closed.overlapping(fresh)
        grown = [Growth(outline, whole, before)]
        # Outlines with further values: their intersections with this outline have larger intervals.
        further = [r for r in near if not covers(r, outline) and not all_closed.covers(self._values(r))]
        most = united(self.type, [all_closed, *map(self._values, further)]) if further else all_closed
        if further and any(map(is_needed, most.overlapping(fresh))):
            for both in _intersections(outline, further):
                known = self._closed_for(both, near)
                larger = united(self.type, [known, values]).overlapping(fresh)
                is_larger = not set(larger.intervals()) <= set(whole.intervals())
                if is_larger and len(known.missing(fresh)):
                    grown.append(Growth(both, larger, known))
        for r in near:
            if r != outline and covers(outline, r) and all_closed.covers(self._values(r)):
                self._rows.remove([Row(self._place, r)])
                if self._ownership.needs(r):
                    grown.append(Growth(r, whole, IntervalSet(self.type)))
        if self._forgets_complete and _is_all(all_closed) and not outline.is_everything:
            self._rows.remove([Row(self._place, outline)])
        else:
            self._rows.add_values(Row(self._place, outline), values)
        return grown

    def _outlines_overlapping(self, outline: Punctuation) -> list[Punctuation]:
        return [row.outline for row in self._rows.overlapping_rows(outline)]

    def _values(self, outline: Punctuation) -> IntervalSet:
        return self._rows.values(Row(self._place, outline))

    def _closed_for(self, outline: Punctuation, near: Iterable[Punctuation]) -> IntervalSet:
        """The values that are closed for all tuples that an outline matches. ``near`` are the overlapping outlines."""
        return united(self.type, [self._outside, *(self._values(r) for r in near if covers(r, outline))])

    def open(self, outline: Punctuation) -> IntervalSet:
        """The values that are not closed for all tuples that an outline matches.

        >>> s = Schema.parse("hour INT, temp INT CHECK (temp BETWEEN 0 AND 99)")
        >>> closed = ClosedAttribute(s, "temp")
        >>> _ = closed.add([Punctuation.of(s, hour=5, temp="[80,89]"), Punctuation.of(s, temp="[90,)")])
        >>> print(closed.open(Punctuation.of(s, hour=5)))
        [0,79]
        """
        return ~self._closed_for(outline, self._outlines_overlapping(outline))

    def punctuations(self, grown: Iterable[Growth]) -> list[Punctuation]:
        """The intervals that have grown, as punctuations over the outlines' schema.

        >>> s = Schema.parse("hour INT, temp INT CHECK (temp BETWEEN 0 AND 99)")
        >>> closed = ClosedAttribute(s, "temp")
        >>> closed.punctuations(closed.opening)
        [Punctuation(<*, (,-1]>), Punctuation(<*, [100,)>)]
        """
        return [
            growth.outline.with_pattern(self._place, interval)
            for growth in grown
            for interval in growth.whole
        ]

    def forget(self, closed: PunctuationBatch) -> None:
        """Forget the outlines that punctuations on other attributes cover: nobody asks for them any more."""
        for c in closed:
            self._rows.remove([row for row in self._rows.overlapping_rows(c) if covers(c, row.outline)])

    # As a part of the state

    def __len__(self) -> int:
        has_ended = self._forgets_complete and _is_all(self._values(self._everything))
        return 0 if has_ended else len(self._joint) + len(self._rows)

    @property
    def _parts(self) -> dict[str, frames.SnapshotPart]:
        return {"joint": self._joint, "rows": self._rows}

    def snapshot(self) -> Snapshot:
        """The closed values, for a checkpoint."""
        return frames.snapshot_of(self._parts)

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the closed values from a snapshot."""
        frames.restore(self._parts, snapshot)


def _intersections(outline: Punctuation, others: Iterable[Punctuation]) -> list[Punctuation]:
    """The intersections of an outline with one or several others, each once, without the outline itself."""
    intersections: dict[Punctuation, None] = {}
    for r in others:
        for q in [outline, *intersections][:MANY]:
            both = combine(q, r)
            if both is not None and both != outline:
                intersections[both] = None
    return list(intersections)


def _is_all(values: IntervalSet) -> bool:
    """Whether a set has all values of its type."""
    return len(values) == 1 and values.ends == ends(values.type)


def united(type_: Type, sets: Iterable[IntervalSet]) -> IntervalSet:
    """The values that any of the sets has, as a new set."""
    union = IntervalSet(type_)
    for values in sets:
        union.update(values)
    return union


def unbounded(type_: Type, span: Pattern, below: bool) -> bool:
    """Whether nothing lies below, or above, a range."""
    end = int(not below)
    return cuts(span)[0][end] == ends(type_)[end]


def inside(type_: Type, span: Pattern, is_low: bool, strict: bool) -> Pattern:
    """The non-null values x for which a range has all values that are at least x, or at most x, up to its other end.

    ``strict``: all values above x, or below it.

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
