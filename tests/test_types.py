"""Types: lexical forms by XML Schema's rules, values, order."""

from __future__ import annotations

import json
import math
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import DISCRETE, POOLS, Pool
from xmlpunct import types
from xmlpunct.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    NAN,
    STRING,
    TIMESTAMP,
    Type,
    Value,
    decimal,
    parse_type,
)

D52, D38 = decimal(5, 2), decimal(38, 0)


def moment(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]


GOOD: list[tuple[Type, str, Value]] = [
    (STRING, "", ""),
    (STRING, " a ", " a "),
    (INT, "0", 0),
    (INT, "-0", 0),
    (INT, "+7", 7),
    (INT, "007", 7),
    (INT, " \t\r\n12\n", 12),
    (INT, "9223372036854775807", 2**63 - 1),
    (INT, "-9223372036854775808", -(2**63)),
    (INT, "0" * 40 + "5", 5),
    (INT, "+" + "0" * 40 + "5", 5),
    (INT, "-" + "0" * 5000 + "5", -5),
    (INT, "-" + "0" * 40, 0),
    (INT, "+" + "0" * 40, 0),
    (INT, "+009223372036854775807", 2**63 - 1),
    (DOUBLE, "1", 1.0),
    (DOUBLE, "-1.5e10", -1.5e10),
    (DOUBLE, "1E-3", 0.001),
    (DOUBLE, ".5", 0.5),
    (DOUBLE, "5.", 5.0),
    (DOUBLE, " +2.5 ", 2.5),
    (DOUBLE, "INF", math.inf),
    (DOUBLE, "-INF", -math.inf),
    (DOUBLE, "-0.0", 0.0),
    (DOUBLE, "1e400", math.inf),
    (D52, "1.5", Decimal("1.50")),
    (D52, "+1.5000", Decimal("1.50")),
    (D52, "-.5", Decimal("-0.50")),
    (D52, "5.", Decimal("5.00")),
    (D52, "-999.99", Decimal("-999.99")),
    (D52, "000000001", Decimal("1.00")),
    (D52, "-0", Decimal("0.00")),
    (D38, "9" * 38, Decimal("9" * 38)),
    (D38, "-" + "0" * 5000 + "9", Decimal(-9)),
    (BOOLEAN, "true", True),
    (BOOLEAN, "1", True),
    (BOOLEAN, " false ", False),
    (BOOLEAN, "0", False),
    (DATE, "2026-01-31", date(2026, 1, 31)),
    (DATE, "2024-02-29", date(2024, 2, 29)),
    (DATE, " 0001-01-01 ", date(1, 1, 1)),
    (DATE, "2026-01-31Z", date(2026, 1, 31)),
    (DATE, "2026-01-31-05:00", date(2026, 1, 31)),
    (DATE, "2026-01-31+14:00", date(2026, 1, 31)),
    (TIMESTAMP, "2026-01-31T12:00:00", moment(2026, 1, 31, 12)),
    (TIMESTAMP, "2026-01-31T12:00:00Z", moment(2026, 1, 31, 12)),
    (TIMESTAMP, "2026-01-31T12:00:00.5", moment(2026, 1, 31, 12, 0, 0, 500000)),
    (TIMESTAMP, "2026-01-31T12:00:00.1234560000Z", moment(2026, 1, 31, 12, 0, 0, 123456)),
    (TIMESTAMP, "2026-01-31T12:00:00+02:30", moment(2026, 1, 31, 9, 30)),
    (TIMESTAMP, "2026-01-31T24:00:00", moment(2026, 2, 1)),
    (TIMESTAMP, "2026-01-31T24:00:00.000-01:00", moment(2026, 2, 1, 1)),
    (TIMESTAMP, "0001-01-01T00:00:00-14:00", moment(1, 1, 1, 14)),
]

