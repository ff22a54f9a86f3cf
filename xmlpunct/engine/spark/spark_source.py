"""The one Spark source of a query: all its inputs, read in step with each other."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import InputPartition

from xmlpunct.base.errors import UsageError
from xmlpunct.connectors.unchanged import ChangedError
from xmlpunct.engine.run.inputs.held import Held
from xmlpunct.engine.run.inputs.injected_punctuations import Plain, SaidLog
from xmlpunct.engine.run.inputs.pacing import Pace
from xmlpunct.engine.run.inputs.parse_ranges import AT_ONCE_BYTES
from xmlpunct.engine.run.inputs.ranges import (
    Cursor,
    Range,
    advance,
    budgets,
    grouped,
    release,
    remaining,
    share_left,
    there_is,
)
from xmlpunct.engine.run.inputs.uncut import Tables, Uncut, saved
from xmlpunct.engine.spark import edge
from xmlpunct.engine.spark.backpressure import COMING_BYTES, Wish
from xmlpunct.engine.spark.job import ANOTHER_JOB, Job

FIRST_BYTES = 16 * 2**20
"""What an input's first micro-batch has for each shard. More show the first result later (`benchmarks/spark.py`). All
together have no more than should come to the sink, since nobody knows yet what does."""
MOST_BYTES, MOST_BYTES_OF_ALL = 128 * 2**20, 512 * 2**20
"""What a task has at most, and for each shard a micro-batch. `benchmarks/spark.py` tells what others cost."""
SHORT_SECONDS = 2.0
"""A micro-batch that takes less may double. A third of that is Spark's own (`benchmarks/capacity.py --spark`)."""
IDLE_SECONDS, GLANCE_SECONDS = 0.25, 0.005
"""How long to wait for new bytes before saying that there are none, and how often to look: a matter of latency."""
LEAST_PIECE = 2**20
"""The smallest task, in bytes. Fewer are not worth what a task costs (`benchmarks/spark.py`)."""
SAID, JOB = "said", "job"

Offset = dict[str, Any]


class TaskPartition(InputPartition):  # type: ignore[misc]
    """A task as Spark hands it around."""

    def __init__(self, task: edge.Task) -> None:
        super().__init__(task.ordinal)
        self.task = task


