"""Forms of SQL that are planned with other operators: the rows that DuckDB gives, whatever the slices and shards."""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime

import duckdb
import polars as pl
import pytest

from tests.plans.feeds import DDL, STREAMS, feed, parts, rows_of
from tests.plans.test_random import PARTS, Case
from xmlpunct.engine.plan import Scan
from xmlpunct.engine.sql import plan

SEEDS = 20 if os.environ.get("XMLPUNCT_LONG") == "1" else 1

QUERIES = [
    # what SELECT gives a name
    "SELECT k + 1 AS z, z * 2 AS y, y - z AS x FROM s0 WHERE z > 0 AND y < 9",
    "SELECT v AS k, k AS w, k + 1 AS u FROM s0 WHERE k = 1",
    "SELECT v + 1 AS g, SUM(v) AS n, n + 1 AS m FROM s0 GROUP BY g HAVING n > 1 OR g IS NULL",
    "SELECT k % 2 AS parity, MIN(v) AS low, MAX(v) - low AS wide FROM s1 GROUP BY parity",
    "SELECT COUNT(*) AS n FROM s1 HAVING n > 2",
    "SELECT k, v + 1 AS g FROM s0 WHERE g IN (SELECT v FROM s1)",
    "SELECT v AS g FROM s0 WHERE EXISTS (SELECT k AS j FROM s1 WHERE j = 1)",
    "SELECT k + 1 AS j, v FROM s1 ORDER BY j * -1, v LIMIT 3",
    "SELECT k, v, ROW_NUMBER() OVER (PARTITION BY v ORDER BY k, t) AS n, n + 1 AS m FROM s2 QUALIFY n < 3 AND m > 1",
    "SELECT a.k AS j, b.v AS w FROM s0 AS a, s1 AS b WHERE a.k = b.k AND j > 0 AND w = j",
    "SELECT DISTINCT v AS g, g + 1 AS h FROM s1 WHERE h > 0",
    # sets of keys
    "SELECT k, v, COUNT(*) AS n FROM s1 GROUP BY ROLLUP (k, v)",
    "SELECT k, t, SUM(v) AS n, GROUPING(k, t) AS g FROM s2 GROUP BY CUBE (k, t)",
    "SELECT k, t, MAX(v) AS n FROM s0 GROUP BY GROUPING SETS ((k, t), (t), ())",
    "SELECT k, v, t, COUNT(v) AS n FROM s0 GROUP BY k, ROLLUP (v, t)",
    "SELECT k, v, COUNT(*) AS n FROM s1 GROUP BY GROUPING SETS (k, ROLLUP (v), CUBE (k, v))",
    "SELECT k, COUNT(*) AS n FROM s1 GROUP BY GROUPING SETS ((k), (k))",
    "SELECT k, v, COUNT(*) AS n FROM s1 GROUP BY CUBE (1, 2)",
    "SELECT k + v AS z, k, COUNT(*) AS n FROM s1 GROUP BY ROLLUP (z, k) HAVING n > 1",
    "SELECT k + 1 AS z, COALESCE(v, -9) AS w, COUNT(*) AS n FROM s1 GROUP BY ROLLUP (k, v)",
    "SELECT k, v, k IS NULL AS a FROM s1 GROUP BY ROLLUP (k, v) HAVING GROUPING(v) = 1 OR v = 1",
    "SELECT CASE WHEN GROUPING(k) = 1 THEN 'all' ELSE t END AS c, COUNT(*) AS n FROM s2 GROUP BY ROLLUP (k, t)",
    "SELECT DISTINCT k, COUNT(*) AS n FROM s0 GROUP BY CUBE (k, v)",
    "SELECT SUM(v) AS s, AVG(v) AS a, COUNT(DISTINCT v) AS d FROM s2 GROUP BY ROLLUP (k)",
    "SELECT k, GROUPING(k) AS g, COUNT(*) AS n FROM s0 GROUP BY k",
    "SELECT k, v, COUNT(*) AS n FROM s1 GROUP BY ROLLUP ((k, v)) ORDER BY n, k, v",
    "SELECT q.n, COUNT(*) AS m FROM (SELECT k, COUNT(*) AS n FROM s1 GROUP BY ROLLUP (k)) AS q GROUP BY q.n",
    "SELECT a.k, b.v, COUNT(*) AS n FROM s0 AS a JOIN s1 AS b ON a.k = b.k GROUP BY CUBE (a.k, b.v)",
    # queries that stand for a value
    "SELECT k, v FROM s0 WHERE v > (SELECT MIN(k) FROM s1)",
    "SELECT k, (SELECT COUNT(*) FROM s1 WHERE s1.k = s0.k) AS n FROM s0",
    "SELECT k, (SELECT MAX(v) FROM s1 WHERE s1.k = s0.k) AS n, n + 1 AS m FROM s0".replace(
        ", n + 1 AS m", ""
    ),
    "SELECT k, (SELECT COUNT(*) + SUM(v) FROM s1 WHERE s1.k = s0.k AND s1.v = s0.v) AS n FROM s0",
    "SELECT k, v FROM s0 WHERE v = (SELECT COUNT(*) FROM s1 WHERE s1.k = s0.k AND s1.v > 0)",
    "SELECT k, v FROM s0 WHERE v <> (SELECT MAX(v) FROM s1 WHERE s1.k = s0.k + 1) AND k > 0",
    "SELECT k, (SELECT MAX(v) FROM s1 WHERE s1.k = s0.k HAVING COUNT(*) > 1) AS n FROM s0",
    "SELECT k, COUNT(*) AS n, (SELECT MAX(v) FROM s2 WHERE s2.k = s1.k) AS m FROM s1 GROUP BY k",
    "SELECT k, COUNT(*) AS n FROM s1 GROUP BY k HAVING COUNT(*) >= (SELECT COUNT(*) FROM s2 WHERE v = 1)",
    "SELECT (SELECT SUM(n) FROM (SELECT COUNT(*) AS n FROM s1 GROUP BY k) AS q) AS s, k FROM s0",
    "SELECT k FROM s0 WHERE k = (SELECT MAX(k) FROM s1 HAVING COUNT(*) > 100)",
    "SELECT k, v FROM s0 WHERE v < (SELECT MAX(v) FROM s1 WHERE v < (SELECT MAX(v) FROM s1))",
    "SELECT k, (SELECT MAX(v) FROM s1) - (SELECT MIN(v) FROM s1) AS w FROM s0 ORDER BY k, w",
    "SELECT k, t FROM s2 WHERE (SELECT COUNT(*) FROM s1 WHERE s1.k = s2.k) BETWEEN 1 AND 3",
    "SELECT k, (SELECT DISTINCT 7 FROM s1) AS seven FROM s0",
    "SELECT k, v, SUM(v) OVER (PARTITION BY t ORDER BY k) AS s, (SELECT COUNT(*) FROM s1) AS n FROM s2",
    "SELECT q.k, q.n FROM (SELECT k, (SELECT COUNT(*) FROM s1 WHERE s1.k = s0.k) AS n FROM s0) AS q WHERE q.n > 0",
    "SELECT k, v, COUNT(*) AS n, (SELECT MAX(v) FROM s2) AS m FROM s1 GROUP BY ROLLUP (k, v)",
    # views
    "CREATE VIEW w AS SELECT k, v + 1 AS u FROM s0; SELECT a.k, b.u FROM w AS a JOIN w AS b ON a.k = b.k",
    "CREATE VIEW w (x, n) AS SELECT k, COUNT(*) FROM s1 GROUP BY k; "
    "CREATE VIEW z AS SELECT x, n FROM w WHERE n > 1; SELECT x, n FROM z UNION ALL SELECT k, v FROM s0",
]


