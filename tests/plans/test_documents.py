"""Random plans over documents give DuckDB's rows, for several slice sizes and numbers of threads."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace

import pytest

from tests.operators.harness import assert_proper
from tests.oracle.values import Row
from tests.plans.feeds import STREAMS
from tests.plans.random_plans import AggregateGrower, Grower
from tests.plans.test_complete_rejects import Document
from tests.plans.test_random import Case
from tests.spark.support import NAMESPACE
from tests.threads import COUNTS
from xmlpunct.connectors.source import Source
from xmlpunct.engine.plan import Node, Query, Scan, numbered
from xmlpunct.engine.rules import optimize
from xmlpunct.engine.rules.walk import everywhere
from xmlpunct.engine.run.local.running import LocalRun
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.punctuations.punctuation import Punctuation

SEEDS = range(500 if os.environ.get("XMLPUNCT_LONG") == "1" else 20)


def over_documents(root: Node) -> Query:
    """The plan with its streams read from documents."""
    streams = {s.name: replace(s, element="t") for s in STREAMS}

    def placed(node: Node) -> Node:
        return replace(node, stream=streams[node.stream.name]) if isinstance(node, Scan) else node

    best = numbered(optimize(everywhere(root, placed)))
    read = {node.stream.name for node in best.walk() if isinstance(node, Scan)}
    return Query.of(best, [s for s in streams.values() if s.name in read])


@pytest.mark.parametrize("grower", [Grower, AggregateGrower], ids=["plans", "other aggregates"])
@pytest.mark.parametrize("seed", SEEDS)
def test_documents_give_the_rows_of_duckdb(seed: int, grower: type[Grower]) -> None:
    case = Case(seed, grower)
    query = over_documents(case.root)
    documents = {
        s.name: Document(s, elements[:-1]).text
        for s, elements in zip(STREAMS, case.inputs, strict=True)
        if elements
    }
    for size, threads in zip([1, case.rng.randint(2, 1000), None], COUNTS, strict=True):
        sources = {s.name: Source.of(documents[s.name].encode(), s.name) for s in query.streams}
        rows, promises = list[Row](), list[Punctuation]()
        running = LocalRun(query, sources, size, RunStats("local"), NAMESPACE, threads=threads)
        with closing(running):
            while (part := running.advance()) is not None:
                assert_proper(part.tuples.rows(), promises)
                rows += part.tuples.rows()
                promises += part.punctuations
        case.judge(rows)
