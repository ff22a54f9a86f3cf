"""ISTREAM, DSTREAM, RSTREAM: the elements of a relation, once they are closed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.harness import check_table
from tests.operators.relations.changes import (
    ELEMENTS,
    RESTARTS,
    TAU,
    T,
    change_feeds,
    closed_up_to,
    count_at,
    runs,
)
from tests.oracle import bag
from tests.strategies import Space, Stream, cuts
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.relations.to_stream import ToStream
from xmlpunct.punctuations.punctuation import Tuple
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import changes
from xmlpunct.types import INT

X = changes(Schema.parse("x INT"), INT)
BELOW, BOUNDED = Instants(INT, -4), Instants(INT, -4, 5)
every_element = pytest.mark.parametrize("elements", ELEMENTS, ids=str)
EVERY = st.none() | st.integers(1, 4)
ORIGIN = st.integers(-3, 3)


def probes(t: Instants) -> list[int]:
    """Instants at which a punctuation may be emitted."""
    return sorted({t.first, *TAU.domain, t.last})


@every_element
@pytest.mark.parametrize("t", [T, BELOW, BOUNDED], ids=["", "declared below", "bounded"])
@pytest.mark.parametrize("kind", ["istream", "dstream"])
@given(data=st.data())
def test_istream_and_dstream(kind: str, t: Instants, elements: Space, data: st.DataObject) -> None:
    feed = data.draw(change_feeds(elements, 10, t))
    make = lambda: ToStream(changes(elements.schema, INT), kind, "ts", t)  # noqa: E731
    for run in runs(make, data.draw(cuts([feed])), data.draw(RESTARTS)):
        expected: list[Tuple] = []
        for e in elements.tuples():
            closed = closed_up_to(e, run.punctuations_in[0], t)
            for at in [at for at in probes(t) if t.first <= at <= closed]:
                net = count_at(feed, e, at) - count_at(feed, e, at - 1)
                expected += [(*e, at)] * (net if kind == "istream" else -net)
            assert all(run.promises((*e, at)) == (at <= closed) for at in probes(t))
        assert bag(run.tuples) == bag(expected)
    assert len(run.operator.state) == 0


@every_element
@pytest.mark.parametrize("t", [T, BELOW, BOUNDED], ids=["", "declared below", "bounded"])
@given(data=st.data(), every=EVERY, origin=ORIGIN)
def test_rstream(t: Instants, elements: Space, data: st.DataObject, every: int | None, origin: int) -> None:
    feed = data.draw(change_feeds(elements, 10, t, lasting=t is BOUNDED))
    make = lambda: ToStream(changes(elements.schema, INT), "rstream", "ts", t, every, origin)  # noqa: E731
    for run in runs(make, data.draw(cuts([feed])), data.draw(RESTARTS)):
        expected: list[Tuple] = []
        for e in elements.tuples():
            closed = closed_up_to(e, run.punctuations_in[0], t)
            expected += elements_of(feed, e, range(max(t.first, -4), min(closed, 5) + 1), every, origin)
            assert all(run.promises((*e, at)) == (at <= closed) for at in probes(t))
        assert bag(run.tuples) == bag(expected)
    assert len(run.operator.state) == 0


def elements_of(feed: Stream, e: Tuple, instants: range, every: int | None, origin: int) -> list[Tuple]:
    """RSTREAM's elements of a tuple, at the instants that ``every`` selects."""
    selected = [at for at in instants if every is None or (at - origin) % every == 0]
    return [(*e, at) for at in selected for _ in range(count_at(feed, e, at))]


@every_element
@pytest.mark.parametrize("t", [T, BELOW], ids=["", "declared below"])
@given(data=st.data(), every=EVERY, origin=ORIGIN)
def test_rstream_between_the_first_and_the_last_change(
    t: Instants, elements: Space, data: st.DataObject, every: int | None, origin: int
) -> None:
    feed = data.draw(change_feeds(elements, 10, t))
    schema = changes(elements.schema, INT)
    make = lambda: ToStream(schema, "rstream", "ts", t, every, origin, transient=False)  # noqa: E731
    ts = elements.tuples()
    changed = [
        at
        for at in range(max(t.first, -4), 6)
        if any(count_at(feed, e, at) != count_at(feed, e, at - 1) for e in ts)
    ]
    bound = t.lo - 1
    for run in runs(make, data.draw(cuts([feed])), data.draw(RESTARTS)):
        closed = min(closed_up_to(e, run.punctuations_in[0], t) for e in ts)
        past = [at for at in changed if at <= closed]
        selected = range(past[0], past[-1] + 1) if past else range(0)
        assert bag(run.tuples) == bag([p for e in ts for p in elements_of(feed, e, selected, every, origin)])
        if closed == t.last or not past:
            bound = max(bound, closed)
        else:
            bound = max(bound, past[-1])
        assert all(run.promises((*e, at)) == (at <= bound) for e in ts for at in probes(t))
    assert len(run.operator.state) == 0


def test_copies_are_repeated_until_the_next_change() -> None:
    operator = ToStream(X, "rstream", "ts", T, transient=False)
    check_table(
        operator,
        f"""
        9 {T.lo} 1; P(*, (,0], *)  -> P(*, (,0])
        7 2 2; 7 5 -1              ->
        P(*, (,3], *)              -> 9 2; 7 2; 7 2; P(*, (,2])
        P(7, (,9], *)              ->
        P(*, (,9], *)              -> 9 3; 9 4; 9 5; 7 3; 7 3; 7 4; 7 4; 7 5; P(*, (,5])
        P(*, *, *)                 -> P(*, *)
        """,
    )


def test_with_every_an_element_waits_for_its_selected_instant() -> None:
    """A tuple is looked up when its next selected instant is closed, not earlier."""
    operator = ToStream(X, "rstream", "ts", T, every=60)
    check_table(operator, "7 1 1; 7 90 -1; P(*, (,50], *) -> P(*, (,50])")
    assert operator.state.rows == 2
    check_table(operator, "P(*, (,59], *) -> P(*, (,59])")
    check_table(operator, "P(*, (,61], *) -> 7 60; P(*, (,61])")
    check_table(operator, "P(*, (,500], *) -> P(*, (,500])")
    assert len(operator.state) == 0
