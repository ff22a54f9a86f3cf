"""A fixed set of plans on Spark against DuckDB over the same tuples: chained stages, joins, set operations."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from tests.spark.support import NAMESPACE, on_spark
from xmlpunct import Punctuation, match, parse
from xmlpunct.engine.sql import plan

pytestmark = pytest.mark.spark

KEYS = 30
DDL = """
CREATE STREAM a (k INT, x INT, s STRING) WITH (source = '{0}/a.xml');
CREATE STREAM b (k INT NOT NULL, y INT, s STRING) WITH (source = '{0}/b.xml');
"""

PLANS = {
    "join, group-by on the key": """
        SELECT a.k, SUM(x) AS s, COUNT(*) AS n FROM a JOIN b ON a.k = b.k AND x <> y GROUP BY a.k""",
    "left join, group-by on the right's key": """
        SELECT b.k, COUNT(*) AS n, MIN(x) AS low FROM a LEFT JOIN b ON a.k = b.k GROUP BY b.k""",
    "full join": "SELECT a.k AS ak, x, b.k AS bk, y FROM a FULL JOIN b ON a.k = b.k",
    "exists, distinct": "SELECT DISTINCT k, s FROM a WHERE EXISTS (SELECT * FROM b WHERE b.k = a.k AND b.y < a.x)",
    "not exists": "SELECT k, x FROM a WHERE NOT EXISTS (SELECT * FROM b WHERE b.k = a.k AND b.y = a.x)",
    "not in, nullable": "SELECT k, x FROM a WHERE x NOT IN (SELECT y FROM b WHERE y > 3)",
    "except over union": "(SELECT k, s FROM a UNION SELECT k, s FROM b) EXCEPT SELECT k, s FROM b WHERE y > 0",
    "intersect, global aggregate": """
        SELECT COUNT(*) AS n, MAX(k) AS top FROM (SELECT k, s FROM a INTERSECT SELECT k, s FROM b)""",
    "two group-bys on different keys": """
        WITH per AS (SELECT k, MAX(x) AS top FROM (SELECT k, x FROM a UNION ALL SELECT k, y FROM b) GROUP BY k)
        SELECT top, COUNT(*) AS n FROM per GROUP BY top HAVING COUNT(*) > 1""",
    "windows of sessions": """
        SELECT window_start AS w, MAX(e) AS e, COUNT(*) AS n
        FROM HOP(TABLE (SELECT k, window_end AS e FROM SESSION(TABLE b PARTITION BY s, DESCRIPTOR(k), 2)),
          DESCRIPTOR(k), 2, 4)
        GROUP BY window_start""",
}
IN_DUCKDB = {
    "windows of sessions": """
        WITH begun AS (SELECT k, s, k - LAG(k) OVER (PARTITION BY s ORDER BY k) < 2 AS follows FROM b),
          numbered AS (SELECT k, s, SUM(IF(follows, 0, 1)) OVER (PARTITION BY s ORDER BY k) AS number FROM begun),
          session AS (SELECT k, MAX(k) OVER (PARTITION BY s, number) + 2 AS e FROM numbered),
          hop AS (SELECT e, unnest(range(k - 3 + (k % 2 + 3) % 2, k + 1, 2)) AS w FROM session)
        SELECT w, MAX(e), COUNT(*) FROM hop GROUP BY w""",
}
"""Queries that DuckDB needs in another form."""


def write(folder: Path) -> None:
    """Two streams that close key after key, each at its own pace, with nulls and duplicates."""
    random = Random(3)
    for name, value in (("a", "x"), ("b", "y")):
        lines = [f'<stream xmlns:p="{NAMESPACE}">']
        for key in range(KEYS):
            for _ in range(random.randrange(6)):
                k = random.randrange(key, min(key + 4, KEYS))
                children = [] if name == "a" and random.random() < 0.1 else [f"<k>{k - 10}</k>"]
                children += [] if random.random() < 0.2 else [f"<{value}>{random.randrange(-3, 5)}</{value}>"]
                children += [] if random.random() < 0.2 else [f"<s>{random.choice('uv')}</s>"]
                lines.append(f"<{name}>{''.join(children)}</{name}>")
            if random.random() < 0.8:
                lines.append(f"<p:{name}><k>(,{key - 10}]</k></p:{name}>")
        (folder / f"{name}.xml").write_text("\n".join([*lines, "</stream>", ""]))


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    write(folder)
    return folder


def bag(rows: list[tuple[Any, ...]]) -> list[str]:
    return sorted(map(repr, rows))


@pytest.mark.parametrize("name", PLANS)
def test_the_same_bag_as_a_database_gives(spark: Any, streams: Path, tmp_path: Path, name: str) -> None:
    query = plan(DDL.format(streams) + PLANS[name])
    schema, out = query.root.schema, tmp_path / "out.xml"
    on_spark(spark, query, out, slice_bytes=2500)
    elements = list(parse(out, schema, element="result"))
    with duckdb.connect() as judge:
        for stream in query.streams:
            columns = ", ".join(f"{a.name} {a.type.name.replace('STRING', 'VARCHAR')}" for a in stream.schema)
            judge.execute(f"CREATE TABLE {stream.name} ({columns})")
            rows = parse(str(stream.source), stream.schema, element=stream.element)
            tuples = [t for t in rows if isinstance(t, tuple)]
            judge.executemany(
                f"INSERT INTO {stream.name} VALUES ({', '.join('?' * len(stream.schema))})", tuples
            )
        expected = judge.execute(IN_DUCKDB.get(name, PLANS[name])).fetchall()
    assert bag([t for t in elements if isinstance(t, tuple)]) == bag(expected)
    punctuations: list[Punctuation] = []
    for element in elements:
        if isinstance(element, Punctuation):
            punctuations.append(element)
        else:
            assert not any(match(element, p) for p in punctuations)
