"""Statistics of a run, summed over the reports of all micro-batches."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

import polars as pl

from xmlpunct.base.errors import UsageError
from xmlpunct.base.frames import Snapshot
from xmlpunct.base.unread import Notice
from xmlpunct.connectors.source import ChangedError
from xmlpunct.engine.plan import Query
from xmlpunct.engine.run.inputs.parts import Input
from xmlpunct.engine.run.inputs.ranges import silence, unread_bytes
from xmlpunct.engine.run.run_options import NO_COPY
from xmlpunct.engine.run.stats import IDLE_SECONDS, Idle, InputStats, OperatorStats, RunStats
from xmlpunct.engine.spark.stage_messages import OperatorReport, ShardReport, StageRow, TaskReport, received
from xmlpunct.engine.why.holding import Holding
from xmlpunct.slice import Slice

_FLOWS = ("tuples_in", "tuples_out", "punctuations_in", "punctuations_out")
_STATES = ("state_rows", "held_punctuations", "forgotten")


class RunMetrics:
    """Updates ``stats``. ``saved`` is the result of `as_dict` of an earlier run, or empty.

    The caller logs and empties ``notices``.
    """

    def __init__(
        self,
        query: Query,
        inputs: Sequence[Input],
        stats: RunStats,
        saved: dict[str, Any],
        held: Snapshot = MappingProxyType({}),
    ) -> None:
        self.stats = stats
        self._streams, self._inputs = query.streams, inputs
        self._read: dict[str, int] = saved.get("read", {})
        """Number of bytes read, by input number."""
        self._states: dict[str, dict[str, list[int]]] = saved.get("states", {})
        self.notices: list[Notice] = []
        stats.inputs = {stream.declared: InputStats() for stream in query.streams}
        stats.elements = {stream.declared: stream.element for stream in query.streams}
        stats.guards, stats.sinks, stats.gauges = query.guards, query.sinks, self
        stats.holding = Holding({stream.name: stream.sent for stream in query.streams})
        stats.holding.restore(held)
        stats.resume(saved)
        self._ended: set[int] = set(saved.get("ended", ()))
        self._checksums: dict[str, int] = saved.get("checksums", {})
        """Checksums of the files that the last micro-batch read, by ``input/part`` numbers."""
        self._waits: dict[tuple[int, int], list[int]] = {}
        self._waits_by_shard: dict[int, dict[int, list[int]]] = {}
        self._batch_tuples = 0  # tuples in the last micro-batch

    @property
    def ended(self) -> bool:
        """True if all inputs have ended."""
        return len(self._ended) == len(self._inputs)

    @property
    def starved(self) -> int | None:
        """The only input to read next: more tuples wait for it than a micro-batch has. None if there is none."""
        waits = self._waiting()
        largest = max(waits)
        return waits.index(largest) if largest > self._batch_tuples else None

    def _waiting(self) -> list[int]:
        """For each input, the amount of retained state that waits for it."""
        by_shard = [[0] * len(self._inputs), *self._waits.values()]
        return [sum(counts) for counts in zip(*by_shard, strict=True)]

    def waits(self) -> dict[int, list[int]]:
        """For each operator and each of its inputs, the amount of retained state that waits for that input."""
        shards = {number: by_shard.values() for number, by_shard in self._waits_by_shard.items()}
        return {
            number: [sum(counts) for counts in zip(*shard_counts, strict=True)]
            for number, shard_counts in shards.items()
        }

    def behind(self) -> dict[str, int]:
        """For each input, the number of available bytes not read yet."""
        unread = dict.fromkeys(self.stats.inputs, 0)
        for number, input_ in enumerate(self._inputs):
            if number not in self._ended:
                for declared in {self._streams[i].declared for i in input_.streams}:
                    unread[declared] += unread_bytes(input_, self._read.get(str(number), 0))
        return unread

    def partial(self) -> pl.DataFrame:
        """Refused: see `NO_COPY`."""
        raise UsageError(NO_COPY)

    def done(self) -> dict[str, bool]:
        """For each input, whether it has been read to its end."""
        return {declared: self._inputs_of(declared) <= self._ended for declared in self.stats.inputs}

    def look_for_idle(self) -> None:
        """Record the idle inputs that retained state waits for."""
        idle = []
        for number, waits in enumerate(self._waiting()):
            input_, read = self._inputs[number], self._read.get(str(number), 0)
            if waits and (seconds := silence(input_, read)) > IDLE_SECONDS:
                name = ", ".join(self._streams[i].name for i in input_.streams)
                idle.append(Idle(name, seconds, waits))
        self.stats.idle = idle

    def take(self, rows: Sequence[StageRow]) -> None:
        """Add the reports of a micro-batch."""
        self.stats.uncommitted = {}
        before = sum(i.tuples for i in self.stats.inputs.values())
        operators = {o.id: OperatorStats(**asdict(o)) for o in self.stats.operators}
        ended, self._checksums = set(self._ended), {}
        for seq, task in received(TaskReport, rows):
            self._count(seq, task)
            self._checksums |= _checksums(seq, task)
            for stream, data in task.sent.items():
                sender = self._streams[stream]
                self.stats.holding.say(sender.name, Slice.from_bytes(sender.sent, data).punctuations)
            for report in task.operators:
                _add(_operator(operators, report), report.stats, _FLOWS)
        for shard, at_shard in received(ShardReport, rows):
            self._waits[at_shard.stage, shard] = list(at_shard.waits)
            self.stats.holding.keep(f"{at_shard.stage}.{shard}", at_shard.outlines)
            for report in at_shard.operators:
                number = report.stats.id
                _add(_operator(operators, report), report.stats, _FLOWS)
                self._waits_by_shard.setdefault(number, {})[shard] = report.waits
                sizes = [getattr(report.stats, name) for name in _STATES]
                self._states.setdefault(str(number), {})[str(shard)] = sizes
        self._note_ends(ended)
        for o in operators.values():
            shards = self._states.get(str(o.id), {}).values()
            for i, name in enumerate(_STATES):
                setattr(o, name, sum(shard[i] for shard in shards))
        self.stats.observe(operators.values())
        self._batch_tuples = sum(i.tuples for i in self.stats.inputs.values()) - before

    def compare(self, rows: Iterable[StageRow]) -> None:
        """Raise `ChangedError` if a file has changed when the last micro-batch is read a second time."""
        for seq, task in received(TaskReport, rows):
            for key, checksum in _checksums(seq, task).items():
                if self._checksums.get(key, checksum) != checksum:
                    number, part = map(int, key.split("/"))
                    name = self._inputs[number].parts[part].name
                    raise ChangedError.of(name, "its content has changed since an earlier run read it")

    def _count(self, seq: int, task: TaskReport) -> None:
        """Add the counters of a task."""
        number = seq >> 32
        for stream, counted, overlooked in zip(
            self._inputs[number].streams, task.streams, task.overlooked, strict=True
        ):
            declared = self._streams[stream].declared
            self.notices += self.stats.overlook(declared, overlooked)
            self.stats.inputs[declared].add(counted)
            if counted.punctuations:
                self.stats.spoke[declared] = time.time()
        self._read[str(number)] = self._read.get(str(number), 0) + task.streams[0].bytes
        if task.has_ended:
            self._ended.add(number)

    def _note_ends(self, before: set[int]) -> None:
        """Record the inputs that have ended since ``before``, and their notices."""
        streams = {i for number in self._ended - before for i in self._inputs[number].streams}
        for declared in sorted({self._streams[i].declared for i in streams}):
            if self._inputs_of(declared) <= self._ended:
                self.notices += self.stats.end(declared)

    def _inputs_of(self, declared: str) -> set[int]:
        """The inputs of a stream: one per sender."""
        stream_indices = {i for i, stream in enumerate(self._streams) if stream.declared == declared}
        return {number for number, input_ in enumerate(self._inputs) if stream_indices & set(input_.streams)}

    def as_dict(self) -> dict[str, Any]:
        """The statistics as plain values."""
        return {
            **self.stats.saved(),
            "states": self._states,
            "read": self._read,
            "checksums": self._checksums,
            "ended": sorted(self._ended),
        }


def _checksums(seq: int, task: TaskReport) -> dict[str, int]:
    """Checksums of the files that a task has read completely, by ``input/part`` numbers."""
    return {f"{seq >> 32}/{part}": checksum for part, checksum in task.checksums.items()}


def _operator(operators: dict[int, OperatorStats], report: OperatorReport) -> OperatorStats:
    """The counters of the operator that a report is about."""
    number = report.stats.id
    return operators.setdefault(number, OperatorStats(id=number, operator=report.stats.operator))


def _add(total: object, part: object, names: Iterable[str]) -> None:
    for name in names:
        setattr(total, name, getattr(total, name) + getattr(part, name))
