"""Expressions compared with a plain Python evaluator, over edge values."""

from __future__ import annotations

import pickle
import random
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle.scalar import EvaluationError, evaluate_row
from tests.oracle.values import is_canonical, same
from xmlpunct.expressions import compiler
from xmlpunct.expressions import functions as fn
from xmlpunct.expressions.expression import Column, Expression, Literal
from xmlpunct.expressions.program import Program, can_fail
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Type, decimal

NAN, INF = float("nan"), float("inf")
MONEY, WIDE, FINE = decimal(7, 2), decimal(38, 4), decimal(38, 38)

EDGES: dict[Type, list[Any]] = {
    INT: [0, 1, -1, 2, -7, 7, 10**9, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)],
    DOUBLE: [
        0.0,
        1.0,
        -1.5,
        2.5,
        7.0,
        -7.0,
        0.1,
        2.0**53,
        2.0**63,
        -(2.0**63),
        1e300,
        -1e-300,
        INF,
        -INF,
        NAN,
    ],
    MONEY: [Decimal(s) for s in ("0.00", "1.00", "-1.50", "0.01", "2.50", "-7.00", "99999.99", "-99999.99")],
    WIDE: [
        WIDE.at(n) for n in (0, 1, 10000, -15000, 25000, 10**38 - 1, 1 - 10**38, 2**63 * 10**4, 5 * 10**37)
    ],
    FINE: [FINE.at(n) for n in (0, 1, -1, 10**37, 10**38 - 1, 1 - 10**38)],
    STRING: ["", "a", "A", "é", "ß", "ab%c", " a b ", "Σας", "\U0001f600x", "\ufb01", "a_c", "12", "a\nb"],
    BOOLEAN: [True, False],
    DATE: [date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31)],
    TIMESTAMP: [
        datetime(2024, 2, 29, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
        datetime(1969, 12, 31, 12, 30, tzinfo=UTC),
    ],
}
TYPES = list(EDGES)
NUMBERS: list[Type] = [INT, DOUBLE, MONEY, WIDE, FINE]
TEXTS = [
    *("0", "-0", "+5", " 7 ", "007", "0" * 28 + "12", "9223372036854775807", "9223372036854775808", "-1.50"),
    *("-9223372036854775808", "1.5", "1.", ".5", "-.5", "1e3", "INF", "-INF", "+INF", "NaN", "nan", "inf"),
    *("1e400", "true", "false", "1", "TRUE", "2024-02-29", "2023-02-29", "2024-02-29Z", "", " ", "x", "0x10"),
    *("2024-02-29T12:00:00", "2024-02-29T12:00:00.123456Z", "2024-02-29T12:00:00.1234567Z", "1_000", "12\n"),
    *("2024-02-29T24:00:00", "2024-02-29T12:00:00+01:00", "99999.99", "99999.995", "100000", "0.001", "--1"),
    *("1 2", "\u0663", "0001-01-01T00:00:00+01:00", "9" * 50, "-" + "0" * 30),
]


def check(expression: Expression, rows: list[dict[str, Any]], types: dict[str, Type]) -> None:
    """Both evaluators agree on every row: the same value, or the same failure."""
    assert pickle.loads(pickle.dumps(expression)) == expression
    frame = pl.DataFrame(rows, schema={name: t.dtype for name, t in types.items()}, orient="row")
    program = Program([("value", expression)])
    assert can_fail(expression) == program.can_fail
    (values,), reasons = program.run(frame)
    assert values.dtype == expression.type.dtype
    assert reasons is None or program.can_fail
    for row, value, reason in zip(
        rows, values, [None] * len(rows) if reasons is None else reasons, strict=True
    ):
        context = f"{expression} over {row}: {reason or repr(value)}"
        expected, failure = None, ""
        try:
            expected = evaluate_row(expression, row)
        except EvaluationError as error:
            failure = error.reason
        if failure or reason is not None:
            assert (reason or "") == failure, f"{context}, not {failure or expected}"
            continue
        assert same(value) == same(expected), f"{context}, not {expected!r}"
        assert is_canonical(value), context
        assert expected is not None or expression.nullable, context


def column(name: str, type_: Type) -> Column:
    return Column(type_, True, name)


