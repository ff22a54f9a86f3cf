"""limit: the first tuples, and then the end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.operators.harness import assert_proper, check_table, give, restart
from tests.strategies import SPACES, cuts, streams, tuples_of
from xmlpunct.operators import Limit
from xmlpunct.schema import Schema

N = Schema.parse("n INT")


def test_the_end_is_emitted_after_the_last_tuple() -> None:
    check_table(
        Limit(N, 3),
        """
        1; 2; P(1)      -> 1; 2; P(1)
        3; 4; P(2)      -> 3; P(*)
        5; P(3); P(*)   ->
        """,
    )


def test_fewer_tuples_than_the_limit() -> None:
    check_table(Limit(N, 3), "1; P(*) -> 1; P(*)")


def test_no_tuples_at_all() -> None:
    check_table(Limit(N, 0), "1; P(1) -> P(*)\n 2; P(*) ->")


@given(data=st.data())
def test_any_n_tuples_in_the_order_they_came(data: st.DataObject) -> None:
    """For any slices, and across restarts; no tuple violates a punctuation."""
    space = SPACES[0]
    stream, count = data.draw(streams(space, ends=True)), data.draw(st.integers(0, 4))
    operator, tuples, punctuations = Limit(space.schema, count), [], []
    for port, elements in data.draw(cuts([stream])):
        output = give(operator, port, elements)
        assert_proper(output.tuples.rows(), punctuations)
        tuples += output.tuples.rows()
        punctuations += output.punctuations
        operator = restart(lambda: Limit(space.schema, count), operator)
    assert tuples == tuples_of(stream)[:count]
    assert [p.is_everything for p in punctuations].count(True) == 1
    assert punctuations[-1].is_everything
