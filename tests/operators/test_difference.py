"""difference: left tuples that the right input has closed without a match. See also test_intersect.py."""

from __future__ import annotations

from random import Random

import pytest

from tests.operators.harness import check_table, give
from xmlpunct.operators import Pointwise
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema

X = Schema.parse("x INT")
DIGIT = Schema.parse("y INT NOT NULL CHECK (y BETWEEN 0 AND 3)")


def test_table() -> None:
    operator = Pointwise([X, X], "except")
    check_table(
        operator,
        """
        1: 1; 1; 2; null     ->
        2: 2; 4; P([0,2])    -> 1
        1: 1; 0; 4           -> 0
        1: P([0,3])          -> P([0,2]); P([0,3])
        2: P(*)              -> null
        1: P(*)              -> P(*)
        """,
    )
    assert (operator.state.rows, operator.state.held) == (0, 0)


def test_a_duplicate_after_a_purge_is_not_emitted_again() -> None:
    """The paper's Table 4 purges 5 once the right input has closed it; dupelim retains that it was emitted."""
    operator = Pointwise([X, X], "except")
    check_table(operator, "2: P(5) -> \n 1: 5 -> 5 \n 1: 5 -> \n 1: P(5) -> P(5)")
    assert operator.state.rows == 0


def test_only_left_punctuations_count_by_themselves() -> None:
    check_table(Pointwise([X, X], "except"), "2: P(5) ->\n 1: P([5,6]) -> P(5); P([5,6])")


def test_a_right_input_that_has_closed_its_domain_has_closed_null_and_what_is_outside() -> None:
    operator = Pointwise([X, DIGIT], "except")
    check_table(
        operator,
        """
        1: null; 1; 3; 7        ->
        2: 3; P([0,1])          -> 1
        2: P({2,3})             -> null; 7
        1: null; 2; 8           -> 2; 8
        """,
    )
    assert [len(operator.state.parts[f"retained{side}_0"]) for side in (0, 1)] == [0, 1]


def test_a_left_input_that_has_closed_its_domain_has_closed_all() -> None:
    operator = Pointwise([DIGIT, X], "except")
    check_table(operator, "2: null; 2; 7 -> \n 1: P([0,1]) -> P([0,1]) \n 1: P({2,3}) -> P([2,3]); P(*)")
    assert operator.state.rows == 0


@pytest.mark.parametrize("function", ["except", "intersect"])
@pytest.mark.parametrize("step", [1, 7])
def test_a_key_is_promised_once(function: str, step: int) -> None:
    """A punctuation justified by one input is not emitted again for the other: no consumer could purge it."""
    operator, above, keys = Pointwise([X, X], function), Pointwise([X, X], "union"), range(300)
    orders = [sorted(keys, key=lambda k: k + Random(k + 1000 * port).random() * 10) for port in (0, 1)]
    emitted = list[Punctuation]()
    elements = [[e for k in order for e in ((k,), Punctuation.of(X, x=k))] for order in orders]
    for first in range(0, 600, step):
        for port, stream in enumerate(elements):
            batch = stream[first : first + step]
            output = give(operator, port, batch)
            emitted += output.punctuations
            for number in (0, 1):
                give(above, number, [*output.tuples.rows(), *output.punctuations])
    assert sorted(map(str, emitted)) == sorted(str(Punctuation.of(X, x=k)) for k in keys)
    assert (operator.state.rows, operator.state.held) == (0, 0)
    assert (above.state.rows, above.state.held) == (0, 0)
