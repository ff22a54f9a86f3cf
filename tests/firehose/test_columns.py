"""Converting texts to columns gives exactly the values of `Type.read`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmlpunct.firehose import cells
from xmlpunct.firehose.cells import Cells, convert, typed_column
from xmlpunct.schema import Schema
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Type, decimal

TYPES = [STRING, INT, DOUBLE, BOOLEAN, DATE, TIMESTAMP]
DECIMALS = [decimal(5, 2), decimal(38, 38), decimal(38, 0), decimal(3, 3), decimal(10, 4)]
WORDS = [
    "true",
    "1",
    "0",
    "false",
    "NaN",
    "INF",
    "-INF",
    "+INF",
    "-0",
    "0000-01-01",
    "2024-02-29",
    "2023-02-29",
]
DAY = r"[0-9]{4}-[01][0-9]-[0-3][0-9]"
texts = st.one_of(
    st.text(alphabet="0123456789+-.eE:TZINFa \n", max_size=14),
    st.from_regex(r"\A ?[+-]?[0-9]{0,40}(\.[0-9]{0,30})?([eE][+-]?[0-9]{1,3})?\Z"),
    st.from_regex(
        rf"\A{DAY}(T[0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{{1,8}})?)?(Z|[+-][01][0-9]:[0-6][0-9])?\Z"
    ),
    st.sampled_from(WORDS),
    st.floats().map(repr),
    st.none(),
)


@pytest.mark.parametrize("few", [0, cells.FEW])
@given(st.sampled_from([*TYPES, *DECIMALS]), st.lists(texts, max_size=8))
def test_the_same_as_one_by_one(few: int, type_: Type, given_texts: list[str | None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "FEW", few)
        values, wrong = convert(type_, Cells.of(given_texts), "x")
    assert values.dtype == type_.dtype
    assert values.name == "x"
    for row, text in enumerate(given_texts):
        try:
            expected = None if text is None else type_.accept(type_.read(text))
        except ValueError:
            assert row in wrong
            assert values[row] is None
        else:
            assert row not in wrong
            assert repr(values[row]) == repr(expected) or values[row] == expected


@pytest.mark.parametrize(
    ("columns", "text", "reason"),
    [
        ("x INT", "1.5", "attribute x: '1.5' is not of type INT"),
        ("x INT", "9223372036854775808", "attribute x: 9223372036854775808 is out of range for INT"),
        ("x INT", "", "attribute x: '' is not of type INT"),
        ("x INT NOT NULL", None, "attribute x: missing, but NOT NULL"),
        ("x INT CHECK (x BETWEEN 0 AND 23)", "24", "attribute x: '24' is outside its domain [0,23]"),
        ("x INT CHECK (x BETWEEN 0 AND 23)", None, "attribute x: missing, but NOT NULL"),
        ("x STRING CHECK (x IN ('a', 'b'))", "c", "attribute x: 'c' is outside its domain {a,b}"),
        (
            "x DECIMAL(5,2)",
            "1.234",
            "attribute x: 1.234 has more than 2 decimals, DECIMAL(5,2) allows no more",
        ),
        (
            "x TIMESTAMP",
            "0001-01-01T00:00:00+01:00",
            "attribute x: '0001-01-01T00:00:00+01:00' is not of type TIMESTAMP",
        ),
        ("x INT", "y" * 500, f"attribute x: '{'y' * 60}...' is not of type INT"),
    ],
)
def test_reasons(columns: str, text: str | None, reason: str) -> None:
    (attribute,) = Schema.parse(columns)
    values, wrong = typed_column(attribute, Cells.of([text]))
    assert wrong[0].startswith(reason)
    assert values.dtype == attribute.type.dtype


def test_minus_zero_is_zero() -> None:
    values, _ = convert(DOUBLE, Cells.of(["-0", "-0.0e0"]), "x")
    assert list(map(str, values)) == ["0.0", "0.0"]


def test_strings_keep_white_space() -> None:
    values, _ = convert(STRING, Cells.of([" a\n", ""]), "x")
    assert values.to_list() == [" a\n", ""]