BAD: list[tuple[Type, str]] = [
    *((INT, t) for t in ("", "1.0", "1e3", "0x1", "1_000", "--1", "+", "1 2", "\u0663", "\u00a01", "NaN")),
    *((INT, t) for t in ("9223372036854775808", "-9223372036854775809", "1" * 5000, "-" + "9" * 25)),
    *(
        (DOUBLE, t)
        for t in ("", "inf", "nan", "Infinity", "-NaN", "1e", "e5", ".", "1_0", "0x1p3", "1,5", "1.e+")
    ),
    *((DOUBLE, t) for t in ("\u0661", "1 .5", "infinity")),
    *(
        (D52, t)
        for t in ("", ".", "1e2", "NaN", "INF", "1,5", "1.005", "1000", "-1000.00", "\u0661", "1" * 5000)
    ),
    *((D52, "0." + "0" * k + "1") for k in (2, 30, 5000)),
    (D38, "1" + "0" * 38),
    *((BOOLEAN, t) for t in ("", "TRUE", "True", "yes", "2", "t", "01", "tr ue")),
    *((DATE, t) for t in ("", "2026-1-31", "2026-02-29", "20260131", "0000-01-01", "2026-01-32", "26-01-01")),
    *(
        (DATE, t)
        for t in ("2026-01-31T00:00:00", "2026-01-31+15:00", "2026-W05-1", "\u0662026-01-01", "-2026-01-01")
    ),
    *(
        (TIMESTAMP, t)
        for t in ("", "2026-01-31", "2026-01-31 12:00:00", "2026-01-31T12:00", "2026-01-31T12:00:00.")
    ),
    *((TIMESTAMP, f"2026-01-31T{t}") for t in ("25:00:00", "12:60:00", "12:00:60", "24:00:01", "24:00:00.1")),
    *((TIMESTAMP, f"2026-01-31T12:00:00{t}") for t in (".1234567", "+15:00", "+2:00", "z", "+14:30")),
    (TIMESTAMP, "9999-12-31T24:00:00"),
    (TIMESTAMP, "9999-12-31T23:00:00-02:00"),
    (TIMESTAMP, "0001-01-01T00:00:00+01:00"),
]


@pytest.mark.parametrize(("type_", "text", "value"), GOOD)
def test_reads_lexical_forms_of_xml_schema(type_: Type, text: str, value: Value) -> None:
    parsed = type_.parse(text)
    assert parsed == value
    assert type(parsed) is type(value)
    assert str(parsed) == str(value)  # scale, zone, the sign of zero


@pytest.mark.parametrize(("type_", "text"), BAD)
def test_refuses_other_lexical_forms(type_: Type, text: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        type_.parse(text)
    assert len(str(caught.value)) < 12_000


def test_nan_reads_as_the_one_nan() -> None:
    assert DOUBLE.parse("NaN") is NAN
    assert DOUBLE.accept(float("nan")) is NAN
    assert (DOUBLE.parse("NaN"),) == (NAN,)


ACCEPTED: list[tuple[Type, object, Value]] = [
    (DOUBLE, 3, 3.0),
    (D52, 3, Decimal("3.00")),
    (D52, Decimal("1E+2"), Decimal("100.00")),
    (TIMESTAMP, datetime(2026, 1, 1, 5), moment(2026, 1, 1, 5)),
    (TIMESTAMP, datetime(2026, 1, 1, 5, tzinfo=timezone(timedelta(hours=2))), moment(2026, 1, 1, 3)),
]

REFUSED: list[tuple[Type, object]] = [
    (STRING, 1), (STRING, None), (INT, True), (INT, 1.0), (INT, "1"), (INT, 2**63), (INT, -(2**63) - 1),
    (DOUBLE, True), (DOUBLE, "1"), (DOUBLE, Decimal(1)), (D52, 1.5), (D52, True), (D52, Decimal("NaN")),
    (D52, Decimal("Infinity")), (D52, Decimal("1E+9999999")), (D52, Decimal("1E-9999999")), (D52, 1000),
    (BOOLEAN, 1), (DATE, "2026-01-01"), (DATE, moment(2026, 1, 1)), (TIMESTAMP, date(2026, 1, 1)),
    (TIMESTAMP, datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1)))),
    (TIMESTAMP, datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))),
    (DOUBLE, 10**400),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "value", "expected"), ACCEPTED)
def test_accepts_python_values(type_: Type, value: object, expected: Value) -> None:
    accepted = type_.accept(value)
    assert (accepted, str(accepted)) == (expected, str(expected))


@pytest.mark.parametrize(("type_", "value"), REFUSED)
def test_refuses_python_values_of_other_types(type_: Type, value: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        type_.accept(value)


ANY: dict[Type, st.SearchStrategy[Value]] = {
    STRING: st.text(),
    INT: st.integers(-(2**63), 2**63 - 1),
    DOUBLE: st.floats(),
    BOOLEAN: st.booleans(),
    DATE: st.dates(),
    TIMESTAMP: st.datetimes(timezones=st.just(UTC)),
    D52: st.integers(-99999, 99999).map(lambda i: Decimal(i).scaleb(-2)),
    D38: st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal),
    decimal(38, 38): st.integers(-(10**38) + 1, 10**38 - 1).map(
        lambda i: Decimal((int(i < 0), tuple(map(int, str(abs(i)))), -38))
    ),
}


