"""Random plans stopped somewhere: what a result is said to wait for lets it out, and without any part it stays."""

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
"""Plans a block, and plans of relations."""
ASKED = 4
"""So many results of a plan are asked for."""
STAYS = 0.01
"""Of the results so many may stay: a join holds back a punctuation that covers two that are missing."""
NEEDED = 0.8
"""Of the inputs that are named so many are needed, at least. It cannot be known which values are still coming."""


class Stopped:
    """A plan that some slices, of the streams of these numbers, were given to."""

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
            given = slice_of(self.schemas[port], elements)
            list(self.running.push(port, given))
            if self.names[port] in self.holding.said:
                self.holding.say(self.names[port], given.punctuations)
        assert isinstance(self.running, Local | Sharded)
        parts = [self.running.pipeline] if isinstance(self.running, Local) else self.running.pipelines
        for where, pipeline in enumerate(parts):
            self.holding.keep(str(where), {o.number: outline(o.state) for o in pipeline.operators})

    def after(self, said: Mapping[str, Punctuation]) -> list[Row]:
        """What comes out if some streams say something now."""
        running, out = self.running.restarted(), list[Slice]()
        for name, p in said.items():
            port = self.names.index(name)
            out += running.push(port, slice_of(self.schemas[port], [p]))
        return [t for part in out for t in part.tuples.rows()]

    def ended(self) -> list[Row]:
        """What comes out if all inputs end now."""
        return self.after(
            {n: Punctuation.everything(s) for n, s in zip(self.names, self.schemas, strict=True)}
        )

    def ask(self, row: Row, share: float) -> list[Wait]:
        """What a result waits for, of which a share of the columns is known."""
        schema = self.query.root.schema
        wanted = {
            a.name: str(Punctuation.of(schema, **{a.name: v}).patterns[i])
            for i, (a, v) in enumerate(zip(schema, row, strict=True))
            if v is not None and a.name != "diff" and a.type.comparable and self.rng.random() < share
        }
        return why(self.query, self.holding, wanted)

    def check(self, found: Found) -> None:
        """Ask for some of the results that would come."""
        coming = self.ended()
        for row in self.rng.sample(coming, min(ASKED, len(coming))):
            share = self.rng.choice([0.5, 1])
            waits, key = self.ask(row, share), next(iter(bag([row])))
            said = {w.stream.name: w.punctuation for w in waits}
            enough = bag(coming)[key]
            assert waits, f"{row} is held, and nothing is said to be missing"
            found.asked += 1
            if bag(self.after(said))[key] < enough:
                found.stays.append(f"{row} does not come: {[*map(str, waits)]}")
            elif len(said) > 1 and share == 1 and None not in row:
                for name in said:
                    rest = self.after({n: p for n, p in said.items() if n != name})
                    found.named += 1
                    found.spare += bag(rest)[key] >= enough


@dataclass
class Found:
    """How many results were asked for, and how many inputs were named for some; which results stay although all is
    said that is missing, and how many inputs were named and not needed."""

    asked: int = 0
    named: int = 0
    stays: list[str] = field(default_factory=list)
    spare: int = 0


def of_streams(seed: int) -> Stopped:
    """A random plan over a part of random feeds."""
    rng = random.Random(seed)
    root = Grower(seed).plan(rng.randint(1, 4))
    query = plan(DDL + Printer(duck=False).sql(root))
    read = {scan.stream.name for scan in query.root.find(Scan)}
    feeds = [feed(rng, s.schema)[:-1] if s.name in read else [] for s in STREAMS]
    begun = [elements[: rng.randint(0, len(elements))] for elements in feeds]
    return Stopped(query, dict(zip(NAMES, [s.schema for s in STREAMS], strict=True)), cuts(rng, begun), seed)


def of_relations(seed: int) -> Stopped:
    """A random query over windows and relations, and a part of its feed."""
    planned, rng = Planned(Case(seed)), random.Random(seed)
    case = planned.case
    given = [(n, e) for n, e in case.feed if not (isinstance(e, Punctuation) and e.is_everything)]
    slices: Sequence[tuple[int, list[Element]]] = [(planned.names.index(n), [e]) for n, e in given]
    inputs = {name: case.inputs[name].schema for name in planned.names}
    query = Query.of(planned.root, (scan.stream for scan in planned.root.find(Scan)), planned.sql)
    return Stopped(query, inputs, slices[: rng.randint(0, len(slices))], seed)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_what_is_missing_lets_results_out(block: int) -> None:
    found = Found()
    for seed in range(block * PLANS, (block + 1) * PLANS):
        stopped = of_streams(seed)
        if any(stopped.query.root.find(Limit)):
            continue
        try:
            stopped.check(found)
        except Exception as error:
            error.add_note(f"seed {seed}: {stopped.query.sql}")
            raise
    assert len(found.stays) <= STAYS * found.asked, found.stays
    assert found.spare <= (1 - NEEDED) * found.named


@pytest.mark.parametrize("block", range(BLOCKS))
def test_what_is_missing_lets_changes_out(block: int) -> None:
    found = Found()
    for seed in range(block * RELATIONS, (block + 1) * RELATIONS):
        stopped = of_relations(seed)
        try:
            stopped.check(found)
        except Exception as error:
            error.add_note(f"seed {seed}: {stopped.query.sql}")
            raise
    assert len(found.stays) <= STAYS * found.asked, found.stays
