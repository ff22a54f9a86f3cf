"""The sink tells the reader which input the others wait for, without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.spark.support import Warehouse
from tests.spark.test_ranges import job_of
from xmlpunct.engine.run.inputs.pacing import Pace
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.spark.backpressure import COMING_BYTES, Wish
from xmlpunct.engine.spark.job import COUNTS, WAITS, Job, StageRow
from xmlpunct.engine.spark.processor import Shard
from xmlpunct.engine.spark.run_metrics import RunMetrics
from xmlpunct.engine.spark.spark_source import FIRST_BYTES, QueryReader
from xmlpunct.engine.sql import plan


def reports(job: Job, moved: set[int], tasks_of: dict[str, object], end: dict[str, object]) -> list[StageRow]:
    """What a micro-batch that read these inputs says of itself: the reader's counts and one shard's waits."""
    reader = QueryReader(job)
    tasks = reader.partitions(tasks_of, end)
    rows = [StageRow(*row) for task in tasks if task.task.number in moved for row in reader.read(task)]
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
    metrics._batch_tuples = waits[1] - 1
    assert metrics.starved == 1

    Wish(metrics.starved).write(Path(job.pacing))
    alone = reader.latestOffset(both, None)
    assert alone["0"] == both["0"]
    assert alone["1"] != both["1"]


def test_an_ended_input_is_never_waited_for(tmp_path: Path) -> None:
    query = Warehouse(tmp_path).hottest()
    job = replace(job_of(query, tmp_path, slice_bytes=10**6), pacing=str(tmp_path / "pacing"))
    reader = QueryReader(job)
    end = reader.latestOffset(reader.initialOffset(), None)
    Wish(1).write(Path(job.pacing))
    assert end["1"]["eos"]
    assert reader.latestOffset(end, None) == end


def test_what_comes_to_the_sink_bounds_what_is_read(tmp_path: Path) -> None:
    """Of what gives back all that it reads, and more, as much is read as the sink can take."""
    files = tmp_path / "in"
    files.mkdir()
    for number in range(40):
        (files / f"{number:02}.xml").write_text("<s>" + "<tempdata><hour>1</hour></tempdata>" * 30 + "</s>")
    query = plan(
        "CREATE STREAM a (hour INT) WITH (element = 'tempdata'); SELECT hour FROM a", {"a": str(files)}
    )
    job = replace(job_of(query, tmp_path, shards=1), pacing=str(tmp_path / "pacing"))
    reader = QueryReader(job)
    reader.pace = Pace(None, first=2000, most=10**9, seconds=1000)
    start, sizes = reader.initialOffset(), []
    for share in (0.0, 0.1, 1.0, 4.0, 0.5):
        Wish(None, share).write(Path(job.pacing))
        start = reader.latestOffset(start, None)
        sizes.append(reader.pace.bytes)
    assert sizes == [2000, 8000, 8000, 2000, 4000]


def test_a_first_micro_batch_is_no_larger_than_what_may_come(tmp_path: Path) -> None:
    job = job_of(Warehouse(tmp_path).hottest(), tmp_path, shards=1000)
    assert QueryReader(job).pace.bytes == COMING_BYTES // 2 < 1000 * FIRST_BYTES


def test_nothing_is_wanted_before_something_is_said(tmp_path: Path) -> None:
    assert Wish.read(tmp_path / "pacing") == Wish(None, 0.0)
    for torn in ("", "[1", "7", "[1]"):
        (tmp_path / "pacing").write_text(torn)
        assert Wish.read(tmp_path / "pacing") == Wish(None, 0.0)
