"""select: the tuples that satisfy a predicate, and all punctuations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle
from tests.operators.harness import check_table, drive, drive_twice, probes
from tests.oracle.scalar import EvaluationError, evaluate_row
from tests.strategies import FLAG, SMALL, Space, cuts, streams, tuples_of
from xmlpunct.expressions.expression import Column, Expression, Literal
from xmlpunct.expressions.functions import call
from xmlpunct.operators import Select
from xmlpunct.punctuations.punctuation import Tuple
from xmlpunct.schema import Schema
from xmlpunct.types import BOOLEAN, INT

SPACE = Space.of(f=FLAG, a=SMALL)


@given(data=st.data())
def test_against_the_oracle(data: st.DataObject) -> None:
    stream = data.draw(streams(SPACE))
    outcomes = drive_twice(
        data,
        lambda: Select(SPACE.schema, Column(BOOLEAN, True, "f")),
        oracle.select(lambda t: t[0]),
        [stream],
        probes(SPACE),
    )
    assert (
        outcomes[0].punctuations
        == outcomes[1].punctuations
        == [p for p in stream if not isinstance(p, tuple)]
    )


def test_table() -> None:
    check_table(
        Select(Schema.parse("f BOOLEAN, a INT"), Column(BOOLEAN, True, "f")),
        """
        true 1; false 2; null 3   -> true 1
        true 1; P(*, [0,5])       -> true 1; P(*, [0,5])
        P(false, *)               -> P(false, *)
                                  ->
        P(*, *)                   -> P(*, *)
        """,
    )


@pytest.mark.parametrize(("value", "count"), [(True, 2), (False, 0), (None, 0)])
def test_a_constant_predicate(value: bool | None, count: int) -> None:
    operator = Select(SPACE.schema, Literal(BOOLEAN, value is None, value))
    assert operator.step(0, SPACE.schema.frame([(True, 1), (None, None)])).height == count


NUMBERS = Space.of(a=SMALL, b=SMALL)
A, B, ZERO = Column(INT, True, "a"), Column(INT, True, "b"), Literal(INT, False, 0)
PREDICATES = (
    call("=", A, B),
    call("OR", call(">", A, ZERO), call("IS NULL", B)),
    call("NOT", call("<", A, B)),
    call(">", call("/", A, B), ZERO),  # fails where b is 0
    call("AND", call("<>", B, ZERO), call(">", call("%", A, B), ZERO)),
)


@pytest.mark.parametrize("predicate", PREDICATES, ids=str)
@given(data=st.data())
def test_predicates_against_the_oracle(predicate: Expression, data: st.DataObject) -> None:
    """A tuple on which the predicate fails is rejected; what it promised holds all the same."""
    stream = data.draw(streams(NUMBERS))
    failed = []

    def holds(t: Tuple) -> object:
        try:
            return evaluate_row(predicate, dict(zip("ab", t, strict=True)))
        except EvaluationError as error:
            failed.append((t, error.reason))
            return None

    outcome = drive(
        lambda: Select(NUMBERS.schema, predicate),
        oracle.select(holds),
        data.draw(cuts([stream])),
        probes(NUMBERS),
    )
    failed.clear()
    for t in tuples_of(stream):
        holds(t)
    assert outcome.rejected == len(failed)
