"""What is known from the start unblocks what nobody else would have: on one pipeline, and on several shards."""

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
    """A query on some shards, or (0) in one pipeline. ``known`` is what came out before any input."""

    def __init__(self, sql: str, shards: int) -> None:
        self.query: Query = plan(STREAMS + sql)
        names = [s.name for s in self.query.streams]
        self.engine: Engine = engine(self.query.root, names, shards)
        self.known = [str(p) for output in self.engine.open() for p in output.punctuations]

    def push(
        self, name: str, *elements: tuple[object, ...] | str
    ) -> tuple[list[tuple[object, ...]], list[str]]:
        """The tuples and the punctuations that some elements of a stream bring, sorted; then restarts."""
        number = next(i for i, s in enumerate(self.query.streams) if s.name == name)
        schema = self.query.streams[number].schema
        given: list[Element] = [Punctuation.parse(schema, e) if isinstance(e, str) else e for e in elements]
        outputs = list(self.engine.push(number, slice_of(schema, given)))
        self.engine = self.engine.restarted()
        tuples = sorted(t for output in outputs for t in output.tuples.rows())
        return tuples, sorted(str(p) for output in outputs for p in output.punctuations)


@shards
def test_each_half_of_a_union_speaks_for_itself(shards: int) -> None:
    running = Running(HALVES, shards)
    assert running.known == []
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
    """Hours after 5 are excluded, those below 0 and above 23 never were; 0 to 5 close in the stream."""
    running = Running("SELECT sid, COUNT(*) AS n FROM day WHERE hour <= 5 GROUP BY sid", shards)
    assert running.push("day", (4, "S1"), (5, "S1"), (9, "S2"), "<[0,4], *>") == ([], [])
    assert running.push("day", "<5, S1>") == ([("S1", 2)], ["<S1, *>"])
    assert running.push("day", (5, "S2"), "<5, *>") == ([("S2", 1)], ["<*, *>"])


@shards
def test_a_domain_speaks_for_hours_that_another_stream_may_have(shards: int) -> None:
    running = Running("SELECT hour FROM day UNION SELECT hour FROM a", shards)
    tuples, said = running.push("a", (25, 1), (3, 1), "<[3,25], *>")
    assert tuples == [(3,), (25,)]
    found = [Punctuation.parse(running.query.root.schema, p) for p in said]
    assert [hour for hour in range(-5, 40) if set_match((hour,), found)] == [24, 25]


@shards
def test_what_is_known_comes_out_before_any_input(shards: int) -> None:
    assert Running("SELECT hour FROM a WHERE hour > 5", shards).known == ["<(,5]>"]
    assert sorted(Running("SELECT DISTINCT sid, hour FROM day", shards).known) == ["<*, (,-1]>", "<*, [24,)>"]
    having = "SELECT hour, COUNT(*) AS n FROM a GROUP BY hour HAVING COUNT(*) > 1"
    assert Running(having, shards).known == ["<*, (,1]>"]


@shards
def test_where_nothing_can_come_the_output_ends_at_once(shards: int) -> None:
    sql = "SELECT sid, MAX(hour) AS last FROM day WHERE hour > 5 AND hour < 3 GROUP BY sid"
    running = Running(sql, shards)
    assert running.known == ["<*, *>"]
    assert running.push("day", (4, "S1"), "<*, *>") == ([], [])


def test_the_local_engine_tells_it_once() -> None:
    text = f"<s xmlns:p='{PUNCT_NAMESPACE}'><t><hour>3</hour></t><t><hour>7</hour></t></s>"
    sql = (
        "CREATE STREAM a (hour INT) WITH (source = 'unset', element = 't'); SELECT hour FROM a WHERE hour > 5"
    )
    found = list(xmlpunct.query(sql, a=io.BytesIO(text.encode())))
    assert [str(e) if isinstance(e, Punctuation) else e for e in found] == [(7,), "<(,5]>"]
