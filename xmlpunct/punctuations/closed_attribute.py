"""The closed values of one attribute, for patterns of the other attributes, and how they grow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from xmlpunct.base import frames
from xmlpunct.base.frames import Snapshot
from xmlpunct.punctuations.closed_set import ClosedSet, Row
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.ownership import ANYTHING
from xmlpunct.punctuations.punctuation import Punctuation, combine, covers
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.punctuations.single_attribute import closed_values
from xmlpunct.schema import Schema
from xmlpunct.types import Type
from xmlpunct.types import pattern as pt
from xmlpunct.types.cut_points import Cut, cuts, ends, value_at
from xmlpunct.types.interval_set import IntervalSet
from xmlpunct.types.pattern import EMPTY, WILDCARD, Pattern

MANY = 256
"""The most intersections of outlines that are considered at once: a bound on what many overlaps can cost.

Giving up delays a punctuation, and never makes one untrue.
"""


@dataclass(frozen=True)
class Growth:
    """Newly closed values of the attribute, for all tuples that ``outline`` matches.

    ``values`` has the closed intervals that have grown, each with its old and its new values. If the growth has to be
    emitted again for other shards, all values count as new.
    """

    outline: Punctuation
    values: IntervalSet
    new_values: IntervalSet

    @property
    def old_values(self) -> IntervalSet:
        """The values of the intervals that are not new."""
        return self.new_values.missing(self.values)


class ClosedAttribute:
    """The values of the attribute ``name`` that punctuations have closed, for each pattern of the other attributes.

    Several punctuations can match a tuple. All values that they close for the tuple are one set, so each `Growth` has
    whole intervals, also for the intersections of outlines. Values outside of a declared domain, or of the pattern
    ``possible``, are closed from the start. Null is closed by ``*`` alone, and belongs to no interval.

    With ``keys``, outlines have patterns of these attributes only. A punctuation counts once it closes all values of
    the remaining attributes, alone or jointly (`JointCover`).

    Intervals are forgotten if another outline covers them. With ``forgets_complete``, outlines for which all values are
    closed are forgotten: the operator drops their tuples, so it needs no more of their intersections. With
    ``prefixes_only``, the operator needs only intervals that begin with the least value of the type. So a prefix that
    is closed for all tuples is compared with the outlines that it overtakes, not with the outlines ahead of it.

    >>> s = Schema.parse("sid STRING, hour INT")
    >>> closed = ClosedAttribute(s, "hour")
    >>> def add(**patterns):
    ...     grown = closed.add([Punctuation.of(s, **patterns)])
    ...     print(*(f"{growth.outline}: {growth.values}" for growth in grown))
    >>> add(hour="[0,5]")
    <*, *>: [0,5]
    >>> add(sid="S1", hour="[6,9]")
    <S1, *>: [0,9]
    >>> add(hour="[6,7]")
    <*, *>: [0,7]
    """

    def __init__(
        self,
        schema: Schema,
        name: str,
        keys: Sequence[str] | None = None,
        possible: Pattern = WILDCARD,
        forgets_complete: bool = False,
        prefixes_only: bool = False,
    ) -> None:
        self._forgets_complete = forgets_complete
        self._positions = [*range(len(schema))] if keys is None else [schema.index(n) for n in (*keys, name)]
        self.schema = schema if keys is None else Schema.of(schema.attributes[i] for i in self._positions)
        """The schema of the outlines."""
        self.joint = JointCover(schema, set(range(len(schema))).difference(self._positions))
        """The joint cover over the attributes that the outlines lack."""
        self._everything = Punctuation.everything(self.schema)
        self._rows = ClosedSet(self.schema)
        self._frontier = _Frontier(self._rows) if prefixes_only else None
        self.ownership = ANYTHING
        """The outlines that must be returned although implied."""
        self._every = [
            None if a.nullable else pt.interval(a.type, None, None, False, False) for a in self.schema
        ]
        """The pattern of all values of each NOT NULL attribute."""
        attribute, self._position = self.schema[name], self.schema.index(name)
        self.type = attribute.type
        reach = pt.intersect(attribute.domain, possible)
        self._outside = IntervalSet(self.type)
        if reach is not WILDCARD:
            self._outside = ~IntervalSet(self.type, [reach])

    def position_of(self, name: str) -> int:
        """The position in the input of an attribute of the outlines."""
        return self._positions[self.schema.index(name)]

    @property
    def opening(self) -> list[Growth]:
        """The values that are closed from the start."""
        outside = self._outside
        return [Growth(self._everything, outside, outside)] if len(outside) else []

    @property
    def is_simple(self) -> bool:
        """Whether a punctuation that leaves the attribute open closes itself only, and forgets nothing."""
        return not len(self.joint) and all(row.outline.is_everything for row in self._rows)

    def add(
        self, punctuations: Sequence[Punctuation], is_needed: Callable[[Pattern], bool] | None = None
    ) -> list[Growth]:
        """Receive punctuations; return one growth for each outline whose closed values have grown.

        Intersections of outlines are looked for only if ``is_needed`` holds for one of the intervals that they can have
        together. It must hold for all intervals that contain an interval for which it holds.
        """
        batch = PunctuationBatch.of(punctuations)
        if self.schema is not self.joint.schema:
            batch = self.joint.add(batch).rebase(self.schema, self._positions)
        grown = dict[Punctuation, Growth]()
        for part in batch.parts:
            if part.position == self._position:
                self._close(self._everything, closed_values(part), is_needed, grown)
            else:
                self._close_each(part, is_needed, grown)
        return list(grown.values())

    def _close_each(
        self,
        batch: PunctuationBatch,
        is_needed: Callable[[Pattern], bool] | None,
        grown: dict[Punctuation, Growth],
    ) -> None:
        """Record what single punctuations close; add the growth to ``grown``."""
        for p in batch:
            patterns = list(p.patterns)
            for i in p.constrained:
                patterns[i] = self._possible(i, patterns[i])
            if EMPTY in patterns:
                continue
            at, patterns[self._position] = patterns[self._position], WILDCARD
            values = IntervalSet.everything(self.type) if at is WILDCARD else IntervalSet(self.type, [at])
            self._close(Punctuation(self.schema, patterns), values, is_needed, grown)

    def _possible(self, position: int, pattern: Pattern) -> Pattern:
        """A pattern of an attribute; ``*`` if it leaves no value open, ``{}`` if no tuple can match it."""
        attribute = self.schema.attributes[position]
        if attribute.domain is WILDCARD:
            return WILDCARD if pattern == self._every[position] else pattern
        if attribute.reach(pattern) is EMPTY:
            return EMPTY
        return WILDCARD if attribute.closed_by(pattern) else pattern

    def _close(
        self,
        outline: Punctuation,
        values: IntervalSet,
        is_needed: Callable[[Pattern], bool] | None,
        grown: dict[Punctuation, Growth],
    ) -> None:
        """Record that values are closed for an outline; add the growth to ``grown``."""
        row = Row(self._position, outline)
        is_frontier = self._frontier is not None and outline.is_everything
        overlapping = [] if is_frontier else self._overlapping_rows(row)
        wider = self._closed_by(overlapping, outline)
        new = self._united([*wider, self._rows.values(row)]).missing(values)
        if not len(new):
            if self.ownership.needs(outline):  # other shards may be unable to emit punctuations that imply it
                repeated = self._united([*wider, self._rows.values(row)]).overlapping(values)
                _record(grown, Growth(outline, repeated, repeated))
            return
        self._rows.add_values(row, values)
        closed = self._united([*wider, self._rows.values(row)])
        growth = Growth(outline, closed.overlapping(new), new)
        _record(grown, growth)
        if self._frontier is not None:
            if is_frontier:
                overtaken = self._frontier.overtaken(growth.values)
                overlapping = self._overlapping_rows(row) if overtaken is None else overtaken
            else:
                self._frontier.add(row)
        further: list[Row] = []
        for r in overlapping:
            if not closed.covers(self._rows.values(r)):
                further += [] if self._rows.values(r).covers(new) else [r]
            elif covers(outline, r.outline):
                self._rows.remove([r])
                grown.pop(r.outline, None)
                if self.ownership.needs(r.outline):
                    _record(grown, Growth(r.outline, growth.values, growth.values))
        if further:
            self._intersect(growth, closed, further, is_needed, grown)
        if self._forgets_complete and _is_all(closed):
            self._rows.remove([row])
            if outline.is_everything:  # `_has_ended`
                self._rows.add_values(row, closed)

    def _intersect(
        self,
        growth: Growth,
        closed: IntervalSet,
        further: Sequence[Row],
        is_needed: Callable[[Pattern], bool] | None,
        grown: dict[Punctuation, Growth],
    ) -> None:
        """Add the larger intervals of the intersections with outlines that have further values.

        ``closed`` are all values that are closed for the outline now.
        """
        row = Row(self._position, growth.outline)
        if is_needed is not None:
            largest = united(self.type, [closed, *map(self._rows.values, further)])
            if not any(map(is_needed, largest.overlapping(growth.new_values))):
                return
        for intersection in _intersections(growth.outline, further):
            overlapping = [r for r in self._rows.overlapping_rows(intersection) if r != row]
            wider = self._united(self._closed_by(overlapping, intersection))
            new = wider.missing(growth.new_values)
            if len(new):
                values = united(self.type, [wider, self._rows.values(row)]).overlapping(new)
                if not set(values.intervals()) <= set(growth.values.intervals()):
                    _record(grown, Growth(intersection, values, new))

    def _overlapping_rows(self, row: Row) -> list[Row]:
        """The other rows whose outlines overlap the outline of a row."""
        return [r for r in self._rows.overlapping_rows(row.outline) if r != row]

    def _closed_by(self, rows: Iterable[Row], outline: Punctuation) -> list[IntervalSet]:
        """The sets of values that some rows, or the domain, close for all tuples that an outline matches."""
        outside = [self._outside] if len(self._outside) else []
        return [*outside, *(self._rows.values(r) for r in rows if covers(r.outline, outline))]

    def _united(self, sets: Sequence[IntervalSet]) -> IntervalSet:
        """The values that any of the sets has. A single set is not copied."""
        return sets[0] if len(sets) == 1 else united(self.type, sets)

    def open(self, outline: Punctuation) -> IntervalSet:
        """The values that are not closed for all tuples that an outline matches.

        >>> s = Schema.parse("hour INT, temp INT CHECK (temp BETWEEN 0 AND 99)")
        >>> closed = ClosedAttribute(s, "temp")
        >>> _ = closed.add([Punctuation.of(s, hour=5, temp="[80,89]"), Punctuation.of(s, temp="[90,)")])
        >>> print(closed.open(Punctuation.of(s, hour=5)))
        [0,79]
        """
        return ~self._united(self._closed_by(self._rows.overlapping_rows(outline), outline))

    def punctuations(self, grown: Iterable[Growth]) -> list[Punctuation]:
        """The intervals that have grown, as punctuations over the outlines' schema.

        >>> s = Schema.parse("hour INT, temp INT CHECK (temp BETWEEN 0 AND 99)")
        >>> closed = ClosedAttribute(s, "temp")
        >>> closed.punctuations(closed.opening)
        [Punctuation(<*, (,-1]>), Punctuation(<*, [100,)>)]
        """
        return [
            growth.outline.with_pattern(self._position, interval)
            for growth in grown
            for interval in growth.values
        ]

    def forget(self, closed: PunctuationBatch) -> None:
        """Forget the outlines that punctuations on other attributes cover: no tuple asks for them any more."""
        self._rows.remove_covered(closed)

    # As a part of the state

    def __len__(self) -> int:
        return 0 if self._has_ended else len(self.joint) + len(self._rows)

    @property
    def _has_ended(self) -> bool:
        """Whether nothing more is to be retained."""
        return self._forgets_complete and _is_all(self._rows.values(Row(self._position, self._everything)))

    @property
    def _parts(self) -> dict[str, frames.SnapshotPart]:
        return {"joint": self.joint, "rows": self._rows}

    def snapshot(self) -> Snapshot:
        """The closed values, for a checkpoint."""
        return frames.snapshot_of(self._parts)

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the closed values from a snapshot."""
        frames.restore(self._parts, snapshot)
        if self._frontier is not None:
            for row in self._rows:
                self._frontier.add(row)


