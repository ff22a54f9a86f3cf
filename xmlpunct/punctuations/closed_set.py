"""The closed set: the tuples that punctuations match, as intervals of one attribute for each pattern of the rest.

``<S1, [5,9]>`` closes the hours 5 to 9 for S1. The set stores it as a *row*: the *outline* ``<S1, *>`` and an
`IntervalSet` of hours. All punctuations with this outline share the row. So a stream that closes hour after hour, or
item after item, takes as many intervals as there are gaps between its hours or items.

A policy of the instance says which rows may be forgotten: rows that a later punctuation covers (``drops_implied``), the
oldest rows beyond a ``limit``, or none. Forgetting delays a punctuation, and never makes one untrue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import prod
from typing import NamedTuple

import polars as pl

from xmlpunct.base.frames import Snapshot
from xmlpunct.punctuations.grid import Axis, Part, first_open
from xmlpunct.punctuations.punctuation import Punctuation, combine, covers, from_frame, to_frame
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_index import FEW_PUNCTUATIONS
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.punctuations.single_attribute import closed_values, closes_all
from xmlpunct.schema import Schema
from xmlpunct.types import pattern as pt
from xmlpunct.types.cut_points import Interval, between
from xmlpunct.types.interval_set import IntervalSet
from xmlpunct.types.ordinals import is_numbered
from xmlpunct.types.pattern import WILDCARD, Range, interval

REMEMBERED = 128
"""The limit for punctuations that are remembered to be combined with new ones: it bounds the work for each of these.

