"""The output and the commits of the sink, without Spark."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.checkpoints import Keeping, committed
from tests.spark.simulated import run_sink
from tests.spark.support import NAMESPACE, SCHEMA, Warehouse, select_all
from tests.spark.test_ranges import job_of
from xmlpunct.base.codec import pack, pieces
from xmlpunct.base.errors import Reject, SourceError, StrictError, UsageError, XmlPunctError
from xmlpunct.engine.rules.guard import with_guards
from xmlpunct.engine.run.checkpoint.checkpoint import Checkpoint
from xmlpunct.engine.run.checkpoint.commit import Commit, Written
from xmlpunct.engine.run.checkpoint.log import WriteAheadLog
from xmlpunct.engine.run.durable_files import Appender
from xmlpunct.engine.run.file_outlet import FileOutlet
from xmlpunct.engine.run.output import Output
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.run.stats import InputStats, OperatorStats, RunStats
from xmlpunct.engine.spark.job import Job
from xmlpunct.engine.spark.run_metrics import RunMetrics
from xmlpunct.engine.spark.spark_sink import MicroBatchSink
from xmlpunct.engine.spark.spark_source import QueryReader
from xmlpunct.engine.spark.stage_messages import (
    RESULT,
    Failure,
    OperatorReport,
    ShardReport,
    StageRow,
    TaskReport,
    task_seq,
)
from xmlpunct.engine.view.metrics import metrics
from xmlpunct.engine.view.moment import moment_of, plan_of
from xmlpunct.engine.view.trend import Trend
from xmlpunct.firehose import writer_for
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.slice import Slice


class Bench:
    """A sink over files in ``folder``, for a plan with only a scan, or for ``job``."""

    def __init__(self, folder: Path, job: Job | None = None) -> None:
        self.folder, self.out, self.rejects = folder, folder / "out.xml", folder / "rejects.jsonl"
        if job is None:
            source = folder / "in.xml"
            source.write_text("<s/>")
            job = job_of(select_all(source, SCHEMA), folder)
        self.job, self.schema = job, job.fragments.schema
        self._opened: list[FileOutlet] = []

    def sink(self, *, strict: bool = False) -> MicroBatchSink:
        """A new sink that continues from the last commit, as in a restarted run."""
        for outlet in self._opened:
            outlet.close()
        commit, self.stats = committed(self.folder / "log"), RunStats("spark")
        self._opened = [
            FileOutlet(str(self.out), commit.outputs[0].length),
            FileOutlet(str(self.rejects), commit.rejects.length),
        ]
        writer = writer_for("xml", self.schema, punct_namespace=NAMESPACE)
        outlet, rejects = self._opened
        metrics = RunMetrics(self.job.query, self.job.inputs, self.stats, commit.stats, commit.held)
        outputs = [(Output(self.schema, writer), outlet)]
        sink = run_sink(self.job.query, outputs, rejects, self.stats, commit, strict)
        return MicroBatchSink(self.job, Keeping(self.folder / "log"), commit, sink, metrics)

    def result(self, ordinal: int, *hours: int, closed: str = "", end: bool = False) -> StageRow:
        """A result row: a tuple for each hour, a punctuation on the hour, and the end."""
        schema = self.schema
        punctuations = [Punctuation.of(schema, hour=closed)] if closed else []
        punctuations += [Punctuation.everything(schema)] if end else []
        tuples = schema.frame([tuple(h if n == "hour" else None for n in schema.names) for h in hours])
        seq = task_seq(0, ordinal) if not self.job.sink else ordinal
        return StageRow(0, self.job.sink, RESULT, seq, Slice(tuples, punctuations).to_bytes())

    def report(
        self, ordinal: int, *rejects: Reject, number: int = 0, has_ended: bool = False, **counted: int
    ) -> StageRow:
        """The report of a task of input ``number``."""
        report = TaskReport([InputStats(**counted)], [{}], has_ended, rejects=rejects)
        return report.to_row(0, self.job.sink, task_seq(number, ordinal))

    def failure(self, ordinal: int, *arguments: Any) -> StageRow:
        return Failure(SourceError(*arguments)).to_row(0, self.job.sink, task_seq(0, ordinal))


def test_micro_batches_are_written_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    sink = bench.sink()
    sink.take([bench.result(1, 6), bench.result(0, 5, closed="(,5]")], 0)
    first = bench.out.read_bytes()
    assert first.count(b"<result>") == 2
    sink.take([bench.result(0, 9)], 0)  # replayed
    assert bench.out.read_bytes() == first
    bench.out.write_bytes(first + b"<result> of a run that was killed")
    sink = bench.sink()
    sink.take([bench.result(0, 5, 7, end=True)], 1)
    assert sink.done.is_set()
    assert bench.out.read_bytes() == first + b"<result><hour>7</hour></result>\n</stream>\n"
    assert (bench.stats.tuples_out, bench.stats.late, bench.stats.slices) == (3, 1, 2)
    assert committed(tmp_path / "log").ended
    bench.out.write_bytes(b"")
    with pytest.raises(XmlPunctError, match="shorter"):
        bench.sink()


def test_a_commit_record_is_restored(tmp_path: Path) -> None:
    record = Commit(3, [Written(10, 2, {"a": 1}, True), Written()], Written(20), False, ["s", "why", 1, 2])
    record.stats, record.output = {"slices": 4}, {"0/a": SCHEMA.empty()}
    restored = Commit.from_record(pieces(pack(record.to_record())))
    assert restored.output.pop("0/a").columns == [*SCHEMA.names]
    assert restored == replace(record, output={})
    assert committed(tmp_path / "nothing") == Commit()


def test_a_failed_write_is_not_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path)
    sink = bench.sink()
    with monkeypatch.context() as patch:
        patch.setattr(
            Appender, "append", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "No space left"))
        )
        with pytest.raises(OSError, match="No space"):
            sink.take([bench.result(0, 1)], 0)
    assert isinstance(sink.failure, OSError)
    assert sink.done.is_set()
    with pytest.raises(XmlPunctError, match="later run"):
        sink.take([bench.result(0, 2)], 1)
    assert not (tmp_path / "log").exists()


def test_a_failed_source(tmp_path: Path) -> None:
    """The sink commits tuples before the failure, drops tuples after it, and does not end the output."""
    bench = Bench(tmp_path)
    sink = bench.sink()
    reject = Reject("in.xml", 1, 2, "why", "<t/>")
    rows = [
        row
        for n in range(3)
        for row in (
            bench.result(n, n, end=n == 2),
            bench.report(n, reject, tuples=1, bytes=10),
        )
    ]
    sink.take([*rows, bench.failure(1, "in.xml", "broken", 3, 4)], 0)
    assert str(sink.failure) == "in.xml, line 3, byte 4: broken"
    assert isinstance(sink.failure, SourceError)
    assert bench.out.read_bytes().endswith(b"<result><hour>1</hour></result>\n")
    assert bench.stats.inputs["sensor1"] == InputStats(tuples=2, bytes=20)
    assert len(bench.rejects.read_text().splitlines()) == 2
    assert committed(tmp_path / "log").failure == ["in.xml", "broken", 3, 4]


def test_strict(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    sink = bench.sink(strict=True)
    sink.take([bench.result(0, 1)], 0)
    assert not sink.done.is_set()
    computed = Reject("project #3", None, None, "division by zero", "{}")
    rejects = [computed, *(Reject("in.xml", 1, byte, "why", "<t/>") for byte in (20, 2))]
    rows = [bench.result(0, 2), bench.report(0, *rejects)]
    with pytest.raises(StrictError):
        sink.take(rows, 1)
    assert isinstance(sink.failure, StrictError)
    assert sink.done.is_set()
    assert str(sink.failure) == "--strict: in.xml, line 1, byte 2: why"
    assert bench.out.read_bytes().count(b"<result>") == 1
    assert [json.loads(line)["byte"] for line in bench.rejects.read_text().splitlines()] == [2]
    assert committed(tmp_path / "log").batch == 0, "the same command fails in the same way"


def test_the_end_needs_every_shard(tmp_path: Path, warehouse: Warehouse) -> None:
    bench = Bench(tmp_path, job_of(warehouse.hottest(), tmp_path))
    sink = bench.sink()

    def report(shard: int, state_rows: int) -> StageRow:
        stats = OperatorStats(tuples_in=2, tuples_out=1, state_rows=state_rows, id=4, operator="group-by")
        return ShardReport(0, [OperatorReport(stats, [0])], [0, 0]).to_row(0, 1, shard)

    sink.take([bench.result(0, 3, end=True), report(0, 3), report(1, 3)], 0)
    assert not sink.done.is_set()
    sink = bench.sink()
    sink.take([bench.result(1, 4, end=True), report(1, 1)], 1)
    assert sink.done.is_set()
    (group_by,) = bench.stats.operators
    assert (group_by.tuples_in, group_by.state_rows, group_by.state_rows_peak) == (6, 4, 6)


def test_streams_are_only_appended_to(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        Appender(str(tmp_path / "no" / "out"), 0)
    with closing(Appender("/dev/null", 5)) as file:
        assert file.append(b"abc", 5) == 8
    with closing(Appender(None, 0)) as file:
        file.append(b"to the screen", 0)
    assert capfdbinary.readouterr().out == b"to the screen"


def test_one_run_at_a_time(tmp_path: Path) -> None:
    source = tmp_path / "in.xml"
    source.write_text("<s/>")
    query, options = select_all(source, SCHEMA), RunOptions(output=str(tmp_path / "out"))
    with (
        Checkpoint(tmp_path / "checkpoint", query, options),
        pytest.raises(UsageError, match="another run"),
        Checkpoint(tmp_path / "checkpoint", query, options),
    ):
        pass
    with Checkpoint(tmp_path / "checkpoint", query, options) as checkpoint:
        checkpoint.settle(checkpoint.find(), 3)
    with Checkpoint(tmp_path / "checkpoint", query, options) as checkpoint:
        assert checkpoint.settle(checkpoint.find(), 5) == 3, "the number of shards stays"
    other_options = RunOptions(output=str(tmp_path / "elsewhere"))
    with (
        Checkpoint(tmp_path / "checkpoint", query, other_options) as checkpoint,
        pytest.raises(UsageError, match="output"),
    ):
        checkpoint.find()


@pytest.mark.parametrize("judges", [True, False])
def test_a_run_ends_with_its_output_unless_it_has_guards(
    tmp_path: Path, warehouse: Warehouse, caplog: pytest.LogCaptureFixture, judges: bool
) -> None:
    query = warehouse.hottest()
    bench = Bench(tmp_path, job_of(with_guards(query) if judges else query, tmp_path))
    sink = bench.sink()
    sink.take([bench.result(shard, 3, end=True) for shard in range(2)], 0)
    assert bench.out.read_bytes().endswith(b"</stream>\n")
    commit = committed(tmp_path / "log")
    assert (commit.closed, commit.ended, sink.done.is_set()) == (True, not judges, not judges)
    assert len(caplog.records) == judges, "a log message reports that the run continues"


def test_after_its_output_a_run_only_rejects(
    tmp_path: Path, warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    """The output stays; rejects are still written and reported, also after a restart."""
    bench = Bench(tmp_path, job_of(with_guards(warehouse.hottest()), tmp_path))
    bench.sink().take([bench.result(shard, 3, end=True) for shard in range(2)], 0)
    expected_output = bench.out.read_bytes()
    rows = [bench.result(0, 5), bench.report(0, Reject("in.xml", 1, 2, "late", "<t/>"))]

    def reject_count() -> int:
        return len(bench.rejects.read_text().splitlines())

    sink = bench.sink()
    sink.take(rows, 1)
    assert (bench.out.read_bytes(), reject_count(), sink.done.is_set()) == (expected_output, 1, False)
    strict = bench.sink(strict=True)
    with pytest.raises(StrictError):
        strict.take(rows, 2)
    assert (bench.out.read_bytes(), reject_count(), strict.done.is_set()) == (expected_output, 2, True)
    messages = [record.getMessage() for record in caplog.records]
    assert sum(m.startswith("the output is complete") for m in messages) == 3, "each sink reports it"
    assert [m for m in messages if m.startswith("rejected")] == ["rejected: in.xml, line 1, byte 2: late"]

    sink = bench.sink()
    sink.take([bench.report(0, number=n, has_ended=True) for n in range(2)], 2)
    assert (bench.out.read_bytes(), reject_count(), sink.done.is_set()) == (expected_output, 1, True)
    assert committed(tmp_path / "log").ended


@pytest.mark.parametrize("ends", [False, True])
def test_an_input_that_fails_after_the_end_of_the_output(tmp_path: Path, ends: bool) -> None:
    """As on the local engine: a complete output stays complete."""
    bench = Bench(tmp_path)
    sink = bench.sink()
    failure = bench.failure(0, "in.xml", "it is cut short", 3, 40)
    sink.take([bench.result(0, 5, end=ends), failure], 0)
    assert (sink.failure is None, committed(tmp_path / "log").ended) == (ends, ends)
    assert bench.out.read_bytes().endswith(b"</stream>\n") == ends


def test_the_output_ends_with_all_inputs(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    sink = bench.sink()
    sink.take([bench.report(0, has_ended=True)], 0)
    assert sink.done.is_set()
    assert bench.out.read_bytes().endswith(b"</stream>\n")


def test_a_result_that_xml_cannot_hold_is_a_reject(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    tuples = bench.schema.frame([("a\x01", 1, 2, 3), ("b", 1, 2, 3)])
    sink = bench.sink()
    sink.take([StageRow(0, bench.job.sink, RESULT, task_seq(0, 0), Slice(tuples).to_bytes())], 0)
    assert bench.out.read_bytes().count(b"<result>") == 1
    (reject,) = map(json.loads, bench.rejects.read_text().splitlines())
    assert "a character that XML cannot hold" in reject["reason"]
    assert bench.stats.rejected == 1


def test_a_run_whose_checkpoint_was_taken_over_stops_writing(tmp_path: Path) -> None:
    """Another run has taken over the checkpoint, and this one continues."""
    bench = Bench(tmp_path)
    sink = bench.sink()
    sink.take([], 0)
    successor = WriteAheadLog(tmp_path / "log")
    successor.read()
    successor.take_over()
    before = bench.out.read_bytes(), successor.path.read_bytes()
    with pytest.raises(XmlPunctError, match="another run has taken over"):
        sink.take([], 1)
    assert sink.done.is_set()
    assert (bench.out.read_bytes(), successor.path.read_bytes()) == before


def test_tuples_count_before_the_first_micro_batch_is_committed(tmp_path: Path) -> None:
    """Each task that has read its part counts, once; after the commit, the committed counts do."""
    Warehouse(tmp_path)
    query = select_all(tmp_path / "sensor1.xml", SCHEMA)
    total = (tmp_path / "sensor1.xml").read_text().count("<tempdata>")
    counts = tmp_path / "counts"
    job = replace(job_of(query, tmp_path), slice_bytes=4000, counts=str(counts))
    bench = Bench(tmp_path, job)
    sink, reader = bench.sink(), QueryReader(job)

    def tuples() -> list[float]:
        sink.look_for_idle()
        moment = moment_of(plan_of(job.query), bench.stats, "running", Trend())
        lines = metrics(moment).decode().splitlines()
        return [float(line.split()[-1]) for line in lines if line.startswith("xmlpunct_input_tuples_total{")]

    offsets = [reader.initialOffset()]
    while (end := reader.latestOffset(offsets[-1], None)) != offsets[-1]:
        offsets.append(end)
    (first, *_) = batches = [reader.partitions(*ends) for ends in pairwise(offsets)]
    assert len(batches) > 2
    assert tuples() == [0]
    rows = [StageRow(*row) for task in first for row in reader.read(task)]
    counted = tuples()
    assert 0 < counted[0] < total
    for task in first:  # a second attempt
        list(reader.read(task))
    assert tuples() == counted
    sink.take(rows, 0)
    assert tuples() == counted == [bench.stats.inputs["sensor1"].tuples]
    for task in batches[1]:
        list(reader.read(task))
    assert tuples() == counted
    assert not counts.exists()
