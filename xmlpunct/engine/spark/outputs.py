"""Where the Spark engine's results go: what is written for each micro-batch, perhaps twice, and counts once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from xmlpunct.base.codec import pack
from xmlpunct.base.errors import Reject
from xmlpunct.base.frames import grouped
from xmlpunct.connectors.contract import Outlet, Results, chained
from xmlpunct.engine.run.checkpoint.commit import Frames, Written
from xmlpunct.engine.run.output import Output
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.spark.aside import Place, PutAside
from xmlpunct.engine.spark.combining import Said
from xmlpunct.engine.spark.edge import edge_pipeline
from xmlpunct.engine.spark.job import Job, Row
from xmlpunct.engine.spark.processor import gather_of
from xmlpunct.slice import Slice, concat

_GATHER, _TARGET = "gather", "target"


class Taken(NamedTuple):
    """What a micro-batch gives an answer: a slice, what became of the tuples that are ``put`` aside and not in it, and
    the rejects that do not fit the output."""

    slice_: Slice
    put: list[PutAside]
    rejects: list[Reject]


class Group(NamedTuple):
    """A micro-batch, what was ``written`` before it, and the end offset that Spark keeps of it."""

    batch: int
    written: Written
    offset: str

    @property
    def first(self) -> bool:
        """Whether nothing was written before it."""
        return not self.written.groups


class Target(Protocol):
    """Where results go. ``position`` is what `Outlet.commit` gave last."""

    position: Any

    def place(self) -> Place | None:
        """Where tasks put tuples aside; None if they come here."""

    def begin(self, state: Frames) -> None:
        """Go on where a `snapshot` was committed; with nothing, begin."""

    def snapshot(self) -> Frames:
        """What has to be known to go on, beside the position."""

    def write(self, output: Output, taken: Taken, group: Group, closes: bool) -> tuple[int, str]:
        """Write a micro-batch, the last one if it ``closes`` the output; the length and digest of the target then.

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

    def place(self) -> None:
        """All tuples come here."""

    def begin(self, state: Frames) -> None:
        """It was opened at its position."""

    def snapshot(self) -> Frames:
        """The position is all."""
        return {}

    def write(self, output: Output, taken: Taken, group: Group, closes: bool) -> tuple[int, str]:
        data = output.writer.start() if group.first else b""
        ready = output.prepare(taken.slice_) if taken.slice_ else taken.slice_
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
    """Takes what the shards say of the answer at a ``place`` of the job, puts it together, and writes it.

    It goes on behind what was ``written``, from the state that it had then: see `begin`.
    """

    def __init__(self, job: Job, place: int, output: Output, target: Target) -> None:
        self.output, self.written = output, Written()
        self._job, self._place, self._target = job, place, target
        self._name, self._answer = job.query.answers[place].name, job.fragments.answers[place]
        self._gather = None if self.from_reader else gather_of(job, self._answer.source)
        self._place_aside = target.place()

    @property
    def from_reader(self) -> bool:
        """Whether the reader itself gives it: there is no operator with state."""
        return self._answer.from_edge

    @property
    def is_aside(self) -> bool:
        """Whether tasks put its tuples aside."""
        return self._place_aside is not None

    def place_aside(self) -> Place | None:
        """Where tasks put its tuples aside now; None if it is complete."""
        if self._place_aside is None or self.written.closed:
            return None
        return replace(self._place_aside, written=pack(self.output.snapshot()))

    def begin(self, written: Written, state: Frames, operators: Frames) -> None:
        """Go on where a commit left off; without a state, begin."""
        self.written = written
        parts = grouped(operators)
        if state:
            self.output.restore(state)
            if self._gather is not None:
                self._gather.state.restore(parts.get(_GATHER, {}))
        self._target.begin(parts.get(_TARGET, {}))

    def take(self, rows: list[Row], opens: bool) -> Taken:
        """What rows of a micro-batch say, as one, nothing once it is complete; and what does not fit the output.

        The first one ``opens`` it.
        """
        schema = self._answer.schema
        if self.written.closed:
            return Taken(Slice(schema.empty()), [], [])
        mine = sorted((row for row in rows if row.port == self._place), key=lambda row: row.order)
        put: list[PutAside] = []
        if self.is_aside:
            opened = [PutAside.from_bytes(row.payload) for row in mine]
            mine = [row._replace(payload=said) for row, (said, _) in zip(mine, opened, strict=True)]
            put = [one for _, one in opened]
        if self._gather is not None:
            given = Said.of(self._gather, mine).met(self._gather)
        else:
            known = [edge_pipeline(self._job, self._answer.source).open()] if opens else []
            given = concat(schema, [*known, *(Slice.from_bytes(schema, row.payload) for row in mine)])
        fits, rejects = self.output.fitting(given)
        return Taken(fits, put, [*rejects, *(reject for one in put for reject in one.rejects)])

    def write(
        self, taken: Taken, batch: int, offset: str, closes: bool, breaks_off: bool, stats: RunStats
    ) -> Written:
        """Write a micro-batch, which ends at Spark's ``offset``; how far the output then is. It ``closes`` it, or
        nothing follows though it is not complete."""
        old = self.written
        if old.closed:
            return old
        for one in taken.put:
            self.output.count(one.tuples, one.late)
        length, digest = self._target.write(self.output, taken, Group(batch, old, offset), closes)
        if breaks_off and not closes:
            self._target.break_off()
        stats.wrote(self._name, bytes=length, complete=closes, **self.output.counts)
        return Written(length, old.groups + 1, self._target.position, closes, digest)

    def finish(self) -> None:
        """Let who reads the output know that nothing follows."""
        self._target.finish()

    def snapshot(self) -> Frames:
        """The state of what puts it together, and of where it goes."""
        states = {_TARGET: self._target.snapshot()}
        if self._gather is not None:
            states[_GATHER] = dict(self._gather.state.snapshot())
        return {f"{part}/{name}": frame for part, state in states.items() for name, frame in state.items()}
