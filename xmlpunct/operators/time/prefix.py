"""The part of an order, from its start, that punctuations have closed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from xmlpunct.base.frames import Snapshot, restore, snapshot_of
from xmlpunct.punctuations.closed_set import ClosedSet, Row
from xmlpunct.punctuations.grid import NULL, Axis, Part, first_open
from xmlpunct.punctuations.pattern_expressions import pattern_expression
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import Value
from xmlpunct.types.cut_points import between, cuts, ends, first_value
from xmlpunct.types.pattern import EMPTY, WILDCARD, Pattern, covers, interval
from xmlpunct.types.pattern_text import parse_pattern


class SortKey(NamedTuple):
    """A column to sort by. Nulls are last in either direction, unless ``nulls_first``."""

    column: str
    descending: bool = False
    nulls_first: bool = False

    def __str__(self) -> str:
        return f"{self.column}{' DESC' * self.descending}{' NULLS FIRST' * self.nulls_first}"


@dataclass(frozen=True, slots=True)
class Level:
    """The closed values of one sort column, for tuples in which each earlier column has the value ``at`` of its level.

    ``null``: null is closed as well. ``at`` is the value at which the next level continues (None: null). ``last``:
    there is no next level.
    """

    closed: Pattern
    null: bool
    at: Value
    last: bool


class Prefix:
    """The largest set of closed tuples such that no tuple outside of it sorts before a tuple inside.

    It has the values of the first key up to its first open value. For tuples with that value, it has the values of the
    second key up to its first open value, and so on (``levels``). The order starts at the first value of the type or of
    the declared domain.
    """

    def __init__(self, schema: Schema, order: Sequence[SortKey]) -> None:
        self.schema, self.order = schema, order
        self.levels: tuple[Level, ...] = ()
        self._positions = [schema.index(key.column) for key in order]
        self._received = ClosedSet(schema)

    def add(self, punctuations: Iterable[Punctuation]) -> None:
        """Extend the prefix by punctuations."""
        for p in punctuations:
            if not p.is_empty:
                constrained = set(p.constrained)
                positions = [i for i in self._positions if i in constrained]
                self._received.add(p, positions[0] if positions else -1)
        rows = list(self._received)
        closed = list(self._closed_rows())
        axes = []
        for depth, (key, position) in enumerate(zip(self.order, self._positions, strict=True)):
            parts = [self._received.part(row, position) for row in rows] + [parts[depth] for parts in closed]
            axes.append(Axis(self.schema[key.column], parts, key.descending, key.nulls_first))
        path = first_open(axes, (1 << len(rows) + len(closed)) - 1)
        self.levels = tuple(_levels(axes, path))
        self._received.remove([row for row in self._received if self._covers(row)])

    def extend(self, other: Prefix) -> list[Punctuation]:
        """Extend ``other``, a part of this prefix, to this prefix; return the punctuations that do so.

        No punctuation can close null, so they end at the first level that has null.
        """
        punctuations = []
        equal: dict[str, Pattern] = {}
        for depth, (key, level) in enumerate(zip(self.order, self.levels, strict=False)):
            if level.null:
                break
            attribute = self.schema[key.column]
            closed = other.levels[depth].closed if depth < len(other.levels) else EMPTY
            if attribute.reach(level.closed) != attribute.reach(closed):
                p = Punctuation.of(self.schema, **equal, **{key.column: level.closed})
                other.add([p])
                punctuations.append(p)
            if level.last or level.at is None:
                break
            equal[key.column] = _constant(attribute, level.at)
        return punctuations

    def expression(self) -> pl.Expr:
        """The condition that a tuple is in the prefix."""
        ways, equal = [], pl.lit(True)
        for key, level in zip(self.order, self.levels, strict=False):
            column = pl.col(key.column)
            before = pattern_expression(key.column, level.closed)
            ways.append(equal & (before | column.is_null() if level.null else before))
            if not level.last:
                dtype = self.schema[key.column].type.dtype
                equal = equal & column.eq_missing(pl.lit(level.at, dtype=dtype))
        return pl.any_horizontal(ways) if ways else pl.lit(False)

    def _closed_rows(self) -> Iterable[list[Part]]:
        """The levels so far, as rows of the grid."""
        attributes = [self.schema[key.column] for key in self.order]
        at: list[Part] = []
        for level, attribute in zip(self.levels, attributes, strict=False):
            following = [Part.of(a, WILDCARD) for a in attributes[len(at) + 1 :]]
            yield [*at, Part.of(attribute, level.closed), *following]
            if level.null:
                yield [*at, NULL, *following]
            if not level.last:
                at.append(NULL if level.at is None else Part.of(attribute, _constant(attribute, level.at)))

    def _covers(self, row: Row) -> bool:
        """Whether the prefix contains every tuple that a row of punctuations matches."""
        for key, position, level in zip(self.order, self._positions, self.levels, strict=False):
            patterns = (
                list(self._received.values(row))
                if row.position == position
                else [row.outline.patterns[position]]
            )
            attribute = self.schema[key.column]
            if all(_has(level, attribute, pattern) for pattern in patterns):
                return True
            if level.last or level.at is None or patterns != [_constant(attribute, level.at)]:
                return False
        return False

    def __len__(self) -> int:
        """The number of retained punctuations."""
        return len(self._received)

    def snapshot(self) -> Snapshot:
        """The levels and the retained punctuations, for a checkpoint."""
        levels = pl.DataFrame(
            [
                (
                    str(level.closed),
                    level.null,
                    None if level.at is None else str(_constant(self.schema[key.column], level.at)),
                    level.last,
                )
                for key, level in zip(self.order, self.levels, strict=False)
            ],
            schema={"closed": pl.String(), "null": pl.Boolean(), "at": pl.String(), "last": pl.Boolean()},
            orient="row",
        )
        return {**snapshot_of({"said": self._received}), "levels": levels}

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the prefix from a snapshot."""
        restore({"said": self._received}, snapshot)
        levels = []
        for key, (closed, null, at, last) in zip(self.order, snapshot["levels"].iter_rows(), strict=False):
            type_ = self.schema[key.column].type
            value = None if at is None else parse_pattern(type_, at).value  # type: ignore[attr-defined]
            levels.append(Level(parse_pattern(type_, closed), null, value, last))
        self.levels = tuple(levels)


