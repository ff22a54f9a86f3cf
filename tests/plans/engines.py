"""Runs plans over cut feeds, and looks at what comes out as it comes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tests.operators.harness import assert_proper
from tests.oracle.values import Row, bag, same
from tests.plans.feeds import VALUES, cuts
from tests.plans.sharded import Sharded
from tests.strategies import Element, slice_of
from xmlpunct.base.codec import pack, unpack
from xmlpunct.engine.plan import Node, Stream
from xmlpunct.engine.run.build import build
from xmlpunct.operators import Operator, Pipeline
from xmlpunct.punctuations.punctuation import Punctuation, match
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import ArrayType
from xmlpunct.slice import Slice
from xmlpunct.types import XML, DecimalType


class Engine(Protocol):
    """Runs a plan in this process."""

    def open(self) -> Iterable[Slice]: ...

    def push(self, stream: int, given: Slice) -> Iterable[Slice]: ...

    def fresh(self) -> Engine: ...

    def restarted(self) -> Engine: ...

    @property
    def operators(self) -> list[Operator]: ...


class Local:
    """A plan in one pipeline, as the local engine has it."""

    def __init__(self, root: Node, streams: Sequence[str]) -> None:
        self._made = (root, streams)
        self.pipeline: Pipeline = build(root, streams)

    def open(self) -> Iterator[Slice]:
        yield self.pipeline.open()

    def push(self, stream: int, given: Slice) -> Iterator[Slice]:
        yield self.pipeline.push(stream, given)

    def fresh(self) -> Local:
        return Local(*self._made)

    def restarted(self) -> Local:
        fresh = self.fresh()
        fresh.pipeline.restore(unpack(pack(self.pipeline.snapshot())))
        return fresh

    @property
    def operators(self) -> list[Operator]:
        return list(self.pipeline.operators)


def engine(root: Node, streams: Sequence[str], shards: int) -> Engine:
    """A plan on some shards; on 0, in one pipeline, without exchanges."""
    return Sharded(root, streams, shards) if shards else Local(root, streams)


@dataclass
class Seen:
    """What came out: all tuples, and after each part of the feeds their bag and which probes are closed."""

    tuples: list[Row] = field(default_factory=list)
    bags: list[Counter[tuple[object, ...]]] = field(default_factory=list)
    closed: list[frozenset[int]] = field(default_factory=list)


def probes(schema: Schema, rng: random.Random, size: int = 60) -> list[Row]:
    """Tuples of a schema, by which promises are compared."""
    pools = []
    for a in schema:
        values = [v for type_, vs in VALUES.items() for v in vs if type_ == a.type]
        if a.type is XML:
            values = ["<e></e>"]
        if isinstance(a.type, ArrayType):
            values = [[]]
        if isinstance(a.type, DecimalType):
            values = [a.type.at(n * 5 * 10 ** (a.type.scale - 1)) for n in (-1, 0, 1, 2)]
        pools.append([*values, None] if a.nullable else values)
    return [tuple(map(rng.choice, pools)) for _ in range(size)]


def watch(
    running: Engine,
    streams: Sequence[Stream],
    feeds: Sequence[list[list[Element]]],
    rng: random.Random,
    schema: Schema,
    asked: Sequence[Row],
) -> Seen:
    """Give the parts of the feeds to an engine, cut somehow, and restart it somewhere in each.

    No tuple comes after a punctuation that matches it, the end comes once, and nothing is retained behind it.
    """
    seen, promised, open_ = Seen(), list[Punctuation](), set(range(len(asked)))

    def take(outputs: Iterable[Slice]) -> None:
        for output in outputs:
            fresh = output.tuples.rows()
            assert_proper(fresh, promised)
            seen.tuples.extend(fresh)
            promised.extend(output.punctuations)
            open_.difference_update(
                [i for i in open_ if any(match(asked[i], p) for p in output.punctuations)]
            )

    take(running.open())
    for part in feeds:
        slices = cuts(rng, part)
        restart = rng.randint(0, len(slices))
        for number, (port, elements) in enumerate(slices):
            if number == restart:
                running = running.restarted()
            take(running.push(port, slice_of(streams[port].schema, elements)))
        seen.bags.append(bag(seen.tuples))
        seen.closed.append(frozenset(range(len(asked))) - open_)
    assert sum(p.is_everything for p in promised) == 1, "the output ends once"
    assert all(p.schema.names == schema.names for p in promised)
    retained = {
        f"{o.name} #{o.number}": (o.state.rows, o.state.held)
        for o in running.operators
        if o.state.rows or o.state.held
    }
    assert not retained, f"rows and punctuations are retained after the end: {retained}"
    return seen


def sequence(rows: Iterable[Row]) -> list[tuple[object, ...]]:
    """Rows in their order, values as comparison sees them."""
    return [tuple(map(same, row)) for row in rows]
