"""An engine of several shards in this process: what Spark does with the fragments of a plan, without Spark."""

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
from xmlpunct.punctuations.ownership import Ways
from xmlpunct.slice import Slice


class Stage:
    """A fragment: for each shard a pipeline, and for each port that reads from a fragment a `Gather`."""

    def __init__(self, fragment: Fragment, shards: int) -> None:
        self.fragment = fragment
        self.shards = 1 if fragment.single else shards
        self.pipelines = [build(fragment.root, single_shard=self.shards == 1) for _ in range(self.shards)]
        self.gathers: list[dict[int, Gather]] = [{} for _ in range(self.shards)]

    def gather(self, onward: Ways = ()) -> Gather:
        """What receives from the shards of this fragment."""
        schema = self.fragment.root.schema
        ways = self.fragment.keys
        owners = owners_of(schema, ways[0] if ways else (), self.shards)
        return Gather(schema, self.shards, ways, owners, onward)


class Sharded:
    """A plan on ``shards`` shards. ``push`` gives what comes out, in the order in which it does."""

    def __init__(self, root: Node, streams: Sequence[str], shards: int, on: Rules = USUAL) -> None:
        self._start(cut_plan(root, streams, on), streams, shards)

    def _start(self, parts: Fragments, streams: Sequence[str], shards: int) -> None:
        self._made = (parts, streams, shards)
        self.streams = [edge.stream for edge in parts.edges]
        self.edges = [(edge.root, streams[edge.stream]) for edge in parts.edges]
        self.stages = [Stage(fragment, shards) for fragment in parts.fragments]
        for stage in self.stages:
            for port, feed in enumerate(stage.fragment.feeds):
                if not feed.from_edge:
                    for gathers in stage.gathers:
                        onward = stage.fragment.ways(port, stage.shards)
                        gathers[port] = self.stages[feed.source].gather(onward)
        self._ended = False
        self.sink = self.stages[-1].gather() if self.stages else None

    def open(self) -> Iterator[Slice]:
        """What is known from the start."""
        for number in range(len(self.edges)):
            yield from self._emit(True, number, 0, self.edge(number).open())
        for number, stage in enumerate(self.stages):
            for shard, pipeline in enumerate(stage.pipelines):
                yield from self._emit(False, number, shard, pipeline.open())

    def push(self, stream: int, given: Slice) -> Iterator[Slice]:
        """Give a slice to an input stream."""
        for number, its in enumerate(self.streams):
            if its == stream:
                yield from self._emit(True, number, 0, self.edge(number).push(0, given))

    def edge(self, number: int) -> Pipeline:
        """An edge lives for a slice, and remembers nothing."""
        root, stream = self.edges[number]
        return build(root, [stream])

    def _emit(self, from_edge: bool, source: int, shard: int, output: Slice) -> Iterator[Slice]:
        """Send what an edge or a shard of a fragment gives to whoever reads it."""
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

    def fresh(self) -> Sharded:
        """Another engine of the same plan, before anything came."""
        found = Sharded.__new__(Sharded)
        found._start(*self._made)
        return found

    def restarted(self) -> Sharded:
        """Another engine, with the state of this one."""
        fresh = self.fresh()
        fresh._ended = self._ended
        for mine, its in zip(self._holders, fresh._holders, strict=True):
            its.restore(unpack(pack(mine.snapshot())))
        return fresh

    @property
    def _holders(self) -> list[Pipeline]:
        """All that holds state, the merges of shards included."""
        gathers = [stage.gathers[shard] for stage in self.stages for shard in range(stage.shards)]
        merges: list[Operator] = [gather for by_port in gathers for _, gather in sorted(by_port.items())]
        merges += [] if self.sink is None else [self.sink]
        return [*self.pipelines, *(Pipeline([merge], [], [[]]) for merge in merges)]

    @property
    def operators(self) -> list[Operator]:
        """All operators of all shards, the merges of shards included."""
        return [operator for pipeline in self._holders for operator in pipeline.operators]

    @property
    def pipelines(self) -> list[Pipeline]:
        """The shards of all fragments."""
        return [pipeline for stage in self.stages for pipeline in stage.pipelines]
