"""What operators know from the start, against every tuple that can come."""

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
OTHERS: tuple[tuple[Type, Value], ...] = (
    (decimal(2, 1), Decimal("1.5")),
    (decimal(2, 1), Decimal("-0.5")),
    (decimal(1, 0), Decimal(2)),
    (DOUBLE, 2.5),
    (DOUBLE, float("inf")),
    (INT, 2**60),
)
"""Constants that are compared with numbers of other types."""


def column(space: Space, place: int) -> Column:
    a = space.schema.attributes[place]
    return Column(a.type, a.nullable, a.name)


def constants(pool: Pool) -> st.SearchStrategy[Literal]:
    return st.sampled_from([Literal(pool.type, False, v) for v in pool.domain])


@st.composite
def comparisons(draw: st.DrawFn, space: Space) -> Expression:
    """A column compared with constants: all of this kind can be told exactly of tuples without nulls."""
    place = draw(st.integers(0, len(space.pools) - 1))
    pool, a = space.pools[place], column(space, place)
    if draw(st.integers(0, 4)) == 0:
        return call("IN", a, *draw(st.lists(constants(pool), min_size=1, max_size=4)))
    if a.type is BOOLEAN and draw(st.booleans()):
        return a
    names = ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
    pair = [a, draw(constants(pool))]
    if a.type in (INT, MONEY.type) and draw(st.booleans()):
        pair[1] = Literal(OTHERS[0][0], False, OTHERS[0][1])
        type_, value = draw(st.sampled_from(OTHERS))
        if not (type_ is DOUBLE and (a.type is not INT or value == float("inf"))):
            pair[1] = Literal(type_, False, value)
    return call(draw(st.sampled_from(names)), *(reversed(pair) if draw(st.booleans()) else pair))


