"""OVER in SQL: results compared with DuckDB, plans, and explain."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import Any

import duckdb
import polars as pl
import pytest

from tests.engine.fixtures import FOLDER, evaluate
from xmlpunct.engine.plan import Over
from xmlpunct.engine.sql import plan
from xmlpunct.engine.why.plan_text import explain, unblocking

DDL = """
CREATE STREAM bid (item STRING, bidder INT, price INT, d DECIMAL(8,2), ts INT NOT NULL, day DATE NOT NULL,
  moment TIMESTAMP NOT NULL) WITH (source = 'bids.xml');
CREATE STREAM item (id STRING, kind STRING) WITH (source = 'items.xml');
"""
ALL = "ORDER BY ts, item, bidder, price, d, day, moment"
"""An order without ties."""
QUERIES = [q.replace("$ALL", ALL) for q in (FOLDER / "over.sql").read_text().strip().split("\n\n")]


def tables(seed: int) -> dict[str, pl.DataFrame]:
    rng = random.Random(seed)
    streams = plan(DDL + "SELECT item, id FROM bid, item").streams
    bids = []
    for _ in range(40):
        ts = rng.randint(0, 12)
        day = date(2026, 1, 1) + timedelta(days=ts // 3)
        at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=30 * ts)
        money = rng.choice([None, "0.50", "-3.25", "99.99"])
        bids.append(
            (
                rng.choice([None, "A", "B", "C"]),
                rng.randint(1, 2),
                rng.choice([None, 1, 3, 5, 9]),
                money,
                ts,
                day,
                at,
            )
        )
    frames = {"bid": bids, "item": [("A", "x"), ("B", "y"), ("C", "y")]}
    types = {s.name: s.schema.dtypes for s in streams}
    return {
        name: pl.DataFrame(rows, schema=list(types[name]), orient="row").cast(dict(types[name]))  # type: ignore[arg-type]
        for name, rows in frames.items()
    }


def plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        v.replace(tzinfo=None) if isinstance(v, datetime) else round(v, 9) if isinstance(v, float) else v
        for v in row
    )


@pytest.mark.parametrize("sql", QUERIES)
def test_results_are_as_in_duckdb(sql: str) -> None:
    frames = tables(len(sql))
    ours, rejected = evaluate(plan(DDL + sql.replace("ts DIV 2", "ts / 2")).root, frames)
    assert not rejected
    with duckdb.connect() as db:
        for name, frame in frames.items():
            db.register(name, frame.with_columns(pl.col(pl.Datetime).dt.replace_time_zone(None)).to_arrow())
        theirs = db.execute(sql.replace("ts DIV 2", "ts // 2")).fetchall()
    assert Counter(map(plain, ours.rows())) == Counter(map(plain, theirs))


def overs(sql: str) -> list[Over]:
    return list(plan(DDL + sql).root.find(Over))


def test_calls_that_are_final_together_share_a_node() -> None:
    calls = "COUNT(*) OVER w, SUM(price) OVER w, LAG(price) OVER w, LEAD(price) OVER w"
    sql = f"SELECT {calls} FROM bid WINDOW w AS (ORDER BY ts)"
    assert [len(node.calls) for node in overs(sql)] == [4, 1], (
        "a row number is added, so that ties have the same order in both nodes"
    )


def test_an_unused_call_is_dropped() -> None:
    assert not overs("SELECT ts FROM (SELECT ts, COUNT(*) OVER (ORDER BY ts) AS n FROM bid) AS b")
    may_reject = "SELECT ts FROM (SELECT ts, SUM(price) OVER (ORDER BY ts) AS n FROM bid) AS b"
    assert len(overs(may_reject)) == 1


def test_columns_are_read_where_they_break_ties() -> None:
    (ranked,) = overs("SELECT RANK() OVER (PARTITION BY item ORDER BY ts) AS r FROM bid")
    assert ranked.input.schema.names == ("bid.item", "bid.ts")
    (numbered,) = overs("SELECT ROW_NUMBER() OVER (PARTITION BY item ORDER BY ts) AS r FROM bid")
    assert len(numbered.input.schema) == 7


@pytest.mark.parametrize(
    ("over", "text"),
    [
        (
            "SUM(price) OVER (PARTITION BY item ORDER BY ts)",
            "a tuple is released once every bid.ts of its bid.item",
        ),
        (
            "LEAD(price) OVER (ORDER BY ts)",
            "is closed up to its own and that of 1 tuple behind it: bid has closed its ts",
        ),
        ("NTILE(2) OVER (PARTITION BY item ORDER BY ts)", "once all of its bid.item is closed for ever"),
        (
            "SUM(price) OVER (PARTITION BY item)",
            "once all of its bid.item is closed for ever: bid has closed its item",
        ),
        ("RANK() OVER (PARTITION BY item ORDER BY ts DESC)", "once all of its bid.item is closed for ever"),
        ("COUNT(*) OVER ()", "nothing is released before the end of bid"),
        ("COUNT(*) OVER (ORDER BY ts * bidder)", "nothing is released before the end of bid"),
    ],
)
def test_explain_shows_the_needed_punctuations(over: str, text: str) -> None:
    if "bidder" in over:
        over = over.replace("bidder", "COALESCE(bidder, 1)")
    assert text in "\n".join(unblocking(plan(DDL + f"SELECT {over} AS x FROM bid").walk()))


@pytest.mark.parametrize(("over", "verdict"), [("PARTITION BY item", "fine"), ("", "blocks for ever")])
def test_without_an_order_a_closed_partition_unblocks(over: str, verdict: str) -> None:
    ddl = """CREATE STREAM bid (item STRING NOT NULL, price INT) WITH (source = 'tcp://:7001')
      PUNCTUATED BY (item);"""
    text = explain(plan(f"{ddl} SELECT item, price, SUM(price) OVER ({over}) AS total FROM bid"))
    verdicts = text.partition("will it unblock")[2]
    assert f"over: {verdict}" in verdicts
