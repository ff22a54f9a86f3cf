"""What punctuations close from the start of an order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from xmlpunct.base.frames import Snapshot, restore, snapshot_of
from xmlpunct.punctuations.fused import NULL, Fused, Part, Row
from xmlpunct.punctuations.grid import Axis, first_open
from xmlpunct.punctuations.pattern_expressions import pattern_expression
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import Value
from xmlpunct.types.cut_points import between, cuts, ends, first_value
from xmlpunct.types.pattern import EMPTY, WILDCARD, Pattern, covers, interval
from xmlpunct.types.pattern_text import parse_pattern


class SortKey(NamedTuple):
    """A column to sort by. Nulls are last unless asked for first, whatever the direction."""

    column: str
    descending: bool = False
    nulls_first: bool = False

    def __str__(self) -> str:
        return f"{self.column}{' DESC' * self.descending}{' NULLS FIRST' * self.nulls_first}"


@dataclass(frozen=True, slots=True)
class Level:
    """What is closed of one sort column, where each earlier column has the value ``at`` of its level.

    ``closed`` are the closed values; ``null``: null is closed too. ``at`` is the value at which the next level goes on
    (None: null); ``last``: there is no next level.
    """

    closed: Pattern
    null: bool
    at: Value
    last: bool


class Prefix:
    """The largest set of tuples that some punctuations close, such that no tuple outside sorts before one inside.

    It has the values of the first key up to its first open one. At that one it has the values of the second key up to
    its first open one, and so on (``levels``). The order starts where the type or the declared domain does.
    """

    def __init__(self, schema: Schema, order: Sequence[SortKey]) -> None:
        self.schema, self.order = schema, order
        self.levels: tuple[Level, ...] = ()
        self._places = [schema.index(key.column) for key in order]
        self._said = Fused(schema)

    def add(self, punctuations: Iterable[Punctuation]) -> None:
        """Add what punctuations close."""
        for p in punctuations:
            if not p.is_empty:
                constrained = set(p.constrained)
                places = [i for i in self._places if i in constrained]
                self._said.add(p, places[0] if places else -1)
        rows = list(self._said)
        before = list(self._before())
        axes = []
        for depth, (key, place) in enumerate(zip(self.order, self._places, strict=True)):
            parts = [self._said.part(row, place) for row in rows] + [parts[depth] for parts in before]
            axes.append(Axis(self.schema[key.column], parts, key.descending, key.nulls_first))
        path = first_open(axes, (1 << len(rows) + len(before)) - 1)
        self.levels = tuple(_levels(axes, path))
        self._said.discard([row for row in self._said if self._covers(row)])

    def beyond(self, other: Prefix) -> list[Punctuation]:
        """What this prefix has and ``other``, a part of it, has not; it is added there.

        No punctuation says that null is closed, so nothing is said from there on.
        """
        punctuations = []
        rest: dict[str, Pattern] = {}
        for depth, (key, level) in enumerate(zip(self.order, self.levels, strict=False)):
            if level.null:
                break
            attribute = self.schema[key.column]
            known = other.levels[depth].closed if depth < len(other.levels) else EMPTY
            if attribute.reach(level.closed) != attribute.reach(known):
                p = Punctuation.of(self.schema, **rest, **{key.column: level.closed})
                other.add([p])
                punctuations.append(p)
            if level.last or level.at is None:
                break
            rest[key.column] = _constant(attribute, level.at)
        return punctuations

    def expression(self) -> pl.Expr:
        """Whether a tuple belongs to it."""
        ways, equal = [], pl.lit(True)
        for key, level in zip(self.order, self.levels, strict=False):
            column = pl.col(key.column)
            before = pattern_expression(key.column, level.closed)
            ways.append(equal & (before | column.is_null() if level.null else before))
            if not level.last:
                dtype = self.schema[key.column].type.dtype
                equal = equal & column.eq_missing(pl.lit(level.at, dtype=dtype))
        return pl.any_horizontal(ways) if ways else pl.lit(False)

    def _before(self) -> Iterable[list[Part]]:
        """What was closed before, as rows of the grid."""
        attributes = [self.schema[key.column] for key in self.order]
        at: list[Part] = []
        for level, attribute in zip(self.levels, attributes, strict=False):
            rest = [Part.of(a, WILDCARD) for a in attributes[len(at) + 1 :]]
            yield [*at, Part.of(attribute, level.closed), *rest]
            if level.null:
                yield [*at, NULL, *rest]
            if not level.last:
                at.append(NULL if level.at is None else Part.of(attribute, _constant(attribute, level.at)))

    def _covers(self, row: Row) -> bool:
        """Whether it has all that a row of punctuations matches."""
        for key, place, level in zip(self.order, self._places, self.levels, strict=False):
            patterns = self._said.values(row).patterns() if row[0] == place else [row[1][place]]
            attribute = self.schema[key.column]
            if all(_has(level, attribute, pattern) for pattern in patterns):
                return True
            if level.last or level.at is None or patterns != [_constant(attribute, level.at)]:
                return False
        return False

    def __len__(self) -> int:
        """How many punctuations it retains."""
        return len(self._said)

    def snapshot(self) -> Snapshot:
        """The levels and what is retained, for a checkpoint."""
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
        return {**snapshot_of({"said": self._said}), "levels": levels}

    def restore(self, snapshot: Snapshot) -> None:
        """Take what a snapshot has."""
        restore({"said": self._said}, snapshot)
        levels = []
        for key, (closed, null, at, last) in zip(self.order, snapshot["levels"].iter_rows(), strict=False):
            type_ = self.schema[key.column].type
            value = None if at is None else parse_pattern(type_, at).value  # type: ignore[attr-defined]
            levels.append(Level(parse_pattern(type_, closed), null, value, last))
        self.levels = tuple(levels)


def _levels(axes: Sequence[Axis], path: list[int] | None) -> Iterable[Level]:
    """What lies before a path through the grid (None: all of it), where it can be told by its first values."""
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
    """Whether a level has all values of a pattern that can occur (and null, if the pattern has it)."""
    if covers(level.closed, attribute.reach(pattern)):
        return True
    every = pattern is WILDCARD and level.null
    return every and cuts(level.closed) == [ends(attribute.type)]


def _constant(attribute: Attribute, value: Value) -> Pattern:
    return interval(attribute.type, value, value, True, True)
