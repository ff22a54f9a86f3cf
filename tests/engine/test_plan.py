"""A plan node need say next to nothing: what it leaves out is right for any operator."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
import pytest

from tests.plans.engines import engine
from xmlpunct.engine.plan import (
    DupElim,
    GroupBy,
    Merge,
    Node,
    Query,
    Scan,
    Select,
    Stream,
    Unary,
    node_column,
    numbered,
)
from xmlpunct.engine.rule_options import RULE_OPTIONS
from xmlpunct.engine.rules import optimize
from xmlpunct.engine.why.plan_text import explain
from xmlpunct.expressions.functions import call, literal
from xmlpunct.operators import Aggregate, Operator
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice
from xmlpunct.types import INT

STREAM = Stream("s", Schema.parse("k INT NOT NULL, v INT"), "s", None)


class Every(Operator):
    """Passes every n-th tuple on: an operator that nothing in the package knows."""

    name = "every"

    def __init__(self, schema: Schema, n: int) -> None:
        super().__init__((schema,), schema)
        self.n, self._seen = n, 0

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        first, self._seen = -self._seen % self.n, self._seen + tuples.height
        return tuples[first:].gather_every(self.n)

    def punctuate(self, port: int, batch: PunctuationBatch) -> tuple[pl.DataFrame, PunctuationBatch]:
        return self.schema.empty(), batch


@dataclass(frozen=True)
class EveryNode(Unary):
    """Its node, which says no more than it must."""

    n: int

    def operator(self) -> Operator:
        return Every(self.input.schema, self.n)


def grown() -> Node:
    """Over and under it stand nodes that rules push, prune and drop where they know that they may."""
    every = EveryNode(Scan(STREAM, ("k", "v"), ("k", "v")), 2)
    positive = DupElim(Select(every, call(">", node_column(every, "k"), literal(INT, 0))))
    greatest = GroupBy(positive, ("k",), (Aggregate("MAX", "v", False, "top"),))
    return numbered(optimize(Merge((greatest, greatest)), frozenset(RULE_OPTIONS)))


@pytest.mark.parametrize("shards", [0, 1, 3])
def test_a_node_that_no_rule_knows_runs(shards: int) -> None:
    rows = [(i % 5, i // 5 % 4 - i % 2) for i in range(60) for _ in range(1 + i % 3)]
    running = engine(grown(), ["s"], shards)
    seen: list[tuple[object, ...]] = []
    promised: list[Punctuation] = []
    for start in range(0, len(rows), 7):
        tuples = STREAM.schema.frame(rows[start : start + 7])
        last = [Punctuation.everything(STREAM.schema)] if start + 7 >= len(rows) else []
        for output in running.push(0, Slice(tuples, last)):
            seen += output.tuples.rows()
            promised += output.punctuations
    kept = [row for row in rows[::2] if row[0] > 0]
    wanted = {k: max(v for key, v in kept if key == k) for k, _ in kept}
    assert sorted(map(str, seen)) == sorted(map(str, [*wanted.items()] * 2))
    assert [p.is_everything for p in promised] == [True]


def test_a_node_that_no_rule_knows_is_explained() -> None:
    text = explain(Query.of(grown(), [STREAM]))
    assert "#2 every  (k INT NOT NULL, v INT)" in text
    assert "edge 1, reading s: #1 -> fragment 1" in text
    assert "fragment 1, on one shard: #2 #3 -> fragment 3, by k" in text
