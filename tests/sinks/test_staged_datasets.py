"""Datasets as Spark's tasks write them, but without Spark: staged files, published files, and which attempts count."""

from __future__ import annotations

import datetime as dt
import fcntl
import os
import random
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
import pyarrow as pa
import pytest

from tests.checkpoints import committed
from tests.reliability.disk import Disk
from tests.reliability.faults import Death
from tests.reliability.support import LONG
from tests.sinks.test_create_sink import DECLARED, Batches, Dying, feed
from tests.sinks.test_datasets import content, seen
from tests.spark.simulated import combined, without_spark
from tests.spark.test_ranges import job_of
from xmlpunct.base.errors import SourceError, StrictError, UsageError, XmlPunctError
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.outlet import Form
from xmlpunct.engine.rules.guard import with_guards
from xmlpunct.engine.run.checkpoint.commit import Commit
from xmlpunct.engine.run.checkpoint.log import WriteAheadLog
from xmlpunct.engine.run.datasets import dataset, open_partitions
from xmlpunct.engine.run.datasets.chunks import ASIDE, put_aside
from xmlpunct.engine.run.local import local_run as local
from xmlpunct.engine.run.reject_limit import RejectLimit
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.run.sink import make_outputs, open_sink
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.spark import combining
from xmlpunct.engine.spark.aside import PutAside
from xmlpunct.engine.spark.run_metrics import RunMetrics
from xmlpunct.engine.spark.runner import staged_outlet
from xmlpunct.engine.spark.spark_executor import SparkExecutor
from xmlpunct.engine.spark.spark_sink import MicroBatchSink
from xmlpunct.engine.spark.stage_messages import StageRow
from xmlpunct.engine.spark.xml_dataset import ChunkTexts, XmlDataset
from xmlpunct.engine.sql import plan
from xmlpunct.firehose import writer_for
from xmlpunct.punctuations.promised import Promised
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

BOTH = "SELECT x, hour, 1 AS one FROM both"
COUNTED = "SELECT x, hour, COUNT(*) AS n FROM both GROUP BY x, hour"
TEXTS = "SELECT t, x, hour FROM a"
ORDERED = "SELECT x, hour, t FROM a ORDER BY hour, x DESC, t"

T = TypeVar("T")


