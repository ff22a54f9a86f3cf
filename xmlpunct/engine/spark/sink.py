"""The sink: what the last fragment's shards say, put together and written, each micro-batch exactly once."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from xmlpunct.codec import unpack
from xmlpunct.engine.checkpoint.commit import Commit
from xmlpunct.engine.output import Output
from xmlpunct.engine.reject_limit import RejectLimit, marked
from xmlpunct.engine.sink import rejected, tell_complete
from xmlpunct.engine.spark.edge import counts, edge_pipeline, rejects_from_bytes, voided
from xmlpunct.engine.spark.job import (
    COUNTS,
    EDGE_OPERATORS,
    EDGE_REJECTS,
    FAILURE,
    PLACES,
    REJECTS,
    RESULT,
    SAID,
    Job,
    Row,
)
from xmlpunct.engine.spark.metrics import RunMetrics
from xmlpunct.engine.spark.processor import gather_of
from xmlpunct.engine.stats import RunStats
from xmlpunct.errors import Reject, SourceError, StrictError, XmlPunctError
from xmlpunct.firehose.connectors import Outlet, Results
from xmlpunct.firehose.library import log_notices
from xmlpunct.firehose.steady import ChangedError
from xmlpunct.operators import run
from xmlpunct.slice import Slice, concat


class Target(Protocol):
    """Where results go. ``position`` is what `Outlet.commit` gave last."""

    position: Any

    def write(self, output: Output, given: Slice, batch: int, committed: Commit, closes: bool) -> int:
        """Write a micro-batch, the last one if it ``closes`` the output; how long the target then is.

        May be done over.
        """

    def break_off(self) -> None:
        """Nothing follows, though the results are not complete."""

    def finish(self) -> None:
        """Let who reads the output know that nothing follows."""


class OutletTarget:
    """What an `Outlet` writes to: one file, or stream, in the writer's format, or what a connector knows."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet
        self.position: Any = outlet.commit()

    def write(self, output: Output, given: Slice, batch: int, committed: Commit, closes: bool) -> int:
        data = output.writer.start() if committed.batch < 0 else b""
        ready = output.prepare(given) if given else given
        data += output.writer.body(ready) if ready else b""
        data += output.writer.end() if closes else b""
        slices = (ready,) if ready else ()
        self._outlet.write(Results(batch, slices, data, committed.length, closes))
        self.position = self._outlet.commit()
        return committed.length + len(data)

    def break_off(self) -> None:
        self._outlet.break_off()
        self.position = self._outlet.commit()

    def finish(self) -> None:
        self._outlet.finish()


