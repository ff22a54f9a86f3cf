"""Files that tasks read, split and check; the planning process reads almost no bytes of them."""

from __future__ import annotations

import gc
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import pytest

from tests.spark.support import SCHEMA, Warehouse, select_all
from tests.spark.test_ranges import TUPLE, documents, job_of, micro_batches, results
from xmlpunct.base.errors import TransientError
from xmlpunct.connectors.source import ChangedError
from xmlpunct.engine.run.inputs import cuts, parse_ranges
from xmlpunct.engine.run.inputs.parts import Input, Part
from xmlpunct.engine.run.inputs.ranges import Range, advance
from xmlpunct.engine.run.inputs.uncut import Uncut, save
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.spark import spark_source
from xmlpunct.engine.spark.job import Job
from xmlpunct.engine.spark.run_metrics import RunMetrics
from xmlpunct.engine.spark.spark_source import Offset, QueryReader
from xmlpunct.engine.spark.stage_messages import Failure, StageRow, TaskReport, received
from xmlpunct.firehose.builder import Parsed
from xmlpunct.firehose.native.walker import Known
from xmlpunct.firehose.parser import Parser
from xmlpunct.firehose.position import Cursor, Position, Split
from xmlpunct.firehose.spec import StreamSpec


def directory(folder: Path, *texts: str) -> Path:
    folder.mkdir(parents=True)
    for number, text in enumerate(texts):
        (folder / f"{number:03}.xml").write_text(text)
    return folder


def offsets(job: Job) -> list[Offset]:
    """All offsets that are planned for a job whose ranges no task reads."""
    reader = QueryReader(job)
    planned = [reader.initialOffset()]
    while (end := json.loads(json.dumps(reader.latestOffset(planned[-1], None)))) != planned[-1]:
        reader.partitions(planned[-1], end)
        planned.append(end)
    return planned


def bytes_read() -> int:
    """The number of bytes that this process has read."""
    return int(re.findall("rchar: ([0-9]+)", Path("/proc/self/io").read_text())[0])


@pytest.mark.skipif(
    not os.path.exists("/proc/self/io"), reason="the system does not count the bytes that a process reads"
)
def test_planning_reads_less_than_a_hundredth_of_a_directory(tmp_path: Path) -> None:
    files = directory(tmp_path / "in", *[documents(200)] * 300)
    job = job_of(select_all(files, SCHEMA), tmp_path, slice_bytes=2**17)
    size = sum(path.stat().st_size for path in files.iterdir())
    before = bytes_read()
    planned = offsets(job)
    assert len(planned) > 10
    assert bytes_read() - before < size / 100


@pytest.mark.parametrize("at_once", [1, 100, 2**20])
@pytest.mark.parametrize("restarts", [False, True])
def test_tasks_split_the_files_that_they_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int, restarts: bool
) -> None:
    monkeypatch.setattr(parse_ranges, "AT_ONCE_BYTES", at_once)
    texts = [documents(3, 0, 5), documents(0), documents(7), documents(40, 2)]
    job = job_of(select_all(directory(tmp_path / "in", *texts), SCHEMA), tmp_path, slice_bytes=600)
    batches = micro_batches(job, restarts=restarts)
    output = results(job, batches)
    assert output.tuples["hour"].to_list() == [hour for n in (3, 0, 5, 0, 7, 40, 2) for hour in range(n)]
    assert sum(p.is_everything for p in output.punctuations) == 1
    sizes = [task.streams[0].bytes for rows in batches for _, task in received(TaskReport, rows)]
    assert sum(sizes) == sum(len(text) for text in texts)
    assert len(batches) > 3


