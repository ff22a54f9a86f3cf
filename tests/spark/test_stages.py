"""From inputs to output without Spark: several plans, slice sizes and numbers of shards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.support import Warehouse, locally, read_back, split
from tests.spark.test_ranges import job_of, micro_batches
from tests.spark.test_sink import Bench
from xmlpunct.base.codec import pack, unpack
from xmlpunct.engine.plan import Query
from xmlpunct.engine.spark.job import Job
from xmlpunct.engine.spark.processor import Shard
from xmlpunct.engine.spark.shard_keys import shard_keys
from xmlpunct.engine.spark.stage_messages import StageRow
from xmlpunct.punctuations.punctuation import Punctuation, match


class Cluster:
    """The stages of a job. The state of each stage and shard is serialized after every micro-batch."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._states: dict[tuple[int, int], bytes] = {}

    def push(self, rows: list[StageRow]) -> list[StageRow]:
        """The rows of a micro-batch that reach the sink."""
        for stage in range(self.job.sink):
            rows = list(self._stage(stage, rows))
        return rows

    def _stage(self, stage: int, rows: list[StageRow]) -> Iterator[StageRow]:
        yield from (row for row in rows if row.stage != stage)
        for number, key in enumerate(shard_keys(self.job.shards)):
            shard_rows = [row for row in rows if row.stage == stage and row.shard == key]
            if shard_rows:
                shard = Shard(self.job, stage, number)
                if (stage, number) in self._states:
                    shard.restore(unpack(self._states[stage, number]))
                yield from shard.push(shard_rows)
                self._states[stage, number] = pack(shard.snapshot())


@pytest.mark.parametrize("shards", [1, 2, 3])
@pytest.mark.parametrize("size", [700, 5000, 10**6])
@pytest.mark.parametrize("name", ["hottest", "coldest_of_hottest", "hours_by_heat"])
def test_the_bag_of_results_depends_on_the_query_alone(
    tmp_path: Path, warehouse: Warehouse, name: str, size: int, shards: int
) -> None:
    query: Query = getattr(warehouse, name)()
    job = job_of(query, tmp_path, shards, size)
    bench, cluster = Bench(tmp_path, job), Cluster(job)
    batches = micro_batches(job)
    assert (len(batches) == 1) == (size == 10**6)
    for number, rows in enumerate(batches):
        sink = bench.sink()  # a new one each time, as after a restart
        sink.take(cluster.push(rows), number)
        assert sink.done.is_set() == (number == len(batches) - 1)
    locally(query, tmp_path / "local.xml")
    schema = query.root.schema
    output, expected = read_back(bench.out, schema), read_back(tmp_path / "local.xml", schema)
    assert split(output)[0] == split(expected)[0]
    received: list[Punctuation] = []
    for item in output:
        if isinstance(item, Punctuation):
            received.append(item)
        else:
            assert not any(match(item, p) for p in received)
    assert len(set(received)) == len(received)
    if name == "hottest":
        assert len(received) == len(output) / 2
    parts = [*job.fragments.edges, *job.fragments.fragments]
    # Operators of the edges have numbers, too; a `Receive` has none.
    numbers = {node.number for part in parts for node in part.root.walk() if node.number}
    assert [o.id for o in bench.stats.operators] == sorted(numbers)
    assert numbers >= {node.number for node in query.root.walk()}
    assert all(o.state_rows == 0 for o in bench.stats.operators)
