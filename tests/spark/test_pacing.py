"""The sink tells the reader which input the others wait for, without Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tests.spark.support import Warehouse
from tests.spark.test_ranges import job_of
from xmlpunct.engine.spark.job import COUNTS, WAITS, Job, Row
from xmlpunct.engine.spark.metrics import RunMetrics
from xmlpunct.engine.spark.processor import Shard
from xmlpunct.engine.spark.source import QueryReader
from xmlpunct.engine.stats import RunStats


def reports(job: Job, moved: set[int], tasks_of: dict[str, object], end: dict[str, object]) -> list[Row]:
    """What a micro-batch that read these inputs says of itself: the reader's counts and one shard's waits."""
    reader = QueryReader(job)
    tasks = reader.partitions(tasks_of, end)
    rows = [Row(*row) for task in tasks if task.task.number in moved for row in reader.read(task)]
    shard = Shard(replace(job, shards=1), 0, 0)
    mine = [row for row in rows if row.stage == 0]
    return [row for row in rows if row.port == COUNTS] + [r for r in shard.push(mine) if r.port == WAITS]


def test_what_waits_is_reported_and_the_input_then_read_alone(tmp_path: Path) -> None:
    query = Warehouse(tmp_path).hottest()
    job = replace(job_of(query, tmp_path, shards=1, slice_bytes=1500), pacing=str(tmp_path / "pacing"))
    reader = QueryReader(job)
    start = reader.initialOffset()
    both = reader.latestOffset(start, None)
    assert all(both[i] != start[i] for i in ("0", "1"))

    metrics = RunMetrics(query, job.inputs, RunStats("spark"), {})
    metrics.take(reports(job, {0}, start, both))
    waits = next(iter(metrics._waits.values()))
    assert waits[0] == 0
    assert waits[1] > 0  # the first sensor has closed its hour, the second has not
    assert metrics.starved is None  # but that is less than the micro-batch brought
    metrics._taken = waits[1] - 1
    assert metrics.starved == 1

    Path(job.pacing).write_text(json.dumps(metrics.starved))
    alone = reader.latestOffset(both, None)
    assert alone["0"] == both["0"]
    assert alone["1"] != both["1"]


def test_an_ended_input_is_never_waited_for(tmp_path: Path) -> None:
    query = Warehouse(tmp_path).hottest()
    job = replace(job_of(query, tmp_path, slice_bytes=10**6), pacing=str(tmp_path / "pacing"))
    reader = QueryReader(job)
    end = reader.latestOffset(reader.initialOffset(), None)
    Path(job.pacing).write_text("1")
    assert end["1"]["eos"]
    assert reader.latestOffset(end, None) == end
