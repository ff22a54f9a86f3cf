"""Interval joins retain only tuples within the interval, for each spelling, type and kind of join."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from xmlpunct.engine.plan import Join, Query
from xmlpunct.engine.run.build import build
from xmlpunct.engine.sql import plan
from xmlpunct.engine.verdicts import faults
from xmlpunct.slice import Slice
from xmlpunct.types import Value

TUPLES, STEP = 200, 5
AROUND = "x.a BETWEEN o.a - 5 AND o.a + 5"
VALUES: dict[str, Callable[[int], Value]] = {
    "INT": int,
    "DECIMAL(9,1)": Decimal,
    "DOUBLE": float,
    "DATE": lambda n: date(2024, 1, 1) + timedelta(days=n),
    "TIMESTAMP": lambda n: datetime(2024, 1, 1, tzinfo=UTC) + timedelta(minutes=n),
}
SPELLINGS = [
    *((type_, AROUND) for type_ in ("INT", "DECIMAL(9,1)", "DOUBLE", "DATE")),
    ("INT", "o.a + 5 >= x.a AND x.a - 5 <= o.a AND x.a >= o.a - 5"),
    ("INT", "x.a - o.a <= 5 AND o.a - x.a <= 5"),
    ("DECIMAL(9,1)", "ABS(x.a - o.a) <= 5"),
    ("DATE", "x.a - o.a BETWEEN -5 AND 5"),
    ("INT", "x.a / 5 BETWEEN o.a / 5 AND o.a / 5 + 1"),
    ("TIMESTAMP", "x.a BETWEEN o.a AND o.a + INTERVAL '5' MINUTE"),
    ("TIMESTAMP", "x.a >= o.a - INTERVAL '5' MINUTE AND o.a >= x.a - INTERVAL '300' SECOND"),
    ("TIMESTAMP", "DATE_DIFF('minute', o.a, x.a) BETWEEN -5 AND 5"),
    ("DOUBLE", "o.a - 5 <= x.a AND x.a - 5 <= o.a"),
]
JOINS = {
    "ON": "SELECT x.v, o.v AS w FROM x JOIN o ON x.k = o.k AND {}",
    "no key": "SELECT x.v, o.v AS w FROM x JOIN o ON {}",
    "WHERE": "SELECT x.v, o.v AS w FROM x JOIN o ON x.k = o.k WHERE {}",
    "comma": "SELECT x.v, o.v AS w FROM x, o WHERE x.k = o.k AND {}",
    "USING": "SELECT x.v, o.v AS w FROM x JOIN o USING (k) WHERE {}",
    "left": "SELECT x.v, o.v AS w FROM x LEFT JOIN o ON x.k = o.k AND {}",
    "right": "SELECT x.v, o.v AS w FROM x RIGHT JOIN o ON {}",
    "full": "SELECT x.v, o.v AS w FROM x FULL JOIN o ON x.k = o.k AND {}",
    "left, WHERE": "SELECT x.v, o.v AS w FROM x LEFT JOIN o ON x.k = o.k WHERE {}",
    "EXISTS": "SELECT x.v FROM x WHERE EXISTS (SELECT 1 FROM o WHERE x.k = o.k AND {})",
    "NOT EXISTS": "SELECT x.v FROM x WHERE NOT EXISTS (SELECT 1 FROM o WHERE x.k = o.k AND {})",
    "IN": "SELECT x.v FROM x WHERE x.k IN (SELECT o.k FROM o WHERE {})",
    "above, WHERE": "SELECT v FROM (SELECT x.v, x.a AS b, o.a AS c FROM x JOIN o USING (k)) WHERE ABS(b - c) < 6",
    "three": "SELECT x.v FROM x JOIN o USING (k) JOIN x AS z ON z.k = x.k WHERE {} AND z.a BETWEEN x.a AND x.a + 5",
}  # fmt: skip
CASES = [("ON", *spelling) for spelling in SPELLINGS] + [(name, "INT", AROUND) for name in JOINS]


def planned(join: str, type_: str, condition: str) -> Query:
    streams = "".join(
        f"CREATE STREAM {name} (k INT NOT NULL, a {type_} NOT NULL, v INT) WITH (source = '-') PUNCTUATE ORDER BY a; "
        for name in "xo"
    )
    return plan(streams + JOINS[join].format(condition))


@pytest.mark.parametrize("residual", ["", " AND 100 / o.v > x.v"])
@pytest.mark.parametrize(("join", "type_", "condition"), CASES)
def test_the_state_is_bounded_by_the_interval(join: str, type_: str, condition: str, residual: str) -> None:
    query = planned(join, type_, condition + residual)
    value = VALUES[type_]
    pipeline = build(query.roots, [s.name for s in query.streams])
    for first in range(0, TUPLES, STEP):
        rows = [(1, value(n), n % 3) for n in range(first, first + STEP)]
        for port, stream in enumerate(query.streams):
            pipeline.push(port, Slice(stream.schema.frame(rows), []))
    joins = [node.number for node in query.root.find(Join)]
    assert joins
    peaks = {o.number: c.state_rows_peak for o, c in zip(pipeline.operators, pipeline.counters, strict=True)}
    limit = 250 if join == "three" else 40  # of three inputs, pairs are retained
    assert all(peaks[number] <= limit for number in joins), peaks


@pytest.mark.parametrize(("join", "type_", "condition"), CASES)
def test_the_verdict_is_fine(join: str, type_: str, condition: str) -> None:
    query = planned(join, type_, condition)
    assert not faults(query)
