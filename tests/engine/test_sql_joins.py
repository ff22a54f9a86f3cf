"""Joins, subqueries in WHERE and set operations, compared with DuckDB before and after optimization."""

from __future__ import annotations

from functools import cache
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.fixtures import evaluate, unoptimized
from tests.oracle.values import bag
from xmlpunct.engine.plan import Join, Node
from xmlpunct.engine.rules import optimize
from xmlpunct.engine.run.build import build
from xmlpunct.engine.sql import plan
from xmlpunct.operators.join.join_bounds import bounds_of
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.slice import Slice
from xmlpunct.types import decimal

DECLARED = """
CREATE STREAM s (a INT, b INT NOT NULL, t STRING, d DECIMAL(7,2)) WITH (source = 's.xml');
CREATE STREAM r (a INT, k STRING, hour INT CHECK (hour BETWEEN 0 AND 23)) WITH (source = 'r.xml');
"""

COLUMNS: dict[str, dict[str, list[Any]]] = {
    "s": {"a": [None, 0, 1, 2], "b": [0, 1, 2], "t": [None, "x", "y"], "d": [None, "0.00", "1.00", "1.50"]},
    "r": {"a": [None, 0, 1, 2], "k": [None, "x"], "hour": [0, 1]},
}
TYPES = {
    "s": {"a": pl.Int64, "b": pl.Int64, "t": pl.String, "d": decimal(7, 2).dtype},
    "r": {"a": pl.Int64, "k": pl.String, "hour": pl.Int64},
}

