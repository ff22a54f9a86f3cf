"""Random plans over random feeds: the rows that DuckDB gives, whatever the slices, shards and restarts."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence

import pytest

from tests.oracle.values import Row, bag
from tests.plans.duck import answer
from tests.plans.engines import Seen, engine, probes, sequence, watch
from tests.plans.feeds import DDL, NAMES, STREAMS, feed, parts, rows_of
from tests.plans.random_plans import AggregateGrower, Grower, XmlGrower
from tests.plans.text import Printer
from xmlpunct.engine.plan import Limit, Node, Punctuate, Scan, Sort
from xmlpunct.engine.rule_options import RULE_OPTIONS, USUAL
from xmlpunct.engine.rules import optimize
from xmlpunct.engine.sql import plan

BLOCKS = 10
PLANS = 200 if os.environ.get("XMLPUNCT_LONG") == "1" else 3
"""Plans a block."""
PARTS = 3
"""After so many parts of the feeds, cut in two ways, the same has come out."""


class Case:
    """A plan, what it reads, and what it must give."""

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
        self.wanted = answer(self.root.inputs[0] if self.any else self.root, tables)

    def run(self, root: Node, shards: int, asked: Sequence[Row] = ()) -> Seen:
        """A plan that means the same gives the right rows; in order, if there is one; of LIMIT alone, some."""
        running = engine(root, NAMES, shards)
        seen = watch(running, STREAMS, self.feeds, self.rng, root.schema, asked)
        self.judge(seen.tuples)
        return seen

    def judge(self, tuples: Sequence[Row]) -> None:
        """Whether these are the rows."""
        found, wanted = bag(tuples), bag(self.wanted)
        if self.any:
            assert not found - wanted, f"too many {found - wanted}"
            assert len(tuples) == min(self.limit or 0, len(self.wanted))
        else:
            assert found == wanted, f"too many {found - wanted}, missing {wanted - found}"
        if self.ordered:
            assert sequence(tuples) == sequence(self.wanted)

    def run_twice(self, root: Node, shards: int) -> None:
        """Cut in two ways, the same has come out, and is closed, after each part of the feeds.

        Not so where PUNCTUATE speaks: how often it does is up to the slices, and a join may hold back ``(,5]``
        that would have let ``(,4]`` pass.
        """
        asked = probes(root.schema, self.rng)
        first, second = (self.run(root, shards, asked) for _ in range(2))
        if any(isinstance(node, Punctuate) for node in root.walk()):
            return
        assert first.closed == second.closed, "what is closed depends on the slices"
        assert self.any or first.bags == second.bags, "what is released depends on the slices"


def check(seed: int, grower: type[Grower] = Grower) -> None:
    """One plan as it was grown, as it is optimized, and as our SQL reads it."""
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