class QueryReader:
    """Plans micro-batches in one process and reads their tasks in others; it opens nothing until asked.

    An offset maps the number of each input to its `Cursor`, `SAID` to how much of what was said is in, and `JOB` to
    whose it is. With the trigger ``availableNow``, what ends is read to its end, and of the rest what is there.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        inputs = max(len(job.inputs), 1)
        first = min(job.shards * FIRST_BYTES, COMING_BYTES // inputs)
        self.pace = Pace(job.slice_bytes, first, job.shards * MOST_BYTES_OF_ALL // inputs, SHORT_SECONDS)
        self._held: dict[int, Held] = {}
        self._said = SaidLog(Path(job.said))
        self._waits = False
        self._tables: Tables | None = None
        self._planned: tuple[Offset, Offset, dict[int, list[Range]]] | None = None

    def initialOffset(self) -> Offset:  # noqa: N802
        cursors = {str(i): Cursor().to_json() for i in range(len(self.job.inputs))}
        return cursors | {SAID: 0, JOB: self.job.fingerprint}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._waits = True

    def latestOffset(self, start: Offset, limit: Any) -> Offset:  # noqa: N802
        if start.get(JOB, "") != self.job.fingerprint:
            raise UsageError(ANOTHER_JOB)
        end = self._latest(start)
        while end == start and self._waits and self._is_coming(start):
            end = self._latest(start)
        return end

    def _is_coming(self, start: Offset) -> bool:
        """Whether there will be more, and an end, of what is still being copied into a spool."""
        open_ = {i: c for i, c in _cursors(start).items() if not c.done}
        parts = (part for i, c in open_.items() for part in self.job.inputs[i].parts[c.part :])
        return any(part.spooled and part.stored is not None for part in parts)

    def _latest(self, start: Offset) -> Offset:
        cursors = _cursors(start)
        open_ = {i: c for i, c in cursors.items() if not c.done}
        seen = self._there_is(open_)
        starved, share = Wish.read(Path(self.job.pacing))
        self.pace.measure(share)
        planned: dict[int, list[Range]] = {}
        if starved in open_:
            planned = self._advance([starved], cursors)
        if not any(planned.values()):  # nobody waits for what is silent
            planned |= self._advance([i for i in open_ if i not in planned], cursors)
        end = {str(i): c.to_json() for i, c in cursors.items()} | {
            SAID: len(self._said.read()),
            JOB: self.job.fingerprint,
        }
        if end == start:
            self.pace.pause()
            until = time.monotonic() + (IDLE_SECONDS if seen else GLANCE_SECONDS)
            while time.monotonic() < until and self._there_is(open_) == seen:
                time.sleep(GLANCE_SECONDS)
        else:
            self._planned = (start, end, planned)
        return end

    def _advance(self, numbers: list[int], cursors: dict[int, Cursor]) -> dict[int, list[Range]]:
        """Read some inputs on; ``cursors`` move.

        What nobody has to cut, and is larger than there is room for, is read as it is, one for each core. Inputs that
        would get further ahead of others by that wait.
        """
        by_input: dict[int, list[Range]] = {}
        remains = {i: remaining(self.job.inputs[i], cursors[i]) for i in numbers}
        shares = {i: share_left(self.job.inputs[i], left) for i, left in remains.items()}
        taken, of_each = 0, budgets(remains, self.pace.bytes)
        for i in sorted(numbers, key=lambda i: -shares[i]):
            given, elements, left, budget = self.job.inputs[i], self.job.elements(i), remains[i], of_each[i]
            uncut = self._uncut(i, self._whole(len(numbers), left))
            following = uncut.following(cursors[i])
            if following is not None and following[0].size > budget:
                if shares[i] < max(shares.values()) or taken > self.job.shards * MOST_BYTES_OF_ALL:
                    by_input[i] = []
                    continue
                budget = following[0].size * (
                    self._tasks(len(numbers)) if self.job.slice_bytes is None else 1
                )
            piece = self._piece(len(numbers), budget if left is None else min(budget, left))
            at_once, held = min(piece, AT_ONCE_BYTES), self._held.setdefault(i, Held())
            by_input[i], cursors[i] = advance(
                given, elements, cursors[i], budget, at_once, held=held, uncut=uncut
            )
            taken += sum(r.size for r in by_input[i])
        return by_input

    def _whole(self, inputs: int, left: int | None) -> int:
        """How large a file of an input may be for one task to read it: if there is one for each core, large."""
        usual = min(self._piece(inputs, self.pace.bytes), self.pace.bytes)
        is_fixed, enough = self.job.slice_bytes is not None, MOST_BYTES * self._tasks(inputs)
        return usual if is_fixed or left is None or left < enough else max(usual, MOST_BYTES)

    def _uncut(self, number: int, most: int) -> Uncut:
        """What nobody has to cut of an input: files of so many bytes, and those whose pieces are known."""
        if self._tables is None:
            self._tables = (saved(Path(self.job.cuts)) if self.job.cuts else None) or {}
        pieces = {part: of for (of_input, part), of in self._tables.items() if of_input == number}
        return Uncut(self.job.inputs[number], most, pieces)

    def _there_is(self, cursors: dict[int, Cursor]) -> dict[int, tuple[int, bool]]:
        """What there is of the inputs that may grow."""
        given = {i: self.job.inputs[i] for i in cursors}
        return {i: there_is(g, cursors[i]) for i, g in given.items() if g.parts[cursors[i].part].spooled}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        planned = self._planned[2] if self._planned and self._planned[:2] == (start, end) else None
        before, after = _cursors(start), _cursors(end)
        moved = [i for i in before if before[i] != after[i]]
        tasks: list[TaskPartition] = []
        for i in moved:
            size = _distance(self.job, i, before[i], after[i])
            piece = self._piece(len(moved), size)
            if planned is not None:
                ranges = planned[i]
            else:  # after a restart
                given, elements = self.job.inputs[i], self.job.elements(i)
                at_once = min(piece, AT_ONCE_BYTES)
                uncut = self._uncut(i, sys.maxsize)
                ranges, end_ = advance(
                    given, elements, before[i], sys.maxsize, at_once, stop=after[i], uncut=uncut
                )
                if end_ != after[i]:
                    raise ChangedError.of(given.source, "it does not hold what was read of it before")
            for ordinal, group in enumerate(grouped(ranges, piece)):
                tasks.append(TaskPartition(edge.Task(i, ordinal, group)))
        said: dict[int, list[Plain]] = {}
        known = self._said.read()
        if len(known) < end.get(SAID, 0):
            raise ChangedError.of(self.job.said, "it does not hold what was said to the run before")
        for stream, patterns in known[start.get(SAID, 0) : end.get(SAID, 0)]:
            said.setdefault(self.job.input_of(stream), []).append((stream, patterns))
        for i, of_input in said.items():
            ordinal = sum(task.task.number == i for task in tasks)
            tasks.append(TaskPartition(edge.Task(i, ordinal, (), tuple(of_input))))
        return list(tasks)

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, TaskPartition)
        return map(tuple, edge.read(self.job, partition.task))

    def commit(self, end: Offset) -> None:
        """All up to ``end`` is written and will not be asked for again: Spark says so one micro-batch later."""
        for i, cursor in _cursors(end).items():
            release(self.job.inputs[i], cursor)

    def _piece(self, inputs: int, size: int) -> int:
        """How large a task should be, so that all cores have as many."""
        tasks = self._tasks(inputs)
        return max(LEAST_PIECE, -(-size // (tasks * max(1, -(-size // (tasks * MOST_BYTES))))))

    def _tasks(self, inputs: int) -> int:
        """How many tasks each of some inputs should have, so that all cores have one."""
        return -(-self.job.shards // max(inputs, 1))


def cursors_of(offset: str) -> dict[int, Cursor]:
    """How far each input is read at an offset, as Spark keeps it; none of an empty one."""
    return _cursors(json.loads(offset)) if offset else {}


def _cursors(offset: Offset) -> dict[int, Cursor]:
    return {int(i): Cursor.from_json(values) for i, values in offset.items() if i not in (SAID, JOB)}


def _distance(job: Job, number: int, start: Cursor, end: Cursor) -> int:
    """The bytes between two places of an input."""
    if start.part == end.part:
        return end.position.byte - start.position.byte
    sizes = sum(part.size or 0 for part in job.inputs[number].parts[start.part : end.part])
    return sizes - start.position.byte + end.position.byte
