"""Opening punctuations, which operators emit before any input, compared with every possible tuple."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.table_1 import set_match
from tests.strategies import DAY, FLAG, LETTER, MONEY, REAL, SMALL, Pool, Space
from xmlpunct.expressions.exclusions import COMBINATIONS, GAPS, never, only_within
from xmlpunct.expressions.expression import Column, Expression, Literal
from xmlpunct.expressions.functions import call, literal
from xmlpunct.operators import Project, Scan, Select
from xmlpunct.operators.time.access_order import AccessOrder
from xmlpunct.operators.time.punctuate import Punctuate
from xmlpunct.punctuations.punctuation import Punctuation, match
from xmlpunct.schema import Schema
from xmlpunct.types import BOOLEAN, DOUBLE, INT, STRING, Type, Value, decimal
from xmlpunct.types.pattern import values
from xmlpunct.types.pattern_text import parse_pattern

SPACES = (
    Space.of(a=SMALL, b=(SMALL, "[0,3]"), f=FLAG),
    Space.of(x=REAL, s=LETTER),
    Space.of(d=MONEY, day=(DAY, "NOT NULL")),
)
NUMBERS: tuple[tuple[Type, Value], ...] = (
    (decimal(2, 1), Decimal("1.5")),
    (decimal(2, 1), Decimal("-0.5")),
    (decimal(1, 0), Decimal(2)),
    (DOUBLE, 2.5),
    (DOUBLE, float("inf")),
    (INT, 2**60),
)
"""Constants of other types, for comparisons with numbers."""


def column(space: Space, position: int) -> Column:
    a = space.schema.attributes[position]
    return Column(a.type, a.nullable, a.name)


def constants(pool: Pool) -> st.SearchStrategy[Literal]:
    return st.sampled_from([Literal(pool.type, False, v) for v in pool.domain])


@st.composite
def comparisons(draw: st.DrawFn, space: Space) -> Expression:
    """A column compared with constants. Its punctuations are exact, except for tuples with nulls."""
    position = draw(st.integers(0, len(space.pools) - 1))
    pool, a = space.pools[position], column(space, position)
    if draw(st.integers(0, 4)) == 0:
        return call("IN", a, *draw(st.lists(constants(pool), min_size=1, max_size=4)))
    if a.type is BOOLEAN and draw(st.booleans()):
        return a
    names = ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
    pair = [a, draw(constants(pool))]
    if a.type in (INT, MONEY.type) and draw(st.booleans()):
        pair[1] = Literal(NUMBERS[0][0], False, NUMBERS[0][1])
        type_, value = draw(st.sampled_from(NUMBERS))
        if not (type_ is DOUBLE and (a.type is not INT or value == float("inf"))):
            pair[1] = Literal(type_, False, value)
    return call(draw(st.sampled_from(names)), *(reversed(pair) if draw(st.booleans()) else pair))


def weaker_predicates(space: Space) -> st.SearchStrategy[Expression]:
    """Predicates that justify weaker punctuations, or none."""
    a = column(space, 0)
    null, true = Literal(a.type, True, None), Literal(BOOLEAN, False, True)
    predicates = [
        call("IS NULL", a),
        call("=", a, a),
        call("<", a, null),
        call("IN", a, null, Literal(a.type, False, space.pools[0].domain[1])),
        call("IS DISTINCT FROM", a, null),
        call("CASE", call("IS NULL", a), true, call("NOT", true)),
        true,
    ]
    if a.type is INT:
        zero = Literal(INT, False, 0)
        predicates += [call("<", call("/", a, a), zero), call("=", call("/", zero, a), zero)]
        predicates += [call("<", a, Literal(DOUBLE, False, float("inf")))]
        half, minus, numbers = (
            call("/", a, literal(INT, 2)),
            call("NEG", a),
            [literal(INT, n) for n in (-2, 1, 3)],
        )
        predicates += [
            call(name, e, n) for name in ("<", ">=", "=", "<>") for e in (half, minus) for n in numbers
        ]
        predicates += [
            call("IN", half, *numbers),
            call("<", literal(INT, 1), call("+", minus, literal(INT, 2))),
        ]
    if a.type is DOUBLE:
        third, minus = call("/", a, literal(DOUBLE, 3.0)), call("NEG", a)
        numbers = [literal(DOUBLE, x) for x in (0.5, 0.0, float("inf"), float("nan"))]
        predicates += [
            call(name, e, x) for name in ("<", ">=", "=", "<>") for e in (third, minus) for x in numbers
        ]
    for position, pool in enumerate(space.pools):
        if pool.type is STRING:
            text = column(space, position)
            predicates += [call("LIKE", text, Literal(STRING, False, "a%"), Literal(STRING, False, "!"))]
    return st.sampled_from(predicates)


def joined(parts: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    return st.recursive(
        parts,
        lambda below: st.one_of(
            st.builds(lambda a: call("NOT", a), below),
            st.builds(lambda n, a, b: call(n, a, b), st.sampled_from(["AND", "OR"]), below, below),
        ),
        max_leaves=5,
    )


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_opening_punctuations_complement_the_predicate(space: Space) -> None:
    """No tuple both passes and matches a punctuation; each tuple without nulls does one of them."""
    tuples = space.tuples()

    @given(joined(comparisons(space)))
    def check(predicate: Expression) -> None:
        operator = Select(space.schema, predicate)
        punctuations = operator.opening()
        output = operator.step(0, space.schema.frame(tuples)).rows()
        assert not operator.rejects
        for t in tuples:
            is_excluded = set_match(t, punctuations)
            passes = any(repr(t) == repr(u) for u in output)  # NaN is NaN
            assert not (is_excluded and passes), f"{t} passes {predicate} but matches its punctuations"
            assert is_excluded or passes or None in t, (
                f"{t} neither passes {predicate} nor matches its punctuations"
            )

    check()


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_opening_punctuations_are_true_for_any_predicate(space: Space) -> None:
    tuples = space.tuples()

    @given(joined(comparisons(space) | weaker_predicates(space)))
    def check(predicate: Expression) -> None:
        operator = Select(space.schema, predicate)
        punctuations = operator.opening()
        assert not any(p.is_everything for p in punctuations)
        for t in operator.step(0, space.schema.frame(tuples)).rows():
            assert not set_match(t, punctuations), f"{t} passes {predicate} but matches its punctuations"

    check()


def where(columns: str, *parts: tuple[str, str, str]) -> list[str]:
    """The opening punctuations of a conjunction of (column, operator, constant) comparisons."""
    schema = Schema.parse(columns)
    tests: list[Expression] = []
    for name, function, text in parts:
        a = schema[name]
        tests.append(
            call(function, Column(a.type, a.nullable, name), Literal(a.type, False, a.type.parse(text)))
        )
    predicate = tests[0]
    for test in tests[1:]:
        predicate = call("AND", predicate, test)
    return [str(p) for p in Select(schema, predicate).opening()]


def test_each_part_of_a_conjunction_is_a_punctuation() -> None:
    punctuations = where("hour INT, sid STRING", ("hour", ">", "5"), ("sid", "=", "S1"))
    assert punctuations == ["<(,5], *>", "<*, (,S1)>", "<*, (S1,)>"]


def test_punctuations_of_the_domain_are_not_repeated() -> None:
    punctuations = where("hour INT CHECK (hour BETWEEN 0 AND 23)", ("hour", ">=", "0"), ("hour", "<", "6"))
    assert punctuations == ["<[6,)>"]


def test_a_disjunction_excludes_tuples_that_all_its_parts_exclude() -> None:
    schema = Schema.parse("a INT, b INT")
    a, b = (call("<", Column(INT, True, n), Literal(INT, False, v)) for n, v in (("a", 1), ("b", 2)))
    assert list(map(str, never(schema, call("OR", a, b)))) == ["<[1,), [2,)>"]


def test_long_lists_are_approximated() -> None:
    schema = Schema.parse("a INT, b INT")
    listed = values(INT, range(0, 4 * GAPS, 2))
    assert list(map(str, only_within(schema, "a", listed))) == ["<(,-1], *>", f"<[{4 * GAPS - 1},), *>"]
    assert len(only_within(schema, "a", values(INT, range(0, 2 * GAPS - 2, 2)))) == GAPS
    members = [Literal(INT, False, v) for v in range(0, 30, 2)]
    a, b = (call("IN", Column(INT, True, n), *members) for n in ("a", "b"))
    assert len(never(schema, call("OR", a, b))) == COMBINATIONS == 16 * 16
    below = call("<", Column(INT, True, "a"), members[3])
    assert len(never(schema, call("OR", call("OR", a, b), below))) == 12 * 16
    assert never(schema, call("OR", call("OR", a, b), a)) == []


def test_a_scan_excludes_values_outside_the_domains() -> None:
    schema = Schema.parse(
        "hour INT CHECK (hour BETWEEN 0 AND 23), sid STRING CHECK (sid IN ('a', 'b')), n INT NOT NULL, x INT"
    )
    scan = Scan.rename(schema, ("n", "hour", "x"), ("n", "h", "x"))
    assert list(map(str, scan.opening())) == ["<*, (,-1], *>", "<*, [24,), *>"]
    scan = Scan.rename(schema, ("sid",), ("sid",))
    assert list(map(str, scan.opening())) == ["<(,a)>", "<(a,b)>", "<(b,)>"]
    assert Project.rename(schema, ("hour",), ("h",)).opening() == []


def test_punctuate_excludes_other_senders() -> None:
    order = AccessOrder("a", 0, "sid", ("S1", "S2"))
    punctuations = Punctuate(Schema.parse("sid STRING, a INT"), order).opening()
    assert [str(p.patterns[0]) for p in punctuations] == ["(,S1)", "(S1,S2)", "(S2,)"]
    declared = Schema.parse("sid STRING CHECK (sid IN ('S1', 'S2')), a INT")
    assert Punctuate(declared, order).opening() == [], "the scan has emitted them"
    assert Punctuate(declared, AccessOrder("a")).opening() == []


def test_an_opening_is_of_the_operators_own_schema() -> None:
    schema = Schema.parse("hour INT CHECK (hour BETWEEN 0 AND 23)")
    scan = Scan.rename(schema, ("hour",), ("h",))
    (low, high) = scan.opening()
    assert low == Punctuation.parse(scan.schema, "<(,-1]>")
    assert parse_pattern(INT, "[24,)") == high.patterns[0]
    assert match((24,), high)
