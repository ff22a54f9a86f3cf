"""sort: tuples in order, as far as nothing can come any more that belongs before them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import NamedTuple

import polars as pl

from xmlpunct.cover import NULL, Axis, Fused, Part, Row, first_open
from xmlpunct.operators.iterator import Operator, Snapshot
from xmlpunct.pattern_text import parse_pattern
from xmlpunct.patterns import EMPTY, WILDCARD, Pattern, between, covers, cuts, ends, first_value, interval
from xmlpunct.punctset import PunctuationSet, pattern_expression
from xmlpunct.punctuation import Punctuation, from_frame, to_frame
from xmlpunct.schema import Attribute, Schema
from xmlpunct.types import Value


class SortKey(NamedTuple):
    """A column to sort by. Nulls are last unless asked for first, whatever the direction."""

    column: str
    descending: bool = False
    nulls_first: bool = False

    def __str__(self) -> str:
        return f"{self.column}{' DESC' * self.descending}{' NULLS FIRST' * self.nulls_first}"


@dataclass(frozen=True, slots=True)
class Level:
    """What is closed of one sort column, where the earlier ones have the values at which theirs go on.

    ``closed`` are the values, ``null`` says whether null is among what is closed. ``at`` is the value at which
    the next level goes on (None: null); ``last``: there is no next level.
    """

    closed: Pattern
    null: bool
    at: Value
    last: bool


class Sort(Operator):
    """Sorts by ``keys``, ties by the remaining columns. What is closed from the start of the order is released.

    - cpass(ts, ps)  = [t | t in ts, setMatch(t, init(ps))], sorted
    - cprop(ts, ps)  = init(ps) + [p | p in ps, setNomatch(ts', p)], with ts' what is retained
    - ckeep(ts, ps)  = [t | t in ts, setNomatch(t, init(ps))]

    init(ps) is the largest set of tuples that ps close, such that no tuple outside sorts before one inside. A
    first key's values are in it as long as they are closed; at its first open value the second key's are, and so
    on. The order starts where the type or the declared domain does.
    """

    name = "sort"

    def __init__(self, schema: Schema, keys: Sequence[tuple[str, bool, bool]]) -> None:
        super().__init__((schema,), schema)
        first: dict[str, SortKey] = {}
        for key in keys:
            first.setdefault(key[0], SortKey(*key))
        for name in schema.names:
            first.setdefault(name, SortKey(name))
        self.order = tuple(first.values())
        self._places = [schema.index(key.column) for key in self.order]
        self._waiting = schema.empty()
        self._pending = PunctuationSet(schema)
        self._said = Fused(schema)
        self._closed: tuple[Level, ...] = ()

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        late = tuples.select(self._released().alias("late"))["late"]
        if late.len() and late.any():
            for row in tuples.filter(late).iter_rows(named=True):
                self.reject(row, "too late to be sorted: what follows it is released")
            tuples = tuples.filter(~late)
        self._waiting = pl.concat([self._waiting, tuples])
        return self.schema.empty()

    def pass_(self, port: int, punctuations: list[Punctuation]) -> pl.DataFrame:
        for p in punctuations:
            if not p.is_empty:
                places = [i for i in self._places if i in p.constrained]
                self._said.add(p, places[0] if places else -1)
        self._pending.update(punctuations)
        self._advance()
        found = self._waiting.filter(self._released())
        return found.sort(
            [key.column for key in self.order],
            descending=[key.descending for key in self.order],
            nulls_last=[not key.nulls_first for key in self.order],
        )

    def keep(self, port: int, punctuations: list[Punctuation]) -> None:
        self._waiting = self._waiting.filter(~self._released())
        self._said.discard([row for row in self._said if self._covers(row)])

    def prop(self, port: int, punctuations: list[Punctuation]) -> list[Punctuation]:
        free = self._pending.unmatched(self._waiting)
        self._pending.discard(free)
        return free

    def _released(self) -> pl.Expr:
        """Whether a tuple belongs to init."""
        ways, equal = [], pl.lit(True)
        for key, level in zip(self.order, self._closed, strict=False):
            column = pl.col(key.column)
            before = pattern_expression(key.column, level.closed)
            ways.append(equal & (before | column.is_null() if level.null else before))
            if not level.last:
                dtype = self.schema[key.column].type.dtype
                equal = equal & column.eq_missing(pl.lit(level.at, dtype=dtype))
        return reduce(or_, ways, pl.lit(False))

    def _advance(self) -> None:
        """init as it is with what has been said since."""
        rows = list(self._said)
        before = list(self._before())
        axes = []
        for depth, (key, place) in enumerate(zip(self.order, self._places, strict=True)):
            parts = [self._said.part(row, place) for row in rows] + [parts[depth] for parts in before]
            axes.append(Axis(self.schema[key.column], parts, key.descending, key.nulls_first))
        path = first_open(axes, (1 << len(rows) + len(before)) - 1)
        self._closed = tuple(_levels(axes, path))

    def _before(self) -> Iterable[list[Part]]:
        """What was closed before, as rows of the grid."""
        attributes = [self.schema[key.column] for key in self.order]
        at: list[Part] = []
        for level, attribute in zip(self._closed, attributes, strict=False):
            rest = [Part.of(a, WILDCARD) for a in attributes[len(at) + 1 :]]
            yield [*at, Part.of(attribute, level.closed), *rest]
            if level.null:
                yield [*at, NULL, *rest]
            if not level.last:
                at.append(NULL if level.at is None else Part.of(attribute, _constant(attribute, level.at)))

    def _covers(self, row: Row) -> bool:
        """Whether init has all that a row of punctuations matches, so that the row has nothing to add."""
        for key, place, level in zip(self.order, self._places, self._closed, strict=False):
            found = self._said.patterns(row) if row[0] == place else [row[1][place]]
            attribute = self.schema[key.column]
            if all(_has(level, attribute, pattern) for pattern in found):
                return True
            if level.last or level.at is None or found != [_constant(attribute, level.at)]:
                return False
        return False

    @property
    def rows(self) -> int:
        return self._waiting.height

    @property
    def held(self) -> int:
        return len(self._pending) + len(self._said)

    def snapshot(self) -> Snapshot:
        levels = pl.DataFrame(
            [
                (
                    str(level.closed),
                    level.null,
                    None if level.at is None else str(_constant(self.schema[key.column], level.at)),
                    level.last,
                )
                for key, level in zip(self.order, self._closed, strict=False)
            ],
            schema={"closed": pl.String(), "null": pl.Boolean(), "at": pl.String(), "last": pl.Boolean()},
            orient="row",
        )
        pending = to_frame(self.schema, self._pending)
        return {
            "waiting": self._waiting,
            "pending": pending,
            "said": self._said.snapshot(),
            "closed": levels,
        }

    def restore(self, snapshot: Snapshot) -> None:
        self._waiting = snapshot["waiting"]
        self._pending = PunctuationSet(self.schema, from_frame(self.schema, snapshot["pending"]))
        self._said = Fused.restored(self.schema, snapshot["said"])
        found = []
        for key, (closed, null, at, last) in zip(self.order, snapshot["closed"].iter_rows(), strict=False):
            type_ = self.schema[key.column].type
            value = None if at is None else parse_pattern(type_, at).value  # type: ignore[attr-defined]
            found.append(Level(parse_pattern(type_, closed), null, value, last))
        self._closed = tuple(found)


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
