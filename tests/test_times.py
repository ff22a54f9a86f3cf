"""Dates and timestamps: years 0001 to 9999, truncated to microseconds by each reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from xmlpunct import Punctuation, parse, query
from xmlpunct.base.errors import PatternError, Reject, SqlError
from xmlpunct.expressions.functions.casts import cast_to
from xmlpunct.firehose import cells, writer_for
from xmlpunct.firehose.cells import Cells, convert
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice
from xmlpunct.types import DATE, STRING, TIMESTAMP, Type
from xmlpunct.types import pattern as pt
from xmlpunct.types.pattern_text import parse_pattern

FINE = "2026-01-01T00:00:00.1234567Z"
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Moment:
    """A timestamp's text and its truncated value, computed by Python's datetime; None: out of range."""

    text: str
    value: datetime | None
    fine: bool = False


@st.composite
def moments(draw: st.DrawFn) -> Moment:
    day = draw(st.dates() | st.sampled_from([date.min, date.max, date(1969, 12, 31), date(1970, 1, 1)]))
    digits = draw(st.text("0123456789", max_size=12) | st.sampled_from(["", "9" * 6, "9" * 7, "0" * 30]))
    midnight = draw(st.booleans()) and not digits.strip("0")
    clock = draw(st.times(max_value=datetime.max.time())).replace(microsecond=0)
    minutes = draw(st.none() | st.just(0) | st.integers(-14 * 60, 14 * 60))
    time_of_day = "24:00:00" if midnight else clock.isoformat()
    zone = (
        ""
        if minutes is None
        else f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    )
    if minutes == 0 and draw(st.booleans()):
        zone = "Z"
    text = f"{day}T{time_of_day}{'.' if digits else ''}{digits}{zone}"
    day_offset = (
        timedelta(days=1)
        if midnight
        else datetime.combine(day, clock) - datetime.combine(day, datetime.min.time())
    )
    day_offset += timedelta(microseconds=int(digits[:6].ljust(6, "0"))) - timedelta(minutes=minutes or 0)
    since = datetime.combine(day, datetime.min.time()) - datetime.min + day_offset
    inside = timedelta(0) <= since <= datetime.max - datetime.min
    return Moment(text, FIRST + since if inside else None, bool(digits[6:].strip("0")))


WRONG = [
    *(f"2026-01-31T{c}" for c in ("24:00:00.1", "24:00:00.0000001", "24:00:01", "24:01:00", "25:00:00")),
    *(f"2026-{d}T00:00:00" for d in ("02-29", "13-01", "00-01", "01-00", "1-1")),
    *("2016-12-31T23:59:60Z", "2026-01-31T23:60:00", "2026-01-31T23:59:60.5"),
    *(f"{y}-01-01T00:00:00" for y in ("0000", "-0001", "-2026", "10000", "02026", "026", "+2026")),
    *(f"2026-01-31T00:00:00{z}" for z in ("+14:01", "-14:01", "+15:00", "+1:00", "+0100", "z", "+01:60")),
    *("9999-12-31T24:00:00", "9999-12-31T23:59:59.9999999-00:01", "0001-01-01T00:00:00+00:01"),
    *("2026-01-31T00:00:00.", "2026-01-31T00:00:00.+01:00", "2026-01-31T00:00", "2026-01-31"),
]

EDGES = [
    Moment("1969-12-31T23:59:59.9999999", datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), True),
    Moment("0001-01-01T00:00:00.0000009Z", FIRST, True),
    Moment("9999-12-31T23:59:59.9999999Z", LAST, True),
    Moment("9999-12-31T24:00:00+14:00", datetime(9999, 12, 31, 10, tzinfo=UTC)),
    Moment("9999-12-31T24:00:00.0+00:01", datetime(9999, 12, 31, 23, 59, tzinfo=UTC)),
    Moment("0001-01-01T00:00:00-14:00", datetime(1, 1, 1, 14, tzinfo=UTC)),
    Moment(
        "1969-12-31T23:59:59." + "123456" + "9" * 5000, datetime(1969, 12, 31, 23, 59, 59, 123456, UTC), True
    ),
]
WRONG_MOMENTS = [Moment(text, None) for text in WRONG]


def converted(threshold: int, type_: Type, texts: Sequence[str | None]) -> list[object]:
    """Values of a column of tuples, null for rejects."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "FEW", threshold)
        values, errors = convert(type_, Cells.of(texts), "x")
    assert set(errors) == {i for i, v in enumerate(values) if v is None}
    return values.to_list()


