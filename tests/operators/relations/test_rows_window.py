"""rows: the last elements of each partition, in whole instants."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.harness import check_table
from tests.operators.relations.changes import KEY, RESTARTS, TAU, runs
from tests.oracle.values import same
from tests.strategies import REAL, SMALL, Space, Stream, cuts, streams
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.relations.rows_window import RowsWindow
from xmlpunct.punctuations.punctuation import Punctuation, Tuple, match
from xmlpunct.schema import Schema
from xmlpunct.types import INT

SPACES = {
    "k": Space.of(k=KEY, v=(SMALL, "[0,1]"), ts=(TAU, "NOT NULL")),
    "real": Space.of(k=REAL, ts=(TAU, "NOT NULL")),
    "none": Space.of(v=(SMALL, "[0,1]"), ts=(TAU, "[0,3]")),
}


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("bounds", [(None, None), (0, 2)], ids=str)
@given(data=st.data())
def test_against_its_meaning(
    name: str, count: int, bounds: tuple[int | None, int | None], data: st.DataObject
) -> None:
    space, instants = SPACES[name], Instants(INT, *bounds)
    by = [] if name == "none" else ["k"]
    feed: Stream = data.draw(streams(space, 20, ends=True, closing=[*by, "ts"]))

    def make() -> RowsWindow:
        return RowsWindow(space.schema, "ts", instants, count, by)

    def window(elements: list[Tuple], tau: int) -> list[Tuple]:
        return [
            t[:-1] for t in elements if t[-1] <= tau and sum(t[-1] <= u[-1] <= tau for u in elements) <= count
        ]

    for run in runs(make, data.draw(cuts([feed])), data.draw(RESTARTS)):
        expected: dict[object, int] = {}
        retained = 0
        arrived = [t for t in run.tuples_in[0] if instants.first <= t[-1] <= instants.last]
        for k in {same(t[0]): t[0] for t in space.tuples()}.values() if by else [None]:
            in_k = [t for t in arrived if not by or same(t[0]) == same(k)]
            conceivable = [t[:-1] for t in space.tuples() if t[-1] == 0 and (not by or same(t[0]) == same(k))]
            closed = closed_of(space, conceivable, run.punctuations_in[0], instants)
            content: list[Tuple] = []
            for at in (at for at in TAU.domain if instants.first <= at <= closed):
                old_content, content = content, window(in_k, at)
                for sign, elements in ((-1, old_content), (1, content)):
                    for e in elements:
                        change = (_same(e), at)
                        expected[change] = expected.get(change, 0) + sign
            for e in conceivable:
                for at in (at for at in TAU.domain if at <= instants.last):
                    assert run.promises((*e, at, 1)) == (at <= closed), (e, at)
            retained += sum(t[-1] > closed for t in in_k)
            retained += (len(content) + bool(content)) * (closed < instants.last)
        changes: dict[object, int] = {}
        for *e, at, diff in run.tuples:
            changes[_same(e), at] = changes.get((_same(e), at), 0) + diff
        assert _nonzero(changes) == _nonzero(expected)
        assert run.rejected == len(run.tuples_in[0]) - len(arrived)
        assert run.operator.state.rows == retained
    assert len(run.operator.state) == 0


def _same(e: Sequence[object]) -> tuple[Hashable, ...]:
    return tuple(map(same, e))


def _nonzero(counts: dict[object, int]) -> dict[object, int]:
    return {change: n for change, n in counts.items() if n}


def closed_of(space: Space, es: list[Tuple], punctuations: list[Punctuation], instants: Instants) -> int:
    """C(k): the last instant up to which punctuations close all possible elements of a partition."""
    closed = instants.first - 1
    for at in (instants.first, *TAU.domain):
        if instants.first <= at <= instants.last:
            can_come = space.schema["ts"].domain.matches(at)
            if can_come and not all(any(match((*e, at), p) for p in punctuations) for e in es):
                return closed
            closed = at
    return instants.last


PACKET = Schema.parse("src INT, len INT, ts INT NOT NULL")


def test_whole_instants_come_and_go() -> None:
    operator = RowsWindow(PACKET, "ts", Instants(INT), 2, ["src"])
    check_table(
        operator,
        """
        7 1 1; 7 2 2; 7 3 2; 7 4 2; 7 5 3; 8 1 9 ->
        P(7, *, (,2]) -> 7 1 1 1; 7 1 2 -1; P(7, *, (,2], *)
        P(*, *, (,5]) -> 7 5 3 1; P(*, *, (,5], *)
        P(*, *, *) -> 8 1 9 1; P(*, *, *, *)
        """,
    )


def test_a_punctuation_on_another_attribute_closes_nothing() -> None:
    """An element that it matches may still be deleted later."""
    operator = RowsWindow(PACKET, "ts", Instants(INT), 1, [])
    check_table(
        operator,
        """
        7 1 1; P(*, *, (,1]) -> 7 1 1 1; P(*, *, (,1], *)
        P(7, *, *)           ->
        8 1 2; P(*, *, *)    -> 7 1 2 -1; 8 1 2 1; P(*, *, *, *)
        """,
    )


def test_a_slice_looks_up_only_the_elements_that_leave() -> None:
    operator = RowsWindow(PACKET, "ts", Instants(INT), 10_000, [])
    rows = [(7, n, n) for n in range(10_001)]
    operator.step(0, PACKET.frame(rows))
    check_table(
        operator,
        "P(*, *, (,9999]) -> " + "; ".join(f"7 {n} {n} 1" for n in range(10_000)) + "; P(*, *, (,9999], *)",
    )
    check_table(operator, "P(*, *, (,10000]) -> 7 0 10000 -1; 7 10000 10000 1; P(*, *, (,10000], *)")
