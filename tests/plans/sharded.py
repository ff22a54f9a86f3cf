"""An engine with several shards in this process: it runs the fragments of a plan as Spark does, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xmlpunct.base.codec import pack, unpack
from xmlpunct.engine.partition.fragments import Fragment, Fragments, cut_plan
from xmlpunct.engine.partition.routing import owners_of, route
from xmlpunct.engine.plan import Node
from xmlpunct.engine.rule_options import USUAL, Rules
from xmlpunct.engine.run.build import build
from xmlpunct.operators import Operator, Pipeline, run
from xmlpunct.operators.merge.gather import Gather
from xmlpunct.slice import Slice


class Stage:
    """A fragment: a pipeline per shard, and a `Gather` per port that reads from a fragment."""

    def __init__(self, fragment: Fragment, shards: int) -> None:
        self.fragment = fragment
        self.shards = 1 if fragment.single else shards
        self.pipelines = [build(fragment.root, single_shard=self.shards == 1) for _ in range(self.shards)]
        self.gathers: list[dict[int, Gather]] = [{} for _ in range(self.shards)]

    def gather(self, all_needed: bool = False) -> Gather:
        """The operator that merges the outputs of this fragment's shards."""
        schema = self.fragment.root.schema
        ways = self.fragment.keys
        owners = owners_of(schema, ways[0] if ways else (), self.shards)
        return Gather(schema, self.shards, ways, owners, all_needed)


class Sharded:
    """A plan on ``shards`` shards. ``push`` yields the output slices in order."""

    def __init__(self, root: Node, streams: Sequence[str], shards: int, on: Rules = USUAL) -> None:
        self._start(cut_plan(root, streams, on), streams, shards)

    def _start(self, parts: Fragments, streams: Sequence[str], shards: int) -> None:
        self._arguments = (parts, streams, shards)
        self.streams = [edge.stream for edge in parts.edges]
        self.edges = [(edge.root, streams[edge.stream]) for edge in parts.edges]
        self.stages = [Stage(fragment, shards) for fragment in parts.fragments]
        for stage in self.stages:
            for port, feed in enumerate(stage.fragment.feeds):
                if not feed.from_edge:
                    for gathers in stage.gathers:
                        gathers[port] = self.stages[feed.source].gather(stage.fragment.withholds)
        self._ended = False
        self.sink = self.stages[-1].gather() if self.stages else None

    def open(self) -> Iterator[Slice]:
        """The output before any input."""
        for number in range(len(self.edges)):
            yield from self._emit(True, number, 0, self.edge(number).open())
        for number, stage in enumerate(self.stages):
            for shard, pipeline in enumerate(stage.pipelines):
                yield from self._emit(False, number, shard, pipeline.open())

    def push(self, stream: int, slice_: Slice) -> Iterator[Slice]:
        """Push a slice of an input stream."""
        for number, its in enumerate(self.streams):
            if its == stream:
                yield from self._emit(True, number, 0, self.edge(number).push(0, slice_))

    def edge(self, number: int) -> Pipeline:
        """A new pipeline of an edge; edges are stateless, so each slice gets its own."""
        root, stream = self.edges[number]
        return build(root, [stream])

    def _emit(self, from_edge: bool, source: int, shard: int, output: Slice) -> Iterator[Slice]:
        """Route the output of an edge or of a fragment's shard to its readers."""
        if not output:
            return
        if not from_edge and source == len(self.stages) - 1:
            assert self.sink is not None
            yield run(self.sink, shard, output)
        if not self.stages and not self._ended:
            self._ended = any(p.is_everything for p in output.punctuations)
            yield output
        for number, stage in enumerate(self.stages):
            for port, feed in enumerate(stage.fragment.feeds):
                if (feed.from_edge, feed.source) == (from_edge, source):
                    routed = route(output, feed.schema, feed.keys, stage.shards, feed.whole)
                    for to, part in sorted(routed.items()):
                        yield from self._receive(number, to, port, shard, part)

    def _receive(self, number: int, shard: int, port: int, sender: int, part: Slice) -> Iterator[Slice]:
        stage = self.stages[number]
        if port in stage.gathers[shard]:
            part = run(stage.gathers[shard][port], sender, part)
        yield from self._emit(False, number, shard, stage.pipelines[shard].push(port, part))

    def rebuilt(self) -> Sharded:
        """A new engine of the same plan, before any input."""
        copy = Sharded.__new__(Sharded)
        copy._start(*self._arguments)
        return copy

    def restarted(self) -> Sharded:
        """A new engine with the state of this one."""
        copy = self.rebuilt()
        copy._ended = self._ended
        for old, new in zip(self._stateful, copy._stateful, strict=True):
            new.restore(unpack(pack(old.snapshot())))
        return copy

    @property
    def _stateful(self) -> list[Pipeline]:
        """All pipelines with state, including the merges of shards."""
        gathers = [stage.gathers[shard] for stage in self.stages for shard in range(stage.shards)]
        merges: list[Operator] = [gather for by_port in gathers for _, gather in sorted(by_port.items())]
        merges += [] if self.sink is None else [self.sink]
        return [*self.pipelines, *(Pipeline([merge], [], [[]]) for merge in merges)]

    @property
    def operators(self) -> list[Operator]:
        """All operators of all shards, including the merges of shards."""
        return [operator for pipeline in self._stateful for operator in pipeline.operators]

    @property
    def pipelines(self) -> list[Pipeline]:
        """The pipelines of all fragments and shards."""
        return [pipeline for stage in self.stages for pipeline in stage.pipelines]
