"""Relations 8 on our engine: equivalent queries give equal answers, and M's answer at every prefix."""

from __future__ import annotations

import os

import pytest

from tests.oracle.cql.checker import Answer
from tests.oracle.cql.equivalences import EQUIVALENCES, NOT_EQUIVALENT
from tests.oracle.cql.generate import Case
from tests.oracle.cql.meaning import Elements, Meaning
from tests.oracle.cql.query import Query, Stream
from tests.plans.relations import Planned
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.types import INT

FEEDS = 500 if os.environ.get("XMLPUNCT_LONG") == "1" else 2


def engine_answer(seed: int, query: Query) -> Answer:
    """The complete answer of our engine over a feed with its end; for a stream, its elements."""
    case = Case(seed, INT, query=query)
    ended = {name for name, e in case.feed if isinstance(e, Punctuation) and e.is_everything}
    case.feed.extend((n, Punctuation.everything(i.schema)) for n, i in case.inputs.items() if n not in ended)
    answer = Answer()
    if isinstance(query, Stream):
        for _, t in case.feed:
            if not isinstance(t, Punctuation):
                answer.add(*case.inputs[query.name].element(t))
        return answer
    planned = Planned(case)
    runs = planned.runs()
    assert planned.checker.check(*runs) is None, planned.sql
    for t in (t for output in runs[0] for t in output.tuples):
        answer.add(*planned.checker.read(t))
    return answer


def answer_of_m(seed: int, query: Query) -> Elements:
    """M's answer over the feed of the seed."""
    case = Case(seed, INT, query=query)
    return Meaning(case.inputs, case.feed, case.time).answer(query)


@pytest.mark.parametrize("name", EQUIVALENCES)
def test_equivalent(name: str) -> None:
    left, right = EQUIVALENCES[name]
    for seed in range(FEEDS):
        assert engine_answer(seed, left).counts == engine_answer(seed, right).counts


@pytest.mark.parametrize("name", NOT_EQUIVALENT)
def test_not_equivalent(name: str) -> None:
    """If M's answers differ, the engine's answers differ."""
    left, right = NOT_EQUIVALENT[name]
    seed = next(seed for seed in range(500) if answer_of_m(seed, left) != answer_of_m(seed, right))
    assert engine_answer(seed, left).counts != engine_answer(seed, right).counts
