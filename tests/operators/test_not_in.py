"""not-in: SQL's NOT IN with nulls, which waits for the right side's end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle
from tests.operators.harness import Tally, assert_sound_after, check_table, drive_twice
from tests.operators.joins import BID, ITEM, Case
from tests.oracle import relational
from tests.strategies import SIGNED, SPECIAL, Space
from xmlpunct.operators import NotIn
from xmlpunct.schema import Schema

CASES = (
    Case(Space.of(k=SIGNED, v=SIGNED), Space.of(l=SIGNED, w=SIGNED), (("k", "l"),)),
    Case(Space.of(k=SIGNED, v=SIGNED), Space.of(w=SIGNED, l=(SIGNED, "NOT NULL")), (("k", "l"),)),
    Case(Space.of(k=(SIGNED, "NOT NULL")), Space.of(l=SIGNED), (("k", "l"),)),
    Case(Space.of(k=SPECIAL), Space.of(l=(SPECIAL, "NOT NULL")), (("k", "l"),)),
)
IDS = ["both nullable", "left nullable", "right nullable", "of DOUBLE"]


def make(case: Case) -> NotIn:
    return NotIn(case.left.schema, case.right.schema, *case.keys[0])


def expected(case: Case) -> oracle.Oracle:
    return oracle.not_in(case.left.schema, case.right.schema, *case.keys[0], case.conceivable)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_against_the_oracle(case: Case) -> None:
    tally = Tally()

    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        inputs, probes = data.draw(case.streams()), case.left.tuples()
        tally.add(*drive_twice(data, lambda: make(case), expected(case), inputs, probes))

    check()
    tally.check(promised=0.3, purged=0.3)


@pytest.mark.parametrize("case", CASES, ids=IDS)
@given(data=st.data())
def test_the_invariants_are_sound(case: Case, data: st.DataObject) -> None:
    assert_sound_after(
        data.draw(case.streams()), expected(case), relational.not_in(*case.key_positions[0]), case.spaces
    )


def test_nothing_before_the_right_side_has_ended() -> None:
    check_table(
        NotIn(ITEM, BID, "id", "item"),
        """
        1: 1 ann; 2 bob; null eve   ->
        1: P(1, *)                  ->
        2: 1 10; 5 10; P([1,2], *)  -> P(1, *)
        1: P(2, *)                  ->
        2: P(*, *)                  -> 2 bob; P(2, *)
        1: 3 cid; 5 dan; null fay   -> 3 cid
        1: P(*, *)                  -> P(*, *)
        """,
    )


def test_one_null_on_the_right_cancels_everything() -> None:
    check_table(
        NotIn(ITEM, BID, "id", "item"),
        """
        1: 1 ann; P(1, *)           ->
        2: null 10                  -> P(1, *)
        1: 2 bob; P(2, *)           -> P(2, *)
        2: P(*, *)                  ->
        1: 3 cid; P(*, *)           -> P(*, *)
        """,
    )


def test_a_null_on_the_left_passes_if_the_right_was_empty() -> None:
    check_table(
        NotIn(ITEM, BID, "id", "item"),
        """
        1: null eve; 1 ann; P(*, eve)  ->
        2: P(*, *)                     -> null eve; 1 ann; P(*, eve)
        1: null fay                    -> null fay
        """,
    )


def test_values_are_retained_until_the_left_side_has_closed_them() -> None:
    """Also after the right side's end. After a null no other value is retained."""
    operator = NotIn(ITEM, BID, "id", "item")
    check_table(
        operator, "2: 1 10; 2 10; 3 10; P(*, *) ->\n 1: 1 ann; 4 dan; P([1,2], *) -> 4 dan; P([1,2], *)"
    )
    assert operator.state.rows == 1
    check_table(operator, "1: P(*, *) -> P(*, *)")
    assert (operator.state.rows, operator.state.held) == (0, 0)
    operator = NotIn(ITEM, BID, "id", "item")
    check_table(operator, "2: 1 10; null 10; 2 10 ->")
    assert operator.state.rows == 1


def test_without_nulls_on_the_right_only_left_nulls_wait() -> None:
    """Other left tuples and punctuations are released as by NOT EXISTS, combinations included."""
    operator = NotIn(ITEM, Schema.parse("item INT NOT NULL, price INT"), "id", "item")
    check_table(
        operator,
        """
        1: 1 ann; 2 bob; null eve; P(1, *); P(*, eve)  ->
        2: P([1,5], *)                                 -> 1 ann; 2 bob; P(1, *); P([1,5], eve)
        1: 4 cid; 6 dan; P(6, *)                       -> 4 cid
        2: 6 10                                        -> P(*, eve); P(6, *)
        1: null fay; 8 gus                             ->
        2: P(8, *)                                     -> 8 gus
        """,
    )
    assert operator.state.rows == 0


def test_a_right_side_that_closes_all_its_values_stays_empty() -> None:
    """It closes them range by range; then left nulls pass before its end."""
    check_table(
        NotIn(ITEM, Schema.parse("item INT NOT NULL, price INT"), "id", "item"),
        """
        1: null eve; 9 ann    ->
        2: P((,5], *)         ->
        2: P([6,), *)         -> null eve; 9 ann
        1: null fay           -> null fay
        """,
    )