class Written(Case):
    """A query as people write it."""

    def __init__(self, sql: str, seed: int) -> None:
        self.rng = random.Random(seed)
        self.root = plan(DDL + sql).root
        read = {node.stream.name for node in self.root.walk() if isinstance(node, Scan)}
        inputs = [feed(self.rng, s.schema) if s.name in read else [] for s in STREAMS]
        self.feeds = parts(self.rng, inputs, PARTS)
        tables = {
            s.name: (s.schema, rows_of(s, elements)) for s, elements in zip(STREAMS, inputs, strict=True)
        }
        self.ordered = " ORDER BY " in sql and self.root.ordered
        self.any, self.limit = False, None
        with duckdb.connect() as connection:
            for name in read:
                schema, rows = tables[name]
                naive = schema.frame(rows).with_columns(pl.col(pl.Datetime).dt.replace_time_zone(None))
                connection.register(name, naive.to_arrow())
            found = connection.execute(sql.replace("CREATE VIEW", "CREATE TEMP VIEW")).fetchall()
        self.wanted = [
            tuple(v.replace(tzinfo=UTC) if isinstance(v, datetime) else v for v in row) for row in found
        ]


def check(sql: str, seed: int) -> None:
    try:
        case = Written(sql, seed)
        case.run_twice(case.root, case.rng.choice([0, 1]))
        case.run_twice(case.root, case.rng.choice([2, 3]))
    except Exception as error:
        error.add_note(f"seed {seed}: {sql}")
        raise


@pytest.mark.parametrize("sql", QUERIES)
def test_the_rows_are_those_of_duckdb(sql: str) -> None:
    for seed in range(SEEDS):
        check(sql, seed)