SQL_MOMENTS = dict.fromkeys(("2026-01-31T00:00", "2026-01-31"), datetime(2026, 1, 31, tzinfo=UTC))
"""Texts that CAST accepts and tuples reject."""


@given(st.lists(moments(), min_size=1, max_size=20))
@example(EDGES)
@example(WRONG_MOMENTS)
def test_tuples_are_cut_down_to_the_microsecond(given_moments: list[Moment]) -> None:
    texts, expected = [m.text for m in given_moments], [m.value for m in given_moments]
    for few in (0, cells.FEW):
        assert converted(few, TIMESTAMP, texts) == expected
    cast, _ = cast_to(STRING, TIMESTAMP, pl.col("x"))
    of_cast = [SQL_MOMENTS.get(m.text, m.value) for m in given_moments]
    assert pl.DataFrame({"x": texts}).select(cast)["x"].to_list() == of_cast
    for m in given_moments:
        if m.value is None:
            with pytest.raises(ValueError, match="TIMESTAMP"):
                TIMESTAMP.read(m.text)
        else:
            assert TIMESTAMP.read(m.text) == m.value


@given(st.lists(moments(), min_size=1, max_size=20))
@example(EDGES)
@example(WRONG_MOMENTS)
def test_a_pattern_is_never_cut(given_moments: list[Moment]) -> None:
    for m in given_moments:
        for pattern in ("{}", "[{},)", "(,{}]", "{{{},2026-01-01T00:00:00}}"):
            if m.value is None or m.fine:
                with pytest.raises(PatternError, match="microsecond" if m.fine and m.value else "TIMESTAMP"):
                    parse_pattern(TIMESTAMP, pattern.format(m.text))
            else:
                parse_pattern(TIMESTAMP, pattern.format(m.text))
        if m.value is not None and not m.fine:
            assert parse_pattern(TIMESTAMP, m.text) == pt.constant(TIMESTAMP, m.value)


@given(st.lists(moments(), min_size=1, max_size=5))
@example(EDGES)
@example(WRONG_MOMENTS)
def test_in_documents(given_moments: list[Moment]) -> None:
    body = "".join(f"<t at='{m.text}'><x>{m.text}</x></t>" for m in given_moments)
    rejects: list[Reject] = []
    schema = Schema.parse("x TIMESTAMP, at TIMESTAMP PATH '@at'")
    rows = parse(f"<s>{body}</s>".encode(), schema, element="t", on_reject=rejects.append)
    expected = [m.value for m in given_moments if m.value is not None]
    assert list(rows) == [(value, value) for value in expected]
    assert len(rejects) == len(given_moments) - len(expected)


@given(
    st.lists(st.dates() | st.sampled_from([date.min, date.max]), max_size=20),
    st.sampled_from(["", "Z", "-14:00"]),
)
def test_dates(days: list[date], zone: str) -> None:
    texts = [f"{day}{zone}" for day in days]
    for few in (0, cells.FEW):
        assert converted(few, DATE, texts) == days


def test_invalid_dates() -> None:
    wrong = [
        "0000-01-01",
        "-0001-01-01",
        "10000-01-01",
        "2023-02-29",
        "2024-13-01",
        "02024-01-01",
        "2024-01-01+14:01",
    ]
    for few in (0, cells.FEW):
        assert converted(few, DATE, wrong) == [None] * len(wrong)


