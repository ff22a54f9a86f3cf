"""window: each element of a stream is inserted, and deleted when it is too old."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.harness import check_table
from tests.operators.relations.changes import RESTARTS, TAU, runs
from tests.strategies import BOTTOM, DISCRETE, FLAG, TOP, Pool, Space, cuts, streams
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.relations.window import Window
from xmlpunct.punctuations.punctuation import Punctuation, Tuple, match
from xmlpunct.schema import Schema
from xmlpunct.types import DATE, INT, TIMESTAMP

PACKET = Schema.parse("src INT, ts INT NOT NULL")
POOLS = {str(pool): pool for pool in DISCRETE}
K = Pool("key", INT, (1, 2), (0, 1, 2, 3))


def space(ts: Pool, rule: str = "NOT NULL") -> Space:
    """Elements with a nullable and a bounded attribute, and a timestamp between them."""
    return Space.of(k=K, ts=(ts, rule), l=(FLAG, "NOT NULL"))


CASES = {
    "T is the type": (space(TAU), Instants(INT)),
    "bounds that not all inputs declare": (space(TAU, "[-1,2]"), Instants(INT)),
    "a list": (space(TAU, "{-1,0,2}"), Instants(INT)),
    "declared below": (space(TAU, "[-2,)"), Instants(INT, -2)),
    "declared above": (space(TAU, "(,3]"), Instants(INT, None, 3)),
    "declared": (space(TAU, "[-2,3]"), Instants(INT, -2, 3)),
    "at its highest": (space(POOLS["int at its highest"]), Instants(INT)),
    "at its lowest": (space(POOLS["int at its lowest"]), Instants(INT)),
    "declared at its lowest": (space(POOLS["int at its lowest"]), Instants(INT, BOTTOM)),
    "days": (space(POOLS["date"]), Instants(DATE)),
    "the last days": (space(POOLS["date at its highest"]), Instants(DATE)),
    "moments": (space(POOLS["timestamp"]), Instants(TIMESTAMP)),
}
LENGTHS = st.integers(0, 4) | st.sampled_from([None, TOP, 2**64])
SLIDES = st.none() | st.integers(1, 5) | st.sampled_from([TOP])
ORIGINS = st.integers(-3, 3) | st.sampled_from([BOTTOM, TOP])


def window_end(at: int, slide: int | None, origin: int) -> int:
    """d(at): the end of the window at an instant."""
    return at if slide is None else origin + (at - origin) // slide * slide


def closed_up_to(e: Tuple, position: int, case: Space, instants: Instants, ps: list[Punctuation]) -> int:
    """C(e), the closed prefix: the last instant up to which all possible instants of e are closed."""
    type_, last = case.schema.attributes[position].type, instants.first - 1
    for value in case.pools[position].domain:
        at = type_.ordinal(value)
        never = not case.schema.attributes[position].domain.matches(value) or at < instants.first
        t = (*e[:position], value, *e[position:])
        if not never and not any(match(t, p) for p in ps):
            return last if value == case.pools[position].domain[0] else max(last, at - 1)
        last = max(last, at)
    return instants.last


@pytest.mark.parametrize("name", CASES)
@given(data=st.data(), length=LENGTHS, slide=SLIDES, origin=ORIGINS)
def test_against_the_definition(
    name: str, data: st.DataObject, length: int | None, slide: int | None, origin: int
) -> None:
    case, instants = CASES[name]
    type_, position = instants.type, 1

    def make() -> Window:
        return Window(case.schema, "ts", instants, length, slide, origin)

    feed = data.draw(streams(case, ends=True, closing=["ts"]))
    moments = [type_.ordinal(v) for v in case.pools[position].domain]
    candidates = sorted({m + i for m in moments for i in range(-6, 7)} | {instants.lo, instants.last})
    probes = [m for m in candidates if instants.lo <= m <= instants.last]
    elements = [(k, flag) for k in case.values(0) for flag in case.values(2)]
    for run in runs(make, data.draw(cuts([feed])), data.draw(RESTARTS)):
        arrived = [(t[0], t[2], type_.ordinal(t[1])) for t in run.tuples_in[0]]
        valid = [(k, flag, t) for k, flag, t in arrived if instants.first <= t]
        assert run.rejected == len(arrived) - len(valid)
        changed = [(k, flag, type_.ordinal(at), diff) for k, flag, at, diff in run.tuples]
        assert all(instants.first <= at <= instants.last for *_, at, _ in changed)
        assert all(diff in (1, -1) for *_, diff in changed)
        assert len(changed) <= 2 * len(valid)
        for at in probes:
            d = window_end(at, slide, origin)
            expected = Counter(
                (k, flag) for k, flag, t in valid if t <= d and (length is None or t >= d - length)
            )
            got = Counter[Tuple]()
            for k, flag, t, diff in changed:
                got[k, flag] += diff if t <= at else 0
            assert +got == expected, at
            assert all(n >= 0 for n in got.values())
        for e in elements:
            closed = closed_up_to(e, position, case, instants, run.punctuations_in[0])
            # changes at d or before come from elements up to d
            for at in probes:
                promised = run.promises((*e, type_.at(at), 1))
                last = window_end(at, slide, origin)
                assert promised == (closed >= instants.last or last <= closed), (e, at, closed)
    assert len(run.operator.state) == 0


def test_a_gap_before_an_island_of_closed_instants() -> None:
    check_table(
        Window(PACKET, "ts", Instants(INT), 2),
        """
        P(*, [0,5])         ->
        P(*, (,-1])         -> P(*, (,5], *)
        P(*, {7,8})         ->
        P(1, 6)             -> P(1, (,8], *)
        P(*, [10,))         ->
        P(*, [0,6])         -> P(*, (,8], *)
        P(*, 9)             -> P(*, *, *)
        """,
    )


def test_only_new_punctuations_are_emitted() -> None:
    operator = Window(PACKET, "ts", Instants(INT), 0, 60)
    assert [str(p) for p in operator.opening()] == [f"<*, (,{-(2**63) + 7}], *>"]
    check_table(operator, "7 59; 8 60; P(*, (,58])  -> 8 60 1; 8 120 -1; P(*, (,59], *)")
    check_table(operator, "P(*, (,59]) ->")
    check_table(operator, "P(*, (,60]) -> P(*, (,119], *)")


def test_an_element_at_the_least_instant_is_rejected() -> None:
    operator = Window(PACKET, "ts", Instants(INT), 0)
    check_table(operator, f"1 {BOTTOM}; 2 5 -> 2 5 1; 2 6 -1")
    (reject,) = operator.rejects
    assert reject.reason == f"ts is no instant from {BOTTOM + 1} to {TOP}"


def test_punctuations_of_keys_are_purged_once_all_keys_are_closed_as_far() -> None:
    operator = Window(PACKET, "ts", Instants(INT), 5)
    for ts in range(100):
        received = [f"({k}, (,{ts}])" for k in range(20)]
        emitted = [f"({k}, (,{ts}], *)" for k in range(20)]
        check_table(operator, f"P{'; P'.join(received)} -> P{'; P'.join(emitted)}")
    assert len(operator.state) == 20
    check_table(operator, "P(*, (,98]) -> P(*, (,98], *)")
    assert len(operator.state) == 21
    check_table(operator, "P(*, (,99]) -> P(*, (,99], *)")
    assert len(operator.state) == 1


def test_on_several_shards_owned_punctuations_are_emitted_though_implied() -> None:
    """Other shards may not emit the implying punctuation, and only this one closes its own tuples."""
    operator = Window(PACKET, "ts", Instants(INT), 5)
    operator.emit_implied([("src",)])
    check_table(
        operator,
        """
        P(*, (,5])              -> P(*, (,5], *)
        P(7, (,3])              -> P(7, (,5], *)
        P(8, (,6])              -> P(8, (,6], *)
        P(*, (,7])              -> P(8, (,7], *); P(*, (,7], *)
        """,
    )
