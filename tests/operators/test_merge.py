"""merge: all tuples of all inputs, and punctuations once every input has emitted them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle
from tests.operators.harness import check_table, drive, drive_twice, give, notation, probes, promised
from tests.strategies import LETTER, SMALL, SPACES, Space, cuts, streams
from xmlpunct.operators import Merge
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema

NULLABLE, NOT_NULL = Space.of(a=SMALL, b=LETTER), Space.of(x=(SMALL, "[0,3]"), y=(LETTER, "NOT NULL"))

X = Schema.parse("x INT")


@pytest.mark.parametrize("inputs", [1, 2, 3])
@pytest.mark.parametrize("space", SPACES, ids=str)
@given(data=st.data())
def test_against_the_oracle(inputs: int, space: Space, data: st.DataObject) -> None:
    feeds = [data.draw(streams(space, most=24 // (inputs + 1))) for _ in range(inputs)]
    drive_twice(data, lambda: Merge([space.schema] * inputs), oracle.merge(), feeds, probes(space))


@given(data=st.data())
def test_inputs_that_differ_in_names_and_nulls(data: st.DataObject) -> None:
    """Names are the first input's; an output attribute may be null where any input's may.

    An input that has closed its domain has closed null.
    """
    feeds = [data.draw(streams(space)) for space in (NOT_NULL, NULLABLE)]
    drive(
        lambda: Merge([NOT_NULL.schema, NULLABLE.schema]),
        oracle.merge([NOT_NULL.tuples(), NULLABLE.tuples()]),
        data.draw(cuts(feeds)),
        probes(NULLABLE),
    )
    merged = Merge([NOT_NULL.schema, NULLABLE.schema]).schema
    assert merged.names == ("x", "y")
    assert [a.nullable for a in merged] == [True, True]
    assert str(merged["x"].domain) == "*"


def test_inputs_of_different_types_do_not_merge() -> None:
    with pytest.raises(ValueError, match="types"):
        Merge([X, Schema.parse("x DOUBLE")])
    with pytest.raises(ValueError, match="types"):
        Merge([X, Schema.parse("x INT, y INT")])


def test_combines_overlapping_punctuations_not_only_equal_ones() -> None:
    check_table(
        Merge([X, X]),
        """
        1: 1; P([5,15])      -> 1
        2: 1; 7; P([10,20])  -> 1; 7; P([10,15])
        2: P([0,6])          -> P([5,6])
        1: P(*)              -> P([10,20]); P([0,6])
        2: P(*)              -> P([5,15]); P(*)
        """,
    )


@pytest.mark.parametrize("patterns", [["[0,3]"], ["[0,1]", "{2,3}"]])
def test_an_input_that_has_closed_its_domain_has_closed_null(patterns: list[str]) -> None:
    digit = Schema.parse("y INT NOT NULL CHECK (y BETWEEN 0 AND 3)")
    operator = Merge([X, digit])
    promised(operator, 1, [Punctuation.of(digit, y=y) for y in patterns])
    assert promised(operator, 0, [Punctuation.everything(X)]).has_end


def test_three_inputs() -> None:
    check_table(
        Merge([X, X, X]),
        """
        1: P([0,9])     ->
        2: P([5,20])    ->
        3: P({1,7,12})  -> P(7)
        1: P([10,12])   -> P(12)
        """,
    )


def test_punctuations_that_can_combine_no_more_are_purged() -> None:
    operator = Merge([X, X])
    for item in range(50):
        give(operator, 0, notation(operator, 0, f"P({item})"))
        assert operator.state.held == 1
        give(operator, 1, notation(operator, 1, f"P({item})"))
        assert operator.state.held == 0
    for hour in range(50):
        give(operator, 0, notation(operator, 0, f"P((,{100 + 3 * hour}))"))
        give(operator, 1, notation(operator, 1, f"P((,{101 + 3 * hour}))"))
        assert operator.state.held <= 2


def test_no_punctuation_is_emitted_twice() -> None:
    operator = Merge([X, X])
    check_table(
        operator,
        """
        1: P(1); P(2); P([0,9])  ->
        2: P([0,5])              -> P(1); P(2); P([0,5])
        1: P([0,9]); P(1)        ->
        2: P([0,5])              ->
        """,
    )
