"""The oracle of OVER: DuckDB's values, and what is out never changes."""

from __future__ import annotations

import random

import duckdb
import pytest

from tests.oracle.cql.futures import continuation
from tests.oracle.over import Over, released, rows
from tests.oracle.test_windows import cases
from tests.oracle.values import bag
from xmlpunct.punctuations.punctuation import Punctuation

FUNCTIONS = {
    "COUNT": "COUNT({})",
    "SUM": "SUM({})",
    "AVG": "AVG({})",
    "MIN": "MIN({})",
    "MAX": "MAX({})",
    "FIRST_VALUE": "FIRST_VALUE({})",
    "LAST_VALUE": "LAST_VALUE({})",
    "NTH_VALUE": "NTH_VALUE({}, {n})",
    "LAG": "LAG({}, {n})",
    "LEAD": "LEAD({}, {n})",
    "ROW_NUMBER": "ROW_NUMBER()",
    "RANK": "RANK()",
    "DENSE_RANK": "DENSE_RANK()",
    "CUME_DIST": "CUME_DIST()",
    "PERCENT_RANK": "PERCENT_RANK()",
    "NTILE": "NTILE({n})",
}
FRAMED = ("COUNT", "SUM", "AVG", "MIN", "MAX", "FIRST_VALUE", "LAST_VALUE", "NTH_VALUE")


def grown(rng: random.Random, ts: int, others: list[int]) -> Over:
    """A random call: (k, v) are INT columns."""
    function = rng.choice(list(FUNCTIONS))
    unit = rng.choice(["ROWS", "RANGE"])
    start = rng.choice([None, -2, -1, 0])
    end = rng.choice([None, 0, 0, 1, 2])
    by = rng.choice([(), (others[0],), (others[0],)])
    return Over(function, ((ts, False, False),), by, rng.choice(others), rng.randint(1, 3), unit, start, end)


def side(offset: int | None, word: str) -> str:
    if offset == 0:
        return "CURRENT ROW"
    return (
        f"UNBOUNDED {word}"
        if offset is None
        else f"{abs(offset)} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"
    )


def sql(op: Over, names: list[str]) -> str:
    """The call in DuckDB: peers by ts alone, or all columns to break ties where that decides."""
    assert op.place is not None
    call = FUNCTIONS[op.function].format(names[op.place], n=op.n)
    ts = names[op.order[0][0]]
    by_peers = op.function in ("RANK", "DENSE_RANK", "CUME_DIST", "PERCENT_RANK")
    ties = (
        ""
        if by_peers or (op.unit == "RANGE" and op.function in FRAMED)
        else "".join(f", {n} NULLS LAST" for n in names if n != ts)
    )
    part = f"PARTITION BY {', '.join(names[i] for i in op.by)} " if op.by else ""
    frame = f" {op.unit} BETWEEN {side(op.start, 'PRECEDING')} AND {side(op.end, 'FOLLOWING')}"
    return f"{call} OVER ({part}ORDER BY {ts}{ties}{frame if op.function in FRAMED else ''})"


@pytest.mark.parametrize("block", range(2))
def test_values_are_a_databases(block: int) -> None:
    with duckdb.connect() as db:
        for i, (rng, given, _, feed) in enumerate(cases(80)):
            if i % 2 != block:
                continue
            names = list(given.schema.names)
            ts = names.index(given.stamp or "")
            op = grown(rng, ts, [names.index("k"), names.index("v")])
            if op.unit == "RANGE" and op.function in ("FIRST_VALUE", "LAST_VALUE", "NTH_VALUE"):
                continue  # ties inside a frame of peers are not SQL's to say
            tuples = [t for _, t in feed if not isinstance(t, Punctuation) and abs(t[ts]) < 2**60]
            db.execute(f"CREATE OR REPLACE TABLE t ({', '.join(f'{n} BIGINT' for n in names)})")
            if tuples:
                db.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(names))})", tuples)
            found = db.execute(f"SELECT *, {sql(op, names)} FROM t").fetchall()
            wanted = rows(op, given, tuples)
            assert bag(tuple(map(_plain, t)) for t in found) == bag(
                tuple(map(_plain, t)) for t in wanted.elements()
            ), sql(op, names)


def _plain(v: object) -> object:
    """DuckDB's SUM of BIGINT is HUGEINT, some of its counts DOUBLE."""
    return float(v) if isinstance(v, int | float) and not isinstance(v, bool) else v


def test_what_is_out_is_final() -> None:
    early = 0
    for rng, given, time, feed in cases(60):
        names = list(given.schema.names)
        ts = names.index(given.stamp or "")
        op = grown(rng, ts, [names.index("k"), names.index("v")])
        for position in range(len(feed) + 1):
            before = feed[:position]
            out = released(op, given, before)
            early += bool(out) and position < len(feed)
            after = [*before, *continuation(rng, {given.name: given}, before, time)]
            for whole in (after, feed):
                final = rows(op, given, [t for _, t in whole if not isinstance(t, Punctuation)])
                assert out <= final, (op, out - final)
    assert early
