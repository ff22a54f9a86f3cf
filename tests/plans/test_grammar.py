"""SQL forms that are planned with other operators give DuckDB's rows, for random slices and shards."""

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

LONG = os.environ.get("XMLPUNCT_LONG") == "1"
SEEDS = 20 if LONG else 1
RANDOM = 1000 if LONG else 8

QUERIES = [
    # aliases of SELECT
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
    "SELECT k, v, COUNT(*) AS n FROM s1 GROUP BY GROUPING SETS ((1), (2), ((1)))",
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
    # scalar subqueries
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
    # scalar subqueries in ON, in keys and in arguments
    "SELECT a.k, b.v FROM s0 AS a JOIN s1 AS b ON a.k = b.k AND b.v > (SELECT MIN(v) FROM s2)",
    "SELECT a.k, b.v FROM s0 AS a LEFT JOIN s1 AS b ON a.k = b.k AND a.v >= (SELECT COUNT(*) FROM s2 WHERE s2.k = a.k)",
    "SELECT a.k, b.v FROM s0 AS a FULL JOIN s1 AS b ON a.k = b.k AND (SELECT MAX(v) FROM s2 WHERE s2.k = b.k) > 0",
    "SELECT a.k, a.v FROM s1 AS a JOIN s2 AS b ON a.k = (SELECT MAX(k) FROM s0) AND b.v = a.v",
    "SELECT a.k FROM s1 AS a SEMI JOIN s2 AS b ON a.k = b.k AND b.v < (SELECT MAX(v) FROM s0)",
    "SELECT k, SUM(v + (SELECT COUNT(*) FROM s2 WHERE s2.k = s1.k)) AS n FROM s1 GROUP BY k",
    "SELECT SUM((SELECT MAX(v) FROM s2)) AS n, (SELECT MAX(v) FROM s2) AS m, COUNT(*) AS c FROM s1",
    "SELECT k, COUNT(*) FILTER (WHERE v > (SELECT MIN(v) FROM s2)) AS n FROM s1 GROUP BY k",
    "SELECT (SELECT MAX(v) FROM s2 WHERE s2.k = s1.k) AS g, COUNT(*) AS n FROM s1 GROUP BY g HAVING n > 1",
    "SELECT (SELECT COUNT(*) FROM s2 WHERE s2.k = s1.k) AS g, k, SUM(v) AS n FROM s1 GROUP BY ROLLUP (g, k)",
    # short forms
    "SELECT k + 1 AS j, t, COUNT(*) AS n FROM s0 GROUP BY ALL",
    "SELECT * EXCLUDE (t) REPLACE (k + 1 AS k) FROM s0 WHERE k = ANY (SELECT k FROM s1)",
    "SELECT k FROM s1 WHERE k <> ALL (SELECT v FROM s2)",
    "SELECT k, v FROM s0 UNION BY NAME SELECT v, k FROM s1",
    "SELECT k, v FROM s0 UNION ALL BY NAME SELECT t, k FROM s2",
    # views
    "CREATE VIEW w AS SELECT k, v + 1 AS u FROM s0; SELECT a.k, b.u FROM w AS a JOIN w AS b ON a.k = b.k",
    "CREATE VIEW w (x, n) AS SELECT k, COUNT(*) FROM s1 GROUP BY k; "
    "CREATE VIEW z AS SELECT x, n FROM w WHERE n > 1; SELECT x, n FROM z UNION ALL SELECT k, v FROM s0",
]


class Written(Case):
    """A query written in SQL."""

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
            result_rows = connection.execute(sql.replace("CREATE VIEW", "CREATE TEMP VIEW")).fetchall()
        self.expected = [
            tuple(v.replace(tzinfo=UTC) if isinstance(v, datetime) else v for v in row) for row in result_rows
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
def test_queries_give_the_rows_of_duckdb(sql: str) -> None:
    for seed in range(SEEDS):
        check(sql, seed)


COLUMNS = {"s0": "k v t", "s1": "k v", "s2": "k v t", "s6": "k t v"}
"""Streams in which a column name has one type; some columns are never null, or ordered by PUNCTUATE."""


class Writer:
    """Writes random queries with scalar subqueries and grouping sets."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def query(self) -> str:
        rng, stream = self.rng, self.rng.choice([*COLUMNS])
        columns = COLUMNS[stream].split()
        where = rng.choice(["", "", f" WHERE {self.condition(stream)}"])
        if rng.random() < 0.5:
            return f"SELECT {stream}.*, {self.value(stream)} AS n FROM {stream}{where}"
        keys = rng.sample(columns, rng.randint(1, len(columns)))
        if rng.random() < 0.3:
            keys[0] = rng.choice([f"({keys[0]} IS NULL)", f"COALESCE({keys[0]}, {keys[0]})"])
        named = [f"{key} AS g{position}" for position, key in enumerate(keys)]
        counted = f"SUM({self.value(stream)})" if rng.random() < 0.2 else self.aggregate()
        shown = [*named, f"{counted} AS n", f"GROUPING({', '.join(keys)}) AS g"]
        having = rng.choice(["", "", " HAVING n > 1", f" HAVING COUNT(*) >= {self.value(None)}"])
        return f"SELECT {', '.join(shown)} FROM {stream}{where} GROUP BY {self.group(keys)}{having}"

    def group(self, keys: list[str]) -> str:
        """A GROUP BY that contains all keys as expressions, positions or aliases."""
        items = [self.rng.choice([key, str(i + 1), f"g{i}"]) for i, key in enumerate(keys)]
        listed = ", ".join(items)
        sets = [f"({', '.join(self.rng.sample(items, self.rng.randint(0, len(items))))})" for _ in range(2)]
        forms = [listed, f"ROLLUP ({listed})", f"CUBE ({listed})", f"{items[0]}, ROLLUP ({listed})"]
        return self.rng.choice([*forms, f"GROUPING SETS (({listed}), {', '.join(sets)})"])

    def aggregate(self) -> str:
        return self.rng.choice(
            ["COUNT(*)", "COUNT(v)", "SUM(v)", "MIN(v)", "COUNT(DISTINCT v)", "MAX(v) + COUNT(*)"]
        )

    def value(self, around: str | None) -> str:
        """A scalar subquery."""
        inner = self.rng.choice([name for name in COLUMNS if name != around])
        tests = [self.rng.choice([f"{inner}.v > 0", f"{inner}.k <= 1", "TRUE"])]
        if around is not None:
            pairs = self.rng.sample([("k", "k"), ("v", "v"), ("k", "v"), ("v", "k")], self.rng.randint(0, 2))
            tests += [f"{inner}.{a} = {around}.{b}" for a, b in pairs]
        return f"(SELECT {self.aggregate()} FROM {inner} WHERE {' AND '.join(tests)})"

    def condition(self, stream: str) -> str:
        a = self.rng.choice(["k", "v"])
        return f"{stream}.{a} {self.rng.choice(['<', '<=', '=', '<>'])} {self.value(stream)}"


@pytest.mark.parametrize("seed", range(RANDOM))
def test_random_queries(seed: int) -> None:
    check(Writer(seed).query(), seed)
