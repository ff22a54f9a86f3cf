"""Random plans over random feeds give DuckDB's rows, for random slices, shards and restarts."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence

import pytest

from tests.oracle.values import Row, bag
from tests.plans.duck import answer
from tests.plans.engines import Recording, engine, probes, sequence, watch
from tests.plans.feeds import DDL, NAMES, STREAMS, feed, parts, rows_of
from tests.plans.random_plans import AggregateGrower, Grower, XmlGrower
from tests.plans.text import Printer
from xmlpunct.engine.plan import Limit, Node, Punctuate, Scan, Sort
from xmlpunct.engine.rule_options import RULE_OPTIONS, USUAL
from xmlpunct.engine.rules import optimize
from xmlpunct.engine.sql import plan

BLOCKS = 10
PLANS = 200 if os.environ.get("XMLPUNCT_LONG") == "1" else 3
"""Plans per block."""
PARTS = 3
"""Parts of the feeds; after each part, two runs with different slices have the same output."""


class Case:
    """A plan, its inputs and its expected rows."""

    def __init__(self, seed: int, grower: type[Grower] = Grower) -> None:
        self.rng = random.Random(seed)
        self.root = grower(seed).plan(self.rng.randint(1, 4))
        read = {node.stream.name for node in self.root.walk() if isinstance(node, Scan)}
        self.inputs = [feed(self.rng, s.schema) if s.name in read else [] for s in STREAMS]
        self.feeds = parts(self.rng, self.inputs, PARTS)
        tables = {
            s.name: (s.schema, rows_of(s, elements)) for s, elements in zip(STREAMS, self.inputs, strict=True)
        }
        self.limit = self.root.count if isinstance(self.root, Limit) else None
        self.ordered = any(isinstance(node, Sort) for node in (self.root, *self.root.inputs))
        self.any = self.limit is not None and not self.ordered
        self.expected = answer(self.root.inputs[0] if self.any else self.root, tables)

    def run(self, root: Node, shards: int, probe_rows: Sequence[Row] = ()) -> Recording:
        """Run an equivalent plan and judge its rows."""
        running = engine(root, NAMES, shards)
        recording = watch(running, STREAMS, self.feeds, self.rng, root.schema, probe_rows)
        self.judge(recording.tuples)
        return recording

    def judge(self, tuples: Sequence[Row]) -> None:
        """Assert that the rows are the expected ones: in order after a sort, any of them after LIMIT alone."""
        actual, expected = bag(tuples), bag(self.expected)
        if self.any:
            assert not actual - expected, f"too many {actual - expected}"
            assert len(tuples) == min(self.limit or 0, len(self.expected))
        else:
            assert actual == expected, f"too many {actual - expected}, missing {expected - actual}"
        if self.ordered:
            assert sequence(tuples) == sequence(self.expected)

    def run_twice(self, root: Node, shards: int) -> None:
        """After each part of the feeds, two runs with different slices have the same tuples and promises.

        PUNCTUATE is an exception: the slices determine how often it emits, and a join may hold back ``(,5]`` where
        it would have propagated ``(,4]``.
        """
        probe_rows = probes(root.schema, self.rng)
        first, second = (self.run(root, shards, probe_rows) for _ in range(2))
        if any(isinstance(node, Punctuate) for node in root.walk()):
            return
        assert first.closed == second.closed, "what is closed depends on the slices"
        assert self.any or first.bags == second.bags, "what is released depends on the slices"


def check(seed: int, grower: type[Grower] = Grower) -> None:
    """Run one plan as grown, as optimized, and as parsed from its SQL."""
    case = Case(seed, grower)
    case.run(case.root, 0)
    case.run(
        optimize(case.root, case.rng.choice([USUAL, frozenset(RULE_OPTIONS)])), case.rng.choice([1, 2, 3])
    )
    best = plan(DDL + Printer(duck=False).sql(case.root)).root
    case.run_twice(best, case.rng.choice([0, 1]))
    case.run_twice(best, case.rng.choice([2, 3]))


@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_plans(block: int) -> None:
    check_all(range(block * PLANS, (block + 1) * PLANS))


def test_random_plans_with_xml() -> None:
    check_all(range(PLANS), XmlGrower)


@pytest.mark.parametrize("block", range(4))
def test_random_plans_with_other_aggregates(block: int) -> None:
    check_all(range(block * PLANS, (block + 1) * PLANS), AggregateGrower)


def check_all(seeds: Iterable[int], grower: type[Grower] = Grower) -> None:
    for seed in seeds:
        try:
            check(seed, grower)
        except Exception as error:
            error.add_note(f"seed {seed}: {Printer(duck=True).sql(Case(seed, grower).root)}")
            raise
