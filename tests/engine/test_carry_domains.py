"""Attributes that edges retain so that joint covers are found after the exchange."""

from __future__ import annotations

import pytest

from tests.plans.sharded import Sharded
from tests.strategies import Element, slice_of
from xmlpunct import Punctuation
from xmlpunct.engine.partition.fragments import cut_plan
from xmlpunct.engine.plan import Hop, Join, Scan, WindowPromises, numbered
from xmlpunct.engine.rules import optimize
from xmlpunct.engine.sql import plan
from xmlpunct.expressions.expression import Column
from xmlpunct.expressions.functions import call
from xmlpunct.operators.time.windows.frame import HoppingWindows
from xmlpunct.types import INT

DDL = """CREATE STREAM a (sid STRING NOT NULL, part INT CHECK (part BETWEEN 0 AND 2), hour INT NOT NULL, x INT)
           WITH (source = 'a');
         CREATE STREAM b (hour INT NOT NULL, y INT) WITH (source = 'b');"""
HOURS = 5
CLOSING = {
    "dupelim": "SELECT DISTINCT hour FROM a",
    "group-by": "SELECT hour, COUNT(*) AS n FROM a GROUP BY hour",
    "behind a selection": "SELECT hour, COUNT(*) AS n FROM a WHERE x >= 0 GROUP BY hour",
    "behind a computation": "SELECT hour, v FROM (SELECT hour, x + 1 AS v FROM a) GROUP BY hour, v",
    "of a derived column": "SELECT half, COUNT(*) AS n FROM (SELECT hour / 1 AS half FROM a) GROUP BY half",
    "union": "SELECT hour, x FROM a UNION SELECT hour, y FROM b",
    "join": "SELECT a.hour, x, y FROM a JOIN b ON a.hour = b.hour",
    "sort": "SELECT hour FROM a ORDER BY hour",
}


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("name", CLOSING)
def test_a_joint_cover_closes_an_hour(name: str, shards: int) -> None:
    query = plan(DDL + CLOSING[name])
    engine = Sharded(query.root, [s.name for s in query.streams], shards)
    closed: list[Punctuation] = []

    def push(stream: int, *elements: Element) -> None:
        for output in engine.push(stream, slice_of(query.streams[stream].schema, list(elements))):
            closed.extend(output.punctuations)

    for hour in range(HOURS):
        for stream in range(1, len(query.streams)):
            push(stream, (hour, hour), Punctuation.of(query.streams[stream].schema, hour=hour))
        for part in range(3):
            early = len(closed)
            schema = query.streams[0].schema
            push(0, (f"S{part}", part, hour, hour), Punctuation.of(schema, hour=f"(,{hour}]", part=part))
    assert len(closed) >= HOURS - 1
    assert len(closed) > early, "the last part makes the cover"
    assert all(o.state.rows == 0 for o in engine.operators) or name == "of a derived column"


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT DISTINCT hour FROM a", ["hour", "part"]),
        ("SELECT DISTINCT hour AS h, part AS p FROM a", ["h", "p"]),
        ("SELECT part, MAX(x) FROM a GROUP BY part", ["a.part", "a.x", "$0.value"]),
        ("SELECT COUNT(*) FROM a", ["a.sid", "$0.count"]),
        ("SELECT v, COUNT(*) FROM (SELECT x * x AS v FROM a) GROUP BY v", ["v", "$0.count"]),
        ("SELECT y FROM b WHERE y NOT IN (SELECT x FROM a)", ["b.y"]),
    ],
)
def test_only_useful_attributes_cross_the_exchange(sql: str, expected: list[str]) -> None:
    query = plan(DDL + sql)
    parts = cut_plan(query.root, [s.name for s in query.streams])
    feed_names = [
        list(feed.schema.names) for fragment in parts.fragments for feed in fragment.feeds if feed.from_edge
    ]
    assert expected in feed_names
    assert all("part" not in names for names in feed_names if names != expected)


def test_without_an_exchange_no_attribute_is_added() -> None:
    parts = cut_plan(plan(DDL + "SELECT hour FROM a").root, ["a"])
    assert (parts.fragments, parts.edges[0].root.schema.names) == ((), ("hour",))


def test_retained_attributes_keep_the_feed_schema_consistent() -> None:
    """The extra attribute ``part`` must not shift the columns that the semijoin reads."""
    a, b = plan(DDL + "SELECT hour FROM a").streams[0], plan(DDL + "SELECT hour FROM b").streams[0]
    windows = Hop(
        Scan(a, ("part", "hour"), ("part", "at")), "at", HoppingWindows(INT, 2, 2, 0), None, "until"
    )
    promises = WindowPromises(windows, "at", windows.frame, None, "until")
    condition = call("<", Column(INT, False, "hour"), Column(INT, False, "until"))
    root = Join(
        Scan(b, ("hour",), ("hour",)), promises, (), "semi", condition
    )  # on one shard: a fragment of its own
    parts = cut_plan(optimize(numbered(root)), [a.name, b.name])
    feeds = [feed for fragment in parts.fragments for feed in fragment.feeds]
    assert any(feed.from_edge and "part" in feed.schema for feed in feeds)
    (feed,) = [feed for feed in feeds if not feed.from_edge]
    assert feed.schema == parts.fragments[feed.source].root.schema
