"""Random queries over windows and relations as SQL: what M says of the complete instants, at every prefix.

Whatever the slices, the shards and restarts: `tests.oracle.cql` judges what comes out after each slice.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable

import pytest

from tests.oracle.cql import Case, Checker, Output, Printer, statement
from tests.plans.engines import engine
from tests.strategies import slice_of
from xmlpunct.engine.sql import plan
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.slice import Slice

BLOCKS = 4
CASES = 500 if os.environ.get("XMLPUNCT_LONG") == "1" else 10
"""Queries a block."""


class Planned:
    """A random query, planned from its SQL."""

    def __init__(self, seed: int) -> None:
        self.case, self.rng = Case(seed), random.Random(seed)
        printer, inputs = Printer(self.case.inputs), self.case.inputs
        self.sql = "\n".join([*map(statement, inputs.values()), printer.sql(self.case.query)])
        self.root = plan(self.sql).root
        self.names = list(inputs)
        self.checker = Checker(self.case.query, inputs, self.case.feed, futures=1, rng=self.rng)

    def run(self, shards: int, slices: list[int]) -> list[Output]:
        """What comes out after each slice, of an engine that is restarted once."""
        running, outputs, start = engine(self.root, self.names, shards), list[Output](), 0
        restart = self.rng.choice(slices)

        def take(position: int, given: Iterable[Slice]) -> None:
            parts = list(given)
            tuples = [t for part in parts for t in part.tuples.rows()]
            outputs.append(Output(position, tuples, [p for part in parts for p in part.punctuations]))

        take(0, running.open())
        for position in slices[1:]:
            if start == restart:
                running = running.restarted()
            elements = self.case.feed[start:position]
            given: list[Slice] = []
            for port, name in enumerate(self.names):
                own = [e for n, e in elements if n == name]
                if own:
                    given += running.push(port, slice_of(self.case.inputs[name].schema, own))
            take(position, given)
            start = position
        ended = {n for n, e in self.case.feed if isinstance(e, Punctuation) and e.is_everything}
        retained = {f"{o.name} #{o.number}": (o.state.rows, o.state.held) for o in running.operators}
        left = {name: counts for name, counts in retained.items() if any(counts)}
        assert ended < set(self.names) or not left, f"after the end there is retained: {left}"
        return outputs

    def judge(self) -> str | None:
        """The first thing wrong in two runs, cut in two ways, on as many shards: on 0, in one pipeline."""
        shards = self.rng.choice([0, 1, 2, 3])
        return self.checker.check(*(self.run(shards, self.case.slices()) for _ in range(2)))


@pytest.mark.parametrize("block", range(BLOCKS))
def test_queries_give_what_m_says(block: int) -> None:
    for seed in range(block * CASES, (block + 1) * CASES):
        planned = None
        try:
            planned = Planned(seed)
            assert planned.judge() is None
        except Exception as error:
            error.add_note(f"seed {seed}: {planned.sql if planned else ''}")
            raise


@pytest.mark.parametrize("seed", [426, 6250])
def test_queries_that_once_failed(seed: int) -> None:
    assert Planned(seed).judge() is None
