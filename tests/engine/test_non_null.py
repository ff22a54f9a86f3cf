"""Conditions that exclude nulls, or end a stream, release results before the inputs end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

import xmlpunct
from tests.oracle.values import bag
from tests.plans.engines import engine
from tests.strategies import slice_of
from xmlpunct.base.errors import SqlError
from xmlpunct.engine.sql import plan
from xmlpunct.punctuations.punctuation import Punctuation

Elements = Sequence[str | tuple[object, ...]]


def released(sql: str, inputs: Mapping[str, Elements], shards: int = 1) -> list[tuple[object, ...]]:
    """The results of a query before its inputs end; elements ``<...>`` are punctuations."""
    query = plan(sql)
    names = [stream.name for stream in query.streams]
    running = engine(query.root, names, shards)
    output = list(running.open())
    for name, elements in inputs.items():
        port = names.index(name)
        schema = query.streams[port].schema
        read = [Punctuation.parse(schema, e) if isinstance(e, str) else e for e in elements]
        output += running.push(port, slice_of(schema, read))
    return [t for piece in output for t in piece.tuples.rows()]


IN_ORDER = """
CREATE STREAM s (k INT, ts INT, x DOUBLE) WITH (source = 's.xml') PUNCTUATE ORDER BY ts;
CREATE STREAM r (k INT, ts INT) WITH (source = 'r.xml') PUNCTUATE ORDER BY ts;
"""
S: Elements = [(1, 0, 0.5), (2, 50, 2.5), (None, 60, 0.5), (1, 99, 1.5), (1, 100, 9.5)]
R: Elements = [(2, 5), (3, 30), (3, 100)]


@pytest.mark.parametrize("shards", [0, 1, 3])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT k, COUNT(*) AS n FROM s WHERE ts < 100 GROUP BY k", [(1, 2), (2, 1), (None, 1)]),
        ("SELECT k, COUNT(*) AS n FROM s WHERE 100 > ts GROUP BY k", [(1, 2), (2, 1), (None, 1)]),
        ("SELECT k, COUNT(*) AS n FROM s WHERE ts BETWEEN 1 AND 99 GROUP BY k", [(1, 1), (2, 1), (None, 1)]),
        ("SELECT k, COUNT(*) AS n FROM s WHERE ts / 50 < 2 GROUP BY k", [(1, 2), (2, 1), (None, 1)]),
        ("SELECT k, COUNT(*) AS n FROM s WHERE k < 2 AND NOT ts >= 100 GROUP BY k", [(1, 2)]),
        ("SELECT COUNT(*) AS n FROM s WHERE ts < 100", [(4,)]),
        ("SELECT COUNT(*) AS n FROM s WHERE ts < 100 AND k = 9", [(0,)]),
        ("SELECT k FROM s WHERE ts < 100 ORDER BY k DESC NULLS FIRST", [(None,), (2,), (1,), (1,)]),
        ("SELECT k FROM s WHERE ts < 100 EXCEPT SELECT k FROM r WHERE ts < 100", [(1,), (None,)]),
        ("SELECT s.k, r.ts FROM s LEFT JOIN r ON s.k = r.k AND r.ts < 100 WHERE s.ts = 50", [(2, 5)]),
        ("SELECT s.k FROM s LEFT JOIN (SELECT * FROM r WHERE ts < 100) r ON s.k = r.k",
         [(1,), (2,), (None,), (1,), (1,)]),
        ("SELECT k FROM s WHERE k NOT IN (SELECT k FROM r WHERE ts < 100)", [(1,), (1,), (1,)]),
        ("SELECT k FROM s WHERE k NOT IN (SELECT k FROM r WHERE ts < 100 AND k = 5)",
         [(1,), (2,), (None,), (1,), (1,)]),
        ("SELECT k, SUM(x) AS x FROM (SELECT k, x FROM s WHERE ts < 100 UNION ALL SELECT k, 1e0 FROM r WHERE ts < 100) "
         "GROUP BY k", [(1, 2.0), (2, 3.5), (3, 1.0), (None, 0.5)]),
        ("SELECT k, COUNT(*) AS n FROM s GROUP BY k HAVING MAX(ts) < 100", []),
        ("SELECT k, COUNT(*) AS n FROM s WHERE ts >= 0 GROUP BY k", []),
    ],
)  # fmt: skip
def test_an_upper_bound_on_an_ordered_attribute_ends_the_stream(
    query: str, expected: list[tuple[object, ...]], shards: int
) -> None:
    streams = {name: elements for name, elements in (("s", S), ("r", R)) if f" {name} " in f"{query} "}
    assert bag(released(IN_ORDER + query, streams, shards)) == bag(expected)


BY_K = """
CREATE STREAM s (k INT, ts INT, x INT) WITH (source = 's.xml');
CREATE STREAM r (k INT, ts INT) WITH (source = 'r.xml');
"""
CLOSING: dict[str, Elements] = {
    "s": [(1, 0, 5), (2, 5, 5), (None, 7, 5), (4, 9, None)],
    "r": [(2, 1), (None, 3), (6, 1), "<[1,4], *>"],
}


@pytest.mark.parametrize("shards", [0, 2])
@pytest.mark.parametrize(
    ("condition", "other", "expected"),
    [
        ("", "k > 0", [(1,), (4,)]),
        ("k IS NOT NULL AND", "k IS NOT NULL", [(1,), (4,)]),
        ("k + ts > 0 AND", "k > 0", [(1,), (4,)]),
        ("(k > 3 OR k < 2) AND", "ABS(k) > 0", [(1,), (4,)]),
        ("COALESCE(k, 1) > 0 AND", "10 / k > 0", [(1,), (4,)]),
        ("", "k > 0 OR ts = 5", []),
        ("", "COALESCE(k, 2) > 0", []),
        ("", "k IS DISTINCT FROM 3", []),
        ("k > 0 AND", "k IN (2, 3) IS TRUE", [(1,), (4,)]),
    ],
)  # fmt: skip
def test_not_in_of_values_that_are_never_null(
    condition: str, other: str, expected: list[tuple[object, ...]], shards: int
) -> None:
    """A null on the right is filtered out; a null on the left gives no result, as the right has values."""
    query = f"SELECT k FROM s WHERE {condition} k NOT IN (SELECT k FROM r WHERE {other})"
    assert bag(released(BY_K + query, CLOSING, shards)) == bag(expected)


def test_a_subquery_without_nulls_may_be_a_window_or_sorted() -> None:
    """TUMBLE requires NOT NULL columns; WHERE can ensure it. OVER (ORDER BY) puts nulls last."""
    documents = b"<s><t><ts>1</ts></t><t><k>3</k></t><t><ts>12</ts></t></s>"
    create = "CREATE STREAM s (ts INT, k INT) WITH (source = '-', element = 't');"
    tumble = "SELECT window_end, COUNT(*) AS n FROM TUMBLE(TABLE {}, DESCRIPTOR(ts), 10) GROUP BY window_end"
    over = "SELECT ts, COUNT(*) OVER (ORDER BY ts) AS n FROM s {}"
    with pytest.raises(SqlError, match="WHERE ts IS NOT NULL"):
        plan(create + tumble.format("s"))
    results = xmlpunct.query(create + tumble.format("(SELECT * FROM s WHERE ts IS NOT NULL)"), s=documents)
    assert sorted(results) == [(10, 1), (20, 1)]
    results = xmlpunct.query(create + over.format("WHERE NOT ts IS NULL"), s=documents)
    assert sorted(results) == [(1, 1), (12, 2)]
    assert set(xmlpunct.query(create + over.format(""), s=documents)) == {(1, 1), (12, 2), (None, 3)}


@pytest.mark.parametrize("shards", [0, 2])
def test_join_keys_and_compared_columns_are_not_null(shards: int) -> None:
    """Compared columns are never null in the result, so `(,)` closes all their values."""
    query = "SELECT x, COUNT(*) AS n FROM s JOIN r ON s.k = r.k AND s.ts < r.ts GROUP BY x"
    streams: dict[str, Elements] = {
        "s": [(1, 0, 5), (2, None, 6), (None, 0, 7), "<*, (,), *>"],
        "r": [(1, 4), (2, 5), "<(,), *>"],
    }
    assert released(BY_K + query, streams, shards) == [(5, 1)]


USING = """
CREATE STREAM s (k INT, j INT, v INT) WITH (source = 's.xml');
CREATE STREAM r (k INT, j INT, w INT) WITH (source = 'r.xml');
CREATE STREAM t (k INT, j INT, w INT) WITH (source = 't.xml');
"""
SIDES: dict[str, Elements] = {
    "s": [(1, 1, 5), (2, 1, 6), (None, 1, 7), (4, 4, 8), "<[1,2], *, *>", "<4, *, *>"],
    "r": [(2, 1, 3), (3, 1, 4), (None, 1, 5), (1, 2, 6), "<[1,3], *, *>"],
    "t": [(2, 1, 9), "<[1,3], *, *>"],
}


@pytest.mark.parametrize("shards", [0, 1, 3])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT k, COUNT(*) AS n FROM s FULL JOIN r USING (k) GROUP BY k", [(1, 1), (2, 1)]),
        ("SELECT k, j, COUNT(*) AS n FROM s FULL JOIN r USING (k, j) GROUP BY k, j",
         [(1, 1, 1), (1, 2, 1), (2, 1, 1)]),
        ("SELECT k, COUNT(*) AS n FROM s FULL JOIN r USING (k, j) GROUP BY k", [(1, 2), (2, 1)]),
        ("SELECT k, COUNT(*) AS n FROM s FULL JOIN r USING (k) FULL JOIN t USING (k) GROUP BY k", [(1, 1), (2, 1)]),
        ("SELECT COALESCE(r.k, s.k) AS c, COUNT(v) AS n FROM s FULL JOIN r ON s.k = r.k GROUP BY COALESCE(r.k, s.k)",
         [(1, 1), (2, 1)]),
        ("SELECT k / 2 AS h, COUNT(*) AS n FROM s FULL JOIN r USING (k) WHERE k > 0 GROUP BY k / 2", []),
        ("SELECT (k + 1) / 2 AS h, COUNT(*) AS n FROM s FULL JOIN r USING (k) WHERE k > 0 GROUP BY (k + 1) / 2",
         [(1, 2)]),
    ],
)  # fmt: skip
def test_the_merged_column_of_a_full_join_is_closed_once_both_sides_have_closed_it(
    query: str, expected: list[tuple[object, ...]], shards: int
) -> None:
    streams = {name: elements for name, elements in SIDES.items() if f" {name} " in f"{query} "}
    assert bag(released(USING + query, streams, shards)) == bag(expected)


@pytest.mark.parametrize("shards", [0, 1, 3])
@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        (["<5, *, *>"], []),
        (["<5, *, *>", "<*, 5, *>"], [(5, 2)]),
        (["<5, *, *>", "<(,), 5, *>"], []),
        (["<5, *, *>", "<6, 5, *>", "<*, [4,6], *>", "<[6,9], *, *>"], [(5, 2), (6, 1)]),
        (["<*, *, 1>"], []),
        (["<(,), *, *>", "<*, 6, *>"], [(6, 1)]),
    ],
)  # fmt: skip
def test_coalesce_is_closed_once_each_possible_argument_is(
    elements: list[str], expected: list[tuple[object, ...]], shards: int
) -> None:
    query = "SELECT COALESCE(k, j) AS c, COUNT(*) AS n FROM s GROUP BY COALESCE(k, j)"
    tuples: Elements = [(5, 7, 1), (None, 5, 1), (None, 6, 2), (None, None, 3)]
    assert released(USING + query, {"s": [*tuples, *elements]}, shards) == sorted(expected)
