"""Cutting plans into edges and fragments."""

from __future__ import annotations

import pytest

from xmlpunct import Punctuation, Schema, Slice
from xmlpunct.engine.partition.fragments import Fragments, cut_plan
from xmlpunct.engine.partition.routing import route
from xmlpunct.engine.plan import GroupBy, Join, Node, Scan, Stream
from xmlpunct.engine.sql import plan
from xmlpunct.operators import Aggregate
from xmlpunct.types.pattern import enumerate_values

DDL = """CREATE STREAM a (k INT, x INT, y INT) WITH (source = 'a');
         CREATE STREAM b (k INT, x INT, y INT) WITH (source = 'b');"""


def fragments(sql: str) -> Fragments:
    query = plan(DDL + sql)
    return cut_plan(query.root, [s.name for s in query.streams])


def shape(parts: Fragments) -> list[tuple[bool, int]]:
    """For each fragment: whether it runs on one shard, and the number of shard key attributes."""
    return [(f.single, len(f.feeds[0].keys)) for f in parts.fragments]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT x FROM a WHERE y > 1", []),
        ("SELECT x, COUNT(*) FROM a GROUP BY x", [(False, 1)]),
        ("SELECT x, MAX(y) FROM (SELECT x, y FROM a UNION SELECT x, y FROM b) GROUP BY x", [(False, 1)]),
        ("SELECT DISTINCT x, y FROM a", [(False, 2)]),
        ("SELECT x, COUNT(*) FROM (SELECT x, y, SUM(k) AS s FROM a GROUP BY x, y) GROUP BY x", [(False, 1)]),
        ("SELECT COUNT(*) FROM a", [(True, 0)]),
        ("SELECT COUNT(*) FROM (SELECT DISTINCT x FROM a)", [(False, 1), (True, 0)]),
        (
            "SELECT s, COUNT(*) FROM (SELECT x, SUM(k) AS s FROM a GROUP BY x) GROUP BY s",
            [(False, 1), (False, 1)],
        ),
        ("SELECT h, COUNT(*) FROM (SELECT x + 1 AS h FROM a) GROUP BY h", [(False, 1)]),
        ("SELECT COUNT(*) FROM a UNION ALL SELECT COUNT(*) FROM b", [(True, 0)]),
        ("SELECT COUNT(*) FROM a UNION SELECT COUNT(*) FROM b", [(True, 0), (True, 0), (False, 1)]),
        ("SELECT COUNT(*) FROM a UNION ALL SELECT x FROM b", [(True, 0), (False, 1)]),
    ],
)
def test_operators_with_the_same_shard_key_share_a_fragment(
    sql: str, expected: list[tuple[bool, int]]
) -> None:
    assert shape(fragments(sql)) == expected


def test_a_dropped_shard_key_leaves_no_key() -> None:
    retained = fragments("SELECT x AS h, COUNT(*) AS n FROM a GROUP BY x").fragments[-1]
    lost = fragments("SELECT COUNT(*) AS n FROM a GROUP BY x").fragments[-1]
    assert (retained.keys, lost.keys) == ((("h",),), ())


def scan(name: str, k: str, x: str) -> Scan:
    return Scan(Stream(name, Schema.parse("k INT, x INT"), name, name), ("k", "x"), (k, x))


def counted(node: Node, key: str) -> Fragments:
    return cut_plan(GroupBy(node, (key,), (Aggregate("COUNT", None, False, "n"),)), ["a", "b"])


@pytest.mark.parametrize(
    ("kind", "key", "count"),
    [
        ("inner", "k", 1),
        ("inner", "x", 2),
        ("left", "k", 1),
        ("left", "rk", 2),
        ("right", "rk", 1),
        ("right", "k", 2),
        ("full", "k", 2),
    ],
)
def test_after_an_outer_join_only_the_preserved_side_stays_partitioned(
    kind: str, key: str, count: int
) -> None:
    join = Join(scan("a", "k", "x"), scan("b", "rk", "rx"), (("k", "rk"),), kind)
    parts = counted(join, key)
    assert len(parts.fragments) == count
    assert [feed.keys for feed in parts.fragments[0].feeds] == [("k",), ("rk",)]
    top = cut_plan(join, ["a", "b"]).fragments[-1]
    assert top.keys == ((("k",),) if kind == "inner" else (("k",), ("rk",)))


def test_a_semijoin_stays_partitioned_by_its_left_key() -> None:
    join = Join(scan("a", "k", "x"), scan("b", "rk", "rx"), (("k", "rk"),), "semi")
    assert len(counted(join, "k").fragments) == 1


def test_an_attribute_may_be_a_shard_key_twice() -> None:
    """SELECT DISTINCT x, x AS c: both shard key columns are the same column of the input."""
    parts = fragments("SELECT DISTINCT x, x AS c FROM (SELECT DISTINCT x, y FROM a)")
    (feed,) = parts.fragments[0].feeds
    assert len(set(feed.keys)) < len(feed.keys)
    schema = feed.schema
    tuples = schema.frame((i % 7, *[i] * (len(schema) - 1)) for i in range(20))
    punctuations = [Punctuation.of(schema, **{feed.keys[0]: "[0,6]"})]
    routed = route(Slice(tuples, punctuations), schema, feed.keys, 3)
    for shard_slice in routed.values():
        for value in shard_slice.tuples[feed.keys[0]]:
            assert sum(p.patterns[0].matches(value) for p in shard_slice.punctuations) == 1
    assert (
        sum(len(list(enumerate_values(p.patterns[0]) or ())) for s in routed.values() for p in s.punctuations)
        == 7
    )


@pytest.mark.parametrize(
    ("column", "expected"),
    [("k INT", False), ("k INT NOT NULL", False), ("k INT CHECK (k BETWEEN 0 AND 5)", True)],
)
def test_every_shard_receives_all_punctuations_that_may_add_up(column: str, expected: bool) -> None:
    """Without a finite domain, punctuations cannot add up: each goes to one shard only."""
    query = plan(
        f"CREATE STREAM a ({column}, v INT) WITH (source = 'a'); CREATE STREAM b (k INT) WITH (source = 'b');"
        "SELECT v FROM a JOIN b ON a.k = b.k"
    )
    (fragment,) = cut_plan(query.root, [s.name for s in query.streams]).fragments
    assert {feed.whole for feed in fragment.feeds} == {expected}


def test_common_subplans_are_one_part() -> None:
    """Common subplans are one fragment or one edge; each operator occurs once."""
    query = plan(f"""{DDL}
        CREATE VIEW v AS SELECT k, x, COUNT(*) AS n FROM a GROUP BY k, x;
        CREATE SINK one WITH (output = '1') AS SELECT n FROM v;
        CREATE SINK two WITH (output = '2') AS SELECT n, COUNT(*) AS m FROM v GROUP BY n;
        CREATE SINK three WITH (output = '3') AS SELECT k FROM a;
        SELECT DISTINCT k FROM (SELECT k, x + 1 AS y FROM a)""")
    plan_parts = cut_plan(query.roots, [s.name for s in query.streams])
    first, second, third, last = plan_parts.answers
    assert (first.source, second.source, third.from_edge) == (0, 1, True)
    (above,) = plan_parts.fragments[second.source].feeds
    assert (above.from_edge, above.source) == (False, first.source)
    assert plan_parts.levels == [[0, last.source], [1]]
    parts = [*plan_parts.edges, *plan_parts.fragments]
    numbers = [node.number for part in parts for node in part.root.walk() if node.number]
    assert len(set(numbers)) == len(numbers)
