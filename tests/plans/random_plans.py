"""Random plans and streams, from a seed. Names are fresh all over a plan, so that sides of joins never clash."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import count, product

from tests.strategies import Cut, Element
from xmlpunct import patterns as pt
from xmlpunct.engine.plan import (
    Difference,
    DupElim,
    GroupBy,
    Intersect,
    Join,
    Merge,
    Node,
    NotIn,
    Project,
    Scan,
    Select,
    SemiJoin,
    Stream,
    Union,
    numbered,
)
from xmlpunct.operators import Aggregate
from xmlpunct.operators.expression import Column, Expression, Literal
from xmlpunct.operators.functions import call
from xmlpunct.operators.join import KINDS
from xmlpunct.patterns import WILDCARD, Pattern
from xmlpunct.punctuation import Punctuation, match
from xmlpunct.schema import Schema
from xmlpunct.types import INT, STRING, Type, Value

STREAMS = (
    Stream("s0", Schema.parse("k INT, v INT, t STRING"), "e", None),
    Stream("s1", Schema.parse("k INT NOT NULL, v INT"), "e", None),
    Stream("s2", Schema.parse("k INT CHECK (k BETWEEN -1 AND 2), v INT NOT NULL, t STRING"), "e", None),
)
NAMES = [s.name for s in STREAMS]
NUMBERS, TEXTS = (-1, 0, 1, 2), ("", "a", "b")


def column(schema: Schema, name: str) -> Column:
    return Column(schema[name].type, schema[name].nullable, name)


class Grower:
    """Grows a plan."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.numbers = count()

    def name(self) -> str:
        return f"c{next(self.numbers)}"

    def plan(self, depth: int) -> Node:
        return numbered(self.grow(depth))

    def grow(self, depth: int) -> Node:
        if depth == 0 or self.rng.random() < 0.1:
            return self.scan()
        kinds = [self.select, self.project, self.dupelim, self.group, self.merge, self.union]
        kinds += [
            self.join,
            self.join,
            self.join,
            self.semijoin,
            self.not_in,
            self.intersect,
            self.difference,
        ]
        return self.rng.choice(kinds)(depth - 1)

    def scan(self) -> Node:
        stream = self.rng.choice(STREAMS)
        names = stream.schema.names
        picked = ["k", *self.rng.sample(names[1:], self.rng.randint(0, len(names) - 1))]
        return Scan(stream, tuple(picked), tuple(self.name() for _ in picked))

    # One input

    def integers(self, node: Node, type_: Type = INT) -> list[str]:
        """The columns of a type."""
        return [a.name for a in node.schema if a.type == type_]

    def predicate(self, names: Sequence[str], schema: Schema) -> Expression:
        a, b = (column(schema, self.rng.choice(names)) for _ in range(2))
        first: Expression = call(
            self.rng.choice(["<", "<=", "=", "<>"]), a, Literal(INT, False, self.number())
        )
        second = self.rng.choice([call("IS NULL", b), call("<", a, b), call("NOT", call("=", b, a))])
        return self.rng.choice([first, first, second, call("OR", first, second), call("AND", first, second)])

    def number(self) -> int:
        return self.rng.choice(NUMBERS)

    def value(self, node: Node) -> Expression:
        """An expression over a node's whole numbers."""
        a, b = (column(node.schema, self.rng.choice(self.integers(node))) for _ in range(2))
        two, n = Literal(INT, False, 2), Literal(INT, False, self.number())
        made = [call("+", a, n), call("-", n, a), call("/", a, two), call("*", a, two)]
        return self.rng.choice([*made, call("+", a, b), call("COALESCE", a, n)])

    def select(self, depth: int) -> Node:
        below = self.grow(depth)
        names = self.integers(below)
        return Select(below, self.predicate(names, below.schema)) if names else below

    def project(self, depth: int) -> Node:
        return self.shape(self.grow(depth), self.rng.randint(1, 3), expressions=True)

    def shape(self, below: Node, width: int, expressions: bool = False) -> Node:
        """``width`` whole numbers of a node, under fresh names."""
        names = self.integers(below)
        if not names:
            return self.shape(self.scan(), width, expressions)
        picked = self.rng.sample(names, min(width, len(names)))
        columns = [
            self.value(below) if expressions and self.rng.random() < 0.5 else column(below.schema, name)
            for name in picked
        ]
        columns += [self.value(below) for _ in range(width - len(picked))]
        return Project(below, tuple((self.name(), e) for e in columns))

    def dupelim(self, depth: int) -> Node:
        return DupElim(self.grow(depth))

    def group(self, depth: int) -> Node:
        below = self.grow(depth)
        names, numbers = below.schema.names, self.integers(below)
        keys = self.rng.sample(names, self.rng.choice([0, 1, 1, 1, min(2, len(names))]))
        found = [Aggregate("COUNT", None, False, self.name())]
        if numbers:
            function = self.rng.choice(["COUNT", "SUM", "MIN", "MAX"])
            found += [Aggregate(function, self.rng.choice(numbers), self.rng.random() < 0.3, self.name())]
        return GroupBy(below, tuple(keys), tuple(found[self.rng.choice([0, -1]) :]))

    # Several inputs

    def pair(self, depth: int) -> tuple[Node, Node]:
        width = self.rng.randint(1, 2)
        return self.shape(self.grow(depth), width), self.shape(self.grow(depth), width)

    def merge(self, depth: int) -> Node:
        return Merge(self.pair(depth))

    def union(self, depth: int) -> Node:
        return Union(self.pair(depth))

    def intersect(self, depth: int) -> Node:
        return Intersect(*self.pair(depth))

    def difference(self, depth: int) -> Node:
        return Difference(*self.pair(depth))

    def sides(self, depth: int) -> tuple[Node, Node, tuple[tuple[str, str], ...], Expression | None]:
        """Two inputs, some equality attributes, perhaps a residual condition."""
        left, right = self.grow(depth), self.grow(depth)
        if set(left.schema.names) & set(right.schema.names):
            right = self.shape(right, 2)
        mine, its = self.integers(left), self.integers(right)
        texts = self.integers(left, STRING), self.integers(right, STRING)
        size = min(self.rng.choice([0, 1, 1, 1, 1, 2]), len(mine), len(its))
        keys = list(zip(self.rng.sample(mine, size), self.rng.sample(its, size), strict=True))
        if all(texts) and self.rng.random() < 0.3:
            keys.append((texts[0][0], texts[1][0]))
        residual = None
        if mine and its and self.rng.random() < 0.3:
            a, b = column(left.schema, self.rng.choice(mine)), column(right.schema, self.rng.choice(its))
            residual = call(self.rng.choice(["<", "<=", "<>"]), a, b)
        return left, right, tuple(keys), residual

    def join(self, depth: int) -> Node:
        left, right, keys, residual = self.sides(depth)
        return Join(left, right, keys, self.rng.choice(KINDS), residual)

    def semijoin(self, depth: int) -> Node:
        left, right, keys, residual = self.sides(depth)
        return SemiJoin(left, right, keys, self.rng.random() < 0.5, residual)

    def not_in(self, depth: int) -> Node:
        left, right = self.shape(self.grow(depth), 2), self.shape(self.grow(depth), 1)
        return NotIn(left, right, left.schema.names[0], right.schema.names[0])


