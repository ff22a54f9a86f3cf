"""union: each tuple of several inputs once, and punctuations once every input has emitted them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle
from tests.operators.harness import check_table, drive, drive_twice, probes
from tests.strategies import SPACES, Space, cuts, punctuations_of, slice_of, streams
from xmlpunct.base.codec import pack, unpack
from xmlpunct.operators import Merge, Operator, Pipeline, Pointwise
from xmlpunct.punctuations.punctuation import match
from xmlpunct.schema import Schema

X = Schema.parse("x INT")


@pytest.mark.parametrize("inputs", [2, 3])
@pytest.mark.parametrize("space", SPACES, ids=str)
@given(data=st.data())
def test_against_the_oracle(inputs: int, space: Space, data: st.DataObject) -> None:
    feeds = [data.draw(streams(space, most=24 // (inputs + 1))) for _ in range(inputs)]
    drive_twice(
        data, lambda: Pointwise([space.schema] * inputs, "union"), oracle.union(), feeds, probes(space)
    )


@given(data=st.data())
def test_is_merge_then_dupelim(data: st.DataObject) -> None:
    space = SPACES[0]
    feeds = [data.draw(streams(space)) for _ in range(2)]

    def pipeline() -> Pipeline:
        stages: list[Operator] = [Merge([space.schema] * 2), Pointwise([space.schema], "distinct")]
        return Pipeline(stages, [[(0, 0)], [(0, 1)]], [[(1, 0)], []])

    composed, union = pipeline(), Pointwise([space.schema] * 2, "union")
    single = Pipeline([union], [[(0, 0)], [(0, 1)]], [[]])
    for port, elements in data.draw(cuts(feeds)):
        outputs = [p.push(port, slice_of(space.schema, elements)) for p in (composed, single)]
        assert outputs[0].tuples.equals(outputs[1].tuples, null_equal=True)
        assert outputs[0].punctuations == outputs[1].punctuations
        if data.draw(st.booleans()):
            state, composed = composed.snapshot(), pipeline()
            composed.restore(unpack(pack(state)))
        assert composed.operators[1].state.rows == union.state.rows


def test_table() -> None:
    """Niagara's union waited for equal punctuations: [5,15] and [10,20] close [10,15] here."""
    operator = Pointwise([X, X], "union")
    check_table(
        operator,
        """
        1: 5; 12; 12         -> 12; 5
        2: 12; 16            -> 16
        1: P([5,15])         ->
        2: 5                 ->
        2: P([10,20])        -> P([10,15])
        """,
    )
    assert operator.state.rows == 2
    check_table(operator, "1: P(*) -> P([10,20])\n 2: 5 ->\n 2: P(*) -> P([5,15]); P(*)")
    assert (operator.state.rows, operator.state.held) == (0, 0)


def test_punctuations_received_one_by_one_are_released_though_they_fuse() -> None:
    """If only the fused [0,1] were retained, 0 would not be emitted while a retained tuple matches 1."""
    operator = Pointwise([X, X], "union")
    check_table(
        operator,
        """
        1: P(0)    ->
        1: P(1)    ->
        2: P(0)    -> P(0)
        2: 1       -> 1
        2: P(1)    -> P(1)
        """,
    )


@given(data=st.data())
def test_promises_do_not_depend_on_slices(data: st.DataObject) -> None:
    space = SPACES[2]
    feeds = [data.draw(streams(space)) for _ in range(2)]
    closed = []
    for _ in range(2):
        operator = Pointwise([space.schema] * 2, "union")
        outcome = drive(lambda: operator, oracle.union(), data.draw(cuts(feeds)), probes(space))  # noqa: B023
        closed.append({t for t in space.tuples() if any(match(t, p) for p in outcome.punctuations)})
    assert closed[0] == closed[1]
    assert punctuations_of(feeds[0]) or punctuations_of(feeds[1]) or not closed[0]