QUERIES = [
    "SELECT s.a, s.b, r.k FROM s JOIN r ON s.a = r.a",
    "SELECT s.a, r.a AS c, r.k FROM s LEFT JOIN r ON r.a = s.a AND s.b > 0",
    "SELECT s.a, r.a AS c, r.k FROM s LEFT JOIN r ON s.a = r.a AND r.hour = 1 WHERE s.b > 0",
    "SELECT s.a, r.a AS c, r.k FROM s RIGHT JOIN r ON s.a = r.a AND r.k = 'x'",
    "SELECT s.a, r.a AS c, s.b FROM s FULL JOIN r ON s.a = r.a AND s.b = r.hour",
    "SELECT s.a, r.a AS c FROM s FULL JOIN r ON s.a = r.a AND s.b > r.hour",
    "SELECT s.a, r.a AS c FROM s LEFT JOIN r ON s.a < r.a",
    "SELECT s.a, r.a AS c FROM s LEFT JOIN r ON TRUE",
    "SELECT s.a, r.a AS c FROM s LEFT JOIN r ON FALSE",
    "SELECT s.a, r.a AS c FROM s JOIN r ON s.a + 1 = r.a * 2",
    "SELECT s.a, r.a AS c FROM s LEFT JOIN r ON s.d = r.a",
    "SELECT s.d, r.a AS c FROM s JOIN r ON r.a = s.d AND s.b = r.hour",
    "SELECT s.a, r.a AS c, r.hour FROM s JOIN r ON s.a = r.a AND s.a = r.hour",
    "SELECT s.a, s.b, r.a AS c FROM s JOIN r ON s.a = r.a AND s.b = r.a",
    "SELECT s.a, s.b, r.a AS c FROM s LEFT JOIN r ON s.a = r.a AND s.b = r.a",
    "SELECT a, b, hour FROM s JOIN r USING (a)",
    "SELECT a, s.a AS c, r.a AS e, b, hour FROM s LEFT JOIN r USING (a)",
    "SELECT a, s.a AS c, r.a AS e, b, hour FROM s RIGHT JOIN r USING (a)",
    "SELECT a, s.a AS c, r.a AS e, b, hour FROM s FULL JOIN r USING (a)",
    "SELECT a, b, hour, z.k FROM s FULL JOIN r USING (a) JOIN r AS z USING (a, hour)",
    "SELECT * FROM s JOIN r USING (a)",
    "SELECT * FROM s LEFT JOIN r USING (a)",
    "SELECT s.* FROM s JOIN r ON s.a = r.a",
    "SELECT r.* FROM s JOIN r ON s.a = r.a",
    "SELECT s.a, r.k FROM s, r WHERE s.a = r.a AND s.b > r.hour",
    "SELECT s.a, x.k, y.hour FROM s, r AS x, r AS y WHERE s.a = y.a AND x.hour = y.hour AND y.hour = s.b",
    "SELECT s.a, x.k, y.hour FROM s, r AS x, r AS y WHERE x.a = y.a AND s.b = 1",
    "SELECT s.a, x.k, y.hour FROM s, r AS x LEFT JOIN r AS y ON x.a = y.a WHERE s.b = y.hour",
    "SELECT s.a, x.k FROM s CROSS JOIN r AS x CROSS JOIN r AS y WHERE s.a = y.a AND x.a = y.hour",
    "SELECT x.a, y.a AS c FROM s AS x JOIN s AS y ON x.a = y.b",
    "SELECT x.a, y.a AS c FROM (SELECT a, k FROM r) AS x JOIN (SELECT a, hour FROM r) AS y ON x.a = y.a",
    "SELECT x.a, y.a AS c, z.a AS e FROM r AS x LEFT JOIN (r AS y JOIN r AS z ON y.hour = z.hour) ON x.a = y.a",
    "WITH q AS (SELECT a, COUNT(*) AS n FROM r GROUP BY a) SELECT s.a, q.n FROM s LEFT JOIN q ON q.a = s.a",
    "SELECT r.a, COUNT(*) AS n, MAX(s.b) AS top FROM s JOIN r ON s.a = r.a GROUP BY r.a",
    "SELECT DISTINCT s.b FROM s JOIN r ON s.a = r.a",
    "SELECT a FROM s WHERE a IN (SELECT a FROM r)",
    "SELECT a FROM s WHERE a NOT IN (SELECT a FROM r)",
    "SELECT a FROM s WHERE a NOT IN (SELECT a FROM r WHERE a > 0)",
    "SELECT b FROM s WHERE b NOT IN (SELECT hour FROM r)",
    "SELECT b FROM s WHERE b NOT IN (SELECT hour FROM r WHERE r.a = s.a AND r.hour < s.b + 1)",
    "SELECT a, b FROM s WHERE (a, b) IN (SELECT a, hour FROM r)",
    "SELECT b FROM s WHERE d IN (SELECT a FROM r)",
    "SELECT b FROM s WHERE b + 1 NOT IN (SELECT a FROM r)",
    "SELECT a, b FROM s WHERE b IN (SELECT MAX(a) FROM r GROUP BY hour) AND a > 0",
    "SELECT a, b FROM s WHERE b IN (SELECT a FROM r UNION ALL SELECT hour FROM r)",
    "SELECT a, b FROM s WHERE b IN (SELECT hour FROM r WHERE r.a = s.a)",
    "SELECT a, b FROM s WHERE EXISTS (SELECT 1 FROM r WHERE r.a = s.a AND r.hour < s.b)",
    "SELECT a, b FROM s WHERE EXISTS (SELECT * FROM r WHERE s.b > 1)",
    "SELECT a, b FROM s WHERE NOT EXISTS (SELECT * FROM r WHERE r.a = s.a AND s.b > 1)",
    "SELECT a, b FROM s WHERE NOT EXISTS (SELECT * FROM r WHERE hour = 1)",
    "SELECT a, b FROM s WHERE EXISTS (SELECT MAX(a) FROM r)",
    "SELECT a, b FROM s WHERE NOT (NOT EXISTS (SELECT 1 FROM s AS z WHERE z.b = s.a)) AND NOT (a = 1)",
    "SELECT a, b FROM s WHERE EXISTS (SELECT 1 FROM r, r AS q WHERE r.a = q.hour AND q.a = s.b)",
    "SELECT a FROM s WHERE EXISTS (SELECT 1 FROM s WHERE a = 1)",
    "SELECT a FROM s WHERE a IN (SELECT a FROM r WHERE EXISTS (SELECT 1 FROM r AS z WHERE z.k = r.k AND z.hour = 1))",
    "SELECT s.a FROM s SEMI JOIN r ON s.a = r.a AND s.b > r.hour",
    "SELECT s.a FROM s ANTI JOIN r USING (a)",
    "SELECT b FROM s WHERE 1 IN (SELECT a FROM r WHERE hour = s.b)",
    "SELECT b FROM s WHERE NULL NOT IN (SELECT a FROM r)",
    "SELECT b FROM s WHERE a IN ((SELECT a FROM r))",
    "SELECT x.a FROM ((r AS x JOIN r AS y ON x.a = y.a)) JOIN s ON s.b = y.hour",
    "SELECT q.a FROM ((SELECT a FROM r)) AS q JOIN s ON s.a = q.a",
    "SELECT q.b, q.k FROM (s JOIN r ON s.a = r.a) AS q WHERE q.hour = 1",
    "SELECT s.b FROM s, (r AS x JOIN r AS y USING (a)) WHERE s.a = x.a",
    "SELECT a FROM s INTERSECT SELECT a FROM r",
    "SELECT a, b FROM s EXCEPT SELECT a, hour FROM r",
    "SELECT a FROM s UNION ALL SELECT hour FROM r INTERSECT SELECT b FROM s",
    "SELECT a FROM s EXCEPT SELECT a FROM r EXCEPT SELECT b FROM s",
    "SELECT a FROM s EXCEPT (SELECT a FROM r EXCEPT SELECT b FROM s)",
    "SELECT a FROM s EXCEPT SELECT d FROM s",
]


DATABASE = duckdb.connect()


@cache
def plans(sql: str) -> tuple[Node, Node]:
    """The plan before and after optimization."""
    root = unoptimized(sql, DECLARED)
    return root, optimize(root)


@st.composite
def tables(draw: st.DrawFn) -> dict[str, pl.DataFrame]:
    frames = {}
    for name, columns in COLUMNS.items():
        row = st.fixed_dictionaries({c: st.sampled_from(v) for c, v in columns.items()})
        rows = draw(st.lists(row, max_size=6))
        text = {c: pl.String if c == "d" else t for c, t in TYPES[name].items()}
        frames[name] = pl.DataFrame(rows, schema=text).cast(TYPES[name])
    return frames