class InProcess(SparkExecutor):
    """Runs tasks in this process."""

    def run(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        return [task() for task in tasks]


class Run:
    """A query whose answer goes to a dataset, and its micro-batches, computed as on Spark."""

    def __init__(
        self,
        folder: Path,
        sql: str = BOTH,
        partition_by: tuple[str, ...] = ("hour",),
        shards: int = 2,
        **options: Any,
    ) -> None:
        self.out, self.log = folder / "out", folder / "log"
        settings: dict[str, Any] = {
            "format": "parquet",
            "partition_by": partition_by,
            "slice_bytes": 300,
            **options,
        }
        self.options = RunOptions(output=f"{self.out}/", **settings)
        query = plan(DECLARED.format(folder=folder) + sql)
        self.query = with_guards(query) if self.options.guarded else query
        self.job, batches = job_of(self.query, folder, shards, self.options.slice_bytes), Batches()
        without_spark(self.job, batches)  # type: ignore[arg-type]
        self.batches = batches.rows

    def begin(self, opened: ExitStack, death: int = -1, run: str = "run") -> MicroBatchSink:
        """A sink that continues from the last commit, and dies before the commit of micro-batch ``death``."""
        commit, self.stats = (
            (committed(self.log) if self.log.exists() else Commit.begun(self.query)),
            RunStats("spark"),
        )
        outputs, options = make_outputs(self.query, self.options), replace(self.options, rejects=None)
        metrics = RunMetrics(self.query, self.job.inputs, self.stats, commit.stats, commit.held)
        sink = opened.enter_context(
            open_sink(
                self.query,
                options,
                outputs,
                self.stats,
                commit,
                run,
                lambda to: staged_outlet(to, InProcess()),
            )
        )
        return MicroBatchSink(self.job, Dying(self.log, death), commit, sink, metrics)

    def rows(self, sink: MicroBatchSink, number: int) -> list[StageRow]:
        """The rows of a micro-batch that the driver receives."""
        return [*sink.aside(number).rows(combined(self.job, self.batches[number]))]

    def live(self, death: int = -1, after: int = 0) -> RunStats:
        """Run from the last commit, or from micro-batch ``after`` if that is later."""
        with ExitStack() as opened:
            sink = self.begin(opened, death)
            first = max(after, committed(self.log).batch if self.log.exists() else 0)
            for number in range(first, len(self.batches)):
                sink.take(self.rows(sink, number), number)
        if sink.failure is not None:
            raise sink.failure
        return self.stats


def rows(out: Path) -> list[tuple[Any, ...]]:
    """The rows that readers see, in a canonical order."""
    paths = [p for p in out.rglob("*.parquet") if "_xmlpunct" not in p.parts]
    frames = [pl.read_parquet(p, hive_partitioning=True) for p in paths]
    return sorted(pl.concat(frames).rows(), key=repr) if frames else []


def temporary_files(out: Path) -> list[str]:
    """The temporary files of a dataset."""
    folder = out / "_xmlpunct"
    return sorted(n for n in os.listdir(folder) if n not in ("lock", "run") and not n.startswith("done-"))


def locally(run: Run) -> RunStats:
    """Run the same query on the local engine."""
    stats = RunStats("local")
    local.run(run.query, run.options, stats)
    return stats


@pytest.mark.parametrize("sql", [BOTH, COUNTED, TEXTS], ids=["union", "groups", "one stream"])
@pytest.mark.parametrize("partition_by", [("hour",), ("x", "hour"), ()], ids=["by hour", "by two", "not"])
@pytest.mark.parametrize("shards", [1, 4])
def test_the_same_as_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str, partition_by: tuple[str, ...], shards: int
) -> None:
    """Punctuations of many shards are combined before they are written."""
    monkeypatch.setattr("xmlpunct.engine.spark.spark_source.LEAST_PIECE", 200)
    monkeypatch.setattr(combining, "MANY", 2)
    (tmp_path / "feed.xml").write_text(feed(shards))
    run = Run(tmp_path, sql, partition_by, shards)
    totals = run.live().outputs[""]
    published_rows, names = rows(run.out), seen(run.out)
    assert temporary_files(run.out) == []
    shutil.rmtree(run.out)
    expected = locally(run).outputs[""]
    assert published_rows == rows(run.out)
    assert names == seen(run.out) or not partition_by
    assert (totals.tuples, totals.punctuations, totals.complete) == (
        expected.tuples,
        expected.punctuations,
        True,
    )
    assert totals.tuples == len(published_rows) >= 10
    assert totals.bytes > 0


def test_late_tuples_are_dropped_and_counted(tmp_path: Path) -> None:
    """Tasks drop them, by the punctuations of earlier micro-batches."""
    (tmp_path / "feed.xml").write_text(feed(1, late=True))
    run = Run(tmp_path, "SELECT hour, x FROM a")
    stats = run.live().outputs[""]
    timely, promised = list[tuple[Any, ...]](), Promised(run.job.fragments.schema)
    for batch in run.batches:
        for row in batch:
            if row.port == 0:
                slice_ = Slice.from_bytes(promised.schema, row.payload)
                timely += slice_.tuples.filter(~promised.mask(slice_.tuples)).rows()
                promised.add(slice_.punctuations)
    assert rows(run.out) == sorted(((x, hour) for hour, x in timely), key=repr)
    assert stats.late == run.stats.inputs["a"].tuples - len(timely) > 0


