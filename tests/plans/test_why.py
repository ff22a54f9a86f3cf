"""Random plans stopped midway: the punctuations that `why` names release a result, and each one is needed."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from tests.oracle.cql import Case
from tests.oracle.values import Row, bag
from tests.plans.engines import Local, engine
from tests.plans.feeds import DDL, NAMES, STREAMS, cuts, feed
from tests.plans.random_plans import Grower
from tests.plans.relations import Planned
from tests.plans.sharded import Sharded
from tests.plans.text import Printer
from tests.strategies import Element, slice_of
from xmlpunct.engine.plan import Limit, Query, Scan
from xmlpunct.engine.sql import plan
from xmlpunct.engine.why.answer import Wait, why
from xmlpunct.engine.why.holding import Holding
from xmlpunct.operators.retained_outline import outline
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

LONG = os.environ.get("XMLPUNCT_LONG") == "1"
BLOCKS = 4
PLANS, RELATIONS = (250, 500) if LONG else (10, 8)
"""Plans per block, and relation queries per block."""
ASKED = 4
"""The number of results of a plan for which `why` is called."""
STAYS = 0.01
"""The share of results that may stay: a join holds back a punctuation that covers two missing ones."""
NEEDED = 0.8
"""The least share of named inputs that are needed; `why` cannot predict the values of later tuples."""


class Stopped:
    """A plan that has received some slices, each with the number of its stream."""

    def __init__(
        self,
        query: Query,
        inputs: Mapping[str, Schema],
        slices: Iterable[tuple[int, list[Element]]],
        seed: int,
    ) -> None:
        self.rng, self.query = random.Random(seed), query
        self.names, self.schemas = list(inputs), list(inputs.values())
        self.running = engine(query.root, self.names, self.rng.choice([0, 1, 2, 3]))
        self.holding = Holding({scan.stream.name: scan.stream.sent for scan in query.root.find(Scan)})
        list(self.running.open())
        for port, elements in slices:
            slice_ = slice_of(self.schemas[port], elements)
            list(self.running.push(port, slice_))
            if self.names[port] in self.holding.said:
                self.holding.say(self.names[port], slice_.punctuations)
        assert isinstance(self.running, Local | Sharded)
        parts = [self.running.pipeline] if isinstance(self.running, Local) else self.running.pipelines
        for where, pipeline in enumerate(parts):
            self.holding.keep(str(where), {o.number: outline(o.state) for o in pipeline.operators})

    def after(self, punctuations: Mapping[str, Punctuation]) -> list[Row]:
        """The output if some streams emit a punctuation now."""
        running, out = self.running.restarted(), list[Slice]()
        for name, p in punctuations.items():
            port = self.names.index(name)
            out += running.push(port, slice_of(self.schemas[port], [p]))
        return [t for part in out for t in part.tuples.rows()]

    def ended(self) -> list[Row]:
        """The output if all inputs end now."""
        return self.after(
            {n: Punctuation.everything(s) for n, s in zip(self.names, self.schemas, strict=True)}
        )

    def ask(self, row: Row, share: float) -> list[Wait]:
        """The missing punctuations of a result, looked up by a random share of its columns."""
        schema = self.query.root.schema
        patterns = {
            a.name: str(Punctuation.of(schema, **{a.name: v}).patterns[i])
            for i, (a, v) in enumerate(zip(schema, row, strict=True))
            if v is not None and a.name != "diff" and a.type.comparable and self.rng.random() < share
        }
        return why(self.query, self.holding, patterns)

    def check(self, statistics: Statistics) -> None:
        """Call `why` for some of the withheld results, and count whether its answer is right."""
        coming = self.ended()
        for row in self.rng.sample(coming, min(ASKED, len(coming))):
            share = self.rng.choice([0.5, 1])
            waits, key = self.ask(row, share), next(iter(bag([row])))
            punctuations = {w.stream.name: w.punctuation for w in waits}
            enough = bag(coming)[key]
            assert waits, f"{row} is withheld, and `why` names no missing punctuation"
            statistics.asked += 1
            if bag(self.after(punctuations))[key] < enough:
                statistics.stays.append(f"{row} does not come: {[*map(str, waits)]}")
            elif len(punctuations) > 1 and share == 1 and None not in row:
                for name in punctuations:
                    released = self.after({n: p for n, p in punctuations.items() if n != name})
                    statistics.named += 1
                    statistics.spare += bag(released)[key] >= enough


@dataclass
class Statistics:
    """The results asked for, the inputs named for them, the results that stay withheld although all named punctuations
    have arrived, and the inputs named without need."""

    asked: int = 0
    named: int = 0
    stays: list[str] = field(default_factory=list)
    spare: int = 0


def of_streams(seed: int) -> Stopped:
    """A random plan after prefixes of random feeds."""
    rng = random.Random(seed)
    root = Grower(seed).plan(rng.randint(1, 4))
    query = plan(DDL + Printer(duck=False).sql(root))
    read = {scan.stream.name for scan in query.root.find(Scan)}
    feeds = [feed(rng, s.schema)[:-1] if s.name in read else [] for s in STREAMS]
    begun = [elements[: rng.randint(0, len(elements))] for elements in feeds]
    return Stopped(query, dict(zip(NAMES, [s.schema for s in STREAMS], strict=True)), cuts(rng, begun), seed)


def of_relations(seed: int) -> Stopped:
    """A random query over windows and relations after a prefix of its feed."""
    planned, rng = Planned(Case(seed)), random.Random(seed)
    case = planned.case
    elements = [(n, e) for n, e in case.feed if not (isinstance(e, Punctuation) and e.is_everything)]
    slices: Sequence[tuple[int, list[Element]]] = [(planned.names.index(n), [e]) for n, e in elements]
    inputs = {name: case.inputs[name].schema for name in planned.names}
    query = Query.of(planned.root, (scan.stream for scan in planned.root.find(Scan)), planned.sql)
    return Stopped(query, inputs, slices[: rng.randint(0, len(slices))], seed)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_missing_punctuations_release_results(block: int) -> None:
    statistics = Statistics()
    for seed in range(block * PLANS, (block + 1) * PLANS):
        stopped = of_streams(seed)
        if any(stopped.query.root.find(Limit)):
            continue
        try:
            stopped.check(statistics)
        except Exception as error:
            error.add_note(f"seed {seed}: {stopped.query.sql}")
            raise
    assert len(statistics.stays) <= STAYS * statistics.asked, statistics.stays
    assert statistics.spare <= (1 - NEEDED) * statistics.named


@pytest.mark.parametrize("block", range(BLOCKS))
def test_missing_punctuations_release_changes(block: int) -> None:
    statistics = Statistics()
    for seed in range(block * RELATIONS, (block + 1) * RELATIONS):
        stopped = of_relations(seed)
        try:
            stopped.check(statistics)
        except Exception as error:
            error.add_note(f"seed {seed}: {stopped.query.sql}")
            raise
    assert len(statistics.stays) <= STAYS * statistics.asked, statistics.stays
