"""Runs a job without Spark, as Spark would run it."""

from __future__ import annotations

from collections.abc import Sequence

from tests.spark.test_ranges import micro_batches
from xmlpunct.base.codec import pack, unpack
from xmlpunct.base.frames import nested_snapshot
from xmlpunct.connectors.outlet import Outlet
from xmlpunct.engine.plan import Query
from xmlpunct.engine.run.channel import Channel, ResultChannel
from xmlpunct.engine.run.checkpoint.commit import Commit
from xmlpunct.engine.run.output import Output
from xmlpunct.engine.run.reject_limit import RejectLimit
from xmlpunct.engine.run.sink import RunSink
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.spark.combining import Combiner
from xmlpunct.engine.spark.job import Job
from xmlpunct.engine.spark.processor import Shard
from xmlpunct.engine.spark.shard_keys import shard_keys
from xmlpunct.engine.spark.spark_sink import MicroBatchSink
from xmlpunct.engine.spark.stage_messages import StageRow, batch_to_rows, rows_to_batch


def run_sink(
    query: Query,
    outputs: Sequence[tuple[Output, Outlet]],
    rejects: Outlet | None,
    stats: RunStats,
    commit: Commit,
    strict: bool = False,
    limit: RejectLimit | None = None,
) -> RunSink:
    """A sink over open outlets, which continues after a commit."""
    states = nested_snapshot(commit.output)
    channels = [
        ResultChannel(answer.name, outlet, output, stats, written, states.get(str(number), {}))
        for number, (answer, (output, outlet), written) in enumerate(
            zip(query.answers, outputs, commit.outputs, strict=True)
        )
    ]
    reject_channel = None if rejects is None else Channel(rejects, commit.rejects)
    return RunSink(channels, reject_channel, stats, strict, limit)


def without_spark(job: Job, sink: MicroBatchSink) -> None:
    """Run a job to its end: every stage's shards in turn, each restored from its last state.

    The rows of a shard arrive in another order than they were emitted, as after a shuffle.
    """
    states: dict[tuple[int, int], bytes] = {}
    for number, rows in enumerate(micro_batches(job)):
        for stage in range(job.sink):
            stage_rows = [row for row in rows if row.stage == stage]
            rows = [row for row in rows if row.stage != stage]
            for i, key in enumerate(shard_keys(job.shards)):
                if shard_rows := [row for row in stage_rows if row.shard == key]:
                    shard = Shard(job, stage, i)
                    if (stage, i) in states:
                        shard.restore(unpack(states[stage, i]))
                    rows += shard.push(shard_rows[::-1])
                    states[stage, i] = pack(shard.snapshot())
        sink.take(combined(job, rows), number)


def combined(job: Job, rows: list[StageRow]) -> list[StageRow]:
    """The rows after `Combiner`, which runs once for each group of shards before the sink."""
    combiner = Combiner(job)
    if not combiner.pays:
        return rows
    tasks: dict[int, list[StageRow]] = {}
    for row in rows:
        tasks.setdefault(row.seq % job.shards // combiner.group, []).append(row)
    batches = ([rows_to_batch(task_rows[:3]), rows_to_batch(task_rows[3:])] for task_rows in tasks.values())
    return [row for task in batches for batch in combiner(iter(task)) for row in batch_to_rows(batch)]
