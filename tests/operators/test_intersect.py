"""intersect: the tuples of both inputs, each once. Some tests run difference too."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle
from tests.operators.harness import Tally, assert_sound_after, check_table, drive_twice
from tests.oracle import Oracle, relational
from tests.oracle.values import Row
from tests.strategies import FLAG, SIGNED, SPECIAL, Space, streams
from xmlpunct.operators import Operator, Pointwise
from xmlpunct.schema import Schema

Make = Callable[[Sequence[Sequence[Row]]], Oracle]

SETS: tuple[tuple[str, Make, relational.Operation], ...] = (
    ("intersect", oracle.intersect, relational.intersect),
    ("except", oracle.difference, relational.difference),
)
PAIRS = (
    (Space.of(a=SIGNED, b=FLAG), Space.of(a=SIGNED, b=FLAG)),
    (Space.of(a=(SIGNED, "NOT NULL"), b=FLAG), Space.of(x=SIGNED, y=(FLAG, "NOT NULL"))),
    (Space.of(a=(SIGNED, "[-1,2]")), Space.of(a=(SIGNED, "[-1,2]"))),
    (Space.of(a=SPECIAL), Space.of(a=SPECIAL)),
    (Space.of(a=SPECIAL, b=FLAG), Space.of(a=(SPECIAL, "NOT NULL"), b=FLAG)),
)


@pytest.mark.parametrize("spaces", PAIRS, ids=str)
@pytest.mark.parametrize(("function", "expected", "_"), SETS, ids=["intersect", "difference"])
def test_against_the_oracle(
    function: str,
    expected: Make,
    _: object,
    spaces: tuple[Space, Space],
) -> None:
    tally, rows = Tally(), [space.tuples() for space in spaces]
    conceivable = [] if spaces[0] == spaces[1] else rows

    def make() -> Operator:
        return Pointwise([spaces[0].schema, spaces[1].schema], function)

    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        inputs = [data.draw(streams(s, closing=s.schema.names[:1])) for s in spaces]
        probes = list(dict.fromkeys([*rows[0], *rows[1]]))
        tally.add(*drive_twice(data, make, expected(conceivable), inputs, probes))

    check()
    tally.check(released=0.15, promised=0.3, purged=0.5)


@pytest.mark.parametrize("spaces", PAIRS, ids=str)
@pytest.mark.parametrize(("_", "expected", "operation"), SETS, ids=["intersect", "difference"])
@given(data=st.data())
def test_the_invariants_are_sound(
    _: object,
    expected: Make,
    operation: relational.Operation,
    spaces: tuple[Space, Space],
    data: st.DataObject,
) -> None:
    inputs = [data.draw(streams(s, closing=s.schema.names[:1])) for s in spaces]
    assert_sound_after(inputs, expected([s.tuples() for s in spaces]), operation, spaces)


X = Schema.parse("x INT")


def test_table() -> None:
    """Nulls are equal. A result is emitted once, and purged once it is closed."""
    operator = Pointwise([X, X], "intersect")
    check_table(
        operator,
        """
        1: 1; 1; 2; null     ->
        2: 1; null           -> 1; null
        2: 1; null; 3        ->
        2: P(2)              -> P(2)
        1: P([0,9])          -> P([0,9])
        2: P([1,9])          -> P([1,9])
        1: P(*)              -> P(*)
        2: P(*)              -> P(*)
        """,
    )


def test_a_result_is_retained_once_and_blocks_nothing() -> None:
    operator = Pointwise([X, X], "intersect")
    check_table(operator, "1: 1; 2 ->\n 1: P([0,9]) ->\n 2: 1; 1 -> 1")
    assert operator.state.rows == 2, "1 as output, and the left 2"
    check_table(operator, "2: 2; 2 -> 2; P([0,9])\n 2: 1; 2 ->")
    assert operator.state.rows == 0


def test_a_side_without_a_match_need_not_wait_for_the_other() -> None:
    check_table(
        Pointwise([X, X], "intersect"), "1: P(5) -> P(5)\n 2: 5; 6 -> \n 2: P(6) ->\n 1: P(6) -> P(6)"
    )


def test_an_input_that_has_closed_its_domain_has_closed_null_and_what_is_outside() -> None:
    digit = Schema.parse("y INT NOT NULL CHECK (y BETWEEN 0 AND 3)")
    operator = Pointwise([X, digit], "intersect")
    check_table(
        operator,
        """
        1: null; 2; 7      ->
        2: P([0,1])        -> P([0,1])
        2: P({2,3})        -> P([2,3]); P(*)
        """,
    )
    assert operator.state.rows == 0
