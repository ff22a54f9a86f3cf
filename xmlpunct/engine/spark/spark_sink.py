"""The sink on Spark: gathers the results of all shards, and writes each micro-batch exactly once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from xmlpunct.base.codec import pack
from xmlpunct.base.errors import Reject, SourceError, XmlPunctError
from xmlpunct.base.frames import nested_snapshot
from xmlpunct.connectors.source import ChangedError
from xmlpunct.engine.run.channel import StagedChannel
from xmlpunct.engine.run.checkpoint.commit import Commit
from xmlpunct.engine.run.durable_files import PRIVATE_FOLDER, make_folder
from xmlpunct.engine.run.reject_limit import RejectLimit, rejected_flags
from xmlpunct.engine.run.sink import RunSink
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.spark.answer_gather import AnswerGather
from xmlpunct.engine.spark.aside import Aside, AsideFolder
from xmlpunct.engine.spark.backpressure import COMING_BYTES, Wish
from xmlpunct.engine.spark.edge import counts, voided
from xmlpunct.engine.spark.first_counts import read_counts, remove_counts
from xmlpunct.engine.spark.job import Job
from xmlpunct.engine.spark.offsets import SparkOffsets
from xmlpunct.engine.spark.run_metrics import RunMetrics
from xmlpunct.engine.spark.stage_messages import Failure, Port, StageRow, TaskReport, received, rejects_in


class CommitStore(Protocol):
    """Stores commits: a `Checkpoint`."""

    def check(self) -> None:
        """Raise `XmlPunctError` if another run has taken over."""

    def commit(self, commit: Commit) -> None:
        """Store a commit durably."""


class MicroBatchSink:
    """Writes the rows of each micro-batch to ``sink``, and commits it to ``store``. It continues after ``commit``.

    ``done`` is set when nothing follows: the output is complete, or the run has failed with ``failure``. A micro-batch
    that is not written raises, so that Spark does not count it as done.
    """

    def __init__(
        self,
        job: Job,
        store: CommitStore,
        commit: Commit,
        sink: RunSink,
        metrics: RunMetrics,
        on_progress: Callable[[RunStats], None] | None = None,
        offsets: SparkOffsets | None = None,
    ) -> None:
        self.job, self._sink, self._offsets = job, sink, offsets
        self.done = threading.Event()
        self.failure: BaseException | None = None
        self._busy = threading.Lock()
        self._store, self._commit, self._on_progress = store, commit, on_progress
        self._metrics = metrics
        self._batch_bytes = 0
        """Size of the rows of the last micro-batch."""
        self._judges = any(stream.guarded for stream in job.query.streams)
        self._answers = [AnswerGather(job, index, channel) for index, channel in enumerate(sink.results)]
        if commit.batch >= 0:
            states = nested_snapshot(commit.operators)
            for index, answer in enumerate(self._answers):
                answer.restore(states.get(str(index), {}))
        sink.check_last(pending=1)
        if commit.batch < 0 and job.counts:
            make_folder(Path(job.counts), PRIVATE_FOLDER)
        if not commit.over:
            self._continue()

    @property
    def stats(self) -> RunStats:
        """The statistics of the run."""
        return self._metrics.stats

    def aside(self, batch: int) -> Aside:
        """The step by which tasks stage the tuples of a micro-batch that is not taken yet."""
        is_new = batch > self._commit.batch and not (self._commit.over or self.done.is_set())
        folders = {
            index: _staging_folder(channel) if is_new else None
            for index, channel in enumerate(self._sink.results)
            if isinstance(channel, StagedChannel)
        }
        return Aside(self.job, batch, folders)

    def take(self, rows: Iterable[StageRow], batch: int) -> None:
        """Write a micro-batch, if it is new. Raises the error that prevents this, and stores it as `failure`."""
        with self._busy:
            if batch <= self._commit.batch or self._commit.over:
                if batch == self._commit.batch:
                    self._compare(rows)
                return
            if self.done.is_set():
                raise XmlPunctError(f"micro-batch {batch} is left to a later run")
            self._take_new(rows, batch)

    def _compare(self, rows: Iterable[StageRow]) -> None:
        """Raise `ChangedError` if a written micro-batch is different now: states are computed from it again."""
        try:
            self._metrics.compare(rows)
        except ChangedError as error:
            self.failure = error
            self.done.set()
            raise

    def look_for_idle(self) -> None:
        """Report idle inputs. This goes by time, because no micro-batch comes if all inputs are idle."""
        with self._busy:
            if self._commit.batch < 0 and self.job.counts:
                self.stats.uncommitted = read_counts(Path(self.job.counts))
            self._metrics.look_for_idle()
            if self._on_progress is not None:
                self._on_progress(self._metrics.stats)

    def stop(self) -> None:
        """Take nothing more; returns when the current micro-batch is committed."""
        with self._busy:
            self.done.set()

    def _take_new(self, rows: Iterable[StageRow], batch: int) -> None:
        try:
            self._store.check()
            if self._commit.batch < 0 and self.job.counts:
                remove_counts(Path(self.job.counts))
            self._take(list(rows), batch)
            if self._on_progress is not None:
                self._on_progress(self._metrics.stats)
        except BaseException as error:
            self.failure = error
            raise
        finally:
            if self.failure is not None or self._commit.ended:
                self.done.set()

    def _take(self, rows: list[StageRow], batch: int) -> None:
        sink, opens = self._sink, self._commit.batch < 0
        self._batch_bytes = sum(len(row.payload) for row in rows)
        failures = received(Failure, rows)
        void = voided(row for row in rows if row.port == Port.FAILURE)
        rows = [row for row in rows if not self._from_reader(row) or counts(row, void)]
        gathered = [answer.take(rows, opens) for answer in self._answers]
        results, rejects = sink.fitting([of_answer.slice_ for of_answer in gathered])
        rejects += (reject for of_answer in gathered for put in of_answer.staged for reject in put.rejects)
        rejects += rejects_in(rows)
        self._metrics.take(rows)
        notices, self._metrics.notices = self._metrics.notices, []
        sink.report(
            sorted(rejects, key=Reject.place),
            notices,
            lambda limit, counted_rejects: self._judge(limit, rows, counted_rejects),
        )
        closed = [
            channel.closed or self._metrics.ended or of_answer.slice_.punctuations.has_end
            for channel, of_answer in zip(sink.results, gathered, strict=True)
        ]
        # A failure after the end of the output does not matter, unless all input has to be judged.
        failure = failures[0][1].error if failures and (self._judges or not all(closed)) else None
        if opens:
            sink.start()
        offset = "" if self._offsets is None else self._offsets.end(batch)
        for channel, of_answer in zip(sink.results, gathered, strict=True):
            if isinstance(channel, StagedChannel):
                chunks = [chunk for put in of_answer.staged for chunk in put.keyed]
                tuples, late = (
                    sum(getattr(put, name) for put in of_answer.staged) for name in ("tuples", "late")
                )
                channel.stage(chunks, tuples, late, offset)
        sink.write(results)
        if sink.excess is not None and failure is None:
            failure = sink.excess
        else:
            sink.close(closed)
        self._write(Commit(batch, offset=offset), failure)
        self.failure = failure

    def _judge(
        self, limit: RejectLimit, rows: Sequence[StageRow], rejects: Sequence[Reject]
    ) -> SourceError | None:
        """The error if an input of a micro-batch has too large a share of rejects."""
        if limit.percent is None:
            return None
        failure, judged = None, self._metrics.stats.judged
        for seq, task in received(TaskReport, rows):
            for stream in self.job.inputs[seq >> 32].streams:
                name = self.job.query.streams[stream].name
                bad = rejected_flags(task.positions[stream], rejects)
                counts_of_input = judged.setdefault(name, [0, 0])
                failure = failure or limit.share(name, counts_of_input, bad, task.has_ended)
        return failure

    def _from_reader(self, row: StageRow) -> bool:
        return row.port == Port.TASK_REPORT or (row.port >= 0 and self._answers[row.port].from_reader)

    def _write(self, new: Commit, failure: SourceError | None) -> None:
        """Make a micro-batch visible, and commit it."""
        sink, stats = self._sink, self._metrics.stats
        new.failure = None if failure is None else list(failure.__reduce__()[1])
        new.ended = sink.ended and (self._metrics.ended or not self._judges)
        write = sink.over if new.over else sink.flush
        write(write_empty=True)  # so groups have the numbers of micro-batches
        sink.check_last()
        stats.slices += 1
        new.stats, new.held = self._metrics.as_dict(), stats.holding.snapshot()
        new.output = sink.snapshot()
        for index, answer in enumerate(self._answers):
            new.operators |= {f"{index}/{name}": frame for name, frame in answer.snapshot().items()}
        sink.commit(new)
        self._store.commit(new)
        self._commit = new
        if not new.over:
            self._continue()
        if self.job.pacing:
            Wish(self._metrics.starved, self._batch_bytes / COMING_BYTES).write(Path(self.job.pacing))

    def _continue(self) -> None:
        """Finish complete outputs, because the run is not over."""
        self._sink.finish()
        if self._sink.ended:
            self._sink.announce_complete()


def _staging_folder(channel: StagedChannel) -> AsideFolder | None:
    """The staging folder of tasks for the next micro-batch; None if the answer is complete."""
    if channel.closed:
        return None
    return AsideFolder(channel.outlet.staging, channel.options, pack(channel.output.snapshot()))
