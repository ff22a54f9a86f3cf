"""Monotone expressions: images of patterns, compared with brute force."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from itertools import pairwise, product

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.harness import assert_proper, check_table, give, restart
from tests.oracle.table_1 import set_match
from tests.strategies import SMALL, Space, cuts, streams, tuples_of
from xmlpunct.expressions import functions as fn
from xmlpunct.expressions.expression import Column, Expression
from xmlpunct.expressions.functions.interval_arithmetic import shifted
from xmlpunct.expressions.monotone import Monotone
from xmlpunct.expressions.program import compiled
from xmlpunct.operators import Project
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import DATE, DOUBLE, INT, STRING, TIMESTAMP, decimal
from xmlpunct.types import pattern as pt
from xmlpunct.types.cut_points import cuts as intervals_of
from xmlpunct.types.pattern import EMPTY, Pattern
from xmlpunct.types.pattern_text import parse_pattern

A = Column(INT, True, "a")
X = Column(DOUBLE, True, "x")
TOP, BOTTOM = 2**63 - 1, -(2**63)


def n(text: str) -> Expression:
    return fn.number(text)


RISING = {
    "a + 3": fn.call("+", A, n("3")),
    "3 + a": fn.call("+", n("3"), A),
    "a - 2": fn.call("-", A, n("2")),
    "a * 3": fn.call("*", A, n("3")),
    "a / 4": fn.call("/", A, n("4")),
    "(a + 1) / 2 * 3": fn.call("*", fn.call("/", fn.call("+", A, n("1")), n("2")), n("3")),
    "-(a / -3)": fn.call("NEG", fn.call("/", A, n("-3"))),
    "decimal": fn.cast(A, decimal(20, 1)),
    "a * 1.5": fn.call("*", A, n("1.5")),
    "half up": fn.cast(fn.call("*", A, n("0.3")), decimal(20, 0)),
    "truncated": fn.cast(fn.call("*", A, n("0.3")), INT),
    "double": fn.cast(A, DOUBLE),
    "double / 3": fn.call("/", fn.cast(A, DOUBLE), n("3e0")),
    "rounded": fn.call("ROUND", A, n("-1")),
    "rounded double": fn.call("ROUND", fn.call("/", fn.cast(A, DOUBLE), n("3e0")), n("0")),
    "rounded decimal": fn.call("ROUND", fn.call("*", A, n("0.35")), n("1")),
    "floor": fn.call("FLOOR", fn.call("/", fn.cast(A, DOUBLE), n("4e0"))),
    "ceiling": fn.call("CEIL", fn.call("*", A, n("0.25"))),
    "whole": fn.call("TRUNC", fn.call("*", A, n("0.3"))),
    "sign": fn.call("SIGN", A),
}
FALLING = {
    "-a": fn.call("NEG", A),
    "3 - a": fn.call("-", n("3"), A),
    "a / -4": fn.call("/", A, n("-4")),
    "a * -2": fn.call("*", A, n("-2")),
    "7 - a / 2": fn.call("-", n("7"), fn.call("/", A, n("2"))),
}


def values(e: Expression, inputs: Sequence[object], source: Column = A) -> list[object]:
    """The results of an expression, null where it fails."""
    frame = pl.DataFrame({source.name: inputs}, schema={source.name: source.type.dtype})
    (results,), reasons = compiled(e).run(frame)
    return [v if reasons is None or reasons[i] is None else None for i, v in enumerate(results)]


def image(e: Expression, attribute: Attribute, pattern: Pattern) -> Pattern:
    monotone = Monotone.of(e)
    assert monotone is not None
    ((low, high),) = intervals_of(pattern)
    return monotone.image(attribute, low, high)


def assert_exact(
    actual: Pattern, pattern: Pattern, window: Sequence[object], results: Sequence[object]
) -> None:
    """The image of a pattern matches exactly the results that no value outside the pattern has."""
    inside = {v for a, v in zip(window, results, strict=True) if pattern.matches(a)}
    outside = {v for a, v in zip(window, results, strict=True) if not pattern.matches(a)}
    for v in {*inside, *outside}:
        assert actual.matches(v) == (v in inside - outside), f"{pattern} -> {actual}: {v}"


@pytest.mark.parametrize("name", [*RISING, *FALLING])
def test_images_of_all_small_ranges(name: str) -> None:
    """The image of a range has exactly the results that only values of the range have."""
    e = (RISING | FALLING)[name]
    monotone = Monotone.of(e)
    assert monotone is not None
    assert monotone.rises == (name in RISING)
    window = list(range(-24, 25))
    results = values(e, window)
    bounds = [None, *range(-7, 8)]
    for low in bounds:
        for high in bounds:
            pattern = pt.interval(INT, low, high, True, True)
            if pattern is EMPTY:
                continue
            assert_exact(image(e, Attribute("a", INT), pattern), pattern, window, results)


@pytest.mark.parametrize("name", [*RISING, *FALLING])
def test_images_where_results_do_not_fit(name: str) -> None:
    """A failing bound counts as unbounded; no image has a result of a value outside its range."""
    e = (RISING | FALLING)[name]
    window = [*range(BOTTOM, BOTTOM + 12), *range(-5, 6), *range(TOP - 12, TOP + 1)]
    for third in (2**62 + 5, -(2**62) - 5, TOP // 3, BOTTOM // 3):
        window += range(third - 4, third + 5)
    window.sort()
    results = values(e, window)
    ends = [*window[:14:3], *window[12:60:4], *window[-14::3]]
    for low, high in pairwise([*ends, None, *ends]):
        pattern = pt.interval(INT, low, high, True, True)
        if pattern is EMPTY:
            continue
        actual = image(e, Attribute("a", INT), pattern)
        for a, v in zip(window, results, strict=True):
            assert pattern.matches(a) or v is None or not actual.matches(v), f"{pattern} -> {actual}: {a}"


@pytest.mark.parametrize(
    ("expression", "pattern", "expected"),
    [
        (fn.call("+", X, n("1e0")), "[1.0,2.0]", "(2.0,3.0)"),
        (fn.call("*", X, n("2e0")), "(,2.0]", "(,4.0)"),
        (fn.call("+", X, n("1e0")), "[1.0,)", "(2.0,)"),
        (fn.call("NEG", X), "[1.0,)", "(,-1.0)"),
        (fn.call("NEG", X), "(,1.0)", "(-1.0,INF]"),
        (fn.call("NEG", X), "(,)", "(,INF]"),
        (fn.call("/", X, n("-2e0")), "[1.0,4.0]", "(-2.0,-0.5)"),
        (fn.call("+", X, n("1e300")), "[1.0,2.0]", "{}"),
        (fn.cast(X, INT), "[-0.5,2.5]", "1"),
        (fn.cast(X, INT), "(,2.5]", "(,1]"),
    ],
)
def test_doubles(expression: Expression, pattern: str, expected: str) -> None:
    """Bounds of images are exclusive; a falling expression does not move NaN."""
    assert str(image(expression, Attribute("x", DOUBLE), parse_pattern(DOUBLE, pattern))) == expected


@pytest.mark.parametrize(
    "expression",
    [
        A,
        n("3"),
        fn.call("/", n("3"), A),
        fn.call("%", A, n("3")),
        fn.call("*", A, n("0")),
        fn.call("/", A, n("0")),
        fn.call("+", A, A),
        fn.call("ABS", A),
        fn.call("MONTH", Column(DATE, True, "day")),
        fn.call("+", X, fn.cast(fn.literal(STRING, "NaN"), DOUBLE)),
    ],
    ids=str,
)
def test_expressions_that_are_not_monotone(expression: Expression) -> None:
    assert Monotone.of(expression) is None


@pytest.mark.parametrize("unit", fn.UNITS)
def test_images_of_dates(unit: str) -> None:
    """Around the end of a year, an image has exactly the results that only days of its range have."""
    day = Column(DATE, True, "day")
    e = fn.call("DATE_TRUNC", fn.literal(STRING, unit), day)
    window = [date(2023, 9, 20) + timedelta(days=days) for days in range(500)]
    results = values(e, window, day)
    for low, high in product([None, *window[98:112:2]], [None, *window[98:200:5]]):
        pattern = pt.interval(DATE, low, high, True, True)
        if pattern is EMPTY:
            continue
        assert_exact(image(e, Attribute("day", DATE), pattern), pattern, window, results)


DAY_PARTS = {
    name: fn.call(name, Column(DATE, True, "day"))
    for name in ("YEAR", "ISOYEAR", "YEARWEEK", "DECADE", "EPOCH", "EPOCH_US", "JULIAN")
} | {
    "a month on": shifted("+", Column(DATE, True, "day"), n("1"), "MONTH"),
    "days on": shifted("-", Column(DATE, True, "day"), n("40"), "DAY"),
    "weeks since": fn.call(
        "DATE_DIFF",
        *(fn.literal(t, v) for t, v in ((STRING, "week"), (DATE, date(2024, 1, 3)))),
        Column(DATE, True, "day"),
    ),
}


@pytest.mark.parametrize("name", DAY_PARTS)
def test_images_of_parts_of_dates(name: str) -> None:
    """As for DATE_TRUNC: exactly the results that only days of the range have."""
    day, e = Column(DATE, True, "day"), DAY_PARTS[name]
    window = [date(2023, 9, 20) + timedelta(days=days) for days in range(500)]
    results = values(e, window, day)
    for low, high in product([None, *window[98:112:2]], [None, *window[98:200:5]]):
        pattern = pt.interval(DATE, low, high, True, True)
        if pattern is not EMPTY:
            assert_exact(image(e, Attribute("day", DATE), pattern), pattern, window, results)


@pytest.mark.parametrize(
    ("unit", "pattern", "expected"),
    [
        ("HOUR", "(,2024-01-01T10:59:59.999999Z]", "(,2024-01-01T10:59:59.999999Z]"),
        ("HOUR", "(,2024-01-01T10:59:59.999998Z]", "(,2024-01-01T09:59:59.999999Z]"),
        (
            "SECOND",
            "[2024-01-01T10:00:00Z,2024-01-01T10:00:01Z)",
            "(2024-01-01T09:59:59Z,2024-01-01T10:00:01Z)",
        ),
        ("YEAR", "[2024-01-01T00:00:00Z,)", "[2023-01-01T00:00:00.000001Z,)"),
        ("WEEK", "(2024-01-02T00:00:00Z,2024-01-03T00:00:00Z]", "{}"),
    ],
)
def test_images_of_moments(unit: str, pattern: str, expected: str) -> None:
    e = fn.call("DATE_TRUNC", fn.literal(STRING, unit), Column(TIMESTAMP, True, "at"))
    actual = image(e, Attribute("at", TIMESTAMP), parse_pattern(TIMESTAMP, pattern))
    assert actual == parse_pattern(TIMESTAMP, expected)


def test_a_domain_s_end_is_an_end() -> None:
    attribute = Attribute("a", INT, domain=pt.interval(INT, 0, 9, True, True))
    assert str(image(RISING["a / 4"], attribute, pt.interval(INT, 0, 7, True, True))) == "(,1]"
    assert str(image(RISING["a / 4"], attribute, pt.interval(INT, 8, 9, True, True))) == "[2,)"


# Project


def project(schema: Schema, **columns: Expression) -> Project:
    return Project(schema, list(columns.items()))


AB = Schema.parse("a INT, b INT")
B = Column(INT, True, "b")


def test_minutes_close_hours_together() -> None:
    """An hour is closed when all its seconds are closed, by any number of punctuations."""
    operator = project(AB, h=fn.call("/", A, n("3600")), b=B)
    check_table(
        operator,
        """
        60 1; 5001 2        -> 0 1; 1 2
        P([0,59], *)        ->
        P((,-1], *)         -> P((,-1], *)
        P([60,5000], *)     -> P(0, *)
        P([5001,6000], *)   ->
        P([7200,10799], 3)  -> P(2, 3)
        P([6001,9000], *)   -> P(1, *)
        P(*, 5)             -> P(*, 5)
        P(*, *)             -> P(*, *)
        """,
    )


def test_one_punctuation_for_each_choice_of_columns() -> None:
    operator = project(AB, x=fn.call("+", A, n("1")), y=fn.call("+", B, n("1")))
    check_table(operator, "1 2 -> 2 3\n P(1, 2) -> P(2, 3)\n P(1, *) -> P(2, *)")
    operator = project(AB, x=fn.call("+", A, n("1")), a=A)
    check_table(operator, "P(1, 2) ->\n P(1, *) -> P(2, *); P(*, 1)")


def test_null_stays_null() -> None:
    check_table(project(AB, x=fn.call("NEG", A)), "null 1; P((,), *) -> null; P((,))\n null 3 -> null")


def test_derived_columns_of_a_project_below() -> None:
    """The upper half of a split Project propagates by the derivation of its columns."""
    schema = Schema.parse("h INT, a INT")
    half = fn.call("/", A, n("2"))
    operator = Project(schema, [("x", Column(INT, True, "h"))], [("h", half)])
    check_table(operator, "2 5; P(*, 4) -> 2\n P(*, 5) -> P(2)\n P(7, *) -> P(7)")
    lower = Project(AB, [("h", half), ("a", A)], (), within=AB)
    check_table(lower, "5 1; P([2,5], *) -> 2 5; P(*, [2,5])")
    assert lower.state.held == 0


def test_a_project_that_is_rebuilt_for_every_slice_retains_nothing() -> None:
    schema = Schema.parse("b BOOLEAN NOT NULL, a INT")
    for within, expected in ((None, "P(1)"), (schema, "")):
        operator = Project(schema, [("a", A)], (), within)
        check_table(operator, f"P(true, 1) ->\n P(false, 1) -> {expected}\n P((,), 2) -> P(2)")
        assert operator.state.held == 0


SPACE = Space.of(a=SMALL, b=SMALL)


@given(data=st.data())
@pytest.mark.parametrize("name", ["a / 4", "a - 2", "7 - a / 2", "a / -4"])
def test_project_against_brute_force(name: str, data: st.DataObject) -> None:
    """A result is closed once all values that have it are closed, by punctuations that agree on other attributes."""
    e = (RISING | FALLING)[name]
    window = list(range(-30, 31))
    results = values(e, window)
    stream = data.draw(streams(SPACE, closing=["a"]))

    def promised(ps: list[Punctuation], u: tuple[object, object]) -> bool:
        if any(p.patterns[0] is pt.WILDCARD and p.patterns[1].matches(u[1]) for p in ps):
            return True
        if u[0] is None:
            return False
        for pattern_b in {p.patterns[1] for p in ps if p.patterns[1].matches(u[1])}:
            same_b = [p for p in ps if p.patterns[1] == pattern_b and p.patterns[0] is not pt.WILDCARD]
            sources = [a for a, v in zip(window, results, strict=True) if v == u[0]]
            if all(any(p.patterns[0].matches(a) for p in same_b) for a in sources):
                return True
        return False

    probes = [(v, b) for v in [*sorted(set(results))[3:-3], None] for b in SPACE.values(1)]  # type: ignore[type-var]
    operator = project(SPACE.schema, x=e, b=B)
    ps: list[Punctuation] = []
    emitted: list[Punctuation] = []
    tuples = []
    stops = data.draw(st.sets(st.integers(0, 5)))
    for number, (port, elements) in enumerate(data.draw(cuts([stream]))):
        output = give(operator, port, elements)
        assert_proper(output.tuples.rows(), emitted)
        tuples += output.tuples.rows()
        ps += [p for p in elements if isinstance(p, Punctuation) and not p.is_empty]
        emitted += output.punctuations
        for u in probes:
            assert set_match(u, emitted) == promised(ps, u), f"{u} after slice {number}"
        if number in stops:
            operator = restart(lambda: project(SPACE.schema, x=e, b=B), operator)  # type: ignore[assignment]
    assert len(tuples) == len(tuples_of(stream))


def test_state_is_bounded_by_gaps() -> None:
    """For consecutive seconds: one interval of closed values, one of emitted results."""
    operator = project(AB, h=fn.call("/", A, n("60")))
    for second in range(300):
        give(operator, 0, [(second, 0), Punctuation.of(AB, a=second)])
        assert operator.state.held <= 2


@pytest.mark.parametrize("text", ["a / 60", "a * 2 - 7", "-a / 3", "5 - a"])
@given(data=st.data())
def test_a_preimage_has_all_values_whose_results_match(text: str, data: st.DataObject) -> None:
    rising = {"a / 60": fn.call("/", A, n("60")), "a * 2 - 7": fn.call("-", fn.call("*", A, n("2")), n("7"))}
    falling = {"-a / 3": fn.call("/", fn.call("-", n("0"), A), n("3")), "5 - a": fn.call("-", n("5"), A)}
    e = (rising | falling)[text]
    monotone = Monotone.of(e)
    assert monotone is not None
    low, width = data.draw(st.integers(-500, 500)), data.draw(st.integers(0, 9))
    pattern = pt.ordinals(INT, low, low + width)
    preimage = monotone.preimage(Attribute("a", INT), pattern)
    window = list(range(-31000, 31000))
    sources = {a for a, v in zip(window, values(e, window), strict=True) if pattern.matches(v)}
    assert {a for a in window if preimage.matches(a)} == sources or (
        not sources and preimage in (pt.WILDCARD, EMPTY)
    )
