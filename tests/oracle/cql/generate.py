"""Random cases from a seed: inputs, a query over them, a punctuated feed, and its slices."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

from tests.oracle.cql import query as cql
from tests.oracle.cql.feeds import Element, Input, Time, instant, timestamp
from tests.oracle.cql.query import names
from tests.oracle.values import Row
from xmlpunct.punctuations.punctuation import Punctuation, match
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import DATE, DOUBLE, INT, NAN, STRING, TIMESTAMP, DecimalType, Type, decimal
from xmlpunct.types import pattern as pt
from xmlpunct.types.pattern import WILDCARD, Pattern

MONEY = decimal(12, 1)
SETS = ("UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")
VALUES: dict[Type, tuple[Any, ...]] = {
    INT: (0, 1, 2),
    STRING: ("a", "b"),
    DOUBLE: (-0.0, 0.0, 0.1, 0.2, 1e16, math.inf, NAN),
    MONEY: (Decimal("-0.5"), Decimal("1.0")),
}
"""Few values of each type, so that tuples join."""
UNIT = {INT: 1, DATE: 1, TIMESTAMP: 1_000_000}
"""The instants in a window of length 1: a day, or a second in microseconds."""


def interval(type_: Type, first: int | None, last: int | None) -> Pattern:
    """A pattern of the instants between two."""
    low, high = (None if at is None else timestamp(type_, at) for at in (first, last))
    return pt.interval(type_, low, high, low is not None, high is not None)


@dataclass
class Grown:
    """A query and the types of its columns."""

    query: cql.Query
    types: tuple[Type, ...]


class Case:
    """A random case. It depends on ``seed`` only, except for an explicit timestamp type, depth or query."""

    def __init__(
        self,
        seed: int,
        type_: Type | None = None,
        depth: int | None = None,
        query: cql.Query | None = None,
    ) -> None:
        self.seed, self.rng = seed, random.Random(seed)
        self.type = type_ or self.rng.choice([INT, INT, INT, DATE, TIMESTAMP])
        self.unit = UNIT[self.type]
        self.declared = self._inputs()
        if query is None:
            grower = Grower(self.rng, self.declared, self.type)
            query = grower.root(self.rng.randint(1, 3) if depth is None else depth)
        self.query = query
        self.inputs = {name: i for name, i in self.declared.items() if name in names(query)}

    def _inputs(self) -> dict[str, Input]:
        """Three streams and four relations; none, some or all timestamps are bounded."""
        ends = instant(self.type, self.type.lowest), instant(self.type, self.type.highest)
        self.base = self.rng.choice([0, 0, 0, 0, 0, 0, ends[0] + 3 * self.unit, ends[1] - 8 * self.unit])
        low = self.base - 3 * self.unit if self.rng.random() < 0.3 else None
        high = self.base + 8 * self.unit if self.rng.random() < 0.3 else None
        bounded = interval(self.type, low, high)
        domain = WILDCARD if str(bounded) == "(,)" else bounded
        is_partial = self.rng.random() < 0.2

        def when(name: str) -> Attribute:
            is_free = is_partial and self.rng.random() < 0.5
            return Attribute(name, self.type, False, domain=WILDCARD if is_free else domain)

        few = pt.interval(INT, 0, 2, True, True)
        k, v = Attribute("k", INT), Attribute("v", INT)
        diff, word = Attribute("diff", INT, False), Attribute("change", STRING, False)
        inputs = [
            Input("s0", Schema.of([k, v, when("ts")]), "ts"),
            Input("s1", Schema.of([when("ts"), Attribute("k", INT, domain=few), v]), "ts"),
            Input(
                "s2",
                Schema.of(
                    [Attribute("k", INT, False), Attribute("x", DOUBLE), Attribute("d", MONEY), when("t")]
                ),
                "t",
            ),
            Input("r0", Schema.of([k, Attribute("w", STRING)])),
            Input("r1", Schema.of([k, v, when("at"), diff]), "at", "diff"),
            Input("r2", Schema.of([word, Attribute("k", INT, domain=few), when("since")]), "since", "change"),
            Input("r3", Schema.of([k, Attribute("x", DOUBLE), when("at"), diff]), "at", "diff"),
        ]
        return {i.name: i for i in inputs}

    @property
    def time(self) -> Time:
        return Time.of(self.inputs.values())

    @cached_property
    def feed(self) -> list[tuple[str, Element]]:
        return Feeder(self.rng, self.inputs, self.time, self.base, self.unit).feed()

    def slices(self) -> list[int]:
        """The ends of the slices as positions in the feed, from 0 to its end."""
        size = self.rng.choice([1, 2, 5, 100])
        positions = [0]
        while positions[-1] < len(self.feed):
            positions.append(min(len(self.feed), positions[-1] + self.rng.randint(1, size)))
        return positions


class Grower:
    """Grows a query."""

    def __init__(self, rng: random.Random, inputs: dict[str, Input], type_: Type) -> None:
        self.rng, self.inputs, self.type, self.unit = rng, inputs, type_, UNIT[type_]

    def coin(self, chance: float) -> bool:
        return self.rng.random() < chance

    def root(self, depth: int) -> cql.Query:
        return self.to_stream(depth).query if self.coin(0.7) else self.relation(depth).query

    # Streams

    def to_stream(self, depth: int) -> Grown:
        below = self.relation(depth)
        kind = self.rng.choice([cql.IStream, cql.DStream, cql.RStream, cql.RStream])
        if kind is not cql.RStream:
            return Grown(kind(below.query), below.types)
        every = self.span(1, 3) if self.type is TIMESTAMP or self.coin(0.4) else None
        origin = 0 if every is None else self.origin()
        return Grown(cql.RStream(below.query, every, origin), below.types)

    def stream(self, depth: int) -> Grown:
        if depth > 0 and self.coin(0.25):
            return self.to_stream(depth - 1)
        input_ = self.inputs[self.rng.choice(["s0", "s1", "s2"])]
        types = tuple(input_.schema.attributes[i].type for i in input_.places)
        if self.coin(0.1):
            return Grown(cql.Stamped(cql.Stream(input_.name)), (*types, self.type))
        return Grown(cql.Stream(input_.name), types)

    def span(self, minimum: int, maximum: int) -> int:
        return self.rng.randint(minimum, maximum) * self.unit

    def origin(self) -> int:
        return self.span(-4, 4) if self.coin(0.3) else 0

    def window(self, depth: int) -> Grown:
        below = self.stream(depth)
        kind = self.rng.choice(["NOW", "RANGE", "RANGE", "RANGE", "UNBOUNDED", "ROWS"])
        if kind == "ROWS":
            partition_columns = self.rng.sample(
                range(len(below.types)), self.rng.randint(0, min(2, len(below.types)))
            )
            return Grown(cql.Rows(below.query, self.rng.randint(1, 4), tuple(partition_columns)), below.types)
        slide = self.span(1, 4) if kind != "NOW" and self.coin(0.3) else None
        size = self.span(0, 4) if kind == "RANGE" else 0
        origin = 0 if slide is None else self.origin()
        return Grown(cql.Window(below.query, kind, size, slide, origin), below.types)

    def named(self) -> Grown:
        input_ = self.inputs[self.rng.choice(["r0", "r1", "r2", "r3"])]
        return Grown(
            cql.Relation(input_.name), tuple(input_.schema.attributes[i].type for i in input_.places)
        )

    # Relations

    def relation(self, depth: int) -> Grown:
        if depth == 0:
            return self.window(0) if self.coin(0.75) else self.named()
        kinds = [self.window, self.select, self.project, self.distinct, self.group, self.group]
        kinds += [self.join, self.join, self.join, self.not_in, self.set_operation, self.set_operation]
        return self.rng.choice(kinds)(depth - 1)

    def scalar(self, types: Sequence[Type]) -> tuple[cql.Scalar, Type]:
        column = self.rng.randrange(len(types))
        if types[column] is INT and self.coin(0.2):
            return cql.Plus(column, self.rng.choice([-1, 1])), INT
        if self.coin(0.05):
            return cql.Constant(self.rng.choice(VALUES[INT])), INT
        return cql.Column(column), types[column]

    def predicate(self, types: Sequence[Type]) -> cql.Predicate:
        """A comparison of a column with a constant or with a column of the same type."""
        column = self.rng.randrange(len(types))
        if self.coin(0.2):
            return cql.IsNull(cql.Column(column))
        type_, op = types[column], self.rng.choice(["=", "<>", "<", "<=", ">="])
        other = cql.Column(self.rng.choice([i for i, t in enumerate(types) if t == type_]))
        constants = VALUES.get(type_)
        finite = [v for v in constants or () if v == v and v - v == 0] if type_ is DOUBLE else constants
        test = cql.Compare(
            op, cql.Column(column), cql.Constant(self.rng.choice(finite), type_) if finite else other
        )
        if self.coin(0.2):
            test = cql.Compare(op, cql.Column(column), other)
        return cql.Or(test, cql.IsNull(cql.Column(column))) if self.coin(0.15) else test

    def select(self, depth: int) -> Grown:
        below = self.relation(depth)
        return Grown(cql.Select(below.query, self.predicate(below.types)), below.types)

    def project(self, depth: int) -> Grown:
        below = self.relation(depth)
        picked = [self.scalar(below.types) for _ in range(self.rng.randint(1, 3))]
        return Grown(cql.Project(below.query, tuple(e for e, _ in picked)), tuple(t for _, t in picked))

    def distinct(self, depth: int) -> Grown:
        below = self.relation(depth)
        return Grown(cql.Distinct(below.query), below.types)

    def group(self, depth: int) -> Grown:
        below = self.relation(depth)
        keys = self.rng.sample(
            range(len(below.types)), self.rng.choice([0, 1, 1, 1, min(2, len(below.types))])
        )
        aggregates, types = [cql.Aggregate("COUNT")], [below.types[i] for i in keys] + [INT]
        for _ in range(self.rng.randint(0, 2)):
            column = self.rng.randrange(len(below.types))
            type_ = below.types[column]
            is_number = type_ in (INT, DOUBLE) or isinstance(type_, DecimalType)
            function = self.rng.choice(["COUNT", "MIN", "MAX", *(["SUM", "AVG"] * 2 if is_number else [])])
            aggregates.append(cql.Aggregate(function, column, self.coin(0.3), type_))
            types.append(result(function, type_))
        if self.coin(0.3):
            aggregates, types = (
                aggregates[1:] or aggregates,
                types if not aggregates[1:] else types[: len(keys)] + types[len(keys) + 1 :],
            )
        having = self.predicate(types) if self.coin(0.2) else None
        return Grown(cql.GroupBy(below.query, tuple(keys), tuple(aggregates), having), tuple(types))

    def join(self, depth: int) -> Grown:
        left, right = self.relation(depth), self.relation(depth if self.coin(0.5) else 0)
        keys = self.keys(left, right, self.rng.choice([0, 1, 1, 1, 1, 2, 2]))
        kind = self.rng.choice(["inner", "inner", "semi", "anti", "left", "full"])
        types = left.types + right.types
        residual = self.predicate(types) if self.coin(0.2) else None
        return Grown(
            cql.Join(kind, left.query, right.query, keys, residual),
            left.types if kind in ("semi", "anti") else types,
        )

    def keys(self, left: Grown, right: Grown, maximum: int) -> tuple[tuple[int, int], ...]:
        """Pairs of columns of one type, no column twice."""
        pairs = [(i, j) for i, a in enumerate(left.types) for j, b in enumerate(right.types) if a == b]
        self.rng.shuffle(pairs)
        chosen: list[tuple[int, int]] = []
        for i, j in pairs:
            if len(chosen) < maximum and all(i != a and j != b for a, b in chosen):
                chosen.append((i, j))
        return tuple(chosen)

    def not_in(self, depth: int) -> Grown:
        left, right = self.relation(depth), self.relation(depth if self.coin(0.5) else 0)
        pair, keys = self.keys(left, right, 1), self.keys(left, right, self.rng.choice([0, 0, 1]))
        if not pair:
            return self.join(depth)
        return Grown(cql.NotIn(left.query, right.query, *pair[0], keys), left.types)

    def set_operation(self, depth: int) -> Grown:
        left, right = self.relation(depth), self.relation(depth)
        shared = [t for t in dict.fromkeys(left.types) if t in right.types]
        types = tuple(self.rng.sample(shared, self.rng.randint(1, len(shared)))) if shared else (INT,)
        a, b = (self.shape(side, types) for side in (left, right))
        if self.coin(0.25):
            return Grown(cql.UnionAll(a, b), types)
        return Grown(cql.SetOp(self.rng.choice(SETS), a, b), types)

    def shape(self, below: Grown, types: Sequence[Type]) -> cql.Query:
        """A projection to columns of these types."""
        columns: list[cql.Scalar] = []
        for t in types:
            positions = [i for i, column_type in enumerate(below.types) if column_type == t]
            columns.append(cql.Column(self.rng.choice(positions)) if positions else cql.Constant(1))
        return cql.Project(below.query, tuple(columns))


def result(function: str, type_: Type) -> Type:
    """The type of an aggregate."""
    if function == "COUNT":
        return INT
    if function == "AVG":
        return decimal(38, type_.scale + 4) if isinstance(type_, DecimalType) else DOUBLE
    return decimal(38, type_.scale) if function == "SUM" and isinstance(type_, DecimalType) else type_


class Feeder:
    """Draws a grammatical feed with equal timestamps, duplicates, gaps, surplus deletes and all kinds of patterns."""

    def __init__(
        self, rng: random.Random, inputs: dict[str, Input], time: Time, base: int, unit: int
    ) -> None:
        self.rng, self.inputs, self.time, self.unit = rng, inputs, time, unit
        nudges = [0] if unit == 1 else [0, 0, -1, 1]
        self.instants = sorted({base + n * unit + rng.choice(nudges) for n in range(-3, 9)})
        self.punctuations: dict[str, list[Punctuation]] = {name: [] for name in inputs}
        self.sent: dict[str, list[Row]] = {name: [] for name in inputs}

    def feed(self, minimum: int = 3, maximum: int = 22) -> list[tuple[str, Element]]:
        """Elements of all inputs, interleaved, and the end of most inputs."""
        elements: list[tuple[str, Element]] = []
        chatty = self.rng.choice([0.2, 0.35, 0.5])
        for _ in range(self.rng.randint(minimum, maximum)):
            name = self.rng.choice(list(self.inputs))
            if self.rng.random() < chatty:
                p = self.punctuation(self.inputs[name])
                self.punctuations[name].append(p)
                elements.append((name, p))
            else:
                t = self.tuple(self.inputs[name])
                elements += [] if t is None else [(name, t)]
        ends = [name for name in self.inputs if self.rng.random() < 0.9]
        self.rng.shuffle(ends)
        last: list[tuple[str, Element]] = [
            (name, Punctuation.everything(self.inputs[name].schema)) for name in ends
        ]
        return [*elements, *last]

    def tuple(self, input_: Input) -> Row | None:
        """A tuple that no earlier punctuation matches."""
        for _ in range(10):
            t = self.rng.choice(self.sent[input_.name]) if self._is_repeat(input_) else self._tuple(input_)
            forbidden = any(match(t, p) for p in self.punctuations[input_.name])
            outside = any(
                not (a.nullable if v is None else a.domain.matches(v))
                for a, v in zip(input_.schema, t, strict=True)
            )
            if not forbidden and not outside:
                self.sent[input_.name].append(t)
                return t
        return None

    def _is_repeat(self, input_: Input) -> bool:
        return bool(self.sent[input_.name]) and self.rng.random() < 0.25

    def _tuple(self, input_: Input) -> Row:
        attributes = [input_.schema.attributes[i] for i in input_.places]
        e = tuple(
            None if a.nullable and self.rng.random() < 0.15 else self.rng.choice(VALUES[a.type])
            for a in attributes
        )
        at = self.rng.choice(self.instants)
        if input_.change is not None and self.rng.random() < 0.05:
            at = self.time.low  # the formal first instant
        first = self.time.low + (input_.is_stream and not self.time.declared_low)
        return input_.row(e, max(first, min(self.time.high, at)), self.rng.choice([1, 1, 1, 2, -1, -1, -3]))

    def punctuation(self, input_: Input) -> Punctuation:
        """Patterns: prefixes of all tuples or of a key; ranges and lists of instants; keys; combinations."""
        ps: list[Pattern] = [WILDCARD] * len(input_.schema)
        kind = self.rng.choice(["prefix", "prefix", "key prefix", "key prefix", "instants", "key", "any"])
        if input_.stamp is None:
            kind = self.rng.choice(["key", "key", "any"])
        if kind != "key" and input_.stamp is not None and (kind != "any" or self.rng.random() < 0.7):
            ps[input_.schema.index(input_.stamp)] = self._instant_pattern(input_, "prefix" in kind)
        if kind in ("key prefix", "key"):
            column = input_.places[0] if self.rng.random() < 0.7 else self.rng.choice(input_.places)
            ps[column] = self._value_pattern(input_.schema.attributes[column].type)
        elif kind == "any":
            for column in input_.places:
                if self.rng.random() < 0.5:
                    ps[column] = self._value_pattern(input_.schema.attributes[column].type)
        if all(p is WILDCARD for p in ps):
            ps[input_.places[0]] = self._value_pattern(input_.schema.attributes[input_.places[0]].type)
        return Punctuation(input_.schema, ps)

    def _instant_pattern(self, input_: Input, is_prefix: bool) -> Pattern:
        a, b = sorted(self.rng.choice(self.instants) for _ in range(2))
        a, b = (max(self.time.low, min(self.time.high, at)) for at in (a, b))
        if is_prefix:
            return interval(input_.type, None, self.rng.choice([a, b]))
        kinds = [interval(input_.type, a, b), interval(input_.type, a, None)]
        return self.rng.choice(
            [*kinds, pt.values(input_.type, [timestamp(input_.type, at) for at in (a, b)])]
        )

    def _value_pattern(self, type_: Type) -> Pattern:
        a, b = (self.rng.choice(VALUES[type_]) for _ in range(2))
        kinds = [pt.constant(type_, a)] * 3 + [pt.values(type_, [a, b])]
        return self.rng.choice([*kinds, pt.interval(type_, None, a, False, True)])