A stream that closes values in order needs one interval.
"""
LARGEST_GRID = 10_000
"""The most cells of a grid that are searched: a bound on what many overlapping rows can cost."""


class Row(NamedTuple):
    """Names a row: its outline, and the position of the attribute whose closed values it has.

    The position -1 stands for no attribute: the row is the punctuation ``outline`` itself.
    """

    position: int
    outline: Punctuation


class ClosedSet:
    """The closed tuples of a stream, as rows of closed intervals.

    >>> s = Schema.parse("sid STRING, hour INT")
    >>> closed = ClosedSet(s)
    >>> closed.update(Punctuation.of(s, sid="S1", hour=hour) for hour in (5, 6, 8))
    >>> for row in closed:
    ...     print(row.outline, closed.values(row))
    <S1, *> [5,6] 8
    """

    def __init__(self, schema: Schema, *, limit: int | None = None, drops_implied: bool = False) -> None:
        self.schema, self._limit, self._drops_implied = schema, limit, drops_implied
        self._end = Row(-1, Punctuation.everything(schema))
        self._rows: dict[Row, IntervalSet | None] = {}
        """The closed values of each row, the oldest row first; None for the position -1."""
        self._outlines: PunctuationSet | None = None
        """The outlines of all rows, from the first call of `overlapping_rows` with many rows on."""
        self._positions: dict[Punctuation, list[int]] = {}
        """The positions of the rows of each outline."""

    # Adding

    def add(self, p: Punctuation, position: int) -> Row:
        """Add a punctuation to the row for its values at ``position``, or to a row of -1 if it has ``*`` there.

        >>> s = Schema.parse("sid STRING, hour INT")
        >>> closed = ClosedSet(s)
        >>> row = closed.add(Punctuation.of(s, sid="S1", hour=5), 1)
        >>> row.position, str(row.outline)
        (1, '<S1, *>')
        """
        if position < 0 or p.patterns[position] is WILDCARD:
            row = Row(-1, p)
            if row not in self._rows:
                self._insert(row, None)
            return row
        row = Row(position, p.with_pattern(position, WILDCARD))
        self._values_of(row).add(p.patterns[position])
        return row

    def add_values(self, row: Row, values: IntervalSet) -> None:
        """Add closed values to a row."""
        self._values_of(row).update(values)

    def update(self, punctuations: Iterable[Punctuation]) -> None:
        """Add punctuations, each to the row where it is likeliest to touch other ones; forget rows by the policy.

        A columnar batch is one row. If it has more intervals than the limit, it is not remembered.

        >>> s = Schema.parse("sid STRING, hour INT")
        >>> closed = ClosedSet(s, limit=2)
        >>> closed.update([Punctuation.of(s, sid="S1", hour=hour) for hour in (3, 5, 7, 8)])
        >>> closed.overlapping(Punctuation.everything(s))
        [Punctuation(<S1, 5>), Punctuation(<S1, [7,8]>)]
        """
        for part in PunctuationBatch.of(punctuations).parts:
            if part.position is not None:
                self._add_column(part, part.position)
                continue
            for p in part:
                new = self.add(p, fusing_position(p))
                if self._drops_implied:
                    self.remove([r for r in self.overlapping_rows(p) if r != new and self._is_within(r, p)])
        self._forget_oldest()

    def _add_column(self, batch: PunctuationBatch, position: int) -> None:
        if self._limit is not None and len(batch) > self._limit:
            if not is_numbered(self.schema.attributes[position].type):
                return
            values = closed_values(batch)
            if len(values) > self._limit:
                return
        else:
            values = closed_values(batch)
        self.add_values(Row(position, self._end.outline), values)

    def _is_within(self, row: Row, p: Punctuation) -> bool:
        """Whether ``p`` covers a row. Only the end covers the end."""
        if row.position < 0:
            return False
        ends = self.values(row).ends
        pattern = WILDCARD if ends is None else between(self.schema.attributes[row.position].type, *ends)
        return covers(p, row.outline.with_pattern(row.position, pattern))

    def _values_of(self, row: Row) -> IntervalSet:
        """The closed values of a row, which is created if necessary."""
        values = self._rows.get(row)
        if values is None:
            values = IntervalSet(self.schema.attributes[row.position].type)
            self._insert(row, values)
        return values

    def _insert(self, row: Row, values: IntervalSet | None) -> None:
        self._rows[row] = values
        if self._outlines is not None:
            self._index(row)

    def _index(self, row: Row) -> None:
        assert self._outlines is not None
        self._outlines.add(row.outline)
        self._positions.setdefault(row.outline, []).append(row.position)

    # Forgetting

    def remove(self, rows: Iterable[Row]) -> None:
        """Remove rows; ignore any that the set does not contain."""
        for row in rows:
            if row in self._rows:
                del self._rows[row]
                if self._outlines is not None:
                    self._positions[row.outline].remove(row.position)
                    if not self._positions[row.outline]:
                        del self._positions[row.outline]
                        self._outlines.remove(row.outline)

    def remove_covered(self, punctuations: PunctuationBatch) -> None:
        """Remove the rows whose outlines one of ``punctuations`` covers.

        >>> s = Schema.parse("sid STRING, hour INT")
        >>> closed = ClosedSet(s)
        >>> closed.update(Punctuation.of(s, sid=sid, hour=5) for sid in ("S1", "S2"))
        >>> closed.remove_covered(PunctuationBatch.of_column(s, 0, pl.Series(["S1"])))
        >>> [str(row.outline) for row in closed]
        ['<S2, *>']
        """
        for part in punctuations.parts:
            needs_all = part.position is None or len(self._rows) > FEW_PUNCTUATIONS or closes_all(part)
            if not needs_all and not any(part.position in row.outline.constrained for row in self._rows):
                continue
            for p in part:
                self.remove([row for row in self.overlapping_rows(p) if covers(p, row.outline)])

    def leave(self, punctuations: Iterable[Punctuation], is_needed: Callable[[Punctuation], bool]) -> None:
        """Forget the closed punctuations that overlap one of ``punctuations`` and are not needed.

        >>> s = Schema.parse("sid STRING, hour INT")
        >>> closed = ClosedSet(s)
        >>> closed.update(Punctuation.of(s, hour=hour) for hour in (5, 7))
        >>> closed.leave([Punctuation.of(s, hour=5)], lambda q: False)
        >>> closed.overlapping(Punctuation.everything(s))
        [Punctuation(<*, 7>)]
        """
        for row, reached in self._reached(punctuations).items():
            values = self._rows[row]
            if values is None:
                is_gone = not is_needed(row.outline)
            else:
                for pattern in values if reached is None else values.overlapping(reached):
                    if not is_needed(row.outline.with_pattern(row.position, pattern)):
                        values.remove(pattern)
                is_gone = not len(values)
            if is_gone:
                self.remove([row])

    def _reached(self, punctuations: Iterable[Punctuation]) -> dict[Row, IntervalSet | None]:
        """The rows that overlap one of some punctuations, each with the values that these have there; None for all."""
        reached: dict[Row, IntervalSet | None] = {}
        for p in punctuations:
            for row in self.overlapping_rows(p):
                if row.position < 0 or (pattern := p.patterns[row.position]) is WILDCARD:
                    reached[row] = None
                elif row not in reached:
                    reached[row] = IntervalSet(self.schema.attributes[row.position].type, [pattern])
                elif (values := reached[row]) is not None:
                    values.add(pattern)
        return reached

    def _forget_oldest(self) -> None:
        """Forget the oldest rows, and of one row the lowest intervals, while there are more than the limit."""
        excess = 0 if self._limit is None else len(self) - self._limit
        for row in list(self._rows) if excess > 0 else ():
            if row == self._end:
                continue
            values = self._rows[row]
            if values is not None and len(values) > excess:
                values.forget(excess)
                return
            self.remove([row])
            excess -= 1 if values is None else len(values)
            if not excess:
                return

    # Reading

    @property
    def has_end(self) -> bool:
        """Whether the end of the stream is in the set."""
        return self._end in self._rows

    def values(self, row: Row) -> IntervalSet:
        """The closed values of a row; empty if the set does not contain the row."""
        values = self._rows.get(row)
        return IntervalSet(self.schema.attributes[row.position].type) if values is None else values

    def overlapping_rows(self, p: Punctuation, position: int | None = None) -> list[Row]:
        """The rows whose outline some tuple can match together with ``p``; only rows of one position, if given.

        >>> s = Schema.parse("sid STRING, hour INT")
        >>> closed = ClosedSet(s)
        >>> rows = [closed.add(Punctuation.of(s, sid=sid, hour=5), 1) for sid in ("S1", "S2")]
        >>> closed.overlapping_rows(Punctuation.of(s, sid="S2")) == rows[1:]
        True
        """
        if len(self._rows) <= FEW_PUNCTUATIONS:
            rows = self._rows if position is None else [row for row in self._rows if row.position == position]
            return [row for row in rows if combine(row.outline, p) is not None]
        if self._outlines is None:
            self._outlines, self._positions = PunctuationSet(self.schema), {}
            for row in self._rows:
                self._index(row)
        return [
            Row(i, outline)
            for outline in self._outlines.overlapping(p)
            for i in self._positions[outline]
            if position is None or i == position
        ]

    def overlapping(self, p: Punctuation) -> list[Punctuation]:
        """The closed punctuations that some tuple can match together with ``p``.

        >>> s = Schema.parse("sid STRING, hour INT")
        >>> closed = ClosedSet(s)
        >>> closed.update(Punctuation.of(s, sid="S1", hour=hour) for hour in (5, 6, 8))
        >>> closed.overlapping(Punctuation.of(s, hour="(,7]"))
        [Punctuation(<S1, [5,6]>)]
        """
        overlaps = []
        for row in self.overlapping_rows(p):
            if row.position < 0:
                overlaps.append(row.outline)
            else:
                patterns = self.values(row).overlapping(p.patterns[row.position])
                overlaps += [row.outline.with_pattern(row.position, pattern) for pattern in patterns]
        return overlaps

    def overlaps(self, p: Punctuation) -> bool:
        """Whether some tuple can match a closed punctuation together with ``p``."""
        return any(
            row.position < 0 or bool(len(self.values(row).overlapping(p.patterns[row.position])))
            for row in self.overlapping_rows(p)
        )

    def may_overlap(self, batch: PunctuationBatch) -> bool:
        """Whether `overlaps` may hold for a punctuation of a batch; False is certain.

        >>> s = Schema.parse("hour INT")
        >>> closed = ClosedSet(s)
        >>> closed.update([Punctuation.of(s, hour="[0,9]")])
        >>> closed.may_overlap(PunctuationBatch.of_column(s, 0, pl.Series([12, 15])))
        False
        """
        if not len(self) or not len(batch):
            return False
        if batch.position is None or batch.ranged:
            return True
        type_, values = self.schema.attributes[batch.position].type, batch.values
        hull = interval(type_, values.min(), values.max(), True, True)
        return self.overlaps(self._end.outline.with_pattern(batch.position, hull))

    def covers(self, p: Punctuation) -> bool:
        """Whether one row contains all tuples that ``p`` matches.

        >>> s = Schema.parse("sid STRING, hour INT")
        >>> closed = ClosedSet(s)
        >>> closed.update([Punctuation.of(s, hour="[5,9]")])
        >>> closed.covers(Punctuation.of(s, hour=7)), closed.covers(Punctuation.of(s, sid="S1"))
        (True, False)
        """
        return any(
            covers(row.outline, p) and (row.position < 0 or self.values(row).covers(p.patterns[row.position]))
            for row in self.overlapping_rows(p)
        )

    def cover(self, p: Punctuation) -> bool:
        """Whether all rows together contain all tuples that ``p`` matches and the schema allows.

        Only the end covers the end. The answer is exact for grids of at most `LARGEST_GRID` cells. For larger grids
        only rows that differ in one attribute are taken together.

        >>> s = Schema.parse("sid STRING, hour INT")
        >>> closed = ClosedSet(s)
        >>> closed.update(Punctuation.of(s, hour=hour) for hour in (5, 6, 7))
        >>> closed.cover(Punctuation.of(s, hour="[5,7]")), closed.cover(Punctuation.of(s, sid="S1"))
        (True, False)
        """
        if p.is_everything:
            return self.has_end
        attributes = self.schema.attributes
        near = ClosedSet(self.schema)  # the rows, with ``*`` for patterns that cover those of ``p``
        for position, outline in self.overlapping_rows(p):
            kept = [
                WILDCARD if q is WILDCARD or pt.covers(q, attributes[i].reach(p.patterns[i])) else q
                for i, q in enumerate(outline.patterns)
            ]
            values, reach = (
                self.values(Row(position, outline)),
                attributes[position].reach(p.patterns[position]),
            )
            if position < 0 or values.covers(reach):
                left = Punctuation(self.schema, kept)
                if left.is_everything:
                    return True
                near.add(left, left.constrained[-1])
            else:
                near.add_values(Row(position, Punctuation(self.schema, kept)), values.overlapping(reach))
        rows = list(near)
        positions = {i for row in rows for i in (row.position, *row.outline.constrained)}
        within = {i: attributes[i].reach(p.patterns[i]) for i in sorted(positions)}
        if any(near.values(row).covers(within[row.position]) for row in rows if row.outline.is_everything):
            return True
        parts = {i: Part.of(attributes[i], reach) for i, reach in within.items()}
        if len(rows) < 2 or not all(near.may_span(part, rows, i) for i, part in parts.items()):
            return False
        axes = [Axis(attributes[i], [near.part(row, i) for row in rows], within=parts[i]) for i in within]
        is_small = prod(len(axis.cells) for axis in axes) <= LARGEST_GRID
        return is_small and first_open(axes, (1 << len(rows)) - 1) is None

    def may_span(self, within: Part, rows: Iterable[Row], position: int) -> bool:
        """Whether some rows may contain all values of an attribute that are ``within``; False is certain."""
        if within.null and not any(
            row.position != position and row.outline.patterns[position] is WILDCARD for row in rows
        ):
            return False
        if not within.intervals:
            return True
        low, high = within.intervals[0][0], within.intervals[-1][1]
        ends = [pair for row in rows if (pair := self.ends(row, position)) is not None]
        return any(first <= low for first, _ in ends) and any(last >= high for _, last in ends)

    def part(self, row: Row, position: int) -> Part:
        """The values that a row has of the attribute at a position."""
        if row.position == position:
            return Part(tuple(self.values(row).intervals()), False)
        return Part.of(self.schema.attributes[position], row.outline.patterns[position])

    def ends(self, row: Row, position: int) -> Interval | None:
        """The first and the last cut of `part`; None if it has no value but null."""
        if row.position == position:
            return self.values(row).ends
        intervals = Part.of(self.schema.attributes[position], row.outline.patterns[position]).intervals
        return (intervals[0][0], intervals[-1][1]) if intervals else None

    def missing(self, p: Punctuation, position: int) -> IntervalSet:
        """The values that ``p`` has at a position and the row of its outline has not."""
        return self.values(Row(position, p.with_pattern(position, WILDCARD))).missing(p.patterns[position])

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __len__(self) -> int:
        """The number of intervals, and of rows of the position -1."""
        return sum(1 if values is None else len(values) for values in self._rows.values())

    # As a part of the state

    def snapshot(self) -> Snapshot:
        """The rows, for a checkpoint, as punctuations with their positions."""
        if not self._rows:
            return {}
        positions, punctuations = [], []
        for row, values in self._rows.items():
            for pattern in [None] if values is None else values:
                positions.append(row.position)
                punctuations.append(
                    row.outline if pattern is None else row.outline.with_pattern(row.position, pattern)
                )
        frame = to_frame(self.schema, punctuations)
        return {"rows": frame.insert_column(0, pl.Series("$position", positions, dtype=pl.Int64()))}

    def restore(self, snapshot: Snapshot) -> None:
        """Replace the rows by the ones of a snapshot."""
        self._rows, self._outlines = {}, None
        for frame in snapshot.values():
            for position, p in zip(
                frame["$position"], from_frame(self.schema, frame.drop("$position")), strict=True
            ):
                self.add(p, position)


def fusing_position(p: Punctuation) -> int:
    """The attribute in which the next punctuation is likeliest to touch ``p``; -1 for the end.

    >>> s = Schema.parse("sid STRING, hour INT")
    >>> fusing_position(Punctuation.of(s, sid="S1", hour=5)), fusing_position(Punctuation.of(s, sid="(,S5]", hour=5))
    (1, 0)
    """
    types = p.schema.attributes
    return max(
        p.constrained, default=-1, key=lambda i: (isinstance(p.patterns[i], Range), types[i].type.discrete, i)
    )
