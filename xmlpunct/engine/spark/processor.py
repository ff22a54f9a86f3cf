"""Stateful fragments on Spark: one pipeline per shard, which runs when rows arrive for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any

import polars as pl
from pyspark.sql import Row as SparkRow

from xmlpunct.base.errors import UsageError
from xmlpunct.base.frames import Snapshot, nested_snapshot, snapshot_of
from xmlpunct.engine.partition.fragments import FragmentInput
from xmlpunct.engine.partition.routing import owners_of, route
from xmlpunct.engine.run.build import build
from xmlpunct.engine.spark.edge import counts, edge_pipeline, operator_reports, voided
from xmlpunct.engine.spark.job import ANOTHER_JOB, Job
from xmlpunct.engine.spark.shard_keys import shard_keys
from xmlpunct.engine.spark.stage_messages import Port, ShardReport, StageRow, slice_rows
from xmlpunct.engine.spark.state_store import Cache, StateValues
from xmlpunct.operators import run
from xmlpunct.operators.merge.gather import Gather
from xmlpunct.operators.retained_outline import outline
from xmlpunct.slice import Slice, concat

_OUTPUT = SparkRow(*StageRow._fields)
_PIPELINE = "pipeline"
_OWNER = ("", -1)
"""State key of the fingerprint of the job that owns the state."""


class Shard:
    """One shard of fragment ``stage``: gathers of its inputs, and its pipeline."""

    def __init__(self, job: Job, stage: int, shard: int) -> None:
        self.job, self.stage, self.shard = job, stage, shard
        self.fragment = job.fragments.fragments[stage]
        shards = job.shards_of(stage)
        self.pipeline = build(self.fragment.root, single_shard=shards == 1)
        self.gathers = {
            port: gather_of(job, feed.source, self.fragment.withholds)
            for port, feed in enumerate(self.fragment.feeds)
            if not feed.from_edge
        }
        self._new = True

    def open(self) -> Slice:
        """The output of this shard, and of the edges that feed it, before any input."""
        opened = [self.pipeline.open()]
        for port, feed in enumerate(self.fragment.feeds):
            if feed.from_edge:
                slice_ = edge_pipeline(self.job, feed.source).open()
                routed = route(slice_, feed.schema, feed.keys, self.job.shards_of(self.stage), feed.whole)
                if self.shard in routed:
                    opened.append(self.pipeline.push(port, routed[self.shard]))
        return concat(self.fragment.root.schema, opened)

    def push(self, rows: list[StageRow]) -> list[StageRow]:
        """Process the rows of a micro-batch; returns rows for later stages, and reports."""
        self.pipeline.recount()
        void = voided(row for row in rows if row.port == Port.FAILURE)
        output = [self.open()] if self._new else []
        self._new = False
        for port, feed in enumerate(self.fragment.feeds):
            port_rows = sorted((row for row in rows if row.port == port), key=lambda row: row.order)
            if feed.from_edge:
                port_rows = [row for row in port_rows if counts(row, void)]
            numbered = [(row.seq, Slice.from_bytes(feed.schema, row.payload)) for row in port_rows]
            if port in self.gathers:
                numbered = [(seq, run(self.gathers[port], seq, part)) for seq, part in numbered]
            parts = [part for _, part in numbered]
            # A guard needs the slices one by one; for other operators one concatenated slice is faster.
            for slice_ in parts if self._guards(feed) else [concat(feed.schema, parts)]:
                if slice_:
                    output.append(self.pipeline.push(port, slice_))
        result = concat(self.fragment.root.schema, output)
        return [*self._send(result), self._report()]

    def _guards(self, feed: FragmentInput) -> bool:
        """True if a guard reads a feed."""
        return feed.from_edge and self.job.stream_of(feed.source).guarded

    def _send(self, result: Slice) -> Iterator[StageRow]:
        keys, fragments = shard_keys(self.job.shards), self.job.fragments.fragments
        if not result:
            return
        for answer in self.job.answers_of(False, self.stage):
            yield from self.job.results(answer, keys[self.shard], self.shard, result)
        for stage, fragment in enumerate(fragments):
            for port, feed in enumerate(fragment.feeds):
                if not feed.from_edge and feed.source == self.stage:
                    routed = route(result, feed.schema, feed.keys, self.job.shards_of(stage), feed.whole)
                    for to, part in sorted(routed.items()):
                        yield from slice_rows(keys[to], stage, port, self.shard, part)

    def _report(self) -> StageRow:
        outlines = {
            operator.number: boxes
            for operator in self.pipeline.operators
            if (boxes := outline(operator.state))
        }
        report = ShardReport(
            self.stage, operator_reports(self.pipeline), self._waits(), outlines, self.pipeline.rejects
        )
        return report.to_row(shard_keys(self.job.shards)[self.shard], self.job.sink, self.shard)

    def _waits(self) -> list[int]:
        """For each input of the query, the amount of this shard's retained state that waits for it."""
        counts = [0] * len(self.job.inputs)
        for port, waiting in enumerate(self.pipeline.waits()):
            for i in self.job.inputs_of(self.stage, port):
                counts[i] += waiting
        return counts

    def snapshot(self) -> dict[str, pl.DataFrame]:
        """The state for Spark's state store."""
        frames = snapshot_of({str(port): gather.state for port, gather in self.gathers.items()})
        return frames | {f"{_PIPELINE}/{k}": v for k, v in self.pipeline.snapshot().items()}

    def restore(self, snapshot: Snapshot) -> None:
        """Restore a snapshot, which was taken after `open`."""
        self._new = False
        parts = nested_snapshot(snapshot)
        for port, gather in self.gathers.items():
            gather.state.restore(parts.get(str(port), {}))
        self.pipeline.restore(parts.get(_PIPELINE, {}))


