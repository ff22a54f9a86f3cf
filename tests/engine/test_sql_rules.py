"""Optimizer rules: each rule's effect on plans; no rule changes results or rejects."""

from __future__ import annotations

from collections import Counter
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.fixtures import blocks, evaluate, outline, unoptimized
from tests.oracle.values import bag
from xmlpunct.engine import rules
from xmlpunct.engine.plan import Scan


@pytest.mark.parametrize(("name", "sql", "before", "after"), blocks("rules.txt"))
def test_a_rule(name: str, sql: str, before: str, after: str) -> None:
    root = unoptimized(sql)
    *earlier, last = name.split()
    for rule in earlier:
        root = getattr(rules, rule)(root)
    assert outline(root) == before
    assert outline(getattr(rules, last)(root)) == after


ROWS = {
    "s": {"a": [None, 0, 1, 2, 2**62], "b": [0, 1, 2], "t": [None, "x", "y"]},
    "r": {"a": [None, 0, 1, 2, 2**62], "k": [None, "x"], "hour": [0, 1]},
}

QUERIES = [
    "SELECT b FROM (SELECT a / b AS q, b FROM s) WHERE b > 0",
    "SELECT b FROM (SELECT a / b AS q, b FROM s) WHERE b > 0 AND b < 2",
    "SELECT b FROM (SELECT b, t FROM s WHERE a > 0) WHERE 1 / b > 0",
    "SELECT b FROM (SELECT b, a FROM s WHERE a > 0) WHERE a / b > 0",
    "SELECT DISTINCT b FROM (SELECT DISTINCT a, b FROM s) WHERE a = 1",
    "SELECT DISTINCT 1 / b AS q FROM (SELECT DISTINCT a, b FROM s)",
    "SELECT q FROM (SELECT DISTINCT a, b FROM s) AS z(q, w) WHERE 1 / w = 1",
    "SELECT MAX(a) FROM (SELECT a, b FROM s UNION SELECT a, hour FROM r) GROUP BY b",
    "SELECT MAX(a), COUNT(*) FROM (SELECT a, b FROM s UNION SELECT a, hour FROM r) GROUP BY b",
    "SELECT MIN(q) FROM (SELECT 2 / b AS q FROM (SELECT DISTINCT b FROM s))",
    "SELECT b FROM (SELECT b, SUM(a) AS total FROM s GROUP BY b) WHERE b = 1",
    "SELECT b FROM (SELECT b, MAX(a) AS top, COUNT(*) AS n FROM s GROUP BY b) WHERE b > 0 AND top > 1",
    "SELECT COUNT(*) FROM (SELECT a FROM s UNION ALL SELECT a FROM r) HAVING 1 = 0",
    "SELECT COUNT(*) FROM (SELECT a, b FROM s UNION ALL SELECT a, hour FROM r)",
    "SELECT DISTINCT b, n FROM (SELECT b, COUNT(DISTINCT a) AS n FROM s GROUP BY b)",
    "SELECT DISTINCT n FROM (SELECT b, COUNT(DISTINCT a) AS n FROM s GROUP BY b)",
    "SELECT a, a AS again FROM (SELECT a * 2 AS a FROM s)",
    "SELECT a FROM s UNION SELECT a FROM r UNION ALL SELECT b FROM s UNION SELECT a * 2 FROM r",
    "SELECT 1 AS one FROM s WHERE t = 'x' UNION ALL SELECT 2 FROM r",
    "SELECT s.b, r.k, r.a FROM s JOIN r ON s.a = r.a AND s.b > 0 AND r.hour < 1 AND r.a > 0",
    "SELECT s.b, r.k FROM s JOIN r ON s.a = r.a AND s.b > 0 AND 1 / r.hour = 1 WHERE s.t = 'x'",
    "SELECT s.b, r.k FROM s JOIN r ON s.a = r.a WHERE s.t = 'x' AND s.a > 0 AND s.a + hour > 1 AND k = 'x'",
    "SELECT s.b, r.k FROM s JOIN r ON s.a = r.a WHERE s.t = 'x' AND 1 / hour = 1 AND b > 0",
    "SELECT s.b, r.k FROM s JOIN r ON s.a = r.a WHERE b > 0 AND 1 / hour = 1 AND s.t = 'x'",
    "SELECT s.b, r.k, r.a FROM s LEFT JOIN r ON s.a = r.a AND s.b > 0 AND hour < 1 AND s.a > 0 WHERE s.b < 2",
    "SELECT s.b, r.k, r.a FROM s LEFT JOIN r ON s.a = r.a WHERE s.a > 0 AND r.k = 'x'",
    "SELECT s.b, r.k, r.a FROM s RIGHT JOIN r ON s.a = r.a AND s.b > 0 AND hour < 1 WHERE hour < 2 AND s.b = 1",
    "SELECT s.b, r.k, r.a FROM s FULL JOIN r ON s.a = r.a AND s.b > 0 AND hour < 1 WHERE s.b > 0 OR r.k = 'x'",
    "SELECT s.b, r.k, a FROM s FULL JOIN r USING (a) WHERE a > 0",
    "SELECT * FROM (SELECT s.a AS c, r.a AS d, b, hour FROM s CROSS JOIN r) WHERE c = d AND b = hour AND b > 0",
    "SELECT c FROM (SELECT s.a AS c, r.a AS d, b, hour FROM s CROSS JOIN r) WHERE c = d AND 1 / b = 1",
    "SELECT s.a FROM s, r, s AS z WHERE s.a = z.a AND r.hour = z.b AND s.b < r.hour",
    "SELECT r.a, COUNT(*) AS n FROM s JOIN r ON s.a = r.a GROUP BY r.a HAVING s.a > 0",
    "WITH x AS (SELECT DISTINCT a FROM r), y AS (SELECT DISTINCT a, b FROM s) "
    "SELECT DISTINCT x.a, y.b FROM x LEFT JOIN y ON x.a = y.a",
    "WITH x AS (SELECT DISTINCT a FROM r), y AS (SELECT DISTINCT a FROM s) "
    "SELECT DISTINCT x.a, y.a AS c FROM x FULL JOIN y ON x.a = y.a",
    "SELECT b FROM s WHERE a IN (SELECT a FROM r WHERE r.hour < s.b AND k = 'x' AND s.t = 'y') AND b > 0",
    "SELECT b FROM (SELECT * FROM s WHERE EXISTS (SELECT 1 FROM r WHERE r.a = s.a AND 1 / r.hour = s.b)) WHERE a > 0",
    "SELECT b FROM (SELECT * FROM s WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.a = s.a AND hour > 0 AND s.b > 0)) "
    "WHERE a > 0 AND b > 0",
    "SELECT b FROM (SELECT * FROM s WHERE a NOT IN (SELECT a FROM r)) WHERE b > 0 AND 1 / b > 0",
    "SELECT a FROM (SELECT a, b FROM s INTERSECT SELECT a, hour FROM r) WHERE a > 0",
    "SELECT a FROM (SELECT a, b FROM s EXCEPT SELECT a, hour FROM r) WHERE a > 0",
    "SELECT a FROM (SELECT a, b FROM s EXCEPT SELECT a, hour FROM r) WHERE 1 / b > 0",
]