def test_no_tuple_comes_to_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of the driver's rows does not depend on the number of tuples."""
    monkeypatch.setattr("xmlpunct.engine.spark.stage_messages.PAYLOAD_BYTES", 2**20)
    sizes = []
    for hundreds in (1, 100):
        folder = tmp_path / str(hundreds)
        folder.mkdir()
        tuples = "".join(f"<a><x>{i}</x><hour>1</hour></a>" for i in range(100 * hundreds))
        (folder / "feed.xml").write_text(f"<s>{tuples}</s>")
        run = Run(folder, "SELECT x, hour FROM a", slice_bytes=2**20)
        with ExitStack() as opened:
            sink = run.begin(opened)
            sizes.append(sum(len(row.payload) for row in run.rows(sink, 0) if row.port == 0))
    assert sizes[1] < 1.1 * sizes[0] < 5000


@pytest.mark.parametrize("file_limit", [2, 64])
def test_a_part_is_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_limit: int) -> None:
    monkeypatch.setattr(open_partitions, "MANY", file_limit)
    (tmp_path / "feed.xml").write_text(feed(3))
    run = Run(tmp_path, ORDERED, ())
    run.live()
    (path,) = run.out.glob("part-*")
    file_rows = pl.read_parquet(path).rows()
    assert file_rows == sorted(file_rows, key=lambda row: (row[1], -row[0], row[2] is None, row[2]))
    assert len(file_rows) > 5