def test_small_files_are_one_range_and_large_ones_are_cut(tmp_path: Path) -> None:
    texts = [documents(2), documents(2), documents(50), documents(3)]
    job = job_of(select_all(directory(tmp_path / "in", *texts), SCHEMA), tmp_path)
    (input_,), elements, size = job.inputs, job.elements(0), len(texts[0])
    small = Uncut(input_, size, {})
    ranges, cursor = advance(input_, elements, Cursor(), 2 * size, 100, uncut=small)
    assert [(r.part, r.size, r.uncut, r.final, r.last) for r in ranges] == [
        (0, size, True, True, False),
        (1, size, True, True, False),
    ]
    assert cursor == Cursor(2)
    ranges, cursor = advance(input_, elements, cursor, 2 * size, 100, uncut=small)
    assert {(r.part, r.uncut) for r in ranges} == {(2, False)}
    assert cursor.part == 2
    assert cursor.trace is not None
    unlimited = Uncut(input_, 10**9, {})
    ranges, cursor = advance(input_, elements, Cursor(3), 1, 100, uncut=unlimited)
    assert [(r.size, r.uncut, r.last) for r in ranges] == [(len(texts[3]), True, True)], "at least one"
    assert cursor.done
    repeated, end = advance(input_, elements, Cursor(3), 10**9, 100, stop=cursor, uncut=small)
    assert ([replace(r, stamp=None) for r in repeated], end) == (
        [replace(r, stamp=None) for r in ranges],
        cursor,
    )


def test_files_larger_than_a_first_micro_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While there is a file for each core, each file is one task; the last files are cut."""
    size = len(documents(40))
    sizes = {"MOST_BYTES": size + 1, "FIRST_BYTES": size // 4, "LEAST_PIECE": 100, "SHORT_SECONDS": 0}
    for name, value in sizes.items():
        monkeypatch.setattr(spark_source, name, value)
    job = job_of(select_all(directory(tmp_path / "in", *[documents(40)] * 9), SCHEMA), tmp_path, shards=3)
    reader = QueryReader(job)
    start, batches = reader.initialOffset(), []
    while (end := reader.latestOffset(start, None)) != start:
        batches.append([(r.part, r.uncut) for p in reader.partitions(start, end) for r in p.task.ranges])
        start = end
    assert batches[:2] == [[(0, True), (1, True), (2, True)], [(3, True), (4, True), (5, True)]]
    assert all(not uncut for batch in batches[2:] for _, uncut in batch)
    assert results(job, micro_batches(job)).tuples["hour"].to_list() == [*range(40)] * 9


def test_a_large_file_with_saved_cuts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks share the pieces of the file; a restart plans the same pieces."""
    monkeypatch.setattr(cuts, "SPAN_BYTES", 300)
    monkeypatch.setattr(cuts, "PIECE_BYTES", 100)
    monkeypatch.setattr(spark_source, "LEAST_PIECE", 100)
    path = tmp_path / "in.xml"
    path.write_text(documents(20, 60, 0, 3))
    job = job_of(select_all(path, SCHEMA), tmp_path, slice_bytes=700)
    (pieces,) = cuts.find_cuts(
        [(job.inputs[0].parts[0], job.elements(0))], lambda spans: [*map(cuts.scan, spans)]
    )
    save(tmp_path / "cuts", {(0, 0): pieces})
    job_with_cuts = replace(job, cuts=str(tmp_path / "cuts"))
    expected = results(job, micro_batches(job))
    planned = offsets(job_with_cuts)
    assert len(planned) > 5
    assert all(Cursor.from_json(offset["0"]).trace is None for offset in planned)
    for restarts in (False, True):
        output = results(job_with_cuts, micro_batches(job_with_cuts, restarts=restarts))
        assert output.tuples.equals(expected.tuples)
        assert {*output.punctuations} == {*expected.punctuations}
    reader = QueryReader(job_with_cuts)
    tasks = reader.partitions(planned[1], planned[2])
    path.write_text(path.read_text().replace("<hour>1", "<hour>2"))
    with pytest.raises(ChangedError, match="an input has changed"):
        list(reader.read(tasks[0]))


