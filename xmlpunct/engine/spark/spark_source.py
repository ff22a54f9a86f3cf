"""The single Spark source of a query: reads all its inputs in step."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import InputPartition

from xmlpunct.base.errors import UsageError
from xmlpunct.connectors.source import ChangedError
from xmlpunct.engine.run.inputs.injected_punctuations import InjectedTexts, InjectionLog
from xmlpunct.engine.run.inputs.open_file import OpenFile
from xmlpunct.engine.run.inputs.pacing import Pace
from xmlpunct.engine.run.inputs.parse_ranges import AT_ONCE_BYTES
from xmlpunct.engine.run.inputs.ranges import (
    Range,
    advance,
    available_bytes,
    budgets,
    grouped,
    release,
    remaining,
    share_left,
)
from xmlpunct.engine.run.inputs.uncut import Tables, Uncut, saved
from xmlpunct.engine.spark import edge
from xmlpunct.engine.spark.backpressure import COMING_BYTES, Wish
from xmlpunct.engine.spark.job import ANOTHER_JOB, Job
from xmlpunct.firehose.position import Cursor

FIRST_BYTES = 16 * 2**20
"""Bytes per shard in an input's first micro-batch; more delay the first result (`benchmarks/spark.py`). `COMING_BYTES`
limits the total of all inputs, because the amount of results is still unknown."""
MOST_BYTES, MOST_BYTES_OF_ALL = 128 * 2**20, 512 * 2**20
"""Maximal bytes per task, and of a micro-batch per shard (`benchmarks/spark.py`)."""
SHORT_SECONDS = 2.0
"""The size doubles after a shorter micro-batch; a third of it is overhead (`benchmarks/capacity.py --spark`)."""
IDLE_SECONDS, GLANCE_SECONDS = 0.25, 0.005
"""Wait for new bytes before an unchanged offset is returned, and polling interval; they affect latency only."""
LEAST_PIECE = 2**20
"""The minimal size of a task in bytes, because each task has a fixed cost (`benchmarks/spark.py`)."""
SAID, JOB = "said", "job"

Offset = dict[str, Any]


class TaskPartition(InputPartition):  # type: ignore[misc]
    """A task in the form that Spark passes to workers."""

    def __init__(self, task: edge.RangeTask) -> None:
        super().__init__(task.ordinal)
        self.task = task


class QueryReader:
    """Plans micro-batches in one process and reads their tasks in others; the constructor opens nothing.

    An offset maps the number of each input to its `Cursor`, `SAID` to the number of injected punctuations, and `JOB`
    to the fingerprint of the job. With the trigger ``availableNow``, finite inputs are read to their end, endless ones
    as far as they are available.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        inputs = max(len(job.inputs), 1)
        first = min(job.shards * FIRST_BYTES, COMING_BYTES // inputs)
        self.pace = Pace(job.slice_bytes, first, job.shards * MOST_BYTES_OF_ALL // inputs, SHORT_SECONDS)
        self._open_files: dict[int, OpenFile] = {}
        self._injection_log = InjectionLog(Path(job.said))
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
        while end == start and self._waits and self._is_growing(start):
            end = self._latest(start)
        return end

    def _is_growing(self, start: Offset) -> bool:
        """True if a finite input is still being copied into a spool."""
        open_ = {i: c for i, c in _cursors(start).items() if not c.done}
        parts = (part for i, c in open_.items() for part in self.job.inputs[i].parts[c.part :])
        return any(part.spooled and part.stored is not None for part in parts)

    def _latest(self, start: Offset) -> Offset:
        cursors = _cursors(start)
        open_ = {i: c for i, c in cursors.items() if not c.done}
        available = self._available(open_)
        starved, share = Wish.read(Path(self.job.pacing))
        self.pace.measure(share)
        planned: dict[int, list[Range]] = {}
        if starved in open_:
            planned = self._advance([starved], cursors)
        if not any(planned.values()):  # the starved input has no new bytes
            planned |= self._advance([i for i in open_ if i not in planned], cursors)
        end = {str(i): c.to_json() for i, c in cursors.items()} | {
            SAID: len(self._injection_log.read()),
            JOB: self.job.fingerprint,
        }
        if end == start:
            self.pace.pause()
            until = time.monotonic() + (IDLE_SECONDS if available else GLANCE_SECONDS)
            while time.monotonic() < until and self._available(open_) == available:
                time.sleep(GLANCE_SECONDS)
        else:
            self._planned = (start, end, planned)
        return end

    def _advance(self, numbers: list[int], cursors: dict[int, Cursor]) -> dict[int, list[Range]]:
        """Plan the next ranges of inputs; ``cursors`` are advanced.

        An uncut file or piece that exceeds the budget is read whole, one per core. An input waits if that would bring
        it further ahead of the other inputs.
        """
        by_input: dict[int, list[Range]] = {}
        remains = {i: remaining(self.job.inputs[i], cursors[i]) for i in numbers}
        shares = {i: share_left(self.job.inputs[i], left) for i, left in remains.items()}
        total, limits = 0, budgets(remains, self.pace.bytes)
        for i in sorted(numbers, key=lambda i: -shares[i]):
            input_, elements, left, budget = self.job.inputs[i], self.job.elements(i), remains[i], limits[i]
            uncut = self._uncut(i, self._uncut_bytes(len(numbers), left))
            following = uncut.following(cursors[i])
            if following is not None and following[0].size > budget:
                if shares[i] < max(shares.values()) or total > self.job.shards * MOST_BYTES_OF_ALL:
                    by_input[i] = []
                    continue
                budget = following[0].size * (
                    self._tasks(len(numbers)) if self.job.slice_bytes is None else 1
                )
            piece = self._task_bytes(len(numbers), budget if left is None else min(budget, left))
            at_once, open_file = min(piece, AT_ONCE_BYTES), self._open_files.setdefault(i, OpenFile())
            by_input[i], cursors[i] = advance(
                input_, elements, cursors[i], budget, at_once, open_file=open_file, uncut=uncut
            )
            total += sum(r.size for r in by_input[i])
        return by_input

    def _uncut_bytes(self, inputs: int, left: int | None) -> int:
        """Maximal size of an input's files that one task reads uncut: large if there is a file for each core."""
        usual = min(self._task_bytes(inputs, self.pace.bytes), self.pace.bytes)
        is_fixed, enough = self.job.slice_bytes is not None, MOST_BYTES * self._tasks(inputs)
        return usual if is_fixed or left is None or left < enough else max(usual, MOST_BYTES)

    def _uncut(self, number: int, most: int) -> Uncut:
        """The parts of an input that need no scan: files of at most ``most`` bytes, and files with known cuts."""
        if self._tables is None:
            self._tables = (saved(Path(self.job.cuts)) if self.job.cuts else None) or {}
        pieces = {part: cuts for (of_input, part), cuts in self._tables.items() if of_input == number}
        return Uncut(self.job.inputs[number], most, pieces)

    def _available(self, cursors: dict[int, Cursor]) -> dict[int, tuple[int, bool]]:
        """Available bytes of inputs that may grow, and whether they are complete."""
        inputs = {i: self.job.inputs[i] for i in cursors}
        return {
            i: available_bytes(g, cursors[i]) for i, g in inputs.items() if g.parts[cursors[i].part].spooled
        }

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        planned = self._planned[2] if self._planned and self._planned[:2] == (start, end) else None
        before, after = _cursors(start), _cursors(end)
        moved = [i for i in before if before[i] != after[i]]
        tasks: list[TaskPartition] = []
        for i in moved:
            size = _distance(self.job, i, before[i], after[i])
            piece = self._task_bytes(len(moved), size)
            if planned is not None:
                ranges = planned[i]
            else:  # after a restart
                input_, elements = self.job.inputs[i], self.job.elements(i)
                at_once = min(piece, AT_ONCE_BYTES)
                uncut = self._uncut(i, sys.maxsize)
                ranges, end_ = advance(
                    input_, elements, before[i], sys.maxsize, at_once, stop=after[i], uncut=uncut
                )
                if end_ != after[i]:
                    raise ChangedError.of(
                        input_.source, "its content has changed since an earlier run read it"
                    )
            for ordinal, group in enumerate(grouped(ranges, piece)):
                tasks.append(TaskPartition(edge.RangeTask(i, ordinal, group)))
        by_input: dict[int, list[InjectedTexts]] = {}
        injected = self._injection_log.read()
        if len(injected) < end.get(SAID, 0):
            raise ChangedError.of(self.job.said, "the punctuations that were sent to the run have changed")
        for stream, patterns in injected[start.get(SAID, 0) : end.get(SAID, 0)]:
            by_input.setdefault(self.job.input_of(stream), []).append((stream, patterns))
        for i, of_input in by_input.items():
            ordinal = sum(task.task.number == i for task in tasks)
            tasks.append(TaskPartition(edge.RangeTask(i, ordinal, (), tuple(of_input))))
        return list(tasks)

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, TaskPartition)
        return map(tuple, edge.read_task(self.job, partition.task))

    def commit(self, end: Offset) -> None:
        """Release the input before ``end``, which is committed. Spark calls this one micro-batch later."""
        for i, cursor in _cursors(end).items():
            release(self.job.inputs[i], cursor)

    def _task_bytes(self, inputs: int, size: int) -> int:
        """Task size for ``size`` bytes, so that all cores get equally many tasks."""
        tasks = self._tasks(inputs)
        return max(LEAST_PIECE, -(-size // (tasks * max(1, -(-size // (tasks * MOST_BYTES))))))

    def _tasks(self, inputs: int) -> int:
        """Number of tasks per input, so that all cores have a task."""
        return -(-self.job.shards // max(inputs, 1))


def cursors_of(offset: str) -> dict[int, Cursor]:
    """The cursors of all inputs in an offset in Spark's form; empty for an empty one."""
    return _cursors(json.loads(offset)) if offset else {}


def _cursors(offset: Offset) -> dict[int, Cursor]:
    return {int(i): Cursor.from_json(values) for i, values in offset.items() if i not in (SAID, JOB)}


def _distance(job: Job, number: int, start: Cursor, end: Cursor) -> int:
    """Number of bytes between two positions of an input."""
    if start.part == end.part:
        return end.position.byte - start.position.byte
    sizes = sum(part.size or 0 for part in job.inputs[number].parts[start.part : end.part])
    return sizes - start.position.byte + end.position.byte