def _levels(axes: Sequence[Axis], path: list[int] | None) -> Iterable[Level]:
    """The levels before a path through the grid (None: the whole grid), up to the first level without a next value."""
    for depth, axis in enumerate(axes):
        type_ = axis.attribute.type
        every = interval(type_, None, None, False, False)
        if path is None:
            yield Level(every, axis.attribute.nullable, None, True)
            return
        cell = axis.cells[path[depth]]
        null = axis.attribute.nullable and axis.nulls_first and path[depth] > 0
        last = depth == len(path) - 1
        if cell.low is None or cell.high is None:
            yield Level(EMPTY if axis.nulls_first else every, null, None, last)
        else:
            bottom, top = ends(type_)
            closed = between(type_, cell.high, top) if axis.descending else between(type_, bottom, cell.low)
            at = first_value(type_, cell.low, cell.high, axis.descending)
            last = last or at is None
            yield Level(closed, null, None if last else at, last)
        if last:
            return


def _has(level: Level, attribute: Attribute, pattern: Pattern) -> bool:
    """Whether a level has all possible values of a pattern (and null, if the pattern matches it)."""
    if covers(level.closed, attribute.reach(pattern)):
        return True
    matches_null = pattern is WILDCARD and level.null
    return matches_null and cuts(level.closed) == [ends(attribute.type)]


def _constant(attribute: Attribute, value: Value) -> Pattern:
    return interval(attribute.type, value, value, True, True)
