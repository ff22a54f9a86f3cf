"""An engine of several shards in this process: what Spark does with the fragments of a plan, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xmlpunct.engine.build import build
from xmlpunct.engine.exchange import owners_of, route
from xmlpunct.engine.fragments import Fragment, cut
from xmlpunct.engine.plan import Node
from xmlpunct.operators import Pipeline, run
from xmlpunct.operators.gather import Gather
from xmlpunct.slice import Slice


class Stage:
    """A fragment: for each shard a pipeline, and for each port that reads from a fragment a `Gather`."""

    def __init__(self, fragment: Fragment, shards: int) -> None:
        self.fragment = fragment
        self.shards = 1 if fragment.single else shards
        self.pipelines = [build(fragment.root) for _ in range(self.shards)]
        self.gathers: list[dict[int, Gather]] = [{} for _ in range(self.shards)]

    def gather(self) -> Gather:
        """What receives from the shards of this fragment."""
        schema = self.fragment.root.schema
        ways = self.fragment.keys
        owners = owners_of(schema, ways[0] if ways else (), self.shards)
        return Gather(schema, self.shards, ways, owners)


class Sharded:
    """A plan on ``shards`` shards. ``push`` gives what comes out, in the order in which it does."""

    def __init__(self, root: Node, streams: Sequence[str], shards: int) -> None:
        parts = cut(root, streams)
        self.streams = [edge.stream for edge in parts.edges]
        self.edges = [build(edge.root, [streams[edge.stream]]) for edge in parts.edges]
        self.stages = [Stage(fragment, shards) for fragment in parts.fragments]
        for stage in self.stages:
            for port, feed in enumerate(stage.fragment.feeds):
                if not feed.from_edge:
                    for gathers in stage.gathers:
                        gathers[port] = self.stages[feed.source].gather()
        self.sink = self.stages[-1].gather() if self.stages else None

    def push(self, stream: int, given: Slice) -> Iterator[Slice]:
        """Give a slice to an input stream."""
        for number, edge in enumerate(self.edges):
            if self.streams[number] == stream:
                yield from self._emit(True, number, 0, edge.push(0, given))

    def _emit(self, from_edge: bool, source: int, shard: int, output: Slice) -> Iterator[Slice]:
        """Send what an edge or a shard of a fragment gives to whoever reads it."""
        if not output:
            return
        if not from_edge and source == len(self.stages) - 1:
            assert self.sink is not None
            yield run(self.sink, shard, output)
        if not self.stages:
            yield output
        for number, stage in enumerate(self.stages):
            for port, feed in enumerate(stage.fragment.feeds):
                if (feed.from_edge, feed.source) == (from_edge, source):
                    routed = route(output, feed.schema, feed.keys, stage.shards)
                    for to, part in sorted(routed.items()):
                        yield from self._receive(number, to, port, shard, part)

    def _receive(self, number: int, shard: int, port: int, sender: int, part: Slice) -> Iterator[Slice]:
        stage = self.stages[number]
        if port in stage.gathers[shard]:
            part = run(stage.gathers[shard][port], sender, part)
        yield from self._emit(False, number, shard, stage.pipelines[shard].push(port, part))

    @property
    def rows(self) -> int:
        """How many tuples all shards retain."""
        return sum(o.rows for pipeline in self.pipelines for o in pipeline.operators)

    @property
    def pipelines(self) -> list[Pipeline]:
        """All that holds state."""
        return [pipeline for stage in self.stages for pipeline in stage.pipelines]
