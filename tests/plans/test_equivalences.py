"""Relations 8 on our engine: plans of equivalent queries give the same, and at every prefix what M says."""

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


def given(seed: int, query: Query) -> Answer:
    """All that our engine gives for a query over a feed with its end; of a stream its elements."""
    case = Case(seed, INT, query=query)
    ended = {name for name, e in case.feed if isinstance(e, Punctuation) and e.is_everything}
    case.feed.extend((n, Punctuation.everything(i.schema)) for n, i in case.inputs.items() if n not in ended)
    found = Answer()
    if isinstance(query, Stream):
        for _, t in case.feed:
            if not isinstance(t, Punctuation):
                found.add(*case.inputs[query.name].element(t))
        return found
    planned = Planned(case)
    runs = planned.runs()
    assert planned.checker.check(*runs) is None, planned.sql
    for t in (t for output in runs[0] for t in output.tuples):
        found.add(*planned.checker.read(t))
    return found


def meant(seed: int, query: Query) -> Elements:
    """M's answer over the same feed."""
    case = Case(seed, INT, query=query)
    return Meaning(case.inputs, case.feed, case.time).answer(query)


@pytest.mark.parametrize("name", EQUIVALENCES)
def test_equivalent(name: str) -> None:
    one, other = EQUIVALENCES[name]
    for seed in range(FEEDS):
        assert given(seed, one).counts == given(seed, other).counts


@pytest.mark.parametrize("name", NOT_EQUIVALENT)
def test_not_equivalent(name: str) -> None:
    """Where M says so, our engine does."""
    one, other = NOT_EQUIVALENT[name]
    seed = next(seed for seed in range(500) if meant(seed, one) != meant(seed, other))
    assert given(seed, one).counts != given(seed, other).counts
