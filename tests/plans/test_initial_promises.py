"""Promises that hold before any input, from predicates and domains, unblock operators, on one or more shards."""

from __future__ import annotations

import io

import pytest

import xmlpunct
from tests.oracle.table_1 import set_match
from tests.plans.engines import Engine, engine
from tests.strategies import Element, slice_of
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.engine.plan import Query
from xmlpunct.engine.sql import plan
from xmlpunct.punctuations.punctuation import Punctuation

STREAMS = """
CREATE STREAM a (hour INT, x INT) WITH (source = '-', element = 't');
CREATE STREAM b (hour INT, x INT) WITH (source = '-', element = 't');
CREATE STREAM day (hour INT CHECK (hour BETWEEN 0 AND 23), sid STRING) WITH (source = '-', element = 't');
"""
HALVES = "SELECT * FROM a WHERE hour <= 5 UNION ALL SELECT * FROM b WHERE hour > 5"
shards = pytest.mark.parametrize("shards", [0, 1, 3])


class Running:
    """A query on ``shards`` shards; 0 means one pipeline. ``opening``: the punctuations before any input."""

    def __init__(self, sql: str, shards: int) -> None:
        self.query: Query = plan(STREAMS + sql)
        names = [s.name for s in self.query.streams]
        self.engine: Engine = engine(self.query.root, names, shards)
        self.opening = [str(p) for output in self.engine.open() for p in output.punctuations]

    def push(
        self, name: str, *elements: tuple[object, ...] | str
    ) -> tuple[list[tuple[object, ...]], list[str]]:
        """Push elements of a stream; return the sorted tuples and punctuations. The engine restarts afterwards."""
        number = next(i for i, s in enumerate(self.query.streams) if s.name == name)
        schema = self.query.streams[number].schema
        parsed: list[Element] = [Punctuation.parse(schema, e) if isinstance(e, str) else e for e in elements]
        outputs = list(self.engine.push(number, slice_of(schema, parsed)))
        self.engine = self.engine.restarted()
        tuples = sorted(t for output in outputs for t in output.tuples.rows())
        return tuples, sorted(str(p) for output in outputs for p in output.punctuations)


@shards
def test_each_half_of_a_union_is_closed_by_its_input(shards: int) -> None:
    running = Running(HALVES, shards)
    assert running.opening == []
    assert running.push("a", (3, 1), "<3, *>") == ([(3, 1)], ["<3, *>"]), "b has no such hour"
    assert running.push("b", (7, 2), "<[6,8], *>") == ([(7, 2)], ["<[6,8], *>"])
    assert running.push("a", (4, 0), (6, 0)) == ([(4, 0)], [])


@shards
def test_groups_are_released_as_soon_as_their_half_allows(shards: int) -> None:
    running = Running(f"SELECT hour, COUNT(*) AS n FROM ({HALVES}) GROUP BY hour", shards)
    assert running.push("a", (3, 1), (3, 2), "<3, *>") == ([(3, 2)], ["<3, *>"])
    assert running.push("b", (7, 1), (8, 1), (4, 1), "<7, *>") == ([(7, 1)], ["<7, *>"])
    assert running.push("b", "<*, *>") == ([(8, 1)], ["<[6,), *>"])
    assert running.push("a", "<*, *>") == ([], ["<(,5], *>", "<*, *>"])


@shards
def test_a_predicate_and_a_domain_close_a_column_together(shards: int) -> None:
    """The predicate closes hours above 5, the domain hours outside 0 to 23, the stream hours 0 to 5."""
    running = Running("SELECT sid, COUNT(*) AS n FROM day WHERE hour <= 5 GROUP BY sid", shards)
    assert running.push("day", (4, "S1"), (5, "S1"), (9, "S2"), "<[0,4], *>") == ([], [])
    assert running.push("day", "<5, S1>") == ([("S1", 2)], ["<S1, *>"])
    assert running.push("day", (5, "S2"), "<5, *>") == ([("S2", 1)], ["<*, *>"])


@shards
def test_a_domain_closes_hours_that_only_another_stream_has(shards: int) -> None:
    running = Running("SELECT hour FROM day UNION SELECT hour FROM a", shards)
    tuples, texts = running.push("a", (25, 1), (3, 1), "<[3,25], *>")
    assert tuples == [(3,), (25,)]
    punctuations = [Punctuation.parse(running.query.root.schema, p) for p in texts]
    assert [hour for hour in range(-5, 40) if set_match((hour,), punctuations)] == [24, 25]


@shards
def test_initial_promises_are_emitted_before_any_input(shards: int) -> None:
    assert Running("SELECT hour FROM a WHERE hour > 5", shards).opening == ["<(,5]>"]
    assert sorted(Running("SELECT DISTINCT sid, hour FROM day", shards).opening) == [
        "<*, (,-1]>",
        "<*, [24,)>",
    ]
    having = "SELECT hour, COUNT(*) AS n FROM a GROUP BY hour HAVING COUNT(*) > 1"
    assert Running(having, shards).opening == ["<*, (,1]>"]


@shards
def test_an_empty_result_ends_at_once(shards: int) -> None:
    sql = "SELECT sid, MAX(hour) AS last FROM day WHERE hour > 5 AND hour < 3 GROUP BY sid"
    running = Running(sql, shards)
    assert running.opening == ["<*, *>"]
    assert running.push("day", (4, "S1"), "<*, *>") == ([], [])


def test_the_local_engine_emits_an_initial_promise_once() -> None:
    text = f"<s xmlns:p='{PUNCT_NAMESPACE}'><t><hour>3</hour></t><t><hour>7</hour></t></s>"
    sql = (
        "CREATE STREAM a (hour INT) WITH (source = 'unset', element = 't'); SELECT hour FROM a WHERE hour > 5"
    )
    elements = list(xmlpunct.query(sql, a=io.BytesIO(text.encode())))
    assert [str(e) if isinstance(e, Punctuation) else e for e in elements] == [(7,), "<(,5]>"]
