"""The streams of random plans: declarations, random punctuated feeds, and random slices of feeds."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise, product
from pathlib import Path

from tests.oracle.order import in_time
from tests.oracle.values import Row
from tests.strategies import Cut, Element, tuples_of
from xmlpunct.engine.plan import Stream
from xmlpunct.engine.sql.planner.catalog import declared
from xmlpunct.engine.sql.syntax.dialect import parse_statements
from xmlpunct.punctuations.punctuation import Punctuation, match
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import ArrayType
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, NAN, STRING, TIMESTAMP, Type, Value, decimal
from xmlpunct.types import pattern as pt
from xmlpunct.types.pattern import WILDCARD, Pattern

MONEY = decimal(12, 1)
DDL = f"""
CREATE STREAM s0 (k INT, v INT, t STRING) WITH (source = '-');
CREATE STREAM s1 (k INT NOT NULL, v INT) WITH (source = '-');
CREATE STREAM s2 (k INT CHECK (k BETWEEN -1 AND 2), v INT NOT NULL, t STRING) WITH (source = '-');
CREATE STREAM s3 (k INT, d DECIMAL(12,1), day DATE NOT NULL, f BOOLEAN NOT NULL) WITH (source = '-');
CREATE STREAM s4 (k INT NOT NULL, x DOUBLE, at TIMESTAMP, t STRING CHECK (t IN ('a', 'b'))) WITH (source = '-');
CREATE STREAM s5 (k INT, v INT, d DECIMAL(12,1) NOT NULL) WITH (source = '-') PUNCTUATE ORDER BY k SLACK 1;
CREATE STREAM s6 (k INT NOT NULL, t STRING, v INT) WITH (source = '-')
  PUNCTUATE ORDER BY k FROM '{Path(__file__).parent / "senders.txt"}' BY t;
CREATE STREAM s7 (x DOUBLE, d DECIMAL(12,1), day DATE, v INT) WITH (source = '-');
CREATE STREAM s8 (at TIMESTAMP NOT NULL, f BOOLEAN, x DOUBLE NOT NULL) WITH (source = '-');
CREATE STREAM s9 (day DATE NOT NULL, at TIMESTAMP, f BOOLEAN NOT NULL, d DECIMAL(12,1)) WITH (source = '-');
CREATE STREAM s10 (k INT, v INT, l ARRAY(i INT, u STRING NOT NULL)) WITH (source = '-');
CREATE STREAM s11 (k INT NOT NULL, l ARRAY(i INT NOT NULL, m ARRAY(x DOUBLE, j INT)), t STRING) WITH (source = '-');
"""
STREAMS = tuple(declared(parse_statements(DDL), {}).values())
NAMES = [s.name for s in STREAMS]

_DAYS = (date(2023, 12, 31), date(2024, 1, 1), date(2024, 1, 2))
_TIMES = (datetime(2023, 12, 31, 23, 59, 59, 999999), datetime(2024, 1, 1), datetime(2024, 1, 1, 12))
VALUES: dict[Type, tuple[Value, ...]] = {
    INT: (-1, 0, 1, 2),
    STRING: ("", "a", "b"),
    MONEY: tuple(map(Decimal, ("-0.5", "0.0", "0.5", "1.0"))),
    DOUBLE: (-math.inf, -0.0, 0.0, 2.5, math.inf, NAN),
    DATE: _DAYS,
    TIMESTAMP: tuple(t.replace(tzinfo=UTC) for t in _TIMES),
    BOOLEAN: (False, True),
}
"""Few values of each type, so that tuples of different streams join."""


def _arrays(type_: ArrayType) -> tuple[Value, ...]:
    """Arrays with no item, one item and several items, including duplicates."""
    pools = [
        _arrays(a.type)[:3] if isinstance(a.type, ArrayType) else [*VALUES[a.type][:3], *[None] * a.nullable]
        for a in type_.attributes
    ]
    names = [a.name for a in type_.attributes]
    items = [dict(zip(names, values, strict=True)) for values in product(*pools)]
    return ([], [items[0]], [items[-1], items[1], items[-1]], items[2:5])


VALUES |= {a.type: _arrays(a.type) for s in STREAMS for a in s.schema if isinstance(a.type, ArrayType)}


def feed(rng: random.Random, schema: Schema, size: int = 24) -> list[Element]:
    """A random grammatical stream with its end. Many punctuations close one value of the first attribute."""
    pools = [
        [v for v in (*VALUES[a.type], None) if (a.nullable if v is None else a.domain.matches(v))]
        for a in schema
    ]
    allowed = list(product(*pools))
    first = schema.attributes[0].type
    to_close = rng.sample(VALUES[first], rng.randint(0, len(VALUES[first])))
    elements: list[Element] = []
    for _ in range(rng.randint(size // 2, size)):
        if allowed and rng.random() < 0.75:
            elements.append(rng.choice(allowed))
            continue
        ps: list[Pattern] = [WILDCARD] * len(schema)
        if to_close and rng.random() < 0.6:
            ps[0] = pt.constant(first, to_close.pop())
        else:
            ps = [
                pattern(rng, a.type) if a.type.comparable and rng.random() < 0.5 else WILDCARD for a in schema
            ]
        if all(p is WILDCARD for p in ps):
            continue
        p = Punctuation(schema, ps)
        elements.append(p)
        allowed = [t for t in allowed if not match(t, p)]
    return [*elements, Punctuation.everything(schema)]


def pattern(rng: random.Random, type_: Type) -> Pattern:
    """A random pattern of any kind."""
    a, b = (rng.choice(VALUES[type_]) for _ in range(2))
    kinds = [pt.constant(type_, a), pt.values(type_, [a, b]), pt.interval(type_, None, a, False, True)]
    return rng.choice([*kinds, pt.interval(type_, a, b, True, rng.random() < 0.5)])


def rows_of(stream: Stream, elements: Iterable[Element]) -> list[Row]:
    """The tuples of a complete feed, without the tuples that PUNCTUATE drops."""
    rows, order = tuples_of(elements), stream.order
    if order is None:
        return rows
    sender_column = None if order.sender_column is None else stream.schema.index(order.sender_column)
    return in_time(rows, stream.schema.index(order.attribute), order.slack, sender_column, order.senders)


def parts(rng: random.Random, inputs: Sequence[list[Element]], count: int) -> list[list[list[Element]]]:
    """The feeds cut into ``count`` consecutive parts; each part contains a piece of every feed."""
    marks = [
        [0, *sorted(rng.randint(0, len(elements)) for _ in range(count - 1)), len(elements)]
        for elements in inputs
    ]
    pieces = [[elements[a:b] for a, b in pairwise(at)] for elements, at in zip(inputs, marks, strict=True)]
    return [list(part) for part in zip(*pieces, strict=True)]


def cuts(rng: random.Random, inputs: Sequence[list[Element]]) -> list[Cut]:
    """The feeds cut into random slices and interleaved."""
    remaining, slices = [list(elements) for elements in inputs], []
    longest = rng.choice([1, 3, 8, 100])
    while any(remaining):
        port = rng.choice([i for i, elements in enumerate(remaining) if elements])
        size = rng.randint(1, longest)
        slices.append((port, remaining[port][:size]))
        remaining[port] = remaining[port][size:]
    return slices
