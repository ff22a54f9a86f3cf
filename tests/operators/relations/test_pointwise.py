"""pointwise: counts that are a function of the inputs' counts, emitted when they are closed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.harness import check_table
from tests.operators.relations.changes import (
    ELEMENTS,
    RESTARTS,
    TAU,
    Run,
    T,
    change_feeds,
    closed_up_to,
    count_at,
    moments,
    runs,
)  # fmt: skip
from tests.oracle import bag
from tests.strategies import Space, Stream, cuts
from xmlpunct.operators.sets.count_functions import required_inputs
from xmlpunct.operators.sets.pointwise import Pointwise
from xmlpunct.punctuations.punctuation import Tuple, match
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import changes
from xmlpunct.types import INT

X = changes(Schema.parse("x INT"), INT)

MEANING: dict[tuple[str, int], Callable[..., int]] = {
    ("changes", 1): lambda n: n,
    ("distinct", 1): lambda n: min(n, 1),
    ("union", 2): lambda n, m: min(n + m, 1),
    ("union", 3): lambda n, m, k: min(n + m + k, 1),
    ("except", 2): lambda n, m: int(n > 0 and m == 0),
    ("except all", 2): lambda n, m: max(n - m, 0),
    ("intersect", 2): lambda n, m: int(n > 0 and m > 0),
    ("intersect all", 2): min,
}


@pytest.mark.parametrize("elements", ELEMENTS, ids=str)
@pytest.mark.parametrize("name", MEANING, ids=str)
@given(data=st.data())
def test_against_the_function_of_counts(name: tuple[str, int], elements: Space, data: st.DataObject) -> None:
    function, ports = name
    schema = changes(elements.schema, INT)
    feeds = [data.draw(change_feeds(elements, 10 // ports)) for _ in range(ports)]

    def make() -> Pointwise:
        return Pointwise([schema] * ports, function, T)

    def result(e: Tuple, at: int) -> int:
        return MEANING[name](*(count_at(feed, e, at) for feed in feeds))

    for run in runs(make, data.draw(cuts(feeds)), data.draw(RESTARTS)):
        expected: list[Tuple] = []
        present, waiting = 0, 0
        for e in elements.tuples():
            bounds = [closed_up_to(e, ps) for ps in run.punctuations_in]
            closed = min(bounds)
            before = 0
            for at in moments(closed):
                count = result(e, at)
                expected += [(*e, at, count - before)] if count != before else []
                before = count
            limit = max(closed, *(b for b in single_input_bounds(function, e, closed, bounds, feeds)))
            for at in (T.lo, *TAU.domain, T.last):
                promised = run.promises((*e, at, 1))
                assert promised or at > closed, (e, at)
                assert not promised or at <= limit, (e, at)
            present += closed < T.last and any(count_at(feed, e, closed) for feed in feeds)
            open_changes = Counter[int]()
            for port, arrived in enumerate(run.tuples_in):
                for at in (T.lo, *TAU.domain):
                    net = count_at(arrived, e, at) - count_at(arrived, e, at - 1)
                    open_changes[at] += (net != 0) << port if at > closed else 0
            waiting += len(+open_changes)
        for side in required_inputs(function, ports):
            for p in run.punctuations_in[side]:
                about = [e for e in elements.tuples() if match((*e, T.lo, 1), p)]
                until = min([T.bound(p.patterns[-2]), *(empty_until(e, side, run, feeds) for e in about)])
                owed = [(*e, at, 1) for e in about for at in (T.lo, *TAU.domain, T.last) if at <= until]
                assert all(map(run.promises, owed)), f"no punctuation up to {until} for {p}"
        assert bag(run.tuples) == bag(expected)
        assert run.operator.state.rows == present + waiting
    assert len(run.operator.state) == 0


def single_input_bounds(
    function: str, e: Tuple, closed: int, bounds: list[int], feeds: list[Stream]
) -> list[int]:
    """Bounds up to which an input without the tuple, closed there, keeps the result constant."""
    limits = [closed]
    for side in required_inputs(function, len(feeds)):
        holds = [at for at in (closed, T.lo, *TAU.domain) if at >= closed and count_at(feeds[side], e, at)]
        limits.append(min(bounds[side], max(closed, holds[0] - 1)) if holds else bounds[side])
    return limits


def empty_until(e: Tuple, side: int, run: Run, feeds: list[Stream]) -> int:
    """The last instant up to which an input has no copy of a tuple.

    If it has one at the last instant that both inputs have closed, the last change up to there.
    """
    closed = min(closed_up_to(e, ps) for ps in run.punctuations_in)
    if closed == T.last:
        return T.last
    holds = [at for at in (closed, T.lo, *TAU.domain) if at >= closed and count_at(feeds[side], e, at)]
    if holds and holds[0] == closed:
        instants = [at for at in (T.lo, *TAU.domain) if at <= closed]
        return max(
            at for at in instants for feed in feeds if count_at(feed, e, at) != count_at(feed, e, at - 1)
        )
    return holds[0] - 1 if holds else T.last


def test_changes_are_canonical() -> None:
    operator = Pointwise([X], "changes", T)
    check_table(
        operator,
        """
        7 3 1; 7 3 1; 8 3 1; 8 3 -1; 7 1 1  ->
        P(*, (,2], *)                       -> 7 1 1; P(*, (,2], *)
        P(7, *, *)                          -> 7 3 2; P(7, *, *)
        P(*, *, *)                          -> P(*, *, *)
        """,
    )
    assert len(operator.state) == 0


def test_one_input_is_far_ahead() -> None:
    """Only the last prefix of the input that is ahead is retained."""
    operator = Pointwise([X, X], "union", T)
    for at in range(100):
        check_table(operator, f"1: P(*, (,{at}], *) ->")
    assert operator.state.held == 1
    check_table(operator, "2: P(*, (,50], *) -> P(*, (,50], *)")


def test_a_relation_of_tuples_without_attributes() -> None:
    operator = Pointwise([changes(Schema.of([]), INT)], "distinct", T)
    check_table(operator, "1 1; 2 1; 4 -2; P((,3], *) -> 1 1; P((,3], *)")
    check_table(operator, "P(*, *) -> 4 -1; P(*, *)")


def test_the_left_input_is_ahead() -> None:
    """Instants that the left input closes without the tuple are closed in the output at once."""
    check_table(
        Pointwise([X, X], "except", T),
        """
        1: 7 1 1; 7 9 -1; 8 5 1; P(*, (,3], *) -> P(*, (,0], *)
        1: P(8, (,6], *)                       -> P(8, (,4], *)
        1: P(9, *, *)                          -> P(9, *, *)
        2: P(8, (,7], *)                       -> 8 5 1; P(8, (,3], *); P(8, (,6], *)
        2: P(7, (,10], *)                      -> 7 1 1; P(7, (,3], *); P(*, (,1], *)
        1: P(7, (,9], *)                       -> 7 9 -1; P(7, (,9], *); P(*, (,3], *)
        """,
    )


def test_punctuations_of_one_input_do_not_depend_on_which_closes_first() -> None:
    """A retained tuple keeps only open instants from being closed."""
    tuples = "1: 7 4 1; 8 5 1 ->\n"
    first = (
        tuples
        + "1: P(*, (,6], *) -> P(*, (,3], *)\n2: P(7, (,9], *) -> P(7, (,6], *); P(7, (,9], *); P(*, (,4], *)"
    )
    last = tuples + "2: P(7, (,9], *) -> P(7, (,9], *)\n1: P(*, (,6], *) -> P(7, (,6], *); P(*, (,4], *)"
    for table in (first, last):
        check_table(Pointwise([X, X], "intersect", T), table)


def test_a_right_input_that_has_closed_its_domain_has_closed_all() -> None:
    """The left attribute can be null or 7; the right one cannot."""
    digit = changes(Schema.parse("y INT NOT NULL CHECK (y BETWEEN 0 AND 3)"), INT)
    operator = Pointwise([X, digit], "except", T)
    check_table(
        operator,
        """
        1: null 1 1; 7 1 1; P(*, (,3], *) -> P(*, (,0], *)
        2: P([0,1], (,5], *)              -> P([0,1], (,3], *)
        2: P({2,3}, (,2], *)              -> null 1 1; 7 1 1; P([2,3], (,2], *); P(*, (,2], *)
        """,
    )
