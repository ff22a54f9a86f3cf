"""Relations 8: equivalences hold on random feeds, and non-equivalences have a counterexample."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.oracle import relational
from tests.oracle.cql import query as cql
from tests.oracle.cql.equivalences import EQUIVALENCES, KEYS, NOT_EQUIVALENT, A, B, R, S, not_in
from tests.oracle.cql.feeds import Input, Time, timestamp
from tests.oracle.cql.generate import Case, Feeder
from tests.oracle.cql.meaning import Elements, Meaning
from tests.oracle.values import Row
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import INT

FEEDS = 500 if os.environ.get("XMLPUNCT_LONG") == "1" else 40


def feeds() -> list[Meaning]:
    """M over random feeds."""
    meanings = []
    for seed in range(FEEDS):
        case = Case(seed, INT)
        inputs = {name: i for name, i in case.declared.items() if name in ("s0", "s2", "r1")}
        time = Time.of(inputs.values())
        meanings.append(Meaning(inputs, Feeder(case.rng, inputs, time, case.base, 1).feed(12, 30), time))
    return meanings


MEANINGS = feeds()


@pytest.mark.parametrize("name", EQUIVALENCES)
def test_equivalent(name: str) -> None:
    left, right = EQUIVALENCES[name]
    for meaning in MEANINGS:
        assert meaning.answer(left) == meaning.answer(right)


def test_the_tuple_at_a_time_windows_are_whole_instants() -> None:
    """If more than N tuples share an instant, the window contains none of them, as in Figure 5."""
    for meaning in MEANINGS:
        for _, new, _ in meaning.changes(cql.Rows(S, 2)):
            assert new.total() <= 2


@pytest.mark.parametrize("relation", [A, B, cql.Distinct(R), cql.Join("full", A, B, KEYS)], ids=str)
def test_a_relation_read_back_from_its_own_changes(relation: cql.Query) -> None:
    for meaning in MEANINGS:
        changes = meaning.answer(relation)
        width = max((len(e) for e, _ in changes), default=1)
        input_ = Input(
            "back",
            Schema.of(
                [
                    *(Attribute(f"c{i}", INT) for i in range(width)),
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
        assert Meaning({"back": input_}, feed, meaning.time).answer(cql.Relation("back")) == changes


def test_not_in_is_built_of_antijoins() -> None:
    compared = 0
    for meaning in MEANINGS:
        for t in meaning.instants(not_in(A, R)):
            left, right = (list(meaning.m_r(q, t).elements()) for q in (A, R))
            compared += bool(left) and None in [u[1] for u in right]
            assert meaning.m_r(not_in(A, R), t) == Counter(relational.not_in(1, 1)(left, right))
    assert compared


@pytest.mark.parametrize("name", NOT_EQUIVALENT)
def test_not_equivalent(name: str) -> None:
    left, right = NOT_EQUIVALENT[name]
    assert any(meaning.answer(left) != meaning.answer(right) for meaning in MEANINGS)


def test_figure_5_as_printed_is_wrong_once_nested() -> None:
    """It uses R(tau) - R(tau-1) for every t <= tau: a window over it receives inserts again at each instant."""

    def printed(meaning: Meaning, tau: int) -> Elements:
        inserts = meaning.m_r(A, tau) - meaning.m_r(A, tau - 1)
        return Counter({(e, t): 1 for e in inserts for t in meaning.instants(A) if t <= tau})

    assert any(
        printed(meaning, tau) != meaning.m_s(cql.IStream(A), tau)
        for meaning in MEANINGS
        for tau, _, _ in meaning.changes(A)
    )
