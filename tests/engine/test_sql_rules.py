"""The rules: what each does, and that none changes results or rejects."""

from __future__ import annotations

from collections import Counter
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.fixtures import STREAMS, blocks, outline
from tests.oracle.values import bag
from xmlpunct.ddl import parse_statements
from xmlpunct.engine import rules
from xmlpunct.engine.plan import Node, Scan
from xmlpunct.engine.sql.catalog import declared
from xmlpunct.engine.sql.queries import Context, plan_query
from xmlpunct.operators import run
from xmlpunct.punctuation import Punctuation
from xmlpunct.slice import Slice


def unoptimized(sql: str) -> Node:
    *streams, query = parse_statements(STREAMS + sql)
    return plan_query(query, Context(declared(streams, {}), {})).node


@pytest.mark.parametrize(("name", "sql", "before", "after"), blocks("rules.txt"))
def test_a_rule(name: str, sql: str, before: str, after: str) -> None:
    root = unoptimized(sql)
    *earlier, last = name.split()
    for rule in earlier:
        root = getattr(rules, rule)(root)
    assert outline(root) == before
    assert outline(getattr(rules, last)(root)) == after


def evaluate(node: Node, streams: dict[str, pl.DataFrame]) -> tuple[pl.DataFrame, int]:
    """All results of a plan over whole streams, and how many tuples were rejected."""
    operator = node.operator()
    rejected = 0
    if isinstance(node, Scan):
        given = [streams[node.stream.name]]
    else:
        below = [evaluate(child, streams) for child in node.inputs]
        given, rejected = [frame for frame, _ in below], sum(count for _, count in below)
    found = [
        run(operator, port, Slice(frame, [Punctuation.everything(operator.inputs[port])])).tuples
        for port, frame in enumerate(given)
    ]
    return pl.concat(found), rejected + len(operator.rejects)


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
    for rule in (*rules.RULES, rules.optimize):
        after, also_rejected = evaluate(rule(root), streams)
        assert after.columns == before.columns, rule
        assert bag(after.rows()) == bag(before.rows()), rule
        assert also_rejected == rejected, rule


def test_optimizing_twice_changes_nothing() -> None:
    for sql in QUERIES:
        root = rules.optimize(unoptimized(sql))
        assert rules.optimize(root) == root
        assert Counter(map(type, root.walk()))[Scan] >= 1