@st.composite
def tables(draw: st.DrawFn) -> dict[str, list[dict[str, Any]]]:
    return {
        name: draw(
            st.lists(st.fixed_dictionaries({c: st.sampled_from(v) for c, v in columns.items()}), max_size=8)
        )
        for name, columns in ROWS.items()
    }


@pytest.mark.parametrize("sql", QUERIES)
@settings(max_examples=20, deadline=None)
@given(rows=tables())
def test_rules_change_neither_results_nor_rejects(sql: str, rows: dict[str, list[dict[str, Any]]]) -> None:
    root = unoptimized(sql)
    scans = {node.stream.name: node.stream for node in root.walk() if isinstance(node, Scan)}
    streams = {
        name: pl.DataFrame(rows.get(name, []), schema=stream.schema.dtypes) for name, stream in scans.items()
    }
    before, rejected = evaluate(root, streams)
    for rule in (*rules.RULES, rules.drop_ignored, rules.optimize):
        after, also_rejected = evaluate(rule(root), streams)
        assert after.columns == before.columns, rule
        assert bag(after.rows()) == bag(before.rows()), rule
        assert also_rejected == rejected, rule


def test_optimizing_twice_changes_nothing() -> None:
    for sql in QUERIES:
        root = rules.optimize(unoptimized(sql))
        assert rules.optimize(root) == root
        assert Counter(map(type, root.walk()))[Scan] >= 1
