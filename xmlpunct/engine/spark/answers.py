"""Where the Spark engine's results go: what is written for each micro-batch, perhaps twice, and counts once."""

from __future__ import annotations

from typing import Any, Protocol

from xmlpunct.engine.checkpoint.commit import Frames, Written
from xmlpunct.engine.output import Output
from xmlpunct.engine.spark.combining import Said
from xmlpunct.engine.spark.edge import edge_pipeline
from xmlpunct.engine.spark.job import Job, Row
from xmlpunct.engine.spark.processor import gather_of
from xmlpunct.engine.stats import RunStats
from xmlpunct.errors import Reject
from xmlpunct.firehose.connectors import Outlet, Results
from xmlpunct.slice import Slice, concat


class Target(Protocol):
    """Where results go. ``position`` is what `Outlet.commit` gave last."""

    position: Any

    def write(self, output: Output, given: Slice, batch: int, length: int, first: bool, closes: bool) -> int:
        """Write a micro-batch behind so many bytes; how long the target then is.

        It is the ``first`` one, or the last one if it ``closes`` the output. May be done over.
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

    def write(self, output: Output, given: Slice, batch: int, length: int, first: bool, closes: bool) -> int:
        data = output.writer.start() if first else b""
        ready = output.prepare(given) if given else given
        data += output.writer.body(ready) if ready else b""
        data += output.writer.end() if closes else b""
        slices = (ready,) if ready else ()
        self._outlet.write(Results(batch, slices, data, length, closes))
        self.position = self._outlet.commit()
        return length + len(data)

    def break_off(self) -> None:
        self._outlet.break_off()
        self.position = self._outlet.commit()

    def finish(self) -> None:
        self._outlet.finish()


class AnswerSink:
    """Takes what the shards say of the answer at a ``place`` of the job, puts it together, and writes it.

    It goes on behind what was ``written``, from the state that it had then: see `begin`.
    """

    def __init__(self, job: Job, place: int, output: Output, target: Target) -> None:
        self.output, self.written = output, Written()
        self._job, self._place, self._target = job, place, target
        self._name, self._answer = job.query.answers[place].name, job.fragments.answers[place]
        self._gather = None if self.from_reader else gather_of(job, self._answer.source)

    @property
    def from_reader(self) -> bool:
        """Whether the reader itself gives it: there is no operator with state."""
        return self._answer.from_edge

    def begin(self, written: Written, state: Frames, operators: Frames) -> None:
        """Go on where a commit left off."""
        self.written = written
        self.output.restore(state)
        if self._gather is not None:
            self._gather.state.restore(operators)

    def take(self, rows: list[Row], opens: bool) -> tuple[Slice, list[Reject]]:
        """What rows of a micro-batch say, as one, nothing once it is complete; and what does not fit the output.

        The first one ``opens`` it.
        """
        schema = self._answer.schema
        if self.written.closed:
            return Slice(schema.empty()), []
        mine = [row for row in rows if row.port == self._place]
        if self._gather is not None:
            return self.output.fitting(Said.of(self._gather, mine).met(self._gather))
        known = [edge_pipeline(self._job, self._answer.source).open()] if opens else []
        parts = [Slice.from_bytes(schema, row.payload) for row in sorted(mine, key=lambda row: row.seq)]
        return self.output.fitting(concat(schema, [*known, *parts]))

    def write(self, given: Slice, batch: int, closes: bool, breaks_off: bool, stats: RunStats) -> Written:
        """Write a micro-batch; how far the output then is. It ``closes`` it, or nothing follows though it is not
        complete."""
        old = self.written
        if old.closed:
            return old
        length = self._target.write(self.output, given, batch, old.length, not old.groups, closes)
        if breaks_off and not closes:
            self._target.break_off()
        stats.wrote(self._name, bytes=length, complete=closes, **self.output.counts)
        return Written(length, old.groups + 1, self._target.position, closes)

    def finish(self) -> None:
        """Let who reads the output know that nothing follows."""
        self._target.finish()

    def snapshot(self) -> Frames:
        """The state of what puts it together."""
        return {} if self._gather is None else dict(self._gather.state.snapshot())
