"""A stateful fragment on Spark: one pipeline per shard, woken when something arrives for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row as SparkRow
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from xmlpunct.engine.build import build
from xmlpunct.engine.exchange import owners_of, route
from xmlpunct.engine.spark.edge import counts, operators_to_bytes, rejects_to_bytes, voided
from xmlpunct.engine.spark.job import FAILURE, OPERATORS, REJECTS, RESULT, WAITS, Job, Row
from xmlpunct.engine.spark.keys import shard_keys
from xmlpunct.operators import run
from xmlpunct.operators.driver import pack, unpack
from xmlpunct.operators.gather import Gather
from xmlpunct.slice import Slice, concat

SEGMENT = 32 * 2**20
"""State is stored in pieces of this many bytes: each is a round trip, and there is a limit to its size."""

_OUTPUT = SparkRow(*Row._fields)


class Shard:
    """One shard of fragment number ``stage``: its pipeline behind the gathers of its inputs."""

    def __init__(self, job: Job, stage: int, shard: int) -> None:
        self.job, self.stage, self.shard = job, stage, shard
        self.fragment = job.fragments.fragments[stage]
        self.pipeline = build(self.fragment.root)
        self.gathers = {
            port: gather_of(job, feed.source)
            for port, feed in enumerate(self.fragment.feeds)
            if not feed.from_edge
        }

    def push(self, rows: list[Row]) -> list[Row]:
        """Take all that a micro-batch brings, give all that comes of it."""
        void = voided(row for row in rows if row.port == FAILURE)
        output: list[Slice] = []
        for port, feed in enumerate(self.fragment.feeds):
            mine = sorted((row for row in rows if row.port == port), key=lambda row: row.seq)
            if feed.from_edge:
                mine = [row for row in mine if counts(row, void)]
            found = [(row.seq, Slice.from_bytes(feed.schema, row.payload)) for row in mine]
            if port in self.gathers:
                found = [(seq, run(self.gathers[port], seq, part)) for seq, part in found]
            given = concat(feed.schema, [part for _, part in found])
            if given:
                output.append(self.pipeline.push(port, given))
        result = concat(self.fragment.root.schema, output)
        return [*self._send(result), *self._report()]

    def _send(self, result: Slice) -> Iterator[Row]:
        keys, fragments = shard_keys(self.job.shards), self.job.fragments.fragments
        if not result:
            return
        if self.stage == len(fragments) - 1:
            yield Row(keys[self.shard], self.job.sink, RESULT, self.shard, result.to_bytes())
        for stage, fragment in enumerate(fragments):
            for port, feed in enumerate(fragment.feeds):
                if not feed.from_edge and feed.source == self.stage:
                    routed = route(result, feed.schema, feed.keys, self.job.shards_of(stage))
                    for to, part in sorted(routed.items()):
                        yield Row(keys[to], stage, port, self.shard, part.to_bytes())

    def _report(self) -> Iterator[Row]:
        key = shard_keys(self.job.shards)[self.shard]
        yield Row(key, self.job.sink, OPERATORS, self.shard, operators_to_bytes(self.pipeline))
        yield Row(key, self.job.sink, WAITS, self.shard, json.dumps([self.stage, self._waits()]).encode())
        if self.pipeline.rejects:
            yield Row(key, self.job.sink, REJECTS, self.shard, rejects_to_bytes(self.pipeline.rejects))

    def _waits(self) -> list[int]:
        """For each input of the query, how much that this shard retains waits for it."""
        found = [0] * len(self.job.inputs)
        for port, waiting in enumerate(self.pipeline.waits()):
            for i in self.job.inputs_of(self.stage, port):
                found[i] += waiting
        return found

    def snapshot(self) -> bytes:
        """The state, for the store."""
        held = pack({f"{port}/{k}": v for port, g in self.gathers.items() for k, v in g.snapshot().items()})
        return len(held).to_bytes(8, "big") + held + self.pipeline.snapshot()

    def restore(self, data: bytes) -> None:
        """Take the state of a snapshot."""
        length = int.from_bytes(data[:8], "big")
        held = unpack(data[8 : 8 + length])
        for port, gather in self.gathers.items():
            lead = f"{port}/"
            gather.restore({k.removeprefix(lead): v for k, v in held.items() if k.startswith(lead)})
        self.pipeline.restore(data[8 + length :])


def gather_of(job: Job, stage: int) -> Gather:
    """What receives from the shards of a fragment."""
    fragment = job.fragments.fragments[stage]
    schema, shards = fragment.root.schema, job.shards_of(stage)
    owners = owners_of(schema, fragment.keys[0] if fragment.keys else (), shards)
    return Gather(schema, shards, fragment.keys, owners)


class FragmentProcessor(StatefulProcessor):  # type: ignore[misc]
    """Runs the shards of one fragment. Rows for later stages pass through."""

    def __init__(self, job: Job, stage: int) -> None:
        self.job, self.stage = job, stage

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getListState("state", "segment BINARY")
        self._shards = {key: shard for shard, key in enumerate(shard_keys(self.job.shards))}

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        mine: list[Row] = []
        for row in rows:
            if row.stage == self.stage:
                mine.append(Row(row.shard, row.stage, row.port, row.seq, bytes(row.payload)))
            else:
                yield row
        if mine:
            shard = Shard(self.job, self.stage, self._shards[key[0]])
            before = b"".join(bytes(segment) for (segment,) in self._state.get())
            if before:
                shard.restore(before)
            for out in shard.push(mine):
                yield _OUTPUT(*out)
            after = shard.snapshot()
            if after != before:
                self._state.put([(after[at : at + SEGMENT],) for at in range(0, len(after), SEGMENT)])

    def close(self) -> None:
        pass
