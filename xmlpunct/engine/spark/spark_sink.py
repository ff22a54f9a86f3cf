"""The sink: what the last fragment's shards say, put together and written, each micro-batch exactly once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from xmlpunct.base.errors import Reject, SourceError, StrictError, XmlPunctError
from xmlpunct.base.frames import nested_snapshot
from xmlpunct.connectors.outlet import Outlet, Results, chained
from xmlpunct.connectors.unchanged import ChangedError
from xmlpunct.engine.run.checkpoint.commit import Commit, Written
from xmlpunct.engine.run.output import Output
from xmlpunct.engine.run.reject_limit import RejectLimit, rejected_flags
from xmlpunct.engine.run.reject_log import log_notices
from xmlpunct.engine.run.sink import rejected, snapshot_of_outputs, tell_complete
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.spark.aside import Aside
from xmlpunct.engine.spark.backpressure import COMING_BYTES, Wish
from xmlpunct.engine.spark.edge import counts, voided
from xmlpunct.engine.spark.job import Job
from xmlpunct.engine.spark.offsets import SparkOffsets
from xmlpunct.engine.spark.outputs import AnswerSink, OutputTarget, Taken
from xmlpunct.engine.spark.run_metrics import RunMetrics
from xmlpunct.engine.spark.stage_messages import Failure, Port, StageRow, TaskReport, received, rejects_in


class Keeper(Protocol):
    """Where commits are kept: a `Checkpoint`."""

    def check(self) -> None:
        """Raise `XmlPunctError` if another run keeps its commits there by now."""

    def commit(self, commit: Commit) -> None:
        """Keep one, durably."""


class MicroBatchSink:
    """Takes the rows of each micro-batch in turn and commits what they say, from ``commit`` on, to a ``keeper``.

    ``done`` is set when nothing is to follow: the output is complete, or the run has to end, and ``failure``
    says why. A micro-batch that is not written raises, so that Spark does not count it as done. If it is to be
    ``strict`` none is that has a reject, or something that was overlooked.
    """

    def __init__(
        self,
        job: Job,
        keeper: Keeper,
        commit: Commit,
        answers: Sequence[tuple[Output, OutputTarget]],
        rejects: Outlet | None,
        metrics: RunMetrics,
        strict: bool = False,
        on_progress: Callable[[RunStats], None] | None = None,
        limit: RejectLimit | None = None,
        offsets: SparkOffsets | None = None,
    ) -> None:
        self.job, self.strict, self._limit, self._offsets = job, strict, limit, offsets
        self.done = threading.Event()
        self.failure: BaseException | None = None
        self._busy = threading.Lock()
        self._keeper, self._commit, self._on_progress = keeper, commit, on_progress
        self._rejects, self._metrics = rejects, metrics
        self._came = 0  # in the last micro-batch, in bytes
        self._judges = any(stream.guarded for stream in job.query.streams)
        self._answers = [AnswerSink(job, place, *of) for place, of in enumerate(answers)]
        states, operators = nested_snapshot(commit.output), nested_snapshot(commit.operators)
        for place, (answer, written) in enumerate(zip(self._answers, commit.outputs, strict=True)):
            answer.begin(written, states.get(str(place), {}), operators.get(str(place), {}))
        if not commit.over:
            self._go_on(was_closed=[False] * len(self._answers))

    def aside(self, batch: int) -> Aside:
        """What tasks do with the tuples of a micro-batch whose rows are not taken yet."""
        is_new = batch > self._commit.batch and not (self._commit.over or self.done.is_set())
        places = {
            place: answer.place_aside() if is_new else None
            for place, answer in enumerate(self._answers)
            if answer.is_aside
        }
        return Aside(self.job, batch, places)

    def take(self, rows: Iterable[StageRow], batch: int) -> None:
        """Take a micro-batch, if it is new. Raises what keeps it from being written, and keeps that."""
        with self._busy:
            if batch <= self._commit.batch or self._commit.over:
                if batch == self._commit.batch:
                    self._compare(rows)
                return
            if self.done.is_set():
                raise XmlPunctError(f"micro-batch {batch} is left to a later run")
            self._take_new(rows, batch)

    def _compare(self, rows: Iterable[StageRow]) -> None:
        """Look whether a micro-batch that was written is the same again: states are made of it."""
        try:
            self._metrics.compare(rows)
        except ChangedError as error:
            self.failure = error
            self.done.set()
            raise

    def look_for_idle(self) -> None:
        """Look who is silent, and say so: where all are, no micro-batch comes, so this goes by time."""
        with self._busy:
            self._metrics.look_for_idle()
            if self._on_progress is not None:
                self._on_progress(self._metrics.stats)

    def stop(self) -> None:
        """Take no more; come back when what is being taken is committed."""
        with self._busy:
            self.done.set()

    def _take_new(self, rows: Iterable[StageRow], batch: int) -> None:
        try:
            self._keeper.check()
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
        self._came = sum(len(row.payload) for row in rows)
        failures = received(Failure, rows)
        void = voided(row for row in rows if row.port == Port.FAILURE)
        rows = [row for row in rows if not self._from_reader(row) or counts(row, void)]
        taken = [answer.take(rows, self._commit.batch < 0) for answer in self._answers]
        rejects = [reject for of in taken for reject in of.rejects]
        rejects += rejects_in(rows)
        rejects.sort(key=Reject.place)
        if self.strict and rejects:
            self._put_rejects(batch, rejects[:1], self._commit, False)
            raise StrictError(f"--strict: {rejects[0]}")
        excess = None
        if self._limit is not None:
            rejects, excess = self._limit.first(rejects, self._metrics.stats.rejected)
            excess = excess or self._judge(self._limit, rows, rejects)
        self._metrics.take(rows)
        notices, self._metrics.notices = self._metrics.notices, []
        if self.strict and (failing := [notice for notice in notices if notice.fails]):
            raise StrictError(f"--strict: {failing[0]}")
        log_notices(notices)
        before = [answer.written.closed for answer in self._answers]
        closed = [
            was or self._metrics.ended or of.slice_.punctuations.has_end
            for was, of in zip(before, taken, strict=True)
        ]
        # The output may be complete before the place where an input fails: then nobody asks for what lies behind.
        matters = bool(failures) and (self._judges or not all(closed))
        failure = failures[0][1].error if matters else None
        if excess is not None and failure is None:
            closed, failure = before, excess
        self._write(batch, taken, rejects, closed, failure)
        if failure is not None:
            self.failure = failure

    def _judge(self, limit: RejectLimit, rows: list[StageRow], rejects: list[Reject]) -> SourceError | None:
        """The failure that a micro-batch is if an input has too large a share of rejects."""
        if limit.percent is None:
            return None
        failure, judged = None, self._metrics.stats.judged
        for seq, task in received(TaskReport, rows):
            for stream in self.job.inputs[seq >> 32].streams:
                name = self.job.query.streams[stream].name
                counts_of = judged.setdefault(name, [0, 0])
                if stream in task.positions:
                    bad = rejected_flags(task.positions[stream], rejects)
                    failure = failure or limit.share(name, counts_of, bad, task.has_ended)
        return failure

    def _from_reader(self, row: StageRow) -> bool:
        return row.port == Port.TASK_REPORT or (row.port >= 0 and self._answers[row.port].from_reader)

    def _write(
        self,
        batch: int,
        taken: Sequence[Taken],
        rejects: list[Reject],
        closed: Sequence[bool],
        failure: SourceError | None,
    ) -> None:
        old, stats = self._commit, self._metrics.stats
        new = Commit(batch, failure=None if failure is None else list(failure.__reduce__()[1]))
        new.offset = "" if self._offsets is None else self._offsets.end(batch)
        new.outputs = [
            answer.write(of, batch, new.offset, closes, failure is not None, stats)
            for answer, of, closes in zip(self._answers, taken, closed, strict=True)
        ]
        new.ended = new.closed and (self._metrics.ended or not self._judges)
        new.rejects = self._put_rejects(batch, rejects, old, new.over)
        stats.slices += 1
        stats.rejected += len(rejects)
        new.stats, new.held = self._metrics.as_dict(), stats.holding.snapshot()
        new.output = snapshot_of_outputs(answer.output for answer in self._answers)
        for place, answer in enumerate(self._answers):
            new.operators |= {f"{place}/{name}": frame for name, frame in answer.snapshot().items()}
        self._keeper.commit(new)
        self._commit = new
        was_closed = [answer.written.closed for answer in self._answers]
        for answer, written in zip(self._answers, new.outputs, strict=True):
            answer.written = written
        if not new.over:
            self._go_on(was_closed)
        if self.job.pacing:
            Wish(self._metrics.starved, self._came / COMING_BYTES).write(Path(self.job.pacing))

    def _put_rejects(self, batch: int, rejects: list[Reject], old: Commit, last: bool) -> Written:
        """Write the rejects of a micro-batch; how far they are written then."""
        if self._rejects is None:
            return old.rejects
        data, slice_ = rejected(rejects)
        length, link = old.rejects.length, old.rejects.digest
        digest, slices = chained(link, data), (slice_,) if rejects else ()
        self._rejects.write(Results(batch, slices, data, length, last, digest=digest, link=link))
        self._rejects.check_last(batch)
        return Written(length + len(data), position=self._rejects.commit(), digest=digest)

    def _go_on(self, was_closed: Sequence[bool]) -> None:
        """The run is not over: outputs that are complete since then are finished."""
        fresh = [a for a, was in zip(self._answers, was_closed, strict=True) if a.written.closed and not was]
        for answer in fresh:
            answer.finish()
        if fresh and self._commit.closed:
            tell_complete()
