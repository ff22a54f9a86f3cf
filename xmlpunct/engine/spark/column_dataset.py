"""A dataset of files in columns: tasks put its tuples aside and make its files, the driver lets them be seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from xmlpunct.connectors.contract import Results, chained
from xmlpunct.engine.run.checkpoint.commit import Frames
from xmlpunct.engine.run.datasets import SharedDataset
from xmlpunct.engine.run.output import Output
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.spark.aside import Place
from xmlpunct.engine.spark.outputs import Group, Taken
from xmlpunct.schema import Schema

T = TypeVar("T")
_TASKS = 4
"""So many tasks for each core make the files of a micro-batch, so that one that takes longer holds up less."""


@dataclass
class Cluster:
    """What tasks run on, as soon as there is a ``session``."""

    session: SparkSession | None = None

    def run(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Run some tasks; what they give."""
        assert self.session is not None
        context = self.session.sparkContext
        slices = min(len(tasks), _TASKS * context.defaultParallelism)
        found: list[T] = context.parallelize(tasks, slices).map(_run).collect()
        return found


def _run(task: Callable[[], T]) -> T:
    return task()


class ColumnsTarget:
    """The dataset that ``options`` say, whose results have this schema."""

    position: Any = 0

    def __init__(self, options: RunOptions, schema: Schema, cluster: Cluster) -> None:
        self._options, self._schema = options, schema
        path, by = str(options.output), options.partition_by
        self._dataset = SharedDataset(path, options.format, by, cluster)

    def open(self, run: str, committed: int, begun: bool = True) -> None:
        """Make the directory this run's. Raises `UsageError` for what cannot be written there."""
        self._dataset.open(self._schema, run, self._options.existing)
        self._dataset.check_last(committed + 1)

    def place(self) -> Place:
        """The directory of what is not to be seen."""
        return Place(self._dataset.folder, self._options)

    def begin(self, state: Frames) -> None:
        """Go on with the partitions that were open."""
        self._dataset.restore(state)

    def snapshot(self) -> Frames:
        """The partitions that are open."""
        return self._dataset.snapshot()

    def write(self, output: Output, taken: Taken, group: Group, closes: bool) -> tuple[int, str]:
        said = output.prepare(taken.slice_).punctuations
        keyed = [pair for one in taken.put for pair in one.keyed]
        digest = chained(group.written.digest, group.offset.encode())
        self._dataset.write(keyed, said, closes, Results(group.batch, (), b"", digest=digest))
        return group.written.length + sum(chunk.length for _, chunk in keyed), digest

    def break_off(self) -> None:
        self._dataset.break_off()

    def finish(self) -> None:
        """Nobody waits at a directory."""

    def close(self) -> None:
        """Let go of it."""
        self._dataset.close()
