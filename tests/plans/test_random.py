"""Random plans: the same bag as DuckDB in one process and on several shards, and no promise broken."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Sequence

import pytest

from tests.operators.harness import assert_proper
from tests.oracle.values import Row, bag
from tests.plans.duck import answer, sql
from tests.plans.random_plans import NAMES, STREAMS, Grower, cuts, stream
from tests.plans.sharded import Sharded
from tests.strategies import Cut, slice_of, tuples_of
from xmlpunct.engine.build import build
from xmlpunct.engine.plan import Node
from xmlpunct.engine.rules import optimize
from xmlpunct.errors import XmlPunctError
from xmlpunct.punctuation import Punctuation
from xmlpunct.slice import Slice

BLOCKS = 10
PLANS = 400 if os.environ.get("XMLPUNCT_LONG") == "1" else 8
"""Plans a block."""
Engine = Callable[[int, Slice], Iterable[Slice]]


def local(root: Node, rng: random.Random) -> Engine:
    """The whole plan in one pipeline, which is replaced now and then by one restored from its snapshot."""
    pipelines = [build(root, NAMES)]

    def push(port: int, given: Slice) -> Iterable[Slice]:
        yield pipelines[-1].push(port, given)
        if rng.random() < 0.1:
            fresh = build(root, NAMES)
            fresh.restore(pipelines[-1].snapshot())
            pipelines.append(fresh)

    return push


def results(engine: Engine, given: Sequence[Cut]) -> list[Row]:
    """All tuples; no punctuation is broken, and everything is closed at the end."""
    tuples: list[Row] = []
    promised: list[Punctuation] = []
    for port, elements in given:
        for output in engine(port, slice_of(STREAMS[port].schema, elements)):
            fresh = output.tuples.rows()
            assert_proper(fresh, promised)
            tuples += fresh
            promised += output.punctuations
    assert any(p.is_everything for p in promised), "the output does not end"
    return tuples


def check(seed: int) -> None:
    """One plan over one input, in several ways."""
    rng = random.Random(seed)
    depth = rng.randint(1, 4)
    root = Grower(seed).plan(depth)
    inputs = [stream(rng, s.schema) for s in STREAMS]
    tables = {s.name: s.schema.frame(tuples_of(i)) for s, i in zip(STREAMS, inputs, strict=True)}
    wanted = bag(answer(root, tables))
    best = optimize(root)
    engines: list[tuple[str, Engine]] = [("local", local(root, rng)), ("optimized", local(best, rng))]
    engines += [(f"{n} shards", Sharded(best, NAMES, n).push) for n in (1, 2 if depth == 4 else 3)]
    for name, engine in engines:
        found = bag(results(engine, cuts(rng, inputs)))
        assert found == wanted, f"{name}: too many {found - wanted}, missing {wanted - found}"


@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_plans(block: int) -> None:
    refused = 0
    for seed in range(block * PLANS, (block + 1) * PLANS):
        try:
            check(seed)
        except (XmlPunctError, ValueError) as error:
            if not str(error):
                raise
            refused += 1
        except Exception as error:
            error.add_note(f"seed {seed}: {sql(Grower(seed).plan(random.Random(seed).randint(1, 4)))}")
            raise
    assert refused <= PLANS / 4