@pytest.mark.parametrize(
    "partition_by", [("hour",), ("x",), ()], ids=["by hour", "at the end", "as files fill"]
)
@pytest.mark.parametrize("power", [False, True], ids=["to die at", "to lose power"])
def test_every_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partition_by: tuple[str, ...], power: bool
) -> None:
    """After a restart each row is written once; visible files never change."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(dataset, "FILE_BYTES", 1500)
    monkeypatch.setattr(open_partitions, "MANY", 3)
    (tmp_path / "feed.xml").write_text(feed(6, hours=4))
    run, rng = Run(tmp_path, COUNTED, partition_by, 3), random.Random(7)
    assert len(run.batches) > 3
    stats = run.live().outputs
    expected, names = rows(run.out), seen(run.out)
    assert len(names) > 2

    number, has_died = 0, True
    while has_died:
        shutil.rmtree(run.out)
        run.log.unlink(missing_ok=True)
        disk, death = Disk(), Death(number, torn=bool(number % 2))
        disk.forgets = lambda luck=number % 3: rng.random() >= 0.5 * luck  # type: ignore[misc]
        with disk.watched() if power else nullcontext(), death.awaited():
            run.live()
        has_died = death.came
        if power:
            disk.crash()
        before = content(run.out)
        assert set(rows(run.out)) <= set(expected), death
        assert run.live().outputs == stats or not has_died, death
        after = content(run.out)
        assert {path: after[path] for path in before} == before, death
        assert (rows(run.out), seen(run.out), temporary_files(run.out)) == (expected, names, []), death
        number += 1 if LONG else 7
    assert number > 70


@pytest.mark.parametrize(
    "partition_by", [("hour",), ("x",), ()], ids=["by hour", "at the end", "as files fill"]
)
def test_a_death_between_writing_and_committing(tmp_path: Path, partition_by: tuple[str, ...]) -> None:
    (tmp_path / "feed.xml").write_text(feed(6, hours=4))
    run = Run(tmp_path, COUNTED, partition_by)
    for death in range(len(run.batches)):
        with pytest.raises(OSError, match="died"):
            run.live(death)
        before = content(run.out)
    stats = run.live()
    after = content(run.out)
    assert {path: after[path] for path in before} == before
    published_rows = rows(run.out)
    assert len(published_rows) == len(set(published_rows)) == stats.tuples_out > 10
    assert temporary_files(run.out) == []


@pytest.mark.parametrize("partition_by", [("hour",), ()], ids=["by hour", "as files fill"])
def test_tuples_after_a_failure_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partition_by: tuple[str, ...]
) -> None:
    """Tasks have staged tuples after the position at which another task found a malformed element."""
    monkeypatch.setattr("xmlpunct.engine.spark.spark_source.LEAST_PIECE", 200)
    (tmp_path / "feed.xml").mkdir()
    for number in range(4):
        tuples = "".join(f"<a><x>{100 * number + i}</x><hour>{number}</hour></a>\n" for i in range(100))
        punctuation = f"<punct:a><hour>{number}</hour></punct:a>"
        text = f'<s xmlns:punct="{PUNCT_NAMESPACE}">\n{tuples}{punctuation}</s>'
        wrong = text.replace("<x>150</x>", "<y><x>150</x>")
        (tmp_path / "feed.xml" / f"{number}.xml").write_text(wrong)
    run = Run(tmp_path, "SELECT x, hour FROM a", partition_by, 3, slice_bytes=2**20)
    with ExitStack() as opened:
        sink = run.begin(opened)
        stage_rows = run.rows(sink, 0)
        staged = sum(PutAside.from_bytes(row.payload)[1].tuples for row in stage_rows if row.port == 0)
        assert staged > 150
        sink.take(stage_rows, 0)
    assert isinstance(sink.failure, SourceError)
    assert sorted(x for x, _ in rows(run.out)) == [*range(150)]
    if partition_by:
        assert sorted(x for x, _ in rows(run.out / "_incomplete")) == [*range(100, 150)]
    assert run.stats.tuples_out == 150
    assert not (run.out / "_SUCCESS").exists()


def test_a_task_that_runs_twice_counts_once(tmp_path: Path) -> None:
    """The driver receives the rows of one attempt; files of other attempts are removed."""
    (tmp_path / "feed.xml").write_text(feed(2, hours=3))
    run = Run(tmp_path, COUNTED, ("x",))
    with ExitStack() as opened:
        sink = run.begin(opened)
        for number in range(len(run.batches) - 1):
            run.rows(sink, number)
            sink.take(run.rows(sink, number), number)
            run.rows(sink, number)  # already committed: nothing is staged
    staged = temporary_files(run.out)
    with ExitStack() as opened:
        run.begin(opened)
        assert 0 < len([name for name in temporary_files(run.out) if name.startswith(ASIDE)]) < len(staged)
    run.live()
    published_rows = rows(run.out)
    assert len(published_rows) == len(set(published_rows)) == run.stats.tuples_out
    assert temporary_files(run.out) == []


def test_open_partitions_are_in_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of staged files does not grow with the number of micro-batches."""
    monkeypatch.setattr(open_partitions, "MANY", 4)
    (tmp_path / "feed.xml").write_text(feed(2, hours=40))
    run = Run(tmp_path, "SELECT 1 AS one, x, hour FROM a", ("one",), slice_bytes=100)
    max_files = 0
    with ExitStack() as opened:
        sink = run.begin(opened)
        for number in range(len(run.batches)):
            sink.take(run.rows(sink, number), number)
            max_files = max(max_files, len(temporary_files(run.out)))
    assert len(run.batches) > 40
    assert max_files <= 2 * 4 + 1, "current files, and files of the last commit"
    assert len(rows(run.out)) == run.stats.tuples_out > 80
    assert temporary_files(run.out) == []


def test_a_dataset_is_complete_before_its_inputs(tmp_path: Path) -> None:
    (tmp_path / "feed.xml").write_text(feed(4, hours=6))
    run = Run(tmp_path, "SELECT x, hour FROM both LIMIT 5", rejects="r")
    with ExitStack() as opened:
        sink = run.begin(opened)
        for number in range(len(run.batches)):
            sink.take(run.rows(sink, number), number)
    assert len(rows(run.out)) == 5
    assert (run.out / "_SUCCESS").exists()
    assert temporary_files(run.out) == []


@pytest.mark.parametrize("options", [{"strict": True}, {"max_rejects": RejectLimit.parse("1")}, {}], ids=str)
def test_rejects_of_tasks(tmp_path: Path, options: dict[str, Any]) -> None:
    """A task detects values that cannot name a directory; the driver applies the reject options."""
    body = "".join(f"<a><x>{i}</x><hour>1</hour><t>{t}</t></a>" for i, t in enumerate(["p", "", "", "q"]))
    (tmp_path / "feed.xml").write_text(f"<s>{body}</s>")
    run = Run(tmp_path, "SELECT t, x FROM a", ("t",), **options)
    if not options:
        assert run.live().rejected == 2
        assert rows(run.out) == [(0, "p"), (3, "q")]
        return
    with pytest.raises(StrictError if "strict" in options else SourceError, match="t is empty"):
        run.live()
    assert seen(run.out) == []


