"""Schemas and attributes."""

from __future__ import annotations

import pickle

import polars as pl
import pytest

from xmlpunct.base.errors import SchemaError, SqlError
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import BOOLEAN, INT, STRING, decimal
from xmlpunct.types.pattern import WILDCARD
from xmlpunct.types.pattern_text import parse_pattern


def test_reads_a_column_list() -> None:
    schema = Schema.parse(
        "sid STRING, hour INT NOT NULL CHECK (hour BETWEEN 0 AND 23), id BIGINT PATH '@id', "
        "speed DOUBLE PATH 'detector/@speed', d DECIMAL(5,2), e DECIMAL(7), t TIMESTAMP, day DATE, ok BOOLEAN"
    )
    assert schema.names == ("sid", "hour", "id", "speed", "d", "e", "t", "day", "ok")
    assert [str(a.type) for a in schema] == [
        "STRING", "INT", "INT", "DOUBLE", "DECIMAL(5,2)", "DECIMAL(7,0)", "TIMESTAMP", "DATE", "BOOLEAN",
    ]  # fmt: skip
    assert [a.path for a in schema][:4] == ["sid", "hour", "@id", "detector/@speed"]
    assert [a.nullable for a in schema][:3] == [True, False, True]
    assert str(schema["hour"].domain) == "[0,23]"
    assert schema.dtypes["d"] == pl.Decimal(5, 2)


CHECKS = [
    ("INT CHECK (x BETWEEN 1 AND 5)", "[1,5]"),
    ("INT CHECK (x IN (1, 3, 2))", "[1,3]"),
    ("INT CHECK (x IN (1, 5))", "{1,5}"),
    ("INT CHECK (x > 0 AND x < 10)", "[1,9]"),
    ("INT CHECK (0 <= x)", "[0,)"),
    ("INT CHECK (x = -7)", "-7"),
    ("INT CHECK (x >= 0) CHECK (x <= 4)", "[0,4]"),
    ("STRING CHECK (x IN ('a', 'b,c'))", '{a,"b,c"}'),
    ("DOUBLE CHECK (x > 0.5)", "(0.5,)"),
    ("DATE CHECK (x >= DATE '2026-01-01')", "[2026-01-01,)"),
    ("DECIMAL(3,1) CHECK (x < 1)", "(,0.9]"),
]


@pytest.mark.parametrize(("column", "domain"), CHECKS)
def test_a_check_is_a_domain_and_means_not_null(column: str, domain: str) -> None:
    attribute = Schema.parse(f"x {column}")["x"]
    assert str(attribute.domain) == domain
    assert not attribute.nullable


REFUSED = [
    "",
    "x",
    "x INTEGER4",
    "x INT,",
    "x INT) WITH (source = 'x'",
    "x INT, x STRING",
    "x INT y INT",
    "x INT); DROP TABLE s; --",
    "x INT CHECK (y > 0)",
    "x INT CHECK (x > 0 OR x < -5)",
    "x INT CHECK (x > 5 AND x < 5)",
    "x INT CHECK (x > 'a')",
    "x INT PATH 'a//b'",
    "x INT PATH '@'",
    "x INT PATH '@a/b'",
    "x DECIMAL(39,0)",
    "x INT REFERENCES y",
    "x INT DEFAULT 5",
]


@pytest.mark.parametrize("text", REFUSED)
def test_refuses_invalid_column_lists(text: str) -> None:
    with pytest.raises((SqlError, SchemaError)) as caught:
        Schema.parse(text)
    assert str(caught.value)
    if isinstance(caught.value, SqlError) and caught.value.start is not None:
        assert 0 <= caught.value.start <= len(text)
        assert caught.value.sql == text


def test_names_are_case_sensitive_and_have_indexes() -> None:
    schema = Schema.parse("Sid STRING, sid STRING, hour INT")
    assert (schema.index("Sid"), schema.index("sid")) == (0, 1)
    assert "hour" in schema
    assert "Hour" not in schema
    assert len(schema) == 3
    with pytest.raises(SchemaError, match="Sid, sid, hour"):
        schema.index("HOUR")


def test_two_attributes_of_one_name() -> None:
    with pytest.raises(SchemaError, match="x"):
        Schema.of([Attribute("x", INT), Attribute("y", INT), Attribute("x", STRING)])


def test_an_empty_domain() -> None:
    with pytest.raises(SchemaError, match="x"):
        Attribute("x", INT, domain=parse_pattern(INT, "(3,4)"))


def test_closed_by() -> None:
    hour = Attribute("hour", INT, domain=parse_pattern(INT, "[0,23]"))
    for text, closed in (("*", True), ("(,)", True), ("[0,23]", True), ("[-1,99]", True), ("[0,22]", False)):
        assert hour.closed_by(parse_pattern(INT, text)) is closed
    for text in ("(,)", "[0,23]"):
        assert not hour.weakened().closed_by(parse_pattern(INT, text))
    assert hour.weakened().closed_by(WILDCARD)
    flag = Attribute("flag", BOOLEAN, nullable=False)
    assert flag.closed_by(parse_pattern(BOOLEAN, "{true,false}"))
    assert not flag.closed_by(parse_pattern(BOOLEAN, "true"))


def test_frames() -> None:
    schema = Schema.of([Attribute("a", INT), Attribute("d", decimal(3, 1))])
    assert schema.empty().schema == schema.frame([]).schema == pl.Schema(schema.dtypes)
    frame = schema.frame([(1, None), (None, decimal(3, 1).parse("2"))])
    assert frame.rows() == [(1, None), (None, decimal(3, 1).parse("2.0"))]


def test_pickles_and_compares() -> None:
    schema = Schema.parse("a INT NOT NULL, b STRING PATH '@b', c INT CHECK (c IN (1, 5))")
    unpickled = pickle.loads(pickle.dumps(schema))
    assert unpickled == schema
    assert hash(unpickled) == hash(schema)
    assert unpickled.index("b") == 1
    assert schema != Schema.parse("a INT, b STRING PATH '@b', c INT CHECK (c IN (1, 5))")
