"""The reader without Spark: cursors, ranges, tasks and offsets."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.checkpoints import spooled
from tests.spark.support import NAMESPACE, SCHEMA, Warehouse, select_all
from xmlpunct.base import frames
from xmlpunct.base.errors import TransientError
from xmlpunct.connectors.source import ChangedError
from xmlpunct.engine.partition.fragments import cut_plan
from xmlpunct.engine.plan import Query
from xmlpunct.engine.run.inputs.parts import Input, Part
from xmlpunct.engine.run.inputs.ranges import Range, advance, budgets, grouped
from xmlpunct.engine.run.inputs.segments import end_of, finish, log_of, open_at
from xmlpunct.engine.run.inputs.spool import find_inputs, unfinished
from xmlpunct.engine.spark.edge import RangeTask, read_task
from xmlpunct.engine.spark.job import Job
from xmlpunct.engine.spark.processor import Shard
from xmlpunct.engine.spark.spark_source import QueryReader
from xmlpunct.engine.spark.stage_messages import RESULT, Failure, Port, StageRow, TaskReport, received
from xmlpunct.firehose.position import Cursor
from xmlpunct.slice import Slice, concat

TUPLE = "<tempdata><hour>{}</hour></tempdata>"


def job_of(query: Query, folder: Path, shards: int = 2, slice_bytes: int | None = None) -> Job:
    inputs, spools = find_inputs(query, folder / "spool")
    for spool in spools:
        spool.run()
    fragments = cut_plan(query.roots, [s.name for s in query.streams])
    return Job(query, fragments, tuple(inputs), shards, slice_bytes, NAMESPACE)


def micro_batches(job: Job, *, restarts: bool = False) -> list[list[StageRow]]:
    """The rows of each micro-batch that Spark would plan and read until the offset stays the same."""
    reader = QueryReader(job)
    start, batches = reader.initialOffset(), []
    while True:
        end = json.loads(json.dumps(reader.latestOffset(start, None)))
        if end == start:
            return batches
        if restarts:
            reader = QueryReader(Job.from_text(job.to_text()))
        batches.append(
            [StageRow(*row) for task in reader.partitions(start, end) for row in reader.read(task)]
        )
        start = end


def results(job: Job, batches: list[list[StageRow]]) -> Slice:
    payloads = [row.payload for rows in batches for row in rows if row.port == RESULT]
    schema = job.fragments.schema
    return concat(schema, [Slice.from_bytes(schema, payload) for payload in payloads])


def documents(*counts: int) -> str:
    """Documents with ``counts`` tuples each, and white space between all elements."""
    punctuation = "<punct:tempdata><hour>(,-1]</hour></punct:tempdata>"
    return "\n".join(
        f"<!-- {n} -->\n<s xmlns:punct='{NAMESPACE}'>\n  <part>"
        + "\n\t ".join(TUPLE.format(hour) for hour in range(n))
        + f" </part>\n{punctuation}\n</s>\n"
        for n in counts
    )


@pytest.mark.parametrize("size", [1, 50, 333, 10**6])
@pytest.mark.parametrize("restarts", [False, True])
def test_every_slicing_reads_the_same(tmp_path: Path, size: int, restarts: bool) -> None:
    for name, counts in (("a.xml", (3, 0, 5)), ("b.xml", (4,)), ("_no.xml", (9,))):
        (tmp_path / name).write_text(documents(*counts))
    job = job_of(select_all(tmp_path, SCHEMA), tmp_path, slice_bytes=size)
    batches = micro_batches(job, restarts=restarts)
    output = results(job, batches)
    hours = [hour for n in (3, 0, 5, 4) for hour in range(n)]
    assert output.tuples["hour"].to_list() == hours
    assert [p.is_everything for p in output.punctuations][-2:] == [False, True]
    assert sum(p.is_everything for p in output.punctuations) == 1
    assert not any(row.port == Port.FAILURE for rows in batches for row in rows)
    reports = [task for rows in batches for _, task in received(TaskReport, rows)]
    read_bytes = sum(task.streams[0].bytes for task in reports)
    assert read_bytes == sum((tmp_path / name).stat().st_size for name in ("a.xml", "b.xml"))
    assert (len(batches) == 1) == (size == 10**6)


def test_tasks_share_a_slice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xmlpunct.engine.spark.spark_source.LEAST_PIECE", 1000)
    path = tmp_path / "a.xml"
    path.write_text(documents(300))
    job = job_of(select_all(path, SCHEMA), tmp_path, shards=3, slice_bytes=path.stat().st_size)
    reader = QueryReader(job)
    start = reader.initialOffset()
    tasks = [partition.task for partition in reader.partitions(start, reader.latestOffset(start, None))]
    assert 3 <= len(tasks) <= 5
    assert [task.ordinal for task in tasks] == list(range(len(tasks)))
    (batch,) = micro_batches(job)
    assert results(job, [batch]).tuples["hour"].to_list() == list(range(300))


def test_finite_inputs_end_together() -> None:
    left: dict[int, int | None] = {0: 10_000, 1: 1_000, 2: 5}
    rounds = Counter[int]()
    while any(left.values()):
        for number, budget in budgets({k: v for k, v in left.items() if v}, 500).items():
            left[number] = max(0, (left[number] or 0) - budget)
            rounds[number] += 1
    assert rounds[0] == rounds[1] == 20
    assert budgets({0: None, 1: 0}, 7)[0] == 7


def test_a_growing_spool(tmp_path: Path) -> None:
    """Only complete tuples are read; the end marker ends the input; a failure follows the tuples before it."""
    path = tmp_path / "0-0.xml"
    input_ = Input("-", (0,), (Part("-", str(path), None, True),))
    elements = frozenset({"tempdata"})
    path.touch()
    assert advance(input_, elements, Cursor(), 1000, 1000) == ([], Cursor())
    spooled(path, ("<s>" + TUPLE.format(1) + TUPLE.format(2)[:-3]).encode())
    ranges, cursor = advance(input_, elements, Cursor(), 1000, 1000)
    assert [r.data for r in ranges] == [b"<s>" + TUPLE.format(1).encode()]
    assert advance(input_, elements, cursor, 1000, 1000) == ([], cursor)
    finish(path, "connection reset")
    ranges, failed_cursor = advance(input_, elements, cursor, 1000, 1000)
    assert [(r.size, r.failure, r.last) for r in ranges] == [(0, "connection reset", False)]
    assert failed_cursor.done
    assert advance(input_, elements, cursor, 1000, 1000, stop=failed_cursor) == (ranges, failed_cursor)

    spooled(path, ("<s>" + TUPLE.format(1) + "<tempdata>\0").encode())
    (r,), broken_cursor = advance(input_, elements, cursor, 1000, 1000)
    assert (r.size, r.broken, r.final, broken_cursor.done, broken_cursor.failure) == (
        11,
        True,
        False,
        True,
        None,
    )
    assert advance(input_, elements, cursor, 1000, 1000, stop=broken_cursor) == ([r], broken_cursor)

    spooled(path, ("<s>" + TUPLE.format(1) + "</s>\n").encode())
    log_of(path).path.unlink()
    finish(path, None)
    (r,), end_cursor = advance(input_, elements, Cursor(), 1000, 1000)
    assert (r.final, r.last, end_cursor.done, end_cursor.failure) == (True, True, True, None)
    assert advance(input_, elements, Cursor(), 1000, 1000, stop=end_cursor) == ([r], end_cursor)


def test_spooling_continues_from_its_last_byte(tmp_path: Path) -> None:
    source = tmp_path / "in.xml"
    text = '<?xml version="1.0" encoding="utf-16"?>' + documents(5)
    source.write_bytes(text.encode("utf-16"))
    query = select_all(source, SCHEMA)
    (input_,), (spool,) = find_inputs(query, tmp_path / "spool")
    path = Path(input_.parts[0].path)
    spooled(path, text.encode()[:100])
    (resumed,) = unfinished([input_], query)
    resumed.run()
    with open_at(path, 0) as file:
        assert file.read().decode() == text
    assert unfinished([input_], query) == []
    source.write_bytes(text.encode("utf-16")[:-1])
    log_of(path).path.unlink()
    path.unlink()
    spool.run()
    end = end_of(path)
    assert end is not None
    assert "utf-16" in str(end.failure)


def test_tuples_after_a_failure_do_not_count(tmp_path: Path, warehouse: Warehouse) -> None:
    """Tasks run independently; rows of tasks after a failed one do not count."""
    text = "<s>" + "".join(TUPLE.format(hour) for hour in range(6)) + "</s>"
    text = text.replace(">2<", ">two<").replace(">3</hour>", ">3</hours>").replace(">4<", ">four<")
    path = tmp_path / "in.xml"
    path.write_text(text)
    query = warehouse.hottest()
    query = Query.of(query.root, query.streams)
    job = job_of(query, tmp_path)
    broken_input = replace(job.inputs[0], parts=(Part(str(path), str(path), len(text)),))
    job = replace(job, inputs=(broken_input, job.inputs[1]))
    ranges, _ = advance(broken_input, job.elements(0), Cursor(), len(text), 40)
    assert len(ranges) > 4
    rows = [row for n, r in enumerate(ranges) for row in read_task(job, RangeTask(0, n, (r,)))]
    (first, *_) = failures = [row for row in rows if row.port == Port.FAILURE and row.stage == job.sink]
    assert received(Failure, [first])[0][1].error.source == str(path)
    informed_shards = {
        row.shard for row in rows if row.port == Port.FAILURE and row.seq == first.seq and row.stage == 0
    }
    assert len(informed_shards) == 2, "every shard receives the failure"
    assert any(task.rejects and seq > failures[0].seq for seq, task in received(TaskReport, rows))
    hours = set()
    for number in range(2):
        key = sorted(informed_shards, reverse=True)[number]
        shard = Shard(job, 0, number)
        shard.push([row for row in rows if row.stage == 0 and row.shard == key])
        groups = frames.nested_snapshot(shard.pipeline.operators[-2].state.snapshot())["groups"]
        hours.update(*(page["sensor1.hour"].to_list() for page in groups.values()))
    assert hours == {0, 1}


def test_an_unreadable_file_is_no_failure_of_its_source(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_text(documents(3))
    job = job_of(select_all(path, SCHEMA), tmp_path)
    path.unlink()
    with pytest.raises(TransientError, match=f"{path}: cannot be read: No such file or directory"):
        micro_batches(job)


def test_ranges_are_grouped_into_tasks() -> None:
    ranges = [Range(0, Cursor().position, size) for size in (5, 1, 1, 1, 9, 2)]
    assert [[r.size for r in group] for group in grouped(ranges, 3)] == [[5], [1, 1, 1], [9], [2]]


def test_a_job_travels_as_text(tmp_path: Path, warehouse: Warehouse) -> None:
    job: Any = job_of(warehouse.coldest_of_hottest(), tmp_path)
    assert Job.from_text(job.to_text()) == job
    assert [job.shards_of(stage) for stage in range(job.sink)] == [2, 1]


def written_over(path: Path, text: str) -> None:
    path.write_text(text)


def replaced(path: Path, text: str) -> None:
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").replace(path)


@pytest.mark.parametrize("change", [written_over, replaced])
@pytest.mark.parametrize("when", ["planned", "read", "restarted", "planned again"])
def test_a_file_that_changes(tmp_path: Path, change: Callable[[Path, str], None], when: str) -> None:
    """A change between two plans, between a plan and its tasks or between two runs is an error."""
    path, text = tmp_path / "a.xml", documents(30)
    path.write_text(text)
    job = job_of(select_all(path, SCHEMA), tmp_path, slice_bytes=300)
    reader = QueryReader(job)
    start = reader.initialOffset()
    middle = reader.latestOffset(start, None)
    tasks = reader.partitions(start, middle)
    end = reader.latestOffset(middle, None)
    change(path, re.sub(">([0-9])<", lambda digit: f">{9 - int(digit[1])}<", text))
    actions: dict[str, Callable[[], object]] = {
        "planned": lambda: reader.latestOffset(end, None),
        "read": lambda: list(reader.read(tasks[0])),
        "restarted": lambda: QueryReader(job).latestOffset(end, None),
        "planned again": lambda: QueryReader(job).partitions(start, middle),
    }
    with pytest.raises(ChangedError, match="an input has changed"):
        actions[when]()
    change(path, text)
    restarted_reader = QueryReader(job)
    assert [len(restarted_reader.partitions(*pair)) for pair in ((start, middle), (middle, end))] == [1, 1]
    assert list(reader.read(tasks[0]))


def test_a_file_that_is_cut_or_grows(tmp_path: Path) -> None:
    path, text = tmp_path / "a.xml", documents(30)
    path.write_text(text)
    job = job_of(select_all(path, SCHEMA), tmp_path, slice_bytes=300)
    reader = QueryReader(job)
    start = reader.initialOffset()
    middle = reader.latestOffset(start, None)
    path.write_text(text + documents(2))
    batches = micro_batches(job)
    assert results(job, batches).tuples["hour"].to_list() == list(range(30)), (
        "the size at the start of the run"
    )
    path.write_text(text[:-20])
    with pytest.raises(ChangedError, match=r"it has [0-9,]+ bytes, and had"):
        reader.latestOffset(middle, None)
