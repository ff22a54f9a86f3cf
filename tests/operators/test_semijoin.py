"""semijoin: left tuples with a partner (semi) or without one (anti), each decided once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle
from tests.operators.harness import FEWER, Tally, assert_sound_after, check_table, drive_twice
from tests.operators.joins import BID, CASES, ITEM, Case
from tests.oracle import relational
from xmlpunct.operators import Join


def make(case: Case, anti: bool) -> Join:
    kind = "anti" if anti else "semi"
    return Join(case.left.schema, case.right.schema, case.keys, kind, case.expression)


def expected(case: Case, anti: bool) -> oracle.Oracle:
    schemas = case.left.schema, case.right.schema
    return oracle.semijoin(*schemas, case.keys, anti, case.conceivable, case.condition)


@pytest.mark.parametrize("anti", [False, True], ids=["semi", "anti"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_the_oracle(case: Case, anti: bool) -> None:
    tally = Tally()

    @FEWER
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        inputs, probes = data.draw(case.streams()), case.left.tuples()
        tally.add(*drive_twice(data, lambda: make(case, anti), expected(case, anti), inputs, probes))

    check()
    if case.keys:
        tally.check(released=0.03 if case.residual else 0.2, promised=0.3, purged=0.5)
    else:  # the other side can only be closed as a whole
        tally.check(promised=0.3, purged=0.25)


@pytest.mark.parametrize("anti", [False, True], ids=["semi", "anti"])
@pytest.mark.parametrize("case", CASES, ids=str)
@FEWER
@given(data=st.data())
def test_the_invariants_are_sound(case: Case, anti: bool, data: st.DataObject) -> None:
    operation = relational.semijoin(anti, case.key_positions, case.condition)
    assert_sound_after(data.draw(case.streams()), expected(case, anti), operation, case.spaces)


def test_semi_table() -> None:
    """Items with a bid. Item 1 is released at its first bid; item 2 is purged once its bids are closed."""
    operator = Join(ITEM, BID, [("id", "item")], "semi")
    check_table(
        operator,
        """
        1: 1 ann; 2 bob       ->
        2: 1 10; 1 12         -> 1 ann
        1: P([1,2], *)        ->
        2: P(2, *)            -> P([1,2], *); P(2, *)
        2: 1 13; 3 5          ->
        1: 3 cid; P(3, *)     -> 3 cid; P(3, *)
        2: P(*, 99)           ->
        2: P(*, *)            -> P(*, *)
        """,
    )
    assert operator.state.rows == 0


def test_anti_table() -> None:
    """Items without a bid, released once their bids are closed. Right punctuations are not propagated."""
    operator = Join(ITEM, BID, [("id", "item")], "anti")
    check_table(
        operator,
        """
        1: 1 ann; 2 bob; null eve  -> null eve
        2: 1 10                    ->
        2: P({1,2}, *)             -> 2 bob
        1: P({1,2}, *)             -> P([1,2], *)
        1: 3 cid; P(3, *)          ->
        2: P(3, [0,99])            ->
        2: P(*, *)                 -> 3 cid; P(3, *)
        1: P(*, *)                 -> P(*, *)
        """,
    )
    assert (operator.state.rows, operator.state.held) == (0, 0)