def typed(function: str, *args: Expression) -> Expression | None:
    try:
        return fn.call(function, *args)
    except ValueError:
        return None


def every(*types: Type) -> list[dict[str, Any]]:
    """All combinations of edge values and null."""
    rows: list[dict[str, Any]] = [{}]
    for name, type_ in zip("abc", types, strict=False):
        rows = [row | {name: value} for row in rows for value in [None, *EDGES[type_]]]
    return rows


BINARY = [
    "+",
    "-",
    "*",
    "/",
    "%",
    "=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "IS DISTINCT FROM",
    "IS NOT DISTINCT FROM",
]
BINARY += ["AND", "OR", "||", "NULLIF", "COALESCE", "GREATEST", "LEAST", "SUBSTRING"]
UNARY = ["NEG", "ABS", "NOT", "IS NULL", "UPPER", "LOWER", "TRIM", "LENGTH", "COALESCE"]
UNARY += ["YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"]


@pytest.mark.parametrize("function", BINARY)
@pytest.mark.parametrize("first", TYPES, ids=str)
def test_functions_of_two(function: str, first: Type) -> None:
    for second in TYPES:
        expression = typed(function, column("a", first), column("b", second))
        if expression is not None:
            check(expression, every(first, second), {"a": first, "b": second})


@pytest.mark.parametrize("function", UNARY)
def test_functions_of_one(function: str) -> None:
    for type_ in TYPES:
        expression = typed(function, column("a", type_))
        if expression is not None:
            check(expression, every(type_), {"a": type_})


@pytest.mark.parametrize("unit", fn.UNITS)
def test_date_trunc(unit: str) -> None:
    """Compared with DuckDB and with the plain evaluator."""
    random_ = random.Random(unit)
    rows: list[dict[str, Any]] = [{"a": None}, *({"a": value} for value in EDGES[TIMESTAMP])]
    for _ in range(200):
        moment = datetime(1960, 1, 1, tzinfo=UTC) + timedelta(microseconds=random_.randrange(2 * 10**15))
        rows += [{"a": moment}, {"a": moment.replace(hour=0, minute=0, second=0, microsecond=0)}]
    expression = fn.call("DATE_TRUNC", fn.literal(STRING, unit.lower()), column("a", TIMESTAMP))
    check(expression, rows, {"a": TIMESTAMP})
    for row in rows:
        naive = row["a"] and row["a"].replace(tzinfo=None)
        ((truncated,),) = duckdb.execute(
            "SELECT DATE_TRUNC(?, CAST(? AS TIMESTAMP))", [unit, naive]
        ).fetchall()
        assert (truncated and truncated.replace(tzinfo=UTC)) == evaluate_row(expression, row)
    days = fn.call("DATE_TRUNC", fn.literal(STRING, unit), column("a", DATE))
    check(days, every(DATE), {"a": DATE})


@pytest.mark.parametrize("source", TYPES, ids=str)
@pytest.mark.parametrize("target", [*TYPES, decimal(3, 1), decimal(38, 0)], ids=str)
def test_casts(source: Type, target: Type) -> None:
    try:
        expression = fn.cast(column("a", source), target)
    except ValueError:
        return
    rows = every(source) if source is not STRING else [{"a": text} for text in [None, *TEXTS]]
    check(expression, rows, {"a": source})


@pytest.mark.parametrize("text", ["1.25", "-1.25", "1.35", "0.05", "-0.05", "2.5", "1e-400", "1e300"])
def test_a_cast_to_decimal_rounds_half_up(text: str) -> None:
    tenth, double = decimal(5, 1), DOUBLE.parse(text)
    check(fn.cast(column("a", DOUBLE), tenth), [{"a": double}], {"a": DOUBLE})
    check(fn.cast(column("a", MONEY), tenth), [{"a": Decimal("-0.05")}, {"a": Decimal("0.05")}], {"a": MONEY})


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_in(type_: Type) -> None:
    a, members = column("a", type_), [fn.literal(type_, v) for v in EDGES[type_][::2]]
    check(fn.call("IN", a, *members), every(type_), {"a": type_})
    check(fn.call("IN", a, *members, fn.NULL), every(type_), {"a": type_})
    check(fn.call("IN", a, *members, column("b", type_)), every(type_, type_), {"a": type_, "b": type_})