@pytest.mark.parametrize("wrong", ["<tempdata><hour>9</hours></tempdata>", "<tempdata><hour>\0", "</s></s>"])
def test_a_malformed_file_within_a_directory(tmp_path: Path, wrong: str) -> None:
    """Tuples before the error count; later tasks do not; the error has its file, line and byte."""
    broken = "<s>\n" + TUPLE.format(1) + "\n" + TUPLE.format(2) + "\n" + wrong + TUPLE.format(3) + "</s>"
    files = directory(tmp_path / "in", documents(2), broken, documents(3))
    job = job_of(select_all(files, SCHEMA), tmp_path)
    (rows,) = micro_batches(job)
    ((failed_seq, failure),) = received(Failure, rows)
    assert failure.error.source == str(files / "001.xml")
    assert failure.error.line == 4
    assert failure.error.byte is not None
    assert broken.index(wrong) <= failure.error.byte < broken.index("</s>", broken.index(wrong) + 5)
    before = [row for row in rows if row.seq <= failed_seq]
    assert results(job, [before]).tuples["hour"].to_list() == [0, 1, 1, 2]
    assert not any(p.is_everything for p in results(job, [before]).punctuations)


def test_a_deleted_file(tmp_path: Path) -> None:
    files = directory(tmp_path / "in", documents(2), documents(3))
    job = job_of(select_all(files, SCHEMA), tmp_path)
    (files / "001.xml").unlink()
    with pytest.raises(
        TransientError, match=f"{files / '001.xml'}: cannot be read: No such file or directory"
    ):
        micro_batches(job)


def write_over(path: Path, text: str) -> None:
    path.write_text(text)


def replace_file(path: Path, text: str) -> None:
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").replace(path)


def truncate(path: Path, text: str) -> None:
    path.write_text(text[:-20])


@pytest.mark.parametrize("change", [write_over, replace_file, truncate])
def test_a_file_that_is_written_between_plan_and_task(
    tmp_path: Path, change: Callable[[Path, str], None]
) -> None:
    """A repeated task must read the same bytes as the first one."""
    files = directory(tmp_path / "in", documents(2), documents(3))
    job = job_of(select_all(files, SCHEMA), tmp_path)
    reader = QueryReader(job)
    start = reader.initialOffset()
    (task,) = reader.partitions(start, reader.latestOffset(start, None))
    assert list(reader.read(task))
    path = files / "001.xml"
    change(path, path.read_text().replace(">1<", ">8<"))
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 10**9))
    with pytest.raises(ChangedError, match="an input has changed"):
        list(reader.read(task))


def append_document(path: Path) -> None:
    with path.open("a") as file:
        file.write(documents(2))


def touch(path: Path) -> None:
    os.utime(path, (1, 1))


@pytest.mark.parametrize("change", [append_document, touch])
def test_changes_that_leave_the_planned_bytes(tmp_path: Path, change: Callable[[Path], None]) -> None:
    files = directory(tmp_path / "in", documents(2), documents(3))
    job = job_of(select_all(files, SCHEMA), tmp_path)
    reader = QueryReader(job)
    start = reader.initialOffset()
    (task,) = reader.partitions(start, reader.latestOffset(start, None))
    change(files / "001.xml")
    rows = [StageRow(*row) for row in reader.read(task)]
    assert results(job, [rows]).tuples["hour"].to_list() == [0, 1, 0, 1, 2]


def test_a_replay_of_a_written_micro_batch_is_compared_with_it(tmp_path: Path) -> None:
    """The comparison uses the contents of files, not their times of modification."""
    files = directory(tmp_path / "in", documents(2), documents(3))
    query = select_all(files, SCHEMA)
    job = job_of(query, tmp_path)
    (rows,) = micro_batches(job)
    metrics = RunMetrics(query, job.inputs, RunStats("spark"), {})
    metrics.take(rows)
    replay = RunMetrics(query, job.inputs, RunStats("spark"), json.loads(json.dumps(metrics.as_dict())))
    path, text = files / "001.xml", (files / "001.xml").read_text()
    replace_file(path, text)
    replay.compare(micro_batches(job)[0])
    path.write_text(text.replace(">1<", ">8<"))
    with pytest.raises(ChangedError, match=re.escape(str(path))):
        replay.compare(micro_batches(job)[0])