class _Frontier:
    """The rows of `ClosedAttribute` by the ends of their prefixes, without the row of all tuples."""

    def __init__(self, rows: ClosedSet) -> None:
        self._rows = rows
        self._prefixes: list[tuple[Cut, int, Row]] = []
        """A heap of the rows that are one prefix, by its end; it may contain old versions of rows."""
        self._gapped: dict[Row, None] = {}
        """The rows with values after a gap; it may contain removed rows."""
        self._added, self._many = 0, 64

    def add(self, row: Row) -> None:
        """Add a row whose values have changed."""
        if row.outline.is_everything:
            return
        end = self._end(row)
        if end is None:
            self._gapped[row] = None
            return
        self._gapped.pop(row, None)
        if len(self._prefixes) > self._many:
            self._prefixes = [(e, i, r) for e, i, r in self._prefixes if self._end(r) == e]
            heapify(self._prefixes)
            self._many = 2 * len(self._prefixes) + 64
        self._added += 1
        heappush(self._prefixes, (end, self._added, row))

    def _end(self, row: Row) -> Cut | None:
        """The end of the prefix that a row consists of; None if it has other values."""
        values = self._rows.values(row)
        first = values.ends
        return (
            first[1] if first is not None and len(values) == 1 and first[0] == ends(values.type)[0] else None
        )

    def overtaken(self, values: IntervalSet) -> list[Row] | None:
        """The rows that a prefix of all tuples reaches or overtakes; None if ``values`` is no prefix."""
        interval = values.ends
        if interval is None or len(values) != 1 or interval[0] != ends(values.type)[0]:
            return None
        rows = {row: None for row in self._gapped if len(self._rows.values(row))}
        self._gapped = dict(rows)
        while self._prefixes and self._prefixes[0][0] <= interval[1]:
            end, _, row = heappop(self._prefixes)
            if self._end(row) == end:
                rows[row] = None
        return list(rows)


def _record(grown: dict[Punctuation, Growth], growth: Growth) -> None:
    """Add a growth; an outline that has grown several times has the union."""
    if (earlier := grown.get(growth.outline)) is not None:
        type_ = growth.values.type
        values = united(type_, [earlier.values, growth.values])
        growth = Growth(growth.outline, values, united(type_, [earlier.new_values, growth.new_values]))
    grown[growth.outline] = growth


def _intersections(outline: Punctuation, rows: Iterable[Row]) -> PunctuationSet:
    """The intersections of an outline with the outlines of one or several rows, without the outline itself."""
    intersections = PunctuationSet(outline.schema)
    for r in rows:
        for q in [outline, *intersections.overlapping(r.outline)][:MANY]:
            intersection = combine(q, r.outline)
            if intersection is not None and intersection != outline:
                intersections.add(intersection)
    return intersections


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