# Streams


def stream(rng: random.Random, schema: Schema, size: int = 24) -> list[Element]:
    """A grammatical stream with its end. Values of k are closed one after the other, and other things too."""
    pools: list[list[Value]] = [
        [*(NUMBERS if a.type == INT else TEXTS), *([None] if a.nullable else [])] for a in schema
    ]
    allowed = list(product(*pools))
    to_close = rng.sample(NUMBERS, rng.randint(0, len(NUMBERS)))
    found: list[Element] = []
    for _ in range(rng.randint(size // 2, size)):
        if allowed and rng.random() < 0.75:
            found.append(rng.choice(allowed))
            continue
        ps: list[Pattern] = [WILDCARD] * len(schema)
        if to_close and rng.random() < 0.6:
            ps[0] = pt.constant(INT, to_close.pop())
        else:
            ps = [pattern(rng, a.type) if rng.random() < 0.5 else WILDCARD for a in schema]
        if all(p is WILDCARD for p in ps):
            continue
        p = Punctuation(schema, ps)
        found.append(p)
        allowed = [t for t in allowed if not match(t, p)]
    return [*found, Punctuation.everything(schema)]


def pattern(rng: random.Random, type_: Type) -> Pattern:
    """A pattern of any kind."""
    a, b = (rng.choice(NUMBERS if type_ == INT else TEXTS) for _ in range(2))
    kinds = [pt.constant(type_, a), pt.values(type_, [a, b]), pt.interval(type_, None, a, False, True)]
    return rng.choice([*kinds, pt.interval(type_, a, b, True, rng.random() < 0.5)])


def cuts(rng: random.Random, inputs: Sequence[list[Element]]) -> list[Cut]:
    """The streams cut into slices and interleaved."""
    rest, found = [list(elements) for elements in inputs], []
    most = rng.choice([1, 3, 8, 100])
    while any(rest):
        port = rng.choice([i for i, elements in enumerate(rest) if elements])
        size = rng.randint(1, most)
        found.append((port, rest[port][:size]))
        rest[port] = rest[port][size:]
    return found
