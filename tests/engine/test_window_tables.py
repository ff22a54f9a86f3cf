"""TUMBLE, HOP and SESSION in queries; WATERMARK; EMIT."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import duckdb
import pytest

import xmlpunct
from xmlpunct import Punctuation, SqlError
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.source import Source
from xmlpunct.engine.plan import Hop, Query, Scan, Select, Session
from xmlpunct.engine.run.local.local_run import LocalRun
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.sql import plan
from xmlpunct.engine.why.plan_text import explain

COLUMNS = "k STRING, price INT, ts INT NOT NULL, at TIMESTAMP NOT NULL, day DATE NOT NULL, late INT"
STREAM = f"CREATE STREAM bid ({COLUMNS}) WITH (source = 'bid.xml'); "


def planned(sql: str) -> Query:
    return plan(STREAM + sql)


def document(rows: Sequence[tuple[str, int]], punctuations: Sequence[str] = ()) -> bytes:
    """Bids of a key and a ts, then punctuations."""
    bids = [
        f"<bid><k>{k}</k><price>1</price><ts>{ts}</ts><at>2026-01-01T00:00:0{ts % 10}Z</at>"
        f"<day>2026-01-01</day></bid>"
        for k, ts in rows
    ]
    return f"<s xmlns:p='{PUNCT_NAMESPACE}'>{''.join(bids)}{''.join(punctuations)}</s>".encode()


def answers(sql: str, data: bytes, ddl: str = STREAM) -> list[tuple[Any, ...]]:
    return [r for r in xmlpunct.query(ddl + sql, bid=data) if not isinstance(r, Punctuation)]


ROWS = [("a", 1), ("b", 3), ("a", 12), ("a", 7), ("b", 25)]
COUNTS = "SELECT k, window_start, window_end, COUNT(*) AS n FROM {} GROUP BY k, window_start, window_end"


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (
            "TUMBLE(TABLE bid, DESCRIPTOR(ts), 10)",
            [("a", 0, 10, 2), ("a", 10, 20, 1), ("b", 0, 10, 1), ("b", 20, 30, 1)],
        ),
        (
            "HOP(TABLE bid, DESCRIPTOR(ts), 10, 20, 5)",
            [
                *[("a", -15, 5, 1), ("a", -5, 15, 3), ("a", 5, 25, 2)],
                *[("b", -15, 5, 1), ("b", -5, 15, 1), ("b", 15, 35, 1), ("b", 25, 45, 1)],
            ],
        ),
        (
            "SESSION(TABLE bid PARTITION BY k, DESCRIPTOR(ts), 6)",
            [("a", 1, 7, 1), ("a", 7, 18, 2), ("b", 3, 9, 1), ("b", 25, 31, 1)],
        ),
        ("TUMBLE((SELECT * FROM bid WHERE k = 'b'), DESCRIPTOR(ts), 100)", [("b", 0, 100, 2)]),
        (
            "TUMBLE(TABLE ((SELECT * FROM bid WHERE k = 'b')) few, DESCRIPTOR(few.ts), 100)",
            [("b", 0, 100, 2)],
        ),
        (
            "TUMBLE(TABLE (SELECT k, ts + 5 AS later FROM bid), DESCRIPTOR(later), 10)",
            [("a", 0, 10, 1), ("a", 10, 20, 2), ("b", 0, 10, 1), ("b", 30, 40, 1)],
        ),
    ],
)
def test_windows(table: str, expected: list[tuple[Any, ...]]) -> None:
    assert sorted(answers(COUNTS.format(table), document(ROWS))) == expected


SAME = [
    "TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), 10))",
    "TUMBLE(DATA => TABLE bid, TIMECOL => DESCRIPTOR(ts), SIZE => 10)",
    "TUMBLE(SIZE => 10, TIMECOL => DESCRIPTOR(ts), DATA => TABLE bid, OFFSET => -20)",
    "tumble(table bid, descriptor(ts), 10, 0)",
    "HOP(TABLE bid, DESCRIPTOR(ts), 10, 10)",
    "HOP(DATA => TABLE (SELECT * FROM bid), TIMECOL => DESCRIPTOR(ts), SLIDE => 10, SIZE => 10)",
]


@pytest.mark.parametrize("table", SAME)
def test_equivalent_spellings(table: str) -> None:
    expected = answers(COUNTS.format("TUMBLE(TABLE bid, DESCRIPTOR(ts), 10)"), document(ROWS))
    assert sorted(answers(COUNTS.format(table), document(ROWS))) == sorted(expected)


TIMED = f"CREATE STREAM bid ({COLUMNS}) WITH (source = 'bid.xml', timestamp = 'ts'); "


@pytest.mark.parametrize(
    "stream", ["TABLE {}", "TABLE ({})", "({})", "TABLE (SELECT * FROM {})", "TABLE (({}) b)"]
)
@pytest.mark.parametrize(
    "kind", ["RSTREAM(SELECT k FROM bid [NOW])", "ISTREAM(SELECT k FROM bid [RANGE UNBOUNDED])"]
)
def test_over_streams_of_relations(stream: str, kind: str) -> None:
    """Both relation-to-stream conversions give back the stream itself."""
    table = f"TUMBLE({stream.format(kind)}, DESCRIPTOR(ts), 10)"
    expected = answers(COUNTS.format(SAME[0]), document(ROWS))
    assert sorted(answers(COUNTS.format(table), document(ROWS), TIMED)) == sorted(expected)


@pytest.mark.parametrize("seed", range(5))
def test_over_an_istream(seed: int) -> None:
    """Counts per window of the keys that ISTREAM inserts, compared with DuckDB."""
    rng = random.Random(seed)
    bids = [(rng.choice("abc"), rng.randint(-30, 30)) for _ in range(25)]
    table = "TUMBLE(TABLE (ISTREAM(SELECT DISTINCT k FROM bid [RANGE 5])), DESCRIPTOR(ts), 10)"
    with duckdb.connect() as database:
        database.execute("CREATE TABLE bid (k TEXT, ts BIGINT)")
        database.executemany("INSERT INTO bid VALUES (?, ?)", bids)
        expected = database.execute("""
            SELECT k, CAST(10 * FLOOR(ts / 10) AS BIGINT) AS w, w + 10, COUNT(*)
            FROM (SELECT DISTINCT k, ts FROM bid
                  EXCEPT SELECT b.k, b.ts FROM bid b JOIN bid c ON b.k = c.k AND c.ts BETWEEN b.ts - 6 AND b.ts - 1)
            GROUP BY ALL""").fetchall()
    assert sorted(answers(COUNTS.format(table), document(bids), TIMED)) == sorted(expected)


def test_days_and_times() -> None:
    sql = "SELECT window_start AS s, window_end AS e FROM {} LIMIT 1"
    for table, start, end in [
        ("TUMBLE(TABLE bid, DESCRIPTOR(day), INTERVAL '7' DAYS)", "2026-01-01", "2026-01-08"),
        ("TUMBLE(TABLE bid, DESCRIPTOR(day), 7, DATE '2025-12-30')", "2025-12-30", "2026-01-06"),
        (
            "TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '1' HOUR, INTERVAL '30' MINUTE)",
            "2025-12-31 23:30:00+00:00",
            "2026-01-01 00:30:00+00:00",
        ),
        (
            "HOP(DATA => TABLE bid, TIMECOL => DESCRIPTOR(at), SLIDE => INTERVAL '1' DAY, "
            "SIZE => INTERVAL '1.5' SECOND)",
            "2026-01-01 00:00:00+00:00",
            "2026-01-01 00:00:01.500000+00:00",
        ),
    ]:
        assert [tuple(map(str, row)) for row in answers(sql.format(table), document(ROWS))] == [(start, end)]


def test_a_window_is_closed_by_any_punctuation_on_its_time() -> None:
    """A punctuation for one key closes its windows, on window_start and on window_end."""
    punctuations = ["<p:bid><p:k>a</p:k><p:ts>(,9]</p:ts></p:bid>"]
    data = document(ROWS, [s.replace("p:k", "k").replace("p:ts", "ts") for s in punctuations])
    elements = list(xmlpunct.query(STREAM + COUNTS.format(SAME[0]), bid=data))
    first = next(i for i, r in enumerate(elements) if isinstance(r, Punctuation) and not r.is_everything)
    assert [r for r in elements[:first] if not isinstance(r, Punctuation)] == [("a", 0, 10, 2)]
    emitted = [str(r) for r in elements if isinstance(r, Punctuation)]
    assert emitted[:2] == ["<a, (,9], *, *>", "<a, *, (,19], *>"]


@pytest.mark.parametrize(
    ("sql", "marked", "reason"),
    [
        ("HOP(TABLE bid, DESCRIPTOR(ts), 10, 5)", "10", "swap them"),
        ("TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '1' MONTH)", "INTERVAL '1' MONTH", "no constant number"),
        ("TUMBLE(TABLE bid, DESCRIPTOR(at), 5)", "5", "INTERVAL '10' MINUTE"),
        ("TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '5' SECOND)", "INTERVAL '5' SECOND", "over INT"),
        (
            "TUMBLE(TABLE bid, DESCRIPTOR(day), INTERVAL '5' HOUR)",
            "INTERVAL '5' HOUR",
            "whole number of days",
        ),
        ("TUMBLE(TABLE bid, DESCRIPTOR(late), 5)", "late", "NOT NULL"),
        ("TUMBLE(TABLE bid, DESCRIPTOR(k), 5)", "k", "is STRING"),
        ("TUMBLE(TABLE bid, DESCRIPTOR(ts), 0)", "0", "1 or more"),
        ("TUMBLE(TABLE bid, DESCRIPTOR(ts), -3)", "-3", "1 or more"),
        ("TUMBLE(TABLE bid, DESCRIPTOR(ts))", ")", "lacks SIZE"),
        ("TUMBLE(TABLE bid, ts, 5)", "ts", "DESCRIPTOR"),
        ("TUMBLE(bid, DESCRIPTOR(ts), 5)", "bid", "TABLE"),
        ("TUMBLE(TABLE bid, DESCRIPTOR(ts), 5, 1, 2)", "2", "too many arguments"),
        ("TUMBLE(TABLE bid, DESCRIPTOR(ts), SIZE => 5)", "SIZE", "all by name"),
        ("TUMBLE(DATA => TABLE bid, LENGTH => 5)", "LENGTH", "no argument LENGTH"),
        ("TUMBLE(TABLE bid, DESCRIPTOR(nope), 5)", "nope", "no column nope"),
        ("TUMBLE(TABLE bid PARTITION BY k, DESCRIPTOR(ts), 5)", "PARTITION BY", "no PARTITION BY"),
        ("SESSION(TABLE bid PARTITION BY nope, DESCRIPTOR(ts), 5)", "nope", "no column nope"),
        ("SESSION(TABLE bid PARTITION BY ts, DESCRIPTOR(ts), 5)", "ts", "its own session"),
        ("TUMBLE(TABLE nope, DESCRIPTOR(ts), 5)", "nope", "no stream nope"),
        ("HOP(TABLE bid, DESCRIPTOR(ts), 1, 1000000)", "1", "100,000 windows"),
        (
            "TUMBLE(TABLE (SELECT ts, k AS window_start FROM bid), DESCRIPTOR(ts), 5)",
            "TUMBLE(TABLE (SELECT ts, k AS window_start FROM bid), DESCRIPTOR(ts), 5)",
            "already",
        ),
        ("bid EMIT CHANGES", "EMIT CHANGES", "released once"),
    ],
)
def test_refused_with_a_position(sql: str, marked: str, reason: str) -> None:
    with pytest.raises(SqlError, match=reason) as caught:
        planned(f"SELECT * FROM {sql}")
    assert caught.value.sql[caught.value.start : caught.value.end] == marked


@pytest.mark.parametrize("emit", ["EMIT FINAL", "emit on window close", "EMIT FINAL;"])
def test_emit_final_is_the_default(emit: str) -> None:
    for sql in ("SELECT k FROM bid", "SELECT k FROM bid b", COUNTS.format(SAME[0])):
        assert planned(f"{sql} {emit}").root == planned(sql).root


@pytest.mark.parametrize(
    ("watermark", "reason"),
    [
        ("WATERMARK FOR at AS ts", "at, or at minus a delay"),
        ("WATERMARK FOR nope AS nope", "no column nope"),
        ("WATERMARK FOR k AS k", "is STRING"),
        ("WATERMARK FOR ts AS ts - INTERVAL '1' SECOND", "over INT is a number"),
        ("WATERMARK FOR ts AS ts - (-1)", "0 or more"),
        ("WATERMARK FOR ts AS ts, WATERMARK FOR at AS at", "one order per stream"),
    ],
)
def test_watermarks_that_are_refused(watermark: str, reason: str) -> None:
    with pytest.raises(SqlError, match=reason):
        plan(f"CREATE STREAM bid ({COLUMNS}, {watermark}) WITH (source = 'x.xml'); SELECT * FROM bid")


def test_a_watermark_closes_windows() -> None:
    """Values up to and including the maximum minus the interval are closed, and late afterwards."""
    ddl = f"CREATE STREAM bid ({COLUMNS}, WATERMARK FOR ts AS ts - 5) WITH (source = 'bid.xml'); "
    sql = "SELECT window_start AS s, COUNT(*) AS n FROM TUMBLE(TABLE bid, DESCRIPTOR(ts), 10) GROUP BY window_start"
    rows = [("a", 8), ("a", 14), ("a", 9), ("a", 10)]
    assert sorted(answers(sql, document(rows), ddl)) == [(0, 1), (10, 2)]


CHECKED = STREAM.replace("ts INT NOT NULL", "ts INT CHECK (ts BETWEEN 0 AND 1000)")
TABLES = ("TUMBLE(TABLE bid, DESCRIPTOR(ts), 10)", "SESSION(TABLE bid PARTITION BY k, DESCRIPTOR(ts), 10)")


def test_selections_move_below() -> None:
    tumble, session = (
        plan(CHECKED + f"SELECT window_start AS s FROM {table} WHERE k = 'a' AND price > 0").root
        for table in TABLES
    )
    (below,) = (node.input for node in tumble.find(Hop))
    assert isinstance(below, Select)
    assert isinstance(below.input, Scan)
    (below,) = (node.input for node in session.find(Session))
    assert isinstance(below, Select)
    assert str(below.predicate) == "bid.k = 'a'"


@pytest.mark.parametrize("table", TABLES)
def test_a_condition_does_not_change_the_rejects(table: str) -> None:
    """A row whose window exceeds its type is rejected, even if the condition excludes it."""
    last = 2**63 - 1
    data = document([("a", 5), ("b", last), ("b", last - 20), ("a", last)])
    for keys, condition in (("ab", ""), ("a", "WHERE k = 'a'"), ("b", "WHERE k = 'b'")):
        query = planned(f"SELECT k, ts, window_end FROM {table} {condition}")
        running = LocalRun(query, {"bid": Source.of(data, "bid")}, None, RunStats("local"), PUNCT_NAMESPACE)
        results = {row[:2] for part in iter(running.advance, None) for row in part.tuples.rows()}
        running.close()
        assert len(running.rejects) == 2
        assert results == {row for row in [("a", 5), ("b", last - 20)] if row[0] in keys}


def test_explained() -> None:
    text = explain(
        planned(COUNTS.format("HOP(TABLE bid, DESCRIPTOR(at), INTERVAL '1' MINUTE, INTERVAL '1' HOUR)"))
    )
    assert "hop bid.at by 1 MINUTE, size 1 HOUR" in text
    assert "a group is released once bid has closed its k or at" in text