def test_in_across_types() -> None:
    check(
        fn.call("IN", column("a", INT), fn.number("7"), fn.number("1.0"), fn.number("2.5")),
        every(INT),
        {"a": INT},
    )
    check(fn.call("IN", column("a", MONEY), fn.number("-7"), fn.number("1.5")), every(MONEY), {"a": MONEY})


@pytest.mark.parametrize("length", [-1, 0, 1, 2, 2**63 - 1, None])
@pytest.mark.parametrize("first", [-(2**63), -1, 0, 1, 2, 3, 2**63 - 1, None])
def test_substring(first: int | None, length: int | None) -> None:
    rows = [{"a": text, "b": first, "c": length} for text in [None, *EDGES[STRING]]]
    columns = column("a", STRING), column("b", INT), column("c", INT)
    check(fn.call("SUBSTRING", *columns), rows, {"a": STRING, "b": INT, "c": INT})


@pytest.mark.parametrize(
    "pattern", ["", "%", "_", "a%", "%c", "a_c", "ab!%c", "ab!%%", ".*", "[a]", "a%b", "_%_", "!"]
)
@pytest.mark.parametrize("escape", ["", "!"])
def test_like(pattern: str, escape: str) -> None:
    extra = [fn.literal(STRING, escape)] if escape else []
    expression = fn.call("LIKE", column("a", STRING), fn.literal(STRING, pattern), *extra)
    check(expression, every(STRING), {"a": STRING})


def test_operands_that_are_not_evaluated_cannot_fail() -> None:
    a, zero = column("a", INT), fn.number("0")
    bad = fn.call("/", fn.number("1"), a)
    fails = fn.call("=", bad, zero)
    nonzero, null = fn.call("<>", a, zero), fn.cast(fn.NULL, BOOLEAN)
    rows = [{"a": value} for value in (None, 0, 1, 2)]
    for expression in (
        fn.call("AND", nonzero, fails),
        fn.call("AND", fails, nonzero),
        fn.call("AND", null, fails),
        fn.call("OR", fn.call("=", a, zero), fails),
        fn.call("OR", fails, fn.call("=", a, zero)),
        fn.call("CASE", fn.call("=", a, zero), fn.number("-1"), bad),
        fn.call("CASE", nonzero, bad, fn.number("-1")),
        fn.call("CASE", fails, fn.number("1"), fn.number("2")),
        fn.call("CASE", fn.call("IS NULL", a), zero, nonzero, bad, fn.call("%", zero, zero)),
        fn.call("COALESCE", a, fn.call("/", zero, zero)),
        fn.call("COALESCE", fn.call("NULLIF", a, zero), bad),
        fn.call("NULLIF", a, bad),
        fn.call("BETWEEN", a, zero, bad),
        fn.call("IS NULL", bad),
        fn.call("GREATEST", a, bad),
        fn.call("IN", a, bad, zero),
    ):
        check(expression, rows, {"a": INT})


SUBJECTS: dict[str, Type] = {"i": INT, "j": INT, "x": DOUBLE, "d": MONEY, "s": STRING, "p": BOOLEAN}


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> Expression:
    """Well-typed expressions over the columns of SUBJECTS."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        name = draw(st.sampled_from(list(SUBJECTS)))
        type_ = SUBJECTS[name]
        constant = fn.literal(type_, draw(st.sampled_from([None, *EDGES[type_]])))
        return draw(st.sampled_from([Column(type_, True, name), constant]))
    function = draw(st.sampled_from([*BINARY, *UNARY, "CASE", "IN", "CAST"]))
    operands = [draw(expressions(depth=depth - 1)) for _ in range(3)]
    try:
        if function == "CAST":
            return fn.cast(operands[0], draw(st.sampled_from(TYPES)))
        if function == "CASE":
            return fn.call("CASE", fn.call("IS NULL", operands[0]), *operands[1:])
        return fn.call(function, *operands[: 1 if function in UNARY else 3 if function == "IN" else 2])
    except ValueError:
        return operands[0]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_expression(data: st.DataObject) -> None:
    any_expression(data)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_expression_in_stages(data: st.DataObject) -> None:
    """As above, but every operand becomes a column."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "REPEATED", data.draw(st.integers(0, 4)))
        patch.setattr(compiler, "DEEPEST", data.draw(st.integers(0, 2)))
        any_expression(data)


