"""The defaults of a plan node are correct for any operator."""

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
    """Emits every n-th tuple; an operator unknown to the package."""

    name = "every"

    def __init__(self, schema: Schema, n: int) -> None:
        super().__init__((schema,), schema)
        self.n, self._row_count = n, 0

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        first, self._row_count = -self._row_count % self.n, self._row_count + tuples.height
        return tuples[first:].gather_every(self.n)

    def punctuate(self, port: int, batch: PunctuationBatch) -> tuple[pl.DataFrame, PunctuationBatch]:
        return self.schema.empty(), batch


@dataclass(frozen=True)
class EveryNode(Unary):
    """The plan node of `Every`, with only the required method."""

    n: int

    def operator(self) -> Operator:
        return Every(self.input.schema, self.n)


def optimized_plan() -> Node:
    """An `EveryNode` between nodes that rules may push down, prune or drop."""
    every = EveryNode(Scan(STREAM, ("k", "v"), ("k", "v")), 2)
    positive = DupElim(Select(every, call(">", node_column(every, "k"), literal(INT, 0))))
    greatest = GroupBy(positive, ("k",), (Aggregate("MAX", "v", False, "top"),))
    return numbered(optimize(Merge((greatest, greatest)), frozenset(RULE_OPTIONS)))


@pytest.mark.parametrize("shards", [0, 1, 3])
def test_a_node_without_rules_runs(shards: int) -> None:
    rows = [(i % 5, i // 5 % 4 - i % 2) for i in range(60) for _ in range(1 + i % 3)]
    running = engine(optimized_plan(), ["s"], shards)
    results: list[tuple[object, ...]] = []
    punctuations: list[Punctuation] = []
    for start in range(0, len(rows), 7):
        tuples = STREAM.schema.frame(rows[start : start + 7])
        last = [Punctuation.everything(STREAM.schema)] if start + 7 >= len(rows) else []
        for output in running.push(0, Slice(tuples, last)):
            results += output.tuples.rows()
            punctuations += output.punctuations
    passed_rows = [row for row in rows[::2] if row[0] > 0]
    expected = {k: max(v for key, v in passed_rows if key == k) for k, _ in passed_rows}
    assert sorted(map(str, results)) == sorted(map(str, [*expected.items()] * 2))
    assert [p.is_everything for p in punctuations] == [True]


def test_a_node_without_rules_is_explained() -> None:
    text = explain(Query.of(optimized_plan(), [STREAM]))
    assert "#2 every  (k INT NOT NULL, v INT)" in text
    assert "edge 1, reading s: #1 -> fragment 1" in text
    assert "fragment 1, on one shard: #2 #3 -> fragment 3, by k" in text