def test_inputs_of_files_of_any_size_end_together(tmp_path: Path, warehouse: Warehouse) -> None:
    """An input that would have to be cut to keep pace waits for the other one instead."""
    first, second = (stream.source for stream in warehouse.streams)
    query = warehouse.hottest()
    small, large = [documents(2)] * 60, [documents(70)] * 3
    streams = (
        replace(query.streams[0], source=str(directory(tmp_path / "small", *small))),
        replace(query.streams[1], source=str(directory(tmp_path / "large", *large))),
    )
    assert first != second
    job = job_of(replace(query, streams=streams), tmp_path, slice_bytes=2 * len(large[0]))
    sizes = [sum(map(len, texts)) for texts in (small, large)]
    planned = offsets(job)
    for offset in planned:
        shares = []
        for number, size in enumerate(sizes):
            cursor = Cursor.from_json(offset[str(number)])
            parts = job.inputs[number].parts
            assert cursor.trace is None, "nothing was cut"
            before = sum(part.size or 0 for part in parts[: cursor.part]) + cursor.position.byte
            shares.append(before / size)
        assert abs(shares[0] - shares[1]) <= 0.5, shares
    assert len(planned) > 2


def live_splits() -> int:
    """The number of splits in memory."""
    return sum(isinstance(o, Split) for o in gc.get_objects())


class SplitCountingParser(Parser):
    """Counts the splits in memory at each call of `parse`."""

    max_splits = 0

    def parse(self, split: Split, known: Known | None = None) -> Parsed:
        self.max_splits = max(self.max_splits, live_splits())
        return super().parse(split, known)


def test_a_task_releases_the_bytes_that_it_has_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parse_ranges, "AT_ONCE_BYTES", 1000)
    file = directory(tmp_path / "in", documents(2000)) / "000.xml"
    part = Part(str(file), str(file), file.stat().st_size)
    file_range = Range(0, Position(), part.size or 0, final=True, last=True, uncut=True)
    parser, before = SplitCountingParser([StreamSpec("s", SCHEMA, "tempdata")]), live_splits()
    output = parse_ranges.parse_ranges(Input("s", (0,), (part,)), [file_range], parser)
    assert output.parsed.slices[0].tuples.height == 2000
    assert before < parser.max_splits < before + 10


@pytest.mark.parametrize(
    "replacement", [b">7<", b"</x><", b">0</hour"], ids=["a value", "malformed", "longer"]
)
def test_a_range_with_a_checksum_is_read_unchanged_or_not_at_all(tmp_path: Path, replacement: bytes) -> None:
    file = directory(tmp_path / "in", documents(300)) / "000.xml"
    data = file.read_bytes()
    start, size = data.index(b"<tempdata>"), data.rindex(b"</tempdata>") - data.index(b"<tempdata>") + 11
    part = Part(str(file), str(file), len(data))
    opened = Position(start, 1 + data.count(b"\n", 0, start), ("<s>", "<part>"), started=True)
    checked_range = Range(0, opened, size, uncut=True, checksum=crc32(data[start : start + size]))
    parser = Parser([StreamSpec("s", SCHEMA, "tempdata")])
    assert (
        parse_ranges.parse_ranges(Input("s", (0,), (part,)), [checked_range], parser)
        .parsed.slices[0]
        .tuples.height
        == 300
    )
    file.write_bytes(data.replace(b">0<", replacement, 1))
    with pytest.raises(ChangedError, match="have changed"):
        parse_ranges.parse_ranges(Input("s", (0,), (part,)), [checked_range], parser)
    file.write_bytes(data[: start + 99])
    with pytest.raises(ChangedError, match=r"it ends at byte|are not those"):
        parse_ranges.parse_ranges(Input("s", (0,), (part,)), [checked_range], parser)
    file.unlink()
    with pytest.raises(TransientError, match=f"{file}: cannot be read: No such file or directory"):
        parse_ranges.parse_ranges(Input("s", (0,), (part,)), [checked_range], parser)
