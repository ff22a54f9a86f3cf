"""What Spark would do with a job, without it."""

from __future__ import annotations

from tests.spark.test_ranges import micro_batches
from xmlpunct.codec import pack, unpack
from xmlpunct.engine.spark.job import Job
from xmlpunct.engine.spark.keys import shard_keys
from xmlpunct.engine.spark.processor import Shard
from xmlpunct.engine.spark.sink import Sink


def without_spark(job: Job, sink: Sink) -> None:
    """Run a job to its end: every stage's shards in turn, each restored from its last state."""
    states: dict[tuple[int, int], bytes] = {}
    for number, rows in enumerate(micro_batches(job)):
        for stage in range(job.sink):
            here = [row for row in rows if row.stage == stage]
            rows = [row for row in rows if row.stage != stage]
            for i, key in enumerate(shard_keys(job.shards)):
                if mine := [row for row in here if row.shard == key]:
                    shard = Shard(job, stage, i)
                    if (stage, i) in states:
                        shard.restore(unpack(states[stage, i]))
                    rows += shard.push(mine)
                    states[stage, i] = pack(shard.snapshot())
        sink.take(rows, number)