def test_a_superseded_run_publishes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks have no effect, as on some network file systems."""
    (tmp_path / "feed.xml").write_text(feed(6, hours=4))
    run = Run(tmp_path, COUNTED, ("x",))
    with ExitStack() as opened:
        run.begin(opened)
        with pytest.raises(UsageError, match="another run is writing"):
            run.begin(opened)
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    with ExitStack() as opened:
        first = run.begin(opened)
        first.take(run.rows(first, 0), 0)
        first_rows = run.rows(first, 1)
        WriteAheadLog(run.log).take_over()
        second = run.begin(opened)
        second_rows = run.rows(second, 1)
        with pytest.raises(XmlPunctError, match="another run has taken over"):
            first.take(first_rows, 1)
        second.take(second_rows, 1)
        for number in range(2, len(run.batches)):
            second.take(run.rows(second, number), number)
    published_rows = rows(run.out)
    assert len(published_rows) == len(set(published_rows)) == run.stats.tuples_out


def test_lost_staged_files_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "feed.xml").write_text(feed(6, hours=4))
    run = Run(tmp_path, COUNTED, ("x",))
    with pytest.raises(OSError, match="died"):
        run.live(death=2)
    for path in (run.out / "_xmlpunct").glob(f"{ASIDE}*"):
        path.unlink()
    with pytest.raises(XmlPunctError, match="does not contain the committed"):
        run.live()


def test_a_folder_that_machines_do_not_share_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "feed.xml").write_text(feed(6, hours=4))
    run = Run(tmp_path, COUNTED, ("x",))
    with ExitStack() as opened:
        aside = run.begin(opened).aside(1)
    assert not (run.out / "_xmlpunct").exists()
    with pytest.raises(XmlPunctError, match=r"cannot write .*_xmlpunct: No such file or directory"):
        [*aside.rows(run.batches[1])]


def test_a_dataset_of_xml_has_one_writer(tmp_path: Path) -> None:
    """A new run removes slices that were not committed, and staged files."""
    out = tmp_path / "out"
    for name in ("slice-000000000003", "slice-000000000004", "_xmlpunct/slice-000000000005"):
        (out / name).mkdir(parents=True)
    options = RunOptions(output=f"{out}/")
    one, other = XmlDataset(options, InProcess()), XmlDataset(options, InProcess())
    schema = Schema.parse("x INT")
    form = Form("run", schema, writer_for("xml", schema))
    one.open(form, 3)
    assert sorted(p.name for p in out.rglob("*")) == ["_xmlpunct", "lock", "slice-000000000003"]
    with pytest.raises(UsageError, match="another run is writing the dataset"):
        other.open(form, 3)
    other.close()
    one.close()
    assert os.listdir(out) == ["slice-000000000003"]


def test_texts_of_staged_rows(tmp_path: Path) -> None:
    schema = Schema.parse("d DOUBLE, n DECIMAL(9,2), at TIMESTAMP")
    moment = dt.datetime(2024, 2, 29, 23, 59, 59, 123456, tzinfo=dt.UTC)
    frames = [schema.frame([(float("inf"), Decimal("7.50"), moment)]), schema.frame([(None, None, None)])]
    chunks = put_aside(tmp_path, "0-0", frames)
    request = pa.RecordBatch.from_pydict({"id": [1, 0]})
    texts = ChunkTexts(tmp_path, tuple(chunks), schema)(iter([request]))
    assert [tuple(row.values()) for batch in texts for row in batch.to_pylist()] == [
        (None, None, None),
        ("INF", "7.50", "2024-02-29T23:59:59.123456Z"),
    ]
