"""Runs plans over sliced feeds, and checks the output after each slice."""

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

    def push(self, stream: int, slice_: Slice) -> Iterable[Slice]: ...

    def rebuilt(self) -> Engine: ...

    def restarted(self) -> Engine: ...

    @property
    def operators(self) -> list[Operator]: ...


class Local:
    """A plan in one pipeline, as in the local engine."""

    def __init__(self, root: Node, streams: Sequence[str]) -> None:
        self._arguments = (root, streams)
        self.pipeline: Pipeline = build(root, streams)

    def open(self) -> Iterator[Slice]:
        yield self.pipeline.open()

    def push(self, stream: int, slice_: Slice) -> Iterator[Slice]:
        yield self.pipeline.push(stream, slice_)

    def rebuilt(self) -> Local:
        return Local(*self._arguments)

    def restarted(self) -> Local:
        copy = self.rebuilt()
        copy.pipeline.restore(unpack(pack(self.pipeline.snapshot())))
        return copy

    @property
    def operators(self) -> list[Operator]:
        return list(self.pipeline.operators)


def engine(root: Node, streams: Sequence[str], shards: int) -> Engine:
    """A plan on ``shards`` shards; 0 means one pipeline without exchanges."""
    return Sharded(root, streams, shards) if shards else Local(root, streams)


@dataclass
class Recording:
    """The output of a run: all tuples, and after each part of the feeds their bag and the closed probes."""

    tuples: list[Row] = field(default_factory=list)
    bags: list[Counter[tuple[object, ...]]] = field(default_factory=list)
    closed: list[frozenset[int]] = field(default_factory=list)


def probes(schema: Schema, rng: random.Random, size: int = 60) -> list[Row]:
    """Random tuples of a schema, on which promises are compared."""
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
    probe_rows: Sequence[Row],
) -> Recording:
    """Push the parts of the feeds to an engine in random slices, with a restart in each part.

    Asserts that the output is grammatical, that it ends once, and that no state is retained after the end.
    """
    recording, promised, open_ = Recording(), list[Punctuation](), set(range(len(probe_rows)))

    def take(outputs: Iterable[Slice]) -> None:
        for output in outputs:
            rows = output.tuples.rows()
            assert_proper(rows, promised)
            recording.tuples.extend(rows)
            promised.extend(output.punctuations)
            open_.difference_update(
                [i for i in open_ if any(match(probe_rows[i], p) for p in output.punctuations)]
            )

    take(running.open())
    for part in feeds:
        slices = cuts(rng, part)
        restart = rng.randint(0, len(slices))
        for number, (port, elements) in enumerate(slices):
            if number == restart:
                running = running.restarted()
            take(running.push(port, slice_of(streams[port].schema, elements)))
        recording.bags.append(bag(recording.tuples))
        recording.closed.append(frozenset(range(len(probe_rows))) - open_)
    assert sum(p.is_everything for p in promised) == 1, "the output ends once"
    assert all(p.schema.names == schema.names for p in promised)
    retained = {
        f"{o.name} #{o.number}": (o.state.rows, o.state.held)
        for o in running.operators
        if o.state.rows or o.state.held
    }
    assert not retained, f"rows and punctuations are retained after the end: {retained}"
    return recording


def sequence(rows: Iterable[Row]) -> list[tuple[object, ...]]:
    """Rows in order, with comparable values."""
    return [tuple(map(same, row)) for row in rows]