def vague(space: Space) -> st.SearchStrategy[Expression]:
    """Predicates that say less, or nothing."""
    a = column(space, 0)
    null, true = Literal(a.type, True, None), Literal(BOOLEAN, False, True)
    found = [
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
        found += [call("<", call("/", a, a), zero), call("=", call("/", zero, a), zero)]
        found += [call("<", a, Literal(DOUBLE, False, float("inf")))]
        half, minus, some = (
            call("/", a, literal(INT, 2)),
            call("NEG", a),
            [literal(INT, n) for n in (-2, 1, 3)],
        )
        found += [call(name, e, n) for name in ("<", ">=", "=", "<>") for e in (half, minus) for n in some]
        found += [call("IN", half, *some), call("<", literal(INT, 1), call("+", minus, literal(INT, 2)))]
    if a.type is DOUBLE:
        third, minus = call("/", a, literal(DOUBLE, 3.0)), call("NEG", a)
        some = [literal(DOUBLE, x) for x in (0.5, 0.0, float("inf"), float("nan"))]
        found += [call(name, e, x) for name in ("<", ">=", "=", "<>") for e in (third, minus) for x in some]
    for place, pool in enumerate(space.pools):
        if pool.type is STRING:
            text = column(space, place)
            found += [call("LIKE", text, Literal(STRING, False, "a%"), Literal(STRING, False, "!"))]
    return st.sampled_from(found)


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
def test_a_predicate_is_true_of_what_its_complement_does_not_match(space: Space) -> None:
    """Exactly so where no null is, and for no tuple is both so."""
    tuples = space.tuples()

    @given(joined(comparisons(space)))
    def check(predicate: Expression) -> None:
        operator = Select(space.schema, predicate)
        said = operator.opening()
        passed = operator.step(0, space.schema.frame(tuples)).rows()
        assert not operator.rejects
        for t in tuples:
            absent = set_match(t, said)
            came = any(repr(t) == repr(u) for u in passed)  # NaN is NaN
            assert not (absent and came), f"{t} comes, and {predicate} says it never does"
            assert absent or came or None in t, f"{t} never comes, and {predicate} does not say so"

    check()


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_whatever_the_predicate_nothing_false_is_said(space: Space) -> None:
    tuples = space.tuples()

    @given(joined(comparisons(space) | vague(space)))
    def check(predicate: Expression) -> None:
        operator = Select(space.schema, predicate)
        said = operator.opening()
        assert not any(p.is_everything for p in said)
        for t in operator.step(0, space.schema.frame(tuples)).rows():
            assert not set_match(t, said), f"{t} comes, and {predicate} says it never does"

    check()


def where(columns: str, *parts: tuple[str, str, str]) -> list[str]:
    """What a conjunction of comparisons says: (column, operator, constant) each."""
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
    found = where("hour INT, sid STRING", ("hour", ">", "5"), ("sid", "=", "S1"))
    assert found == ["<(,5], *>", "<*, (,S1)>", "<*, (S1,)>"]


def test_what_the_domain_says_already_is_not_repeated() -> None:
    found = where("hour INT CHECK (hour BETWEEN 0 AND 23)", ("hour", ">=", "0"), ("hour", "<", "6"))
    assert found == ["<[6,)>"]


def test_a_disjunction_says_what_all_its_parts_say() -> None:
    schema = Schema.parse("a INT, b INT")
    a, b = (call("<", Column(INT, True, n), Literal(INT, False, v)) for n, v in (("a", 1), ("b", 2)))
    assert list(map(str, never(schema, call("OR", a, b)))) == ["<[1,), [2,)>"]


def test_long_lists_say_little() -> None:
    schema = Schema.parse("a INT, b INT")
    listed = values(INT, range(0, 4 * GAPS, 2))
    assert list(map(str, only_within(schema, "a", listed))) == ["<(,-1], *>", f"<[{4 * GAPS - 1},), *>"]
    assert len(only_within(schema, "a", values(INT, range(0, 2 * GAPS - 2, 2)))) == GAPS
    some = [Literal(INT, False, v) for v in range(0, 30, 2)]
    a, b = (call("IN", Column(INT, True, n), *some) for n in ("a", "b"))
    assert len(never(schema, call("OR", a, b))) == COMBINATIONS == 16 * 16
    below = call("<", Column(INT, True, "a"), some[3])
    assert len(never(schema, call("OR", call("OR", a, b), below))) == 12 * 16
    assert never(schema, call("OR", call("OR", a, b), a)) == []


def test_a_scan_says_what_is_outside_the_domains_of_what_it_reads() -> None:
    schema = Schema.parse(
        "hour INT CHECK (hour BETWEEN 0 AND 23), sid STRING CHECK (sid IN ('a', 'b')), n INT NOT NULL, x INT"
    )
    scan = Scan.rename(schema, ("n", "hour", "x"), ("n", "h", "x"))
    assert list(map(str, scan.opening())) == ["<*, (,-1], *>", "<*, [24,), *>"]
    scan = Scan.rename(schema, ("sid",), ("sid",))
    assert list(map(str, scan.opening())) == ["<(,a)>", "<(a,b)>", "<(b,)>"]
    assert Project.rename(schema, ("hour",), ("h",)).opening() == []


def test_punctuate_says_that_no_other_sender_comes() -> None:
    order = AccessOrder("a", 0, "sid", ("S1", "S2"))
    found = Punctuate(Schema.parse("sid STRING, a INT"), order).opening()
    assert [str(p.patterns[0]) for p in found] == ["(,S1)", "(S1,S2)", "(S2,)"]
    declared = Schema.parse("sid STRING CHECK (sid IN ('S1', 'S2')), a INT")
    assert Punctuate(declared, order).opening() == [], "the scan has said so"
    assert Punctuate(declared, AccessOrder("a")).opening() == []


def test_an_opening_is_of_the_operators_own_schema() -> None:
    schema = Schema.parse("hour INT CHECK (hour BETWEEN 0 AND 23)")
    scan = Scan.rename(schema, ("hour",), ("h",))
    (low, high) = scan.opening()
    assert low == Punctuation.parse(scan.schema, "<(,-1]>")
    assert parse_pattern(INT, "[24,)") == high.patterns[0]
    assert match((24,), high)
