"""Parameters of SQL: ``:name`` stands for a literal."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

import xmlpunct
from xmlpunct.base.errors import SqlError, UsageError
from xmlpunct.engine.sql import plan
from xmlpunct.engine.sql.syntax.parameters import bound, of_texts, of_values
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Type, decimal

STREAM = "CREATE STREAM s (a INT, t STRING) WITH (source = '-'); "
FEED = b"<r><s><a>1</a><t>x</t></s><s><a>2</a><t>it's</t></s><s><a>3</a></s></r>"


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (-5, INT),
        (0.1, DOUBLE),
        (1e300, DOUBLE),
        (float("nan"), DOUBLE),
        (Decimal("1.50"), decimal(3, 2)),
        (Decimal("1E+2"), INT),
        ("it's :a", STRING),
        (True, BOOLEAN),
        (date(2026, 1, 2), DATE),
        (datetime(2026, 1, 2, 3, 4, 5, 6), TIMESTAMP),
        (datetime(2026, 1, 2, 3, tzinfo=UTC), TIMESTAMP),
    ],
)
def test_a_value_of_python_is_a_literal_of_its_type(value: object, type_: Type) -> None:
    root = plan(STREAM + "SELECT :v AS v FROM s", parameters=of_values({"v": value})).root
    assert root.schema["v"].type == type_


def test_a_value_of_another_type_is_refused() -> None:
    for value in (b"x", [1], Decimal("NaN")):
        with pytest.raises(UsageError, match=r"the parameter :v is .*: there are None, bool"):
            of_values({"v": value})


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("17", "17"),
        ("-2.5e3", "-2.5e3"),
        ("S01", "'S01'"),
        ("'17'", "'17'"),
        ("O'Neil", "'O''Neil'"),
        ("TRUE", "TRUE"),
        ("date '2026-01-01'", "date '2026-01-01'"),
        ("", "''"),
        ("1; DROP", "'1; DROP'"),
        ("'a' OR 'b'", "'''a'' OR ''b'''"),
        ("1 -- x", "'1 -- x'"),
    ],
)
def test_a_text_is_a_literal_of_sql_or_a_string(text: str, literal: str) -> None:
    assert of_texts({"v": text}) == {"v": literal}


def test_a_parameter_may_stand_for_any_literal() -> None:
    sql = """CREATE STREAM s (a INT CHECK (a BETWEEN :low AND 9), t STRING) WITH (source = :file);
             SELECT a -:low AS b, ':low' AS c FROM s WHERE a>:low AND t LIKE:like LIMIT :n -- :nothing"""
    query = plan(sql, parameters=of_texts({"low": "-1", "file": "s.xml", "like": "x%", "n": "2"}))
    assert query.streams[0].source == "s.xml"
    assert str(query.streams[0].schema["a"].domain) == "[-1,9]"
    assert "WHERE a> -1 AND t LIKE 'x%' LIMIT 2 -- :nothing" in query.sql


def test_a_missing_or_unused_parameter_is_an_error() -> None:
    with pytest.raises(SqlError, match=r"the parameter :n has no value: write --param n=\.\.\.") as caught:
        plan(STREAM + "SELECT a FROM s WHERE a = :n")
    assert str(caught.value).endswith("^^")
    with pytest.raises(UsageError, match="no parameter :m: there are :n"):
        bound("SELECT :n", {"n": "1", "m": "2"})


def test_a_query_takes_values() -> None:
    def rows(**params: object) -> list[object]:
        return list(xmlpunct.query(STREAM + "SELECT a, :v AS v FROM s WHERE t = :t", params=params, s=FEED))

    assert rows(t="it's", v=None) == [(2, None)]
    assert rows(t="x", v=date(2026, 1, 2)) == [(1, date(2026, 1, 2))]
