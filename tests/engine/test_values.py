"""VALUES: constants as a finite stream."""

from __future__ import annotations

import duckdb
import pytest

import xmlpunct
from tests.oracle.values import bag
from xmlpunct.engine.sql import plan
from xmlpunct.engine.verdicts import refuse_unsafe

STREAM = "CREATE STREAM s (a INT NOT NULL, t STRING) WITH (source = '-'); "
FEED = b"<r><s><a>1</a><t>x</t></s><s><a>2</a><t>it's</t></s><s><a>3</a></s></r>"
ROWS = "(VALUES (1, 'x'), (2, NULL), (5, ' a&b<]]>')) AS v(k, n)"


@pytest.mark.parametrize(
    "sql",
    [
        "VALUES (1, 'a'), (2, NULL)",
        "VALUES (NULL), (NULL)",
        "VALUES (1 + 1, UPPER('x')), (-3, '')",
        "VALUES (DATE '2026-01-01', TRUE, 1.5, CAST(NULL AS INT)), (DATE '2026-01-02', NULL, 2, 7)",
        "VALUES (1), (2), (2) EXCEPT VALUES (2)",
        "VALUES (3), (1), (2) ORDER BY 1 DESC LIMIT 2",
        f"SELECT * FROM {ROWS}",
        f"SELECT s.a, v.n FROM s LEFT JOIN {ROWS} ON s.a = v.k",
        f"SELECT n, COUNT(*) AS c FROM {ROWS} GROUP BY ROLLUP (n)",
        f"SELECT a FROM s WHERE a IN (SELECT k FROM {ROWS})",
        f"SELECT a FROM s, {ROWS} WHERE a = k",
        "SELECT a, (VALUES (7)) AS seven FROM s",
        "SELECT a FROM s WHERE a > (SELECT MIN(x) FROM (VALUES (1), (5)) AS v(x))",
        "WITH v(x) AS (VALUES (1), (2)) SELECT p.x, q.x AS y FROM v AS p JOIN v AS q ON p.x < q.x",
        "SELECT x FROM (VALUES (NULL, 1), (NULL, 2)) AS v(n, x) WHERE n IS NULL",
        "SELECT x, '\n\t\r' || x AS y FROM (VALUES ('\r\n'), (' ')) AS v(x)",
    ],
)
def test_the_rows_are_those_of_duckdb(sql: str) -> None:
    with duckdb.connect() as database:
        database.execute("CREATE TABLE s AS FROM (VALUES (1, 'x'), (2, 'it''s'), (3, NULL)) AS s(a, t)")
        expected = database.execute(sql).fetchall()
    rows = xmlpunct.query(STREAM + sql, s=FEED).to_polars().rows()
    assert bag(rows) == bag(expected)


def test_values_end_at_once() -> None:
    """A join with VALUES needs no punctuations from the live stream."""
    live = "CREATE STREAM s (a INT NOT NULL) WITH (source = 'tcp://127.0.0.1:1'); "
    refuse_unsafe(plan(f"{live}SELECT a, n FROM s JOIN {ROWS} ON a = k"))


def test_values_are_a_constant_relation_beside_windows() -> None:
    stream = "CREATE STREAM p (ts INT NOT NULL, a INT) WITH (source = '-', timestamp = 'ts'); "
    feed = b"<r><p><ts>1</ts><a>1</a></p><p><ts>4</ts><a>3</a></p><p><ts>6</ts><a>5</a></p></r>"
    for joined in (f"p [NOW] JOIN {ROWS} ON a = k", f"p [NOW], {ROWS} WHERE a = k"):
        rows = xmlpunct.query(f"{stream}RSTREAM(SELECT a, n FROM {joined})", p=feed).to_polars().rows()
        assert rows == [(1, "x", 1), (5, " a&b<]]>", 6)]


def test_a_data_url_contains_its_document() -> None:
    source = "data:,%3Cs%3E%3Ct%3E%3Cn%3E5%3C/n%3E%3C/t%3E%3C/s%3E"
    sql = f"CREATE STREAM t (n INT) WITH (source = '{source}'); SELECT n FROM t"
    assert list(xmlpunct.query(sql)) == [(5,)]
    with pytest.raises(xmlpunct.UsageError, match="data:text/plain,x is no source"):
        list(xmlpunct.query("CREATE STREAM t (n INT) WITH (source = 'data:text/plain,x'); SELECT n FROM t"))
