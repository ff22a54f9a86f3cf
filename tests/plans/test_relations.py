"""Random SQL queries over windows and relations give M's answer at the complete instants, at every prefix."""

from __future__ import annotations

import os

import pytest

from tests.oracle.cql import Case
from tests.oracle.cql.query import DStream, Join, Query, Rows, RStream, Stamped, Stream, Window
from tests.plans.relations import Planned
from xmlpunct.engine.partition.fragments import cut_plan
from xmlpunct.types import DOUBLE

BLOCKS = 4
CASES = 500 if os.environ.get("XMLPUNCT_LONG") == "1" else 10
"""Queries per block."""

LONG, SHORT = Window(Stamped(Stream("s1")), "UNBOUNDED"), Window(Stream("s2"))
ONCE_FAILED: dict[str, Query] = {
    "partition values of which a join has copies": DStream(
        Rows(RStream(Join("inner", SHORT, LONG, ((0, 0),)), every=1_000_000), 3, (2, 0))
    ),
}


@pytest.mark.parametrize("block", range(BLOCKS))
def test_queries_give_the_answer_of_m(block: int) -> None:
    for seed in range(block * CASES, (block + 1) * CASES):
        planned = None
        try:
            planned = Planned(Case(seed))
            assert planned.judge() is None
        except Exception as error:
            error.add_note(f"seed {seed}: {planned.sql if planned else ''}")
            raise


def test_plans_are_sharded_by_several_columns_and_by_doubles() -> None:
    ways = []
    for seed in range(60):
        planned = Planned(Case(seed))
        fragments = cut_plan(planned.root, planned.names).fragments
        ways += [(feed.schema, feed.keys) for fragment in fragments for feed in fragment.feeds]
    assert sum(len(keys) > 1 for _, keys in ways) > 20
    assert sum(schema[key].type is DOUBLE for schema, keys in ways for key in keys) > 5


@pytest.mark.parametrize("name", ONCE_FAILED)
@pytest.mark.parametrize("seed", range(4))
def test_queries_that_once_failed(name: str, seed: int) -> None:
    assert Planned(Case(seed, query=ONCE_FAILED[name])).judge() is None


@pytest.mark.parametrize("seed", [700055, 2000648])
def test_seeds_that_once_failed(seed: int) -> None:
    """A dropped column whose values each closed on one shard only; a column in two equalities of a NOT IN."""
    assert Planned(Case(seed)).judge() is None
