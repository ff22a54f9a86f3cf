"""join: inner and outer pairs, and the punctuations that each side justifies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle
from tests.operators.harness import FEWER, Tally, assert_sound_after, check_table, drive_twice
from tests.operators.joins import CASES, Case
from tests.oracle import relational
from xmlpunct.expressions.expression import Column
from xmlpunct.expressions.functions import call, literal
from xmlpunct.operators import Join
from xmlpunct.schema import Schema
from xmlpunct.types import INT


def make(case: Case, kind: str, combines: bool = False) -> Join:
    return Join(case.left.schema, case.right.schema, case.keys, kind, case.expression, combines)


def expected(case: Case, kind: str, combines: bool = False) -> oracle.Oracle:
    schemas = case.left.schema, case.right.schema
    return oracle.join(*schemas, case.keys, kind, case.conceivable, case.condition, combines)


@pytest.mark.parametrize("kind", relational.PRESERVED)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_the_oracle(case: Case, kind: str) -> None:
    tally, probes = Tally(), case.probes(kind)

    @FEWER
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        inputs, combines = data.draw(case.streams()), data.draw(st.booleans())
        judge = expected(case, kind, combines)
        tally.add(*drive_twice(data, lambda: make(case, kind, combines), judge, inputs, probes))

    check()
    if case.keys:
        tally.check(released=0.03 if case.residual else 0.3, promised=0.3, purged=0.3)
    else:  # the other side can only be closed as a whole
        tally.check(promised=0.3, purged=0.25)


@pytest.mark.parametrize("kind", relational.PRESERVED)
@pytest.mark.parametrize("case", CASES, ids=str)
@FEWER
@given(data=st.data())
def test_the_invariants_are_sound(case: Case, kind: str, data: st.DataObject) -> None:
    widths = len(case.left.schema), len(case.right.schema)
    operation = relational.join(kind, widths, case.key_positions, case.condition)
    assert_sound_after(data.draw(case.streams()), expected(case, kind, True), operation, case.spaces)


def table(kind: str, text: str) -> Join:
    operator = Join(Schema.parse("k INT, v INT"), Schema.parse("l INT, w INT"), [("k", "l")], kind)
    check_table(operator, text)
    return operator


def test_full_table() -> None:
    """Each side waits for the other; a null does not wait; ``*`` is emitted when both have ended."""
    operator = table("full", "1: 1 10; null 11 -> null 11 null null\n 2: 2 20; null 21 -> null null null 21")
    check_table(
        operator,
        """
        1: P(2, *)           -> null null 2 20; P(2, *, *, *)
        2: 1 22              -> 1 10 1 22
        2: P(*, *)           -> P(*, *, 2, *)
        1: 3 12              -> 3 12 null null
        1: P(*, *)           -> P(*, *, *, *)
        """,
    )
    assert (operator.state.rows, operator.state.held) == (0, 0)


def test_right_table() -> None:
    """Punctuations of the preserved right side are emitted, combined with the left side's, at once."""
    table(
        "right",
        """
        2: 1 20; 2 21        ->
        2: P([1,2], *)       ->
        1: P(1, *)           -> null null 1 20; P(1, *, *, *); P(*, *, 1, *)
        1: 2 10              -> 2 10 2 21
        1: P(2, *)           -> P(2, *, *, *); P(*, *, [1,2], *)
        """,
    )


def test_a_tuple_is_purged_once_its_interval_is_closed() -> None:
    """``w BETWEEN v AND v + 5``: a left v = 1 pairs with w up to 6, a right w = 20 with v from 15."""
    v, w = Column(INT, True, "v"), Column(INT, True, "w")
    condition = call("BETWEEN", w, v, call("+", v, literal(INT, 5)))
    left, right = Schema.parse("k INT, v INT"), Schema.parse("l INT, w INT")
    operator = Join(left, right, [("k", "l")], "left", condition)
    check_table(
        operator,
        """
        1: 7 1; 7 2; 8 2     ->
        2: 7 6               -> 7 1 7 6; 7 2 7 6
        2: P(*, (,6])        ->
        2: P(7, 7)           -> P(*, *, 7, 7)
        """,
    )
    assert operator.state.rows == 2
    check_table(operator, "2: P(8, 7) -> 8 2 null null; P(*, *, 8, 7)")
    check_table(operator, "1: 9 1; P(*, (,10]) -> 9 1 null null; P(*, (,10], *, *); P(*, *, *, (,6])")
    assert operator.state.rows == 0


def test_one_punctuation_closes_what_several_conditions_have_in_common() -> None:
    """``w >= v AND u <= v + 5``: v = 3 pairs with w from 3 and u up to 8; one punctuation closes both together."""
    v, w, u = (Column(INT, True, name) for name in ("v", "w", "u"))
    condition = call("AND", call(">=", w, v), call("<=", u, call("+", v, literal(INT, 5))))
    left, right = Schema.parse("k INT, v INT"), Schema.parse("l INT, w INT, u INT")
    operator = Join(left, right, [("k", "l")], "left", condition)
    check_table(
        operator,
        """
        1: 7 3; 7 2; 8 3        ->
        2: P(7, [3,), (,8])     -> 7 3 null null null; P(*, *, 7, [3,), (,8])
        1: 7 3; 7 4             -> 7 3 null null null
        2: P(*, [3,), (,9])     -> 8 3 null null null; 7 4 null null null; P(*, *, *, [3,), (,9])
        """,
    )
    assert operator.state.rows == 1
    restored = Join(left, right, [("k", "l")], "left", condition)
    restored.state.restore(operator.state.snapshot())
    check_table(restored, "1: 5 4; 5 5 -> 5 4 null null null")
    assert restored.state.rows == 2


@pytest.mark.parametrize("pairs", [[("k", "l"), ("k", "w")], [("k", "l"), ("v", "l")]])
def test_an_attribute_is_a_key_once(pairs: list[tuple[str, str]]) -> None:
    """Otherwise a punctuation on l = 5 would have to constrain k and w as well."""
    with pytest.raises(ValueError, match="one equality only"):
        Join(Schema.parse("k INT, v INT"), Schema.parse("l INT, w INT"), pairs)
