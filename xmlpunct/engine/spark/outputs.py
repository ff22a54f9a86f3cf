"""Outputs of the Spark engine: idempotent writes of micro-batches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from xmlpunct.base.codec import pack
from xmlpunct.base.errors import Reject
from xmlpunct.base.frames import nested_snapshot
from xmlpunct.connectors.outlet import Outlet, Results, chained
from xmlpunct.engine.run.checkpoint.commit import Frames, Written
from xmlpunct.engine.run.output import Output
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.spark.aside import AsideFolder, PutAside
from xmlpunct.engine.spark.combining import ShardOutput
from xmlpunct.engine.spark.edge import edge_pipeline
from xmlpunct.engine.spark.job import Job
from xmlpunct.engine.spark.processor import gather_of
from xmlpunct.engine.spark.stage_messages import StageRow
from xmlpunct.slice import Slice, concat

_GATHER = "gather"


class Taken(NamedTuple):
    """The results of a micro-batch for an answer: a slice, the outcomes for staged tuples (``put``), which the slice
    lacks, and rejects, which the output cannot represent."""

    slice_: Slice
    put: list[PutAside]
    rejects: list[Reject]


class Group(NamedTuple):
    """A micro-batch, the extent of the output before it, and its end offset in Spark's form."""

    batch: int
    written: Written
    offset: str

    @property
    def first(self) -> bool:
        """True if the output is empty before it."""
        return not self.written.groups


class OutputTarget(Protocol):
    """The output of an answer. ``position`` is the last result of `Outlet.commit`."""

    position: Any

    def place(self) -> AsideFolder | None:
        """The staging folder of tasks; None if the driver writes the tuples."""

    def write(self, output: Output, batch_results: Taken, group: Group, closes: bool) -> tuple[int, str]:
        """Write a micro-batch, the last one if it ``closes`` the output; returns the new length and digest.

        Idempotent: a restart may write the same micro-batch twice.
        """

    def break_off(self) -> None:
        """Signal that nothing follows, although the results are incomplete."""

    def finish(self) -> None:
        """Signal readers of the output that nothing follows."""


class OutletTarget:
    """The output of an `Outlet`: a file or stream in the writer's format, or a connector's output."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet
        self.position: Any = outlet.commit()

    def place(self) -> None:
        """None: the driver writes all tuples."""

    def write(self, output: Output, batch_results: Taken, group: Group, closes: bool) -> tuple[int, str]:
        data = output.writer.start() if group.first else b""
        ready = output.prepare(batch_results.slice_) if batch_results.slice_ else batch_results.slice_
        data += output.writer.body(ready) if ready else b""
        data += output.writer.end() if closes else b""
        slices, length, link = (ready,) if ready else (), group.written.length, group.written.digest
        digest = chained(link, data)
        self._outlet.write(Results(group.batch, slices, data, length, closes, digest=digest, link=link))
        self._outlet.check_last(group.batch)
        self.position = self._outlet.commit()
        return length + len(data), digest

    def break_off(self) -> None:
        self._outlet.break_off()
        self.position = self._outlet.commit()

    def finish(self) -> None:
        self._outlet.finish()


class AnswerSink:
    """Gathers the results of all shards for answer ``index`` of the job, and writes them.

    It continues after ``written``, from the state at that time: see `begin`.
    """

    def __init__(self, job: Job, index: int, output: Output, target: OutputTarget) -> None:
        self.output, self.written = output, Written()
        self._job, self._index, self._target = job, index, target
        self._name, self._answer = job.query.answers[index].name, job.fragments.answers[index]
        self._gather = None if self.from_reader else gather_of(job, self._answer.source)
        self._place_aside = target.place()

    @property
    def from_reader(self) -> bool:
        """True if the reader computes the answer: the plan has no stateful operator."""
        return self._answer.from_edge

    @property
    def is_aside(self) -> bool:
        """True if tasks stage its tuples."""
        return self._place_aside is not None

    def place_aside(self) -> AsideFolder | None:
        """The staging folder for the next micro-batch; None if the answer is complete."""
        if self._place_aside is None or self.written.closed:
            return None
        return replace(self._place_aside, written=pack(self.output.snapshot()))

    def begin(self, written: Written, state: Frames, operators: Frames) -> None:
        """Restore the state of a commit; an empty one begins a new output."""
        self.written = written
        parts = nested_snapshot(operators)
        if state:
            self.output.restore(state)
            if self._gather is not None:
                self._gather.state.restore(parts.get(_GATHER, {}))

    def take(self, rows: list[StageRow], opens: bool) -> Taken:
        """Combine the rows of a micro-batch to one slice, which is empty once the answer is complete.

        ``opens``: this is the first micro-batch.
        """
        schema = self._answer.schema
        if self.written.closed:
            return Taken(Slice(schema.empty()), [], [])
        received = sorted((row for row in rows if row.port == self._index), key=lambda row: row.order)
        put: list[PutAside] = []
        if self.is_aside:
            opened = [PutAside.from_bytes(row.payload) for row in received]
            received = [row._replace(payload=data) for row, (data, _) in zip(received, opened, strict=True)]
            put = [outcome for _, outcome in opened]
        if self._gather is not None:
            results = ShardOutput.of(self._gather, received).met(self._gather)
        else:
            opening = [edge_pipeline(self._job, self._answer.source).open()] if opens else []
            results = concat(schema, [*opening, *(Slice.from_bytes(schema, row.payload) for row in received)])
        fits, rejects = self.output.fitting(results)
        return Taken(fits, put, [*rejects, *(reject for outcome in put for reject in outcome.rejects)])

    def write(
        self, batch_results: Taken, batch: int, offset: str, closes: bool, breaks_off: bool, stats: RunStats
    ) -> Written:
        """Write a micro-batch, which ends at Spark's ``offset``; returns the new extent. ``closes``: the answer is
        complete after it; ``breaks_off``: nothing follows, although it is incomplete."""
        old = self.written
        if old.closed:
            return old
        for outcome in batch_results.put:
            self.output.count(outcome.tuples, outcome.late)
        length, digest = self._target.write(self.output, batch_results, Group(batch, old, offset), closes)
        if breaks_off and not closes:
            self._target.break_off()
        stats.wrote(self._name, bytes=length, complete=closes, **self.output.counts)
        return Written(length, old.groups + 1, self._target.position, closes, digest)

    def finish(self) -> None:
        """Signal readers of the output that nothing follows."""
        self._target.finish()

    def snapshot(self) -> Frames:
        """The state of the gather."""
        frames = {} if self._gather is None else self._gather.state.snapshot()
        return {f"{_GATHER}/{name}": frame for name, frame in frames.items()}
