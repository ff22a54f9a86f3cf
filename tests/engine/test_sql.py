"""From SQL to plans, by fixtures of queries and their plans."""

from __future__ import annotations

import pickle

import pytest

from tests.engine.fixtures import STREAMS, blocks, outline
from xmlpunct.base.errors import SqlError, UsageError
from xmlpunct.engine.plan import Node
from xmlpunct.engine.sql import plan
from xmlpunct.engine.why.plan_text import explain
from xmlpunct.types import DOUBLE, INT, decimal


def planned(sql: str) -> Node:
    return plan(STREAMS + sql).root


@pytest.mark.parametrize(("sql", "expected"), blocks("plans.txt"))
def test_plans(sql: str, expected: str) -> None:
    root = planned(sql)
    assert outline(root) == expected
    assert [node.number for node in root.walk()] == list(range(1, len(list(root.walk())) + 1))
    assert pickle.loads(pickle.dumps(root)) == root


@pytest.mark.parametrize(("sql", "expected"), blocks("explained.txt"))
def test_explain(sql: str, expected: str) -> None:
    text = explain(plan(STREAMS + sql))
    assert "\n".join(line for line in text.split("\n") if line) == expected


@pytest.mark.parametrize(
    ("items", "names"),
    [
        ("*", "a b t d x p day at"),
        ("s.*, a AS again", "a b t d x p day at again"),
        ("a + 1, a, B, MAX(a) - MIN(b)", "_1 a b _4"),
        ("A AS Alpha, S.B beta", "Alpha beta"),
        ('"a"', "a"),
    ],
)
def test_output_names(items: str, names: str) -> None:
    group = " GROUP BY a, b" if "MAX" in items else ""
    assert " ".join(planned(f"SELECT {items} FROM s{group}").schema.names) == names


def test_quoted_names_keep_their_case() -> None:
    assert planned('SELECT "A" FROM odd').schema["A"].type is INT
    assert planned("SELECT A, speed FROM ODD").schema.names == ("A", "Speed")
    with pytest.raises(SqlError, match='no column "SPEED"'):
        planned('SELECT "SPEED" FROM odd')


def test_plain_columns_keep_not_null_and_domain() -> None:
    hour = planned("SELECT hour AS h FROM (SELECT * FROM r) AS q WHERE a > 1").schema["h"]
    assert not hour.nullable
    assert str(hour.domain) == "[0,23]"


def test_any_name_can_be_quoted_inside() -> None:
    inner = 'SELECT a AS "COUNT(*)", b AS "*", x AS "^.*$" FROM s'
    items = '"COUNT(*)" AS n, COUNT(*) AS c, MAX("*") AS m, MIN("^.*$") AS o'
    sql = f'SELECT {items} FROM ({inner}) GROUP BY "COUNT(*)"'
    root = planned(sql)
    assert root.schema.names == ("n", "c", "m", "o")
    assert [a.type for a in root.schema] == [INT, INT, INT, DOUBLE]


def test_a_union_takes_the_wider_types() -> None:
    sql = "SELECT a AS n FROM s UNION ALL SELECT {} FROM s"
    assert planned(sql.format("x")).schema["n"].type is DOUBLE
    assert planned(sql.format("d")).schema["n"].type == decimal(21, 2)


def test_a_source_given_replaces_the_declared_one() -> None:
    query = plan(f"{STREAMS} SELECT a FROM nowhere UNION SELECT a FROM r", {"nowhere": "-", "r": "tcp://h:1"})
    assert [(s.name, s.source, s.element) for s in query.streams] == [
        ("nowhere", "-", "nowhere"),
        ("r", "tcp://h:1", "{urn:x}r"),
    ]
    with pytest.raises(UsageError, match="stream q, which is not declared: there are s, r, nowhere, Odd"):
        plan(f"{STREAMS} SELECT a FROM s", {"q": "x.xml"})


def test_a_stream_read_twice_is_one_stream() -> None:
    query = plan(f"{STREAMS} SELECT a FROM s UNION ALL SELECT b FROM s")
    assert [stream.name for stream in query.streams] == ["s"]
    assert query.sql.endswith("FROM s")


def refusal(sql: str) -> str:
    """The underlined line and the reason of the error."""
    with pytest.raises(SqlError) as caught:
        plan(STREAMS + sql)
    lines = [line.removeprefix("  ") for line in str(caught.value).split("\n")]
    reason = lines[0].rpartition(" (line")[0] if len(lines) > 1 else lines[0]
    return "\n".join([*lines[1:], reason])


@pytest.mark.parametrize("block", ["\n".join(b) for b in blocks("refused.txt")])
def test_refused_with_a_position(block: str) -> None:
    assert refusal(block.split("\n")[0]) == block


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("", "there is no query"),
        ("SELECT " + "(" * 2000 + "a" + ")" * 2000 + " FROM s", "nested too deeply"),
    ],
)
def test_refused_without_a_position(sql: str, reason: str) -> None:
    assert reason in refusal(sql)


@pytest.mark.parametrize(
    ("end", "ordered"),
    [("ORDER BY b", True), ("ORDER BY b + 1 LIMIT 3", True), ("LIMIT 3", False), ("", False)],
)
def test_a_plan_states_whether_its_results_are_ordered(end: str, ordered: bool) -> None:
    one, two = (
        plan(f"{STREAMS}SELECT a, b FROM {s} {end}")
        for s in ("s", "(SELECT * FROM s UNION ALL SELECT * FROM s) AS u")
    )
    assert (one.root.ordered, two.root.ordered) == (True, ordered), (
        "one stream keeps the order of the document"
    )
    assert one.answers[0].is_sorted == two.answers[0].is_sorted == ordered
