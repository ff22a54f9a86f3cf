"""The oracle of OVER: its values equal DuckDB's, and no released row changes."""

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


def grown(rng: random.Random, ts: int, columns: list[int]) -> Over:
    """A random call over INT columns; ``columns``: the positions of k and v."""
    function = rng.choice(list(FUNCTIONS))
    unit = rng.choice(["ROWS", "RANGE"])
    start = rng.choice([None, -2, -1, 0])
    end = rng.choice([None, 0, 0, 1, 2])
    keys = rng.choice([(), (columns[0],), (columns[0],)])
    return Over(
        function, ((ts, False, False),), keys, rng.choice(columns), rng.randint(1, 3), unit, start, end
    )


def side(offset: int | None, word: str) -> str:
    if offset == 0:
        return "CURRENT ROW"
    return (
        f"UNBOUNDED {word}"
        if offset is None
        else f"{abs(offset)} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"
    )


def sql(op: Over, names: list[str]) -> str:
    """The call in DuckDB. All columns break ties if the result depends on them."""
    assert op.argument is not None
    call = FUNCTIONS[op.function].format(names[op.argument], n=op.n)
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
def test_values_equal_duckdb(block: int) -> None:
    with duckdb.connect() as db:
        for i, (rng, input_, _, feed) in enumerate(cases(80)):
            if i % 2 != block:
                continue
            names = list(input_.schema.names)
            ts = names.index(input_.stamp or "")
            op = grown(rng, ts, [names.index("k"), names.index("v")])
            if op.unit == "RANGE" and op.function in ("FIRST_VALUE", "LAST_VALUE", "NTH_VALUE"):
                continue  # SQL does not define the order of peers inside a frame
            tuples = [t for _, t in feed if not isinstance(t, Punctuation) and abs(t[ts]) < 2**60]
            db.execute(f"CREATE OR REPLACE TABLE t ({', '.join(f'{n} BIGINT' for n in names)})")
            if tuples:
                db.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(names))})", tuples)
            rows_of_duckdb = db.execute(f"SELECT *, {sql(op, names)} FROM t").fetchall()
            expected = rows(op, input_, tuples)
            assert bag(tuple(map(_plain, t)) for t in rows_of_duckdb) == bag(
                tuple(map(_plain, t)) for t in expected.elements()
            ), sql(op, names)


def _plain(v: object) -> object:
    """Numbers as floats: DuckDB returns SUM of BIGINT as HUGEINT and some counts as DOUBLE."""
    return float(v) if isinstance(v, int | float) and not isinstance(v, bool) else v


def test_released_rows_are_final() -> None:
    early = 0
    for rng, input_, time, feed in cases(60):
        names = list(input_.schema.names)
        ts = names.index(input_.stamp or "")
        op = grown(rng, ts, [names.index("k"), names.index("v")])
        for position in range(len(feed) + 1):
            before = feed[:position]
            out = released(op, input_, before)
            early += bool(out) and position < len(feed)
            after = [*before, *continuation(rng, {input_.name: input_}, before, time)]
            for final_feed in (after, feed):
                final = rows(op, input_, [t for _, t in final_feed if not isinstance(t, Punctuation)])
                assert out <= final, (op, out - final)
    assert early