class Sink:
    """Takes the rows of each micro-batch in turn and commits what they say, from ``commit`` on, to ``keep`` it.

    ``done`` is set when nothing is to follow: the output is complete, or the run has to end, and ``failure``
    says why. A micro-batch that is not written raises, so that Spark does not count it as done. If it is to be
    ``strict`` none is that has a reject, or something that was overlooked.
    """

    def __init__(
        self,
        job: Job,
        keep: Callable[[Commit], None],
        commit: Commit,
        output: Output,
        target: Target,
        rejects: Outlet | None,
        metrics: RunMetrics,
        strict: bool = False,
        on_progress: Callable[[RunStats], None] | None = None,
        limit: RejectLimit | None = None,
    ) -> None:
        self.job, self.output, self.strict, self._limit = job, output, strict, limit
        self.done = threading.Event()
        self.failure: BaseException | None = None
        self._busy = threading.Lock()
        self._keep, self._commit, self._on_progress = keep, commit, on_progress
        self._target, self._rejects, self._metrics = target, rejects, metrics
        self._judges = any(stream.guarded for stream in job.query.streams)
        self._gather = gather_of(job, job.sink - 1) if job.sink else None
        if commit.batch >= 0:
            output.restore(commit.output)
            if self._gather is not None:
                self._gather.state.restore(commit.operators)
        if commit.closed and not commit.over:
            self._go_on()

    def take(self, rows: Iterable[Row], batch: int) -> None:
        """Take a micro-batch, if it is new. Raises what keeps it from being written, and keeps that."""
        with self._busy:
            if batch <= self._commit.batch or self._commit.over:
                if batch == self._commit.batch:
                    self._compare(rows)
                return
            if self.done.is_set():
                raise XmlPunctError(f"micro-batch {batch} is left to a later run")
            self._take_new(rows, batch)

    def _compare(self, rows: Iterable[Row]) -> None:
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

    def _take_new(self, rows: Iterable[Row], batch: int) -> None:
        try:
            self._take(list(rows), batch)
            if self._on_progress is not None:
                self._on_progress(self._metrics.stats)
        except BaseException as error:
            self.failure = error
            raise
        finally:
            if self.failure is not None or self._commit.ended:
                self.done.set()

    def _take(self, rows: list[Row], batch: int) -> None:
        failures = sorted((row for row in rows if row.port == FAILURE), key=lambda row: row.seq)
        void = voided(failures)
        rows = [row for row in rows if not self._from_reader(row) or counts(row, void)]
        given = self._gathered(sorted((row for row in rows if row.port == RESULT), key=lambda row: row.seq))
        given, rejects = self.output.fitting(given)
        rejects += rejects_from_bytes(row.payload for row in rows if row.port in (EDGE_REJECTS, REJECTS))
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
        closed = self._commit.closed or self._metrics.ended or given.punctuations.has_end
        # The output may be complete before the place where an input fails: then nobody asks for what lies behind.
        matters = bool(failures) and (self._judges or not closed)
        failure = json.loads(failures[0].payload) if matters else None
        if excess is not None and failure is None:
            closed, failure = self._commit.closed, list(excess.__reduce__()[1])
        self._write(batch, given, rejects, closed, failure)
        if failure is not None:
            self.failure = SourceError(*failure)

    def _judge(self, limit: RejectLimit, rows: list[Row], rejects: list[Reject]) -> SourceError | None:
        """The failure that a micro-batch is if an input has too large a share of rejects."""
        if limit.percent is None:
            return None
        failure, counts = None, self._metrics.stats.judged
        for row in sorted((row for row in rows if row.port in (PLACES, COUNTS)), key=_told):
            if row.port == PLACES:
                for stream, tuples in unpack(row.payload).items():
                    name = self.job.query.streams[int(stream)].name
                    bad = marked(tuples, rejects)
                    failure = failure or limit.share(name, counts.setdefault(name, [0, 0]), bad, False)
            elif json.loads(row.payload)["ended"]:
                for number in self.job.inputs[row.seq >> 32].streams:
                    name = self.job.query.streams[number].name
                    nothing = pl.Series(dtype=pl.Boolean())
                    failure = failure or limit.share(name, counts.setdefault(name, [0, 0]), nothing, True)
        return failure

    def _from_reader(self, row: Row) -> bool:
        return row.port in (COUNTS, EDGE_OPERATORS, EDGE_REJECTS, PLACES, SAID) or (
            row.port == RESULT and not self.job.sink
        )

    def _gathered(self, rows: list[Row]) -> Slice:
        """What the shards said, as one; nothing once the output has ended."""
        schema = self.job.fragments.schema
        if self._commit.closed:
            return Slice(schema.empty())
        numbered = [(row.seq, Slice.from_bytes(schema, row.payload)) for row in rows]
        if self._gather is not None:
            numbered = [(shard, run(self._gather, shard, part)) for shard, part in numbered]
        elif self._commit.batch < 0:
            numbered.insert(0, (0, edge_pipeline(self.job, 0).open()))
        return concat(schema, [part for _, part in numbered])

    def _write(
        self, batch: int, given: Slice, rejects: list[Reject], closed: bool, failure: list[Any] | None
    ) -> None:
        old, output, stats = self._commit, self.output, self._metrics.stats
        before = output.tuples, output.punctuations
        length = self._target.write(output, given, batch, old, closed and not old.closed)
        ended = closed and (self._metrics.ended or not self._judges)
        if failure is not None and not closed:
            self._target.break_off()
        rejects_length = self._put_rejects(batch, rejects, old, ended or failure is not None)
        stats.result(output.tuples - before[0], output.punctuations - before[1])
        stats.late, stats.forgotten, stats.bytes_out = output.late, output.forgotten, length
        stats.slices += 1
        stats.rejected += len(rejects)
        new = Commit(batch, length, rejects_length, ended, failure, self._metrics.as_dict(), closed=closed)
        new.position = self._target.position
        new.rejects_position = None if self._rejects is None else self._rejects.commit()
        new.output, new.held = output.snapshot(), stats.holding.snapshot()
        new.operators = dict(self._gather.state.snapshot()) if self._gather is not None else {}
        self._keep(new)
        self._commit = new
        if closed and not (old.closed or new.over):
            self._go_on()
        if self.job.pacing:
            Path(self.job.pacing).write_text(json.dumps(self._metrics.starved))

    def _put_rejects(self, batch: int, rejects: list[Reject], old: Commit, last: bool) -> int:
        """Write the rejects of a micro-batch; how many bytes were written with them."""
        if self._rejects is None:
            return old.rejects_length
        data, slice_ = rejected(rejects)
        self._rejects.write(Results(batch, (slice_,) if rejects else (), data, old.rejects_length, last))
        return old.rejects_length + len(data)

    def _go_on(self) -> None:
        """The output is complete, and that is not all."""
        self._target.finish()
        tell_complete()


def _told(row: Row) -> tuple[int, bool]:
    """The order of what a reader says: task after task, and last of each whether its input has ended."""
    return row.seq, row.port == COUNTS
