"""Backpressure: the sink requests the input that operators wait for, without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.spark.support import Warehouse
from tests.spark.test_ranges import job_of
from xmlpunct.engine.run.inputs.pacing import Pace
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.spark.backpressure import COMING_BYTES, Wish
from xmlpunct.engine.spark.job import Job
from xmlpunct.engine.spark.processor import Shard
from xmlpunct.engine.spark.run_metrics import RunMetrics
from xmlpunct.engine.spark.spark_source import FIRST_BYTES, QueryReader
from xmlpunct.engine.spark.stage_messages import Port, StageRow
from xmlpunct.engine.sql import plan


def reports(
    job: Job, read_inputs: set[int], start: dict[str, object], end: dict[str, object]
) -> list[StageRow]:
    """A micro-batch's reports: of the reader's tasks and of one shard."""
    reader = QueryReader(job)
    tasks = reader.partitions(start, end)
    rows = [StageRow(*row) for task in tasks if task.task.number in read_inputs for row in reader.read(task)]
    shard = Shard(replace(job, shards=1), 0, 0)
    stage_rows = [row for row in rows if row.stage == 0]
    all_rows = [*rows, *shard.push(stage_rows)]
    return [row for row in all_rows if row.port in (Port.TASK_REPORT, Port.SHARD_REPORT)]


def test_a_starved_input_is_reported_and_read_alone(tmp_path: Path) -> None:
    query = Warehouse(tmp_path).hottest()
    job = replace(job_of(query, tmp_path, shards=1, slice_bytes=1500), pacing=str(tmp_path / "pacing"))
    reader = QueryReader(job)
    start = reader.initialOffset()
    both_inputs_end = reader.latestOffset(start, None)
    assert all(both_inputs_end[i] != start[i] for i in ("0", "1"))

    metrics = RunMetrics(query, job.inputs, RunStats("spark"), {})
    metrics.take(reports(job, {0}, start, both_inputs_end))
    waits = next(iter(metrics._waits.values()))
    assert waits[0] == 0
    assert waits[1] > 0  # the first sensor has closed its hour, the second one has not
    assert metrics.starved is None  # but fewer tuples wait than the micro-batch brought
    metrics._batch_tuples = waits[1] - 1
    assert metrics.starved == 1

    Wish(metrics.starved).write(Path(job.pacing))
    next_end = reader.latestOffset(both_inputs_end, None)
    assert next_end["0"] == both_inputs_end["0"]
    assert next_end["1"] != both_inputs_end["1"]


def test_an_ended_input_is_never_waited_for(tmp_path: Path) -> None:
    query = Warehouse(tmp_path).hottest()
    job = replace(job_of(query, tmp_path, slice_bytes=10**6), pacing=str(tmp_path / "pacing"))
    reader = QueryReader(job)
    end = reader.latestOffset(reader.initialOffset(), None)
    Wish(1).write(Path(job.pacing))
    assert end["1"]["eos"]
    assert reader.latestOffset(end, None) == end


def test_bytes_at_the_sink_bound_the_bytes_that_are_read(tmp_path: Path) -> None:
    """After a micro-batch that brings the sink more than its limit, the next one is smaller."""
    files = tmp_path / "in"
    files.mkdir()
    for number in range(40):
        (files / f"{number:02}.xml").write_text("<s>" + "<tempdata><hour>1</hour></tempdata>" * 30 + "</s>")
    query = plan(
        "CREATE STREAM a (hour INT) WITH (element = 'tempdata'); SELECT hour FROM a", {"a": str(files)}
    )
    job = replace(job_of(query, tmp_path, shards=1), pacing=str(tmp_path / "pacing"))
    reader = QueryReader(job)
    reader.pace = Pace(None, first=2000, largest=10**9, seconds=1000)
    start, sizes = reader.initialOffset(), []
    for share in (0.0, 0.1, 1.0, 4.0, 0.5):
        Wish(None, share).write(Path(job.pacing))
        start = reader.latestOffset(start, None)
        sizes.append(reader.pace.bytes)
    assert sizes == [2000, 8000, 8000, 2000, 4000]


def test_the_first_micro_batch_is_no_larger_than_the_sink_can_take(tmp_path: Path) -> None:
    job = job_of(Warehouse(tmp_path).hottest(), tmp_path, shards=1000)
    assert QueryReader(job).pace.bytes == COMING_BYTES // 2 < 1000 * FIRST_BYTES


def test_a_missing_or_damaged_request_is_the_default(tmp_path: Path) -> None:
    assert Wish.read(tmp_path / "pacing") == Wish(None, 0.0)
    for torn in ("", "[1", "7", "[1]"):
        (tmp_path / "pacing").write_text(torn)
        assert Wish.read(tmp_path / "pacing") == Wish(None, 0.0)