@pytest.mark.parametrize("type_", ANY, ids=str)
@given(data=st.data())
def test_parse_is_the_inverse_of_format(type_: Type, data: st.DataObject) -> None:
    value = type_.accept(data.draw(ANY[type_]))
    parsed = type_.parse(type_.format(value))
    assert (parsed,) == (value,)
    assert str(parsed) == str(value)


@pytest.mark.parametrize("type_", ANY, ids=str)
@given(data=st.data())
def test_columns_print_as_values_do(type_: Type, data: st.DataObject) -> None:
    values = [type_.accept(v) for v in data.draw(st.lists(ANY[type_], max_size=5))] + [None]
    frame = pl.DataFrame({"v": values}, schema={"v": type_.dtype})
    column, json_column = frame.select(
        type_.format_column(pl.col("v")), j=type_.json_column(pl.col("v"))
    ).get_columns()
    for value, text, json_text in zip(values, column, json_column, strict=True):
        if value is None:
            assert text is json_text is None
            continue
        near_zero = type_ is DOUBLE and 0 < abs(value) < 1e-4
        assert text == type_.format(value) or (near_zero and type_.parse(text) == value)
        assert str(json.loads(json_text, parse_float=str, parse_int=str)) in (text, text.capitalize())
    assert type_.read_column(column).equals(frame["v"], check_names=False)


@pytest.mark.parametrize("type_", {type_: None for type_, *_ in GOOD}, ids=str)
def test_columns_read_as_values_do(type_: Type) -> None:
    def read(text: str) -> Value:
        with suppress(ValueError):
            return type_.read(text)
        return None

    texts = [text for t, text, *_ in (*GOOD, *BAD) if t is type_]
    column = type_.read_column(pl.Series("x", [*texts, None], dtype=pl.String))
    assert column.equals(pl.Series("x", [*map(read, texts), None], dtype=type_.dtype), check_names=True)


@pytest.mark.parametrize("pool", DISCRETE, ids=str)
def test_ordinals_grow_by_one_and_invert(pool: Pool) -> None:
    ordinals = [pool.type.ordinal(v) for v in pool.domain]
    if len(pool.domain) == len(range(ordinals[0], ordinals[-1] + 1)):
        assert ordinals == list(range(ordinals[0], ordinals[-1] + 1))
    assert [pool.type.at(i) for i in ordinals] == list(pool.domain)


@pytest.mark.parametrize("pool", POOLS, ids=str)
def test_keys_order_values(pool: Pool) -> None:
    keys = [pool.type.key(v) for v in pool.domain]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)


def test_nan_is_greatest_and_minus_zero_is_zero() -> None:
    assert DOUBLE.key(NAN) > DOUBLE.key(math.inf)
    assert DOUBLE.key(-0.0) == DOUBLE.key(0.0)
    assert DOUBLE.format(DOUBLE.accept(-0.0)) == "0.0"


@pytest.mark.parametrize("type_", [STRING, DOUBLE])
def test_dense_types_have_no_ordinals(type_: Type) -> None:
    with pytest.raises(TypeError, match="dense"):
        type_.ordinal(type_.lowest)
    with pytest.raises(TypeError, match="dense"):
        type_.at(0)


@pytest.mark.parametrize("type_", ANY, ids=str)
def test_a_type_is_found_by_its_name_and_pickles_to_itself(type_: Type) -> None:
    assert parse_type(type_.name.lower()) is type_
    assert pickle.loads(pickle.dumps(type_)) is type_
    assert repr(type_) == str(type_) == type_.name


def test_threads_that_ask_for_a_type_at_once_get_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Types are compared by identity, so each type must be created once."""
    barrier, constructor = threading.Barrier(2), types.DecimalType

    def make(*arguments: Any) -> Type:
        with suppress(threading.BrokenBarrierError):
            barrier.wait(5)
        return constructor(*arguments)

    monkeypatch.setattr(types, "DecimalType", make)
    monkeypatch.setattr(types, "_DECIMALS", {})
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(decimal, (9, 9), (4, 4))
    assert first is second


def test_type_names() -> None:
    assert parse_type("bigint") is INT
    assert parse_type(" DECIMAL ( 5 , 2 ) ") is D52
    for wrong in ("INTEGER4", "DECIMAL", "DECIMAL(0,0)", "DECIMAL(39,0)", "DECIMAL(2,3)", "DECIMAL(5)", ""):
        with pytest.raises(ValueError, match=r"."):
            parse_type(wrong)