@given(st.lists(st.datetimes(timezones=st.just(UTC)) | st.sampled_from([FIRST, LAST]), min_size=1))
def test_written_times_are_read_back(values: list[datetime]) -> None:
    schema = Schema.parse("x TIMESTAMP, d DATE")
    rows = [(value, value.date()) for value in values]
    writer = writer_for("xml", schema)
    document = writer.start() + writer.body(Slice(schema.frame(rows))) + writer.end()
    assert list(parse(document, schema, element="result")) == rows


@pytest.mark.parametrize(
    ("columns", "pattern", "canonical"),
    [
        ("x DATE", "[0001-01-01,2026-01-01]", "(,2026-01-01]"),
        ("x DATE", "[2026-01-01,9999-12-31]", "[2026-01-01,)"),
        ("x DATE", "[0001-01-01,9999-12-31]", "(,)"),
        ("x DATE", "(,0001-01-01)", "{}"),
        ("x DATE", "(9999-12-31,)", "{}"),
        ("x DATE", "(,0001-01-01]", "0001-01-01"),
        ("x TIMESTAMP", "[0001-01-01T00:00:00,2026-01-01T00:00:00]", "(,2026-01-01T00:00:00Z]"),
        ("x TIMESTAMP", "[2026-01-01T00:00:00,9999-12-31T23:59:59.999999]", "[2026-01-01T00:00:00Z,)"),
        ("x TIMESTAMP", "(,0001-01-01T00:00:00Z)", "{}"),
        ("x TIMESTAMP", "(9999-12-31T23:59:59.999999,)", "{}"),
        ("x TIMESTAMP", "(,2026-01-01T00:00:00.1234560)", "(,2026-01-01T00:00:00.123455Z]"),
        ("x TIMESTAMP", "(2025-12-31T24:00:00,2026-01-01T02:00:00+02:00]", "{}"),
    ],
)
def test_bounds_at_the_limits(columns: str, pattern: str, canonical: str) -> None:
    schema = Schema.parse(columns)
    punctuation = Punctuation.of(schema, x=pattern)
    assert str(punctuation) == f"<{canonical}>"
    assert Punctuation.parse(schema, str(punctuation)) == punctuation


DECLARED = "CREATE STREAM t (x TIMESTAMP, s STRING, d DATE)"


@pytest.mark.parametrize(
    "sql",
    [
        f"{DECLARED}; SELECT s FROM t WHERE x > TIMESTAMP '{FINE}'",
        f"{DECLARED}; SELECT s FROM t WHERE x > '{FINE}'",
        f"{DECLARED}; SELECT s FROM t WHERE x BETWEEN '{FINE}' AND '2027-01-01T00:00:00'",
        f"{DECLARED}; SELECT s FROM t WHERE x IN ('{FINE}')",
        f"{DECLARED}; SELECT CAST('{FINE}' AS TIMESTAMP) AS y FROM t",
        f"CREATE STREAM t (x TIMESTAMP CHECK (x > TIMESTAMP '{FINE}'), s STRING); SELECT s FROM t",
        f"{DECLARED}; SELECT s FROM t WHERE x > TIMESTAMP '0001-01-01T00:00:00+01:00'",
        f"{DECLARED}; SELECT s FROM t WHERE d > DATE '0000-01-01'",
    ],
)
def test_a_literal_is_refused_with_its_position(sql: str) -> None:
    with pytest.raises(SqlError) as caught:
        list(query(sql, t=b"<s/>"))
    assert "microsecond" in caught.value.reason or "is not of type" in caught.value.reason
    assert caught.value.start is not None
    assert "'" in sql[caught.value.start : caught.value.end]


def test_a_cast_cuts_as_a_column_does() -> None:
    feed = f"<s><t><x>{FINE}</x><s>{FINE}</s></t><t><s>0001-01-01T00:00:00+01:00</s></t></s>".encode()
    results = query(f"{DECLARED}; SELECT CAST(s AS TIMESTAMP) = x AS same FROM t", t=feed)
    assert [t for t in results if isinstance(t, tuple)] == [(True,)]
