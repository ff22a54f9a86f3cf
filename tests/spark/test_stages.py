"""The whole way from inputs to output as Spark would drive it, without Spark: many plans, slicings and shards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.support import Warehouse, locally, read_back, split
from tests.spark.test_ranges import job_of, micro_batches
from tests.spark.test_sink import Bench
from xmlpunct.base.codec import pack, unpack
from xmlpunct.engine.plan import Query
from xmlpunct.engine.spark.job import Job, StageRow
from xmlpunct.engine.spark.processor import Shard
from xmlpunct.engine.spark.shard_keys import shard_keys
from xmlpunct.punctuations.punctuation import Punctuation, match


class Cluster:
    """The stages of a job, with a state per stage and shard that goes through bytes after every micro-batch."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._states: dict[tuple[int, int], bytes] = {}

    def push(self, rows: list[StageRow]) -> list[StageRow]:
        """What reaches the sink of a micro-batch."""
        for stage in range(self.job.sink):
            rows = list(self._stage(stage, rows))
        return rows

    def _stage(self, stage: int, rows: list[StageRow]) -> Iterator[StageRow]:
        yield from (row for row in rows if row.stage != stage)
        for number, key in enumerate(shard_keys(self.job.shards)):
            mine = [row for row in rows if row.stage == stage and row.shard == key]
            if mine:
                shard = Shard(self.job, stage, number)
                if (stage, number) in self._states:
                    shard.restore(unpack(self._states[stage, number]))
                yield from shard.push(mine)
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
    found, expected = read_back(bench.out, schema), read_back(tmp_path / "local.xml", schema)
    assert split(found)[0] == split(expected)[0]
    said: list[Punctuation] = []
    for item in found:
        if isinstance(item, Punctuation):
            said.append(item)
        else:
            assert not any(match(item, p) for p in said)
    assert len(set(said)) == len(said)
    if name == "hottest":
        assert len(said) == len(found) / 2
    parts = [*job.fragments.edges, *job.fragments.fragments]
    # What the reader does ahead has numbers too; a `Receive` has none.
    there = {node.number for part in parts for node in part.root.walk() if node.number}
    assert [o.id for o in bench.stats.operators] == sorted(there)
    assert there >= {node.number for node in query.root.walk()}
    assert all(o.state_rows == 0 for o in bench.stats.operators)
