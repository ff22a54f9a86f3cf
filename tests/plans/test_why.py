"""Random plans stopped somewhere: what a result is said to wait for lets it out, and without any part it stays."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterable, Mapping

import pytest

from tests.oracle.values import Row, bag
from tests.plans.engines import Engine, engine
from tests.plans.feeds import DDL, NAMES, STREAMS, cuts, feed
from tests.plans.random_plans import Grower
from tests.plans.sharded import Sharded
from tests.plans.text import Printer
from tests.strategies import Element, slice_of
from xmlpunct.engine.plan import Limit, Query, Scan
from xmlpunct.engine.sql import plan
from xmlpunct.engine.why import Wait, why
from xmlpunct.engine.why.holding import Holding
from xmlpunct.operators.outline import outline
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.slice import Slice

BLOCKS = 4
PLANS = 200 if os.environ.get("XMLPUNCT_LONG") == "1" else 10
"""Plans a block."""
ASKED = 4
"""So many results of a plan are asked for."""


class Stopped:
    """A random plan over a part of random feeds, none of which has ended."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        grown = Grower(seed).plan(self.rng.randint(1, 4))
        self.sql = DDL + Printer(duck=False).sql(grown)
        self.query: Query = plan(self.sql)
        self.read = {node.stream.name for node in self.query.root.find(Scan)}
        shards = self.rng.choice([0, 1, 2, 3])
        self.running: Engine = engine(self.query.root, NAMES, shards)
        self.holding = Holding({s.name: s.schema for s in STREAMS})
        self.out = self.taken(self.running.open())
        feeds = [self.some(feed(self.rng, s.schema)[:-1]) if s.name in self.read else [] for s in STREAMS]
        for port, elements in cuts(self.rng, feeds):
            given = slice_of(STREAMS[port].schema, elements)
            self.out += self.taken(self.running.push(port, given))
            self.holding.say(NAMES[port], given.punctuations)
        parts = self.running.pipelines if isinstance(self.running, Sharded) else [self.running.pipeline]  # type: ignore[attr-defined]
        for where, pipeline in enumerate(parts):
            self.holding.keep(str(where), {o.number: outline(o.state) for o in pipeline.operators})

    def some(self, elements: list[Element]) -> list[Element]:
        return elements[: self.rng.randint(0, len(elements))]

    @staticmethod
    def taken(outputs: Iterable[Slice]) -> Counter[tuple[object, ...]]:
        return bag([t for output in outputs for t in output.tuples.rows()])

    def after(self, said: Mapping[str, Punctuation]) -> Counter[tuple[object, ...]]:
        """What comes out if some streams say something now."""
        running, out = self.running.restarted(), Counter[tuple[object, ...]]()
        for name, p in said.items():
            port = NAMES.index(name)
            out += self.taken(running.push(port, slice_of(STREAMS[port].schema, [p])))
        return out

    def ended(self) -> list[Row]:
        """What comes out if all inputs end now."""
        running, rows = self.running.restarted(), list[Row]()
        for name in sorted(self.read):
            port = NAMES.index(name)
            end = slice_of(STREAMS[port].schema, [Punctuation.everything(STREAMS[port].schema)])
            rows += [t for output in running.push(port, end) for t in output.tuples.rows()]
        return rows

    def ask(self, row: Row, share: float) -> list[Wait]:
        """What a result waits for, of which a share of the columns is known."""
        schema = self.query.root.schema
        wanted = {
            a.name: str(Punctuation.of(schema, **{a.name: v}).patterns[i])
            for i, (a, v) in enumerate(zip(schema, row, strict=True))
            if v is not None and a.type.comparable and self.rng.random() < share
        }
        return why(self.query, self.holding, wanted)


def check(seed: int) -> tuple[int, int]:
    """How many results were asked for, and how many inputs were named that were not needed."""
    stopped = Stopped(seed)
    if any(isinstance(node, Limit) for node in stopped.query.root.walk()):
        return 0, 0
    coming, named, spare = stopped.ended(), 0, 0
    for row in stopped.rng.sample(coming, min(ASKED, len(coming))):
        share = stopped.rng.choice([0.5, 1])
        waits, key = stopped.ask(row, share), next(iter(bag([row])))
        said = {w.stream.name: w.punctuation for w in waits}
        assert waits, f"{row} is held, and nothing is said to be missing"
        assert stopped.after(said)[key] == bag(coming)[key], f"{row} does not come: {[*map(str, waits)]}"
        for name in said if len(said) > 1 and share == 1 and None not in row else ():
            named += 1
            without = stopped.after({n: p for n, p in said.items() if n != name})
            spare += without[key] == bag(coming)[key]
    return named, spare


@pytest.mark.parametrize("block", range(BLOCKS))
def test_what_is_said_to_be_missing_lets_results_out(block: int) -> None:
    named, spare = 0, 0
    for seed in range(block * PLANS, (block + 1) * PLANS):
        try:
            found = check(seed)
        except Exception as error:
            error.add_note(f"seed {seed}: {Stopped(seed).sql}")
            raise
        named, spare = named + found[0], spare + found[1]
    assert spare <= named / 8, "what is named is needed, but where it cannot be known which values are coming"