def gather_of(job: Job, stage: int, all_needed: bool = False) -> Gather:
    """The gather of the shards of a fragment. ``all_needed``: `Fragment.withholds` of the receiving fragment."""
    fragment = job.fragments.fragments[stage]
    schema, shards = fragment.root.schema, job.shards_of(stage)
    owners = owners_of(schema, fragment.keys[0] if fragment.keys else (), shards)
    return Gather(schema, shards, fragment.keys, owners, all_needed)


KEPT: Cache[Shard] = Cache()
"""Shards in the memory of this worker process."""


def check_owner(values: StateValues, job: Job, new: bool) -> None:
    """Raise `UsageError` if a state belongs to another job. A new state gets the fingerprint of this job."""
    if not job.fingerprint:
        return
    if new:
        values.updateValue(_OWNER, (job.fingerprint.encode(),))
        return
    owner = values.getValue(_OWNER)
    if owner is None or bytes(owner[0]).decode() != job.fingerprint:
        raise UsageError(ANOTHER_JOB)


class FragmentProcessor:
    """Runs the shards of independent fragments. Rows for later stages pass through.

    ``job`` is the text of a `Job`, and ``values`` the state of each fragment.
    """

    def __init__(self, job: str, values: Mapping[int, StateValues]) -> None:
        self.job, self._values = Job.from_text(job), values
        self._run = blake2b(job.encode(), digest_size=16).hexdigest()
        self._shards = {key: shard for shard, key in enumerate(shard_keys(self.job.shards))}

    def push(self, key: int, rows: Iterable[Any]) -> Iterator[Any]:
        """Process the rows of a micro-batch for the shard with this key."""
        rows_by_stage: dict[int, list[StageRow]] = {}
        for row in rows:
            if row.stage in self._values:
                own_row = StageRow(row.shard, row.stage, row.port, row.seq, bytes(row.payload), row.part)
                rows_by_stage.setdefault(row.stage, []).append(own_row)
            else:
                yield row
        for stage, stage_rows in sorted(rows_by_stage.items()):
            yield from self._push(stage, self._shards[key], stage_rows)

    def _push(self, stage: int, number: int, rows: list[StageRow]) -> Iterator[Any]:
        """Run a shard of a fragment on rows, with its state from the store."""
        values, cache_key = self._values[stage], (self._run, stage, number)
        state, shard = KEPT.take(cache_key)
        if not state.read(values) or shard is None:
            check_owner(values, self.job, new=not state)
            shard = Shard(self.job, stage, number)
            if state:
                shard.restore(state.frames)
        for out in shard.push(rows):
            yield _OUTPUT(*out)
        state.write(values, shard.snapshot())
        KEPT.put(cache_key, state, shard)
