"""WINDOWS 8: what is equivalent on every feed, and what is not, found by search."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import pytest

from tests.oracle import relational
from tests.oracle.cql.feeds import Input, Time, timestamp
from tests.oracle.cql.generate import Case, Feeder
from tests.oracle.cql.meaning import Elements, Meaning
from tests.oracle.cql.query import (
    Column,
    Compare,
    Constant,
    Distinct,
    DStream,
    GroupBy,
    IsNull,
    IStream,
    Join,
    Project,
    Query,
    Relation,
    Rows,
    RStream,
    Select,
    SetOp,
    Stream,
    UnionAll,
    Window,
)
from tests.oracle.values import Row
from xmlpunct.schema import Attribute, Schema
from xmlpunct.types import INT

FEEDS = 500 if os.environ.get("XMLPUNCT_LONG") == "1" else 40
S, T, R = Stream("s0"), Stream("s2"), Relation("r1")
POSITIVE = Compare(">", Column(1), Constant(0))


def columns(*places: int) -> tuple[Column, ...]:
    return tuple(map(Column, places))


def ranged(stream: Query = S, size: int = 2) -> Window:
    return Window(stream, "RANGE", size)


def unbounded(stream: Query) -> Window:
    return Window(stream, "UNBOUNDED")


def pair() -> tuple[Query, Query]:
    """Two relations of the same columns."""
    return ranged(), Rows(S, 3, (0,))


A, B = pair()
WIDE = GroupBy(ranged(T), (0,), ())
KEYS = ((0, 0),)
LEFT_ALONE = Project(Join("anti", A, R, KEYS), (*columns(0, 1), Constant(None), Constant(None)))

EQUIVALENCES: dict[str, tuple[Query, Query]] = {
    "RANGE 0 = NOW": (ranged(size=0), Window(S)),
    "SLIDE 1 = no SLIDE": (Window(S, "RANGE", 2, 1, 3), ranged()),
    "UNBOUNDED SLIDE 1 = UNBOUNDED": (Window(S, "UNBOUNDED", slide=1), unbounded(S)),
    "a filter commutes with RANGE": (
        Select(ranged(), POSITIVE),
        ranged(RStream(Select(Window(S), POSITIVE))),
    ),
    "a filter commutes with a join": (
        Select(Join("inner", A, R, KEYS), POSITIVE),
        Join("inner", Select(A, POSITIVE), R, KEYS),
    ),
    "DISTINCT = GROUP BY all": (Distinct(A), GroupBy(A, (0, 1), ())),
    "INTERSECT ALL = A EXCEPT ALL (A EXCEPT ALL B)": (
        SetOp("INTERSECT ALL", A, B),
        SetOp("EXCEPT ALL", A, SetOp("EXCEPT ALL", A, B)),
    ),
    "UNION = DISTINCT of UNION ALL": (SetOp("UNION", A, B), Distinct(UnionAll(A, B))),
    "a semijoin = a join with DISTINCT keys": (
        Join("semi", A, R, KEYS),
        Project(Join("inner", A, Distinct(Project(R, columns(0))), KEYS), columns(0, 1)),
    ),
    "LEFT = inner + anti x nulls": (
        Join("left", A, R, KEYS),
        UnionAll(Join("inner", A, R, KEYS), LEFT_ALONE),
    ),
    "FULL = LEFT + nulls x anti": (
        Join("full", A, R, KEYS),
        UnionAll(
            Join("left", A, R, KEYS),
            Project(Join("anti", R, A, KEYS), (Constant(None), Constant(None), *columns(0, 1))),
        ),
    ),
    "anti = A EXCEPT ALL semi": (
        Join("anti", A, R, KEYS),
        SetOp("EXCEPT ALL", A, Join("semi", A, R, KEYS)),
    ),
    "R = ISTREAM(R)[UNBOUNDED] EXCEPT ALL DSTREAM(R)[UNBOUNDED]": (
        B,
        SetOp("EXCEPT ALL", unbounded(IStream(B)), unbounded(DStream(B))),
    ),
    "of a join too": (
        Join("inner", A, B, KEYS),
        SetOp(
            "EXCEPT ALL",
            unbounded(IStream(Join("inner", A, B, KEYS))),
            unbounded(DStream(Join("inner", A, B, KEYS))),
        ),
    ),
    "ISTREAM(S[UNBOUNDED]) = RSTREAM(S[NOW])": (IStream(unbounded(S)), RStream(Window(S))),
    "RSTREAM EVERY 1 = RSTREAM": (RStream(A, 1), RStream(A)),
}


def feeds() -> list[Meaning]:
    """M over random feeds."""
    found = []
    for seed in range(FEEDS):
        case = Case(seed, INT)
        inputs = {name: i for name, i in case.declared.items() if name in ("s0", "s2", "r1")}
        time = Time.of(inputs.values())
        found.append(Meaning(inputs, Feeder(case.rng, inputs, time, case.base, 1).feed(12, 30), time))
    return found


MEANINGS = feeds()


@pytest.mark.parametrize("name", EQUIVALENCES)
def test_equivalent(name: str) -> None:
    one, other = EQUIVALENCES[name]
    for meaning in MEANINGS:
        assert meaning.answer(one) == meaning.answer(other)


def test_streams_of_a_stream() -> None:
    """RSTREAM(S[NOW]) = S, ISTREAM(S[UNBOUNDED]) = S, DSTREAM(S[UNBOUNDED]) = {}."""
    for meaning in MEANINGS:
        assert meaning.answer(RStream(Window(S))) == meaning.s("s0")
        assert meaning.answer(IStream(unbounded(S))) == meaning.s("s0")
        assert not meaning.answer(DStream(unbounded(S)))


def test_rows_of_one_partition() -> None:
    """ROWS N = PARTITION BY () ROWS N = PARTITION BY a constant ROWS N."""
    for meaning in MEANINGS:
        constant = RStream(Project(Window(S), (*columns(0, 1), Constant(7))))
        parts = Project(Rows(constant, 3, (2,)), columns(0, 1))
        assert meaning.answer(Rows(S, 3)) == meaning.answer(parts)


def test_the_tuple_at_a_time_windows_are_whole_instants() -> None:
    """More than N at one instant: none of them, as Figure 5 has it."""
    for meaning in MEANINGS:
        for _, new, _ in meaning.changes(Rows(S, 2)):
            assert new.total() <= 2


@pytest.mark.parametrize("relation", [A, B, Distinct(R), Join("full", A, B, KEYS)], ids=str)
def test_a_relation_read_back_from_its_own_changes(relation: Query) -> None:
    for meaning in MEANINGS:
        changes = meaning.answer(relation)
        wide = max((len(e) for e, _ in changes), default=1)
        given = Input(
            "back",
            Schema.of(
                [
                    *(Attribute(f"c{i}", INT) for i in range(wide)),
                    Attribute("at", INT, False),
                    Attribute("diff", INT),
                ]
            ),
            "at",
            "diff",
        )
        feed: list[tuple[str, Row]] = [
            ("back", (*e, timestamp(INT, at), n)) for (e, at), n in sorted(changes.items(), key=str)
        ]
        assert Meaning({"back": given}, feed, meaning.time).answer(Relation("back")) == changes


def not_in(left: Query, right: Query) -> Query:
    """NOT IN where nulls can occur (WINDOWS 4), uncorrelated, over the second column of both."""
    known, unknown = (lambda row: row[1] is not None), IsNull(Column(1))
    by_value = Join("anti", Select(left, known), Select(right, unknown))
    return UnionAll(Join("anti", by_value, right, ((1, 1),)), Join("anti", Select(left, unknown), right))


def test_not_in_is_built_of_antijoins() -> None:
    compared = 0
    for meaning in MEANINGS:
        for t, _, _ in meaning.changes(not_in(A, R)):
            left, right = (list(meaning.m_r(q, t).elements()) for q in (A, R))
            compared += None in [u[1] for u in right]
            assert meaning.m_r(not_in(A, R), t) == Counter(relational.not_in(1, 1)(left, right))
    assert compared


NOT_EQUIVALENT: dict[str, Callable[[Meaning], tuple[Elements, Elements]]] = {
    "ISTREAM(S[NOW]) is not S": lambda m: (m.answer(IStream(Window(S))), m.s("s0")),
    "a semijoin is no join": lambda m: (
        m.answer(Join("semi", A, R, KEYS)),
        m.answer(Project(Join("inner", A, R, KEYS), columns(0, 1))),
    ),
}


@pytest.mark.parametrize("name", NOT_EQUIVALENT)
def test_not_equivalent(name: str) -> None:
    assert any(one != other for one, other in map(NOT_EQUIVALENT[name], MEANINGS))


def test_figure_5_as_printed_is_wrong_once_nested() -> None:
    """It says R(tau) - R(tau-1) for every t <= tau: the window over it sees inserts again at each instant."""

    def printed(meaning: Meaning, tau: int) -> Elements:
        inserts = meaning.m_r(A, tau) - meaning.m_r(A, tau - 1)
        return Counter({(e, t): 1 for e in inserts for t in meaning.instants(A) if t <= tau})

    assert any(
        printed(meaning, tau) != meaning.m_s(IStream(A), tau)
        for meaning in MEANINGS
        for tau, _, _ in meaning.changes(A)
    )