def any_expression(data: st.DataObject) -> None:
    expression = data.draw(expressions())
    values = {name: st.sampled_from([None, *EDGES[t]]) for name, t in SUBJECTS.items()}
    rows = data.draw(st.lists(st.fixed_dictionaries(values), min_size=1, max_size=8))
    check(expression, rows, SUBJECTS)


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda a, b: fn.call("*", fn.call("+", a, b), a), "(a + b) * a"),
        (lambda a, b: fn.call("+", a, fn.call("*", b, a)), "a + b * a"),
        (lambda a, b: fn.call("-", a, fn.call("-", b, a)), "a - (b - a)"),
        (lambda a, b: fn.call("-", fn.call("-", a, b), a), "a - b - a"),
        (lambda a, b: fn.call("NEG", fn.call("NEG", a)), "-(-a)"),
        (lambda a, b: fn.call("NOT", fn.call("=", a, b)), "NOT a = b"),
        (lambda a, b: fn.call("IS NULL", fn.call("+", a, b)), "a + b IS NULL"),
        (lambda a, b: fn.call("BETWEEN", a, fn.number("-1"), b), "a >= -1 AND a <= b"),
        (lambda a, b: fn.call("IN", a, fn.number("1"), fn.number("2")), "a IN (1, 2)"),
        (
            lambda a, b: fn.call("CASE", fn.call("<", a, b), a, fn.NULL),
            "CASE WHEN a < b THEN a ELSE NULL END",
        ),
        (lambda a, b: fn.cast(a, STRING), "CAST(a AS STRING)"),
        (lambda a, b: fn.literal(STRING, "it's"), "'it''s'"),
        (lambda a, b: fn.literal(DATE, date(2024, 2, 29)), "DATE '2024-02-29'"),
        (lambda a, b: fn.call("+", a, fn.number("1e3")), "CAST(a AS DOUBLE) + 1000.0e0"),
    ],
)
def test_str_is_sql(build: Any, text: str) -> None:
    assert str(build(column("a", INT), column("b", INT))) == text


@pytest.mark.parametrize(
    ("function", "types", "reason"),
    [
        ("+", (INT, STRING), "needs numbers, not STRING"),
        ("%", (MONEY, INT), "CAST to DOUBLE first"),
        ("*", (FINE, MONEY), "needs a scale of 40"),
        ("=", (INT, STRING), "INT = STRING makes no sense"),
        ("=", (DATE, TIMESTAMP), "makes no sense"),
        ("AND", (INT, BOOLEAN), "AND needs BOOLEAN, not INT"),
        ("COALESCE", (INT, STRING), "no common type"),
        ("COALESCE", (FINE, WIDE), "of 38"),
        ("UPPER", (INT,), "UPPER needs STRING"),
        ("HOUR", (DATE,), "DATE has no HOUR"),
        ("SUBSTRING", (STRING,), "SUBSTRING takes 2 to 3 arguments, not 1"),
        ("LIKE", (STRING, STRING), "literal pattern"),
        ("FOO", (), "there is no function FOO"),
    ],
)
def test_badly_typed_calls_are_refused(function: str, types: tuple[Type, ...], reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        fn.call(function, *(column(name, t) for name, t in zip("abc", types, strict=False)))


def test_a_literal_takes_the_type_it_is_compared_with() -> None:
    day = fn.call("<", column("a", DATE), fn.literal(STRING, "2024-02-29"))
    assert day.arguments[1] == Literal(DATE, False, date(2024, 2, 29))
    price = fn.call("=", column("a", MONEY), fn.number("1.5"))
    assert price.arguments[1] == Literal(MONEY, False, Decimal("1.50"))
    with pytest.raises(ValueError, match="2024-02-30"):
        fn.call("<", column("a", DATE), fn.literal(STRING, "2024-02-30"))
