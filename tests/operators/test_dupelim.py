"""dupelim: each tuple once, all punctuations."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle
from tests.operators.harness import assert_once, check_table, drive_twice, probes
from tests.strategies import SPACES, Space, punctuations_of, streams
from xmlpunct.operators import Pointwise
from xmlpunct.schema import Schema


@pytest.mark.parametrize("space", SPACES, ids=str)
@given(data=st.data())
def test_against_the_oracle(space: Space, data: st.DataObject) -> None:
    stream = data.draw(streams(space))
    for outcome in drive_twice(
        data, lambda: Pointwise([space.schema], "distinct"), oracle.dupelim(), [stream], probes(space)
    ):
        assert_once(outcome.punctuations, punctuations_of(stream))


def test_the_paper_s_example() -> None:
    """Section 4.2. The punctuation purges the tuples that it closes: the state after it is [5]."""
    operator = Pointwise([Schema.parse("x INT")], "distinct")
    check_table(operator, "1; 5 -> 1; 5\n 3 -> 3")
    assert operator.state.rows == 3
    check_table(operator, "P([0,4]) -> P([0,4])")
    assert operator.state.rows == 1
    check_table(operator, "5; 6; 7 -> 6; 7")
    assert operator.state.rows == 3
    check_table(operator, "P(*) -> P(*)")
    assert operator.state.rows == 0


def test_nulls_nans_and_zeros_are_equal_to_themselves() -> None:
    schema = Schema.parse("x DOUBLE, s STRING")
    operator = Pointwise([schema], "distinct")
    rows = [(None, None), (math.nan, "a"), (0.0, ""), (-0.0, ""), (math.nan, None)]
    assert operator.step(0, schema.frame(rows * 2)).height == 4
    assert operator.step(0, schema.frame([(-math.nan, "a"), *rows])).height == 0
    assert operator.step(0, schema.frame([(None, "")])).height == 1


def test_a_punctuation_with_a_pattern_other_than_star_does_not_purge_nulls() -> None:
    operator = Pointwise([Schema.parse("x INT")], "distinct")
    check_table(
        operator,
        """
        null; 1   -> 1; null
        P((,))    -> P((,))
        null      ->
        P(*)      -> P(*)
        """,
    )
    assert operator.state.rows == 0