@pytest.mark.parametrize("sql", QUERIES)
@settings(max_examples=15, deadline=None)
@given(given_rows=tables())
def test_results_are_those_of_sql(sql: str, given_rows: dict[str, pl.DataFrame]) -> None:
    with DATABASE.cursor() as database:
        for name, frame in given_rows.items():
            types = {
                "a": "BIGINT",
                "b": "BIGINT",
                "t": "TEXT",
                "d": "DECIMAL(7,2)",
                "k": "TEXT",
                "hour": "BIGINT",
            }
            columns = ", ".join(f"{c} {types[c]}" for c in frame.columns)
            database.execute(f"CREATE OR REPLACE TABLE {name} ({columns})")
            if frame.height:
                marks = ", ".join("?" * frame.width)
                database.executemany(f"INSERT INTO {name} VALUES ({marks})", frame.rows())
        expected = database.execute(sql).fetchall()
    for node in plans(sql):
        result, rejected = evaluate(node, given_rows)
        assert bag(result.rows()) == bag(expected)
        assert not rejected


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT * FROM r AS x JOIN s ON x.a = s.a", "a k hour b t d"),
        ("SELECT * FROM s JOIN r USING (a)", "a b t d k hour"),
        ("SELECT r.*, b FROM s JOIN r ON s.a = r.a", "a k hour b"),
        ("SELECT * FROM (SELECT k, a FROM r) AS x LEFT JOIN (SELECT t, a FROM s) AS y USING (a)", "a k t"),
        ("SELECT * FROM (SELECT a AS c FROM s) AS x LEFT JOIN r ON c = a", "c a k hour"),
        (
            "SELECT * FROM (SELECT a AS c FROM s) AS x, r, (SELECT b AS e FROM s) AS y WHERE c = e AND e = a",
            "c k hour",
        ),
        ("SELECT * FROM (s JOIN r USING (a)) AS q(c, e, f, g, h, i)", "c e f g h i"),
    ],
)
def test_a_star_over_joins(sql: str, names: str) -> None:
    assert " ".join(unoptimized(sql, DECLARED).schema.names) == names


def test_an_inner_key_is_one_column_under_both_names() -> None:
    root = unoptimized("SELECT s.a AS x, r.a AS y, a AS z FROM s JOIN r ON s.a = r.a", DECLARED)
    assert str(root.columns[0][1]) == str(root.columns[1][1]) == str(root.columns[2][1]) == "s.a"  # type: ignore[attr-defined]


def test_an_outer_join_takes_not_null_and_domain_from_the_side_that_may_be_missing() -> None:
    schema = unoptimized("SELECT b, hour FROM s LEFT JOIN r ON s.a = r.a", DECLARED).schema
    assert [a.nullable for a in schema] == [False, True]
    assert str(schema["hour"].domain) == "*"


@pytest.mark.parametrize(
    "condition",
    [
        "y.b BETWEEN x.a - 2 AND x.a",
        "y.b <= x.a AND y.b >= x.a - 2",
        "y.b >= x.a - 2 AND x.k = y.k AND y.b <= x.a",
    ],
)
def test_both_sides_of_a_range_join_have_bounds(condition: str) -> None:
    streams = "".join(
        f"CREATE STREAM {name} (k INT, {column} INT) WITH (source = '-');"
        for name, column in (("x", "a"), ("y", "b"))
    )
    (join,) = plan(f"{streams} SELECT x.a, y.b FROM x JOIN y ON {condition}").root.find(Join)
    left, right = (below.schema for below in join.inputs)
    assert join.residual is not None
    for side, other in ((left, right), (right, left)):
        bounds, own_conditions = bounds_of(join.residual, side, other)
        assert sorted(bound.is_low for bound in bounds) == [False, True]
        assert not own_conditions


def test_an_outer_join_emits_no_punctuations_on_pairs_of_different_keys() -> None:
    """Punctuations on pairs of different keys would grow quadratically in a chain of joins."""
    streams = "".join(f"CREATE STREAM {name} (k INT NOT NULL) WITH (source = '-');" for name in "xyz")
    query = plan(f"{streams} SELECT x.k, y.k AS l FROM x LEFT JOIN y ON x.k = y.k LEFT JOIN z ON x.k = z.k")
    pipeline, keys = build(query.roots, [s.name for s in query.streams]), range(100)
    for port, stream in enumerate(query.streams):
        punctuations = [Punctuation.of(stream.schema, k=k) for k in keys]
        pipeline.push(port, Slice(stream.schema.frame([(k,) for k in keys]), punctuations))
    counts = {
        o.number: c.punctuations_out for o, c in zip(pipeline.operators, pipeline.counters, strict=True)
    }
    joins = list(query.root.find(Join))
    assert len(joins) == 2
    assert all(counts[join.number] <= 5 * len(keys) for join in joins), counts
