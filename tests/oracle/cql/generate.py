"""Random cases, from a seed: inputs, a query over them, a punctuated feed, and how to cut it."""

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
"""Few values of each type, so that tuples meet."""
UNIT = {INT: 1, DATE: 1, TIMESTAMP: 1_000_000}
"""The instants of a window of 1: a day, or a second of microseconds."""


def interval(type_: Type, first: int | None, last: int | None) -> Pattern:
    """A pattern of the instants between two."""
    low, high = (None if at is None else timestamp(type_, at) for at in (first, last))
    return pt.interval(type_, low, high, low is not None, high is not None)


@dataclass
class Grown:
    """A query and its columns' types."""

    query: cql.Query
    types: tuple[Type, ...]


class Case:
    """All of a random case. ``seed`` alone decides, unless the timestamps' type or the query are given."""

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
        """Three streams and four relations; their timestamps may be bounded, all of them or some."""
        ends = instant(self.type, self.type.lowest), instant(self.type, self.type.highest)
        self.base = self.rng.choice([0, 0, 0, 0, 0, 0, ends[0] + 3 * self.unit, ends[1] - 8 * self.unit])
        low = self.base - 3 * self.unit if self.rng.random() < 0.3 else None
        high = self.base + 8 * self.unit if self.rng.random() < 0.3 else None
        bounded = interval(self.type, low, high)
        domain = WILDCARD if str(bounded) == "(,)" else bounded
        some = self.rng.random() < 0.2

        def when(name: str) -> Attribute:
            is_free = some and self.rng.random() < 0.5
            return Attribute(name, self.type, False, domain=WILDCARD if is_free else domain)

        few = pt.interval(INT, 0, 2, True, True)
        k, v = Attribute("k", INT), Attribute("v", INT)
        diff, word = Attribute("diff", INT, False), Attribute("change", STRING, False)
        found = [
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
        return {i.name: i for i in found}

    @property
    def time(self) -> Time:
        return Time.of(self.inputs.values())

    @cached_property
    def feed(self) -> list[tuple[str, Element]]:
        return Feeder(self.rng, self.inputs, self.time, self.base, self.unit).feed()

    def slices(self) -> list[int]:
        """Where the feed is cut: positions, the end among them."""
        size = self.rng.choice([1, 2, 5, 100])
        found = [0]
        while found[-1] < len(self.feed):
            found.append(min(len(self.feed), found[-1] + self.rng.randint(1, size)))
        return found


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
        given = self.inputs[self.rng.choice(["s0", "s1", "s2"])]
        types = tuple(given.schema.attributes[i].type for i in given.places)
        if self.coin(0.1):
            return Grown(cql.Stamped(cql.Stream(given.name)), (*types, self.type))
        return Grown(cql.Stream(given.name), types)

    def span(self, least: int, most: int) -> int:
        return self.rng.randint(least, most) * self.unit

    def origin(self) -> int:
        return self.span(-4, 4) if self.coin(0.3) else 0

    def window(self, depth: int) -> Grown:
        below = self.stream(depth)
        kind = self.rng.choice(["NOW", "RANGE", "RANGE", "RANGE", "UNBOUNDED", "ROWS"])
        if kind == "ROWS":
            by = self.rng.sample(range(len(below.types)), self.rng.randint(0, min(2, len(below.types))))
            return Grown(cql.Rows(below.query, self.rng.randint(1, 4), tuple(by)), below.types)
        slide = self.span(1, 4) if kind != "NOW" and self.coin(0.3) else None
        size = self.span(0, 4) if kind == "RANGE" else 0
        origin = 0 if slide is None else self.origin()
        return Grown(cql.Window(below.query, kind, size, slide, origin), below.types)

    def named(self) -> Grown:
        given = self.inputs[self.rng.choice(["r0", "r1", "r2", "r3"])]
        return Grown(cql.Relation(given.name), tuple(given.schema.attributes[i].type for i in given.places))

    # Relations

    def relation(self, depth: int) -> Grown:
        if depth == 0:
            return self.window(0) if self.coin(0.75) else self.named()
        kinds = [self.window, self.select, self.project, self.distinct, self.group, self.group]
        kinds += [self.join, self.join, self.join, self.not_in, self.set_operation, self.set_operation]
        return self.rng.choice(kinds)(depth - 1)

    def scalar(self, types: Sequence[Type]) -> tuple[cql.Scalar, Type]:
        place = self.rng.randrange(len(types))
        if types[place] is INT and self.coin(0.2):
            return cql.Plus(place, self.rng.choice([-1, 1])), INT
        if self.coin(0.05):
            return cql.Constant(self.rng.choice(VALUES[INT])), INT
        return cql.Column(place), types[place]

    def predicate(self, types: Sequence[Type]) -> cql.Predicate:
        """Constants of a known type, or two columns of one type."""
        place = self.rng.randrange(len(types))
        if self.coin(0.2):
            return cql.IsNull(cql.Column(place))
        type_, op = types[place], self.rng.choice(["=", "<>", "<", "<=", ">="])
        other = cql.Column(self.rng.choice([i for i, t in enumerate(types) if t == type_]))
        known = VALUES.get(type_)
        finite = [v for v in known or () if v == v and v - v == 0] if type_ is DOUBLE else known
        test = cql.Compare(
            op, cql.Column(place), cql.Constant(self.rng.choice(finite), type_) if finite else other
        )
        if self.coin(0.2):
            test = cql.Compare(op, cql.Column(place), other)
        return cql.Or(test, cql.IsNull(cql.Column(place))) if self.coin(0.15) else test

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
        found, types = [cql.Aggregate("COUNT")], [below.types[i] for i in keys] + [INT]
        for _ in range(self.rng.randint(0, 2)):
            place = self.rng.randrange(len(below.types))
            type_ = below.types[place]
            is_number = type_ in (INT, DOUBLE) or isinstance(type_, DecimalType)
            function = self.rng.choice(["COUNT", "MIN", "MAX", *(["SUM", "AVG"] * 2 if is_number else [])])
            found.append(cql.Aggregate(function, place, self.coin(0.3), type_))
            types.append(result(function, type_))
        if self.coin(0.3):
            found, types = (
                found[1:] or found,
                types if not found[1:] else types[: len(keys)] + types[len(keys) + 1 :],
            )
        having = self.predicate(types) if self.coin(0.2) else None
        return Grown(cql.GroupBy(below.query, tuple(keys), tuple(found), having), tuple(types))

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

    def keys(self, left: Grown, right: Grown, most: int) -> tuple[tuple[int, int], ...]:
        """Pairs of columns of one type, no column twice."""
        pairs = [(i, j) for i, a in enumerate(left.types) for j, b in enumerate(right.types) if a == b]
        self.rng.shuffle(pairs)
        found: list[tuple[int, int]] = []
        for i, j in pairs:
            if len(found) < most and all(i != a and j != b for a, b in found):
                found.append((i, j))
        return tuple(found)

    def not_in(self, depth: int) -> Grown:
        left, right = self.relation(depth), self.relation(depth if self.coin(0.5) else 0)
        pair, keys = self.keys(left, right, 1), self.keys(left, right, self.rng.choice([0, 0, 1]))
        if not pair:
            return self.join(depth)
        return Grown(cql.NotIn(left.query, right.query, *pair[0], keys), left.types)

    def set_operation(self, depth: int) -> Grown:
        left, right = self.relation(depth), self.relation(depth)
        both = [t for t in dict.fromkeys(left.types) if t in right.types]
        types = tuple(self.rng.sample(both, self.rng.randint(1, len(both)))) if both else (INT,)
        a, b = (self.shape(side, types) for side in (left, right))
        if self.coin(0.25):
            return Grown(cql.UnionAll(a, b), types)
        return Grown(cql.SetOp(self.rng.choice(SETS), a, b), types)

    def shape(self, below: Grown, types: Sequence[Type]) -> cql.Query:
        """Columns of these types."""
        found: list[cql.Scalar] = []
        for t in types:
            places = [i for i, mine in enumerate(below.types) if mine == t]
            found.append(cql.Column(self.rng.choice(places)) if places else cql.Constant(1))
        return cql.Project(below.query, tuple(found))


def result(function: str, type_: Type) -> Type:
    """The type of an aggregate."""
    if function == "COUNT":
        return INT
    if function == "AVG":
        return decimal(38, type_.scale + 4) if isinstance(type_, DecimalType) else DOUBLE
    return decimal(38, type_.scale) if function == "SUM" and isinstance(type_, DecimalType) else type_


class Feeder:
    """Draws a grammatical feed: equal timestamps, duplicates, gaps, deletes too many, promises of all kinds."""

    def __init__(
        self, rng: random.Random, inputs: dict[str, Input], time: Time, base: int, unit: int
    ) -> None:
        self.rng, self.inputs, self.time, self.unit = rng, inputs, time, unit
        nudges = [0] if unit == 1 else [0, 0, -1, 1]
        self.instants = sorted({base + n * unit + rng.choice(nudges) for n in range(-3, 9)})
        self.said: dict[str, list[Punctuation]] = {name: [] for name in inputs}
        self.seen: dict[str, list[Row]] = {name: [] for name in inputs}

    def feed(self, least: int = 3, most: int = 22) -> list[tuple[str, Element]]:
        """Elements of all inputs, interleaved, and mostly their ends."""
        found: list[tuple[str, Element]] = []
        chatty = self.rng.choice([0.2, 0.35, 0.5])
        for _ in range(self.rng.randint(least, most)):
            name = self.rng.choice(list(self.inputs))
            if self.rng.random() < chatty:
                p = self.punctuation(self.inputs[name])
                self.said[name].append(p)
                found.append((name, p))
            else:
                t = self.tuple(self.inputs[name])
                found += [] if t is None else [(name, t)]
        ends = [name for name in self.inputs if self.rng.random() < 0.9]
        self.rng.shuffle(ends)
        last: list[tuple[str, Element]] = [
            (name, Punctuation.everything(self.inputs[name].schema)) for name in ends
        ]
        return [*found, *last]

    def tuple(self, given: Input) -> Row | None:
        """A tuple that no punctuation forbids."""
        for _ in range(10):
            t = self.rng.choice(self.seen[given.name]) if self._again(given) else self._tuple(given)
            forbidden = any(match(t, p) for p in self.said[given.name])
            outside = any(
                not (a.nullable if v is None else a.domain.matches(v))
                for a, v in zip(given.schema, t, strict=True)
            )
            if not forbidden and not outside:
                self.seen[given.name].append(t)
                return t
        return None

    def _again(self, given: Input) -> bool:
        return bool(self.seen[given.name]) and self.rng.random() < 0.25

    def _tuple(self, given: Input) -> Row:
        attributes = [given.schema.attributes[i] for i in given.places]
        e = tuple(
            None if a.nullable and self.rng.random() < 0.15 else self.rng.choice(VALUES[a.type])
            for a in attributes
        )
        at = self.rng.choice(self.instants)
        if given.change is not None and self.rng.random() < 0.05:
            at = self.time.low  # it was always so
        first = self.time.low + (given.is_stream and not self.time.declared_low)
        return given.row(e, max(first, min(self.time.high, at)), self.rng.choice([1, 1, 1, 2, -1, -1, -3]))

    def punctuation(self, given: Input) -> Punctuation:
        """Prefixes, of a key too; ranges and lists of instants; keys for ever; anything."""
        ps: list[Pattern] = [WILDCARD] * len(given.schema)
        kind = self.rng.choice(["prefix", "prefix", "key prefix", "key prefix", "instants", "key", "any"])
        if given.stamp is None:
            kind = self.rng.choice(["key", "key", "any"])
        if kind != "key" and given.stamp is not None and (kind != "any" or self.rng.random() < 0.7):
            ps[given.schema.index(given.stamp)] = self._when(given, "prefix" in kind)
        if kind in ("key prefix", "key"):
            place = given.places[0] if self.rng.random() < 0.7 else self.rng.choice(given.places)
            ps[place] = self._what(given.schema.attributes[place].type)
        elif kind == "any":
            for place in given.places:
                if self.rng.random() < 0.5:
                    ps[place] = self._what(given.schema.attributes[place].type)
        if all(p is WILDCARD for p in ps):
            ps[given.places[0]] = self._what(given.schema.attributes[given.places[0]].type)
        return Punctuation(given.schema, ps)

    def _when(self, given: Input, is_prefix: bool) -> Pattern:
        a, b = sorted(self.rng.choice(self.instants) for _ in range(2))
        a, b = (max(self.time.low, min(self.time.high, at)) for at in (a, b))
        if is_prefix:
            return interval(given.type, None, self.rng.choice([a, b]))
        kinds = [interval(given.type, a, b), interval(given.type, a, None)]
        return self.rng.choice([*kinds, pt.values(given.type, [timestamp(given.type, at) for at in (a, b)])])

    def _what(self, type_: Type) -> Pattern:
        a, b = (self.rng.choice(VALUES[type_]) for _ in range(2))
        kinds = [pt.constant(type_, a)] * 3 + [pt.values(type_, [a, b])]
        return self.rng.choice([*kinds, pt.interval(type_, None, a, False, True)])
