"""Datasets of columnar files on Spark: tasks stage tuples and make files, the driver publishes the files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from xmlpunct.connectors.outlet import Form, Results, chained
from xmlpunct.engine.run.datasets import Dataset
from xmlpunct.engine.run.output import Output
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.spark.aside import AsideFolder
from xmlpunct.engine.spark.outputs import Group, Taken
from xmlpunct.firehose.writer import JsonlWriter
from xmlpunct.schema import Schema

T = TypeVar("T")
_TASKS = 4
"""Tasks per core that make the files of a micro-batch: several, so that a slow task delays less."""


@dataclass
class Cluster:
    """Runs tasks on Spark, once ``session`` is set."""

    session: SparkSession | None = None

    def run(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Run tasks and return their results."""
        assert self.session is not None
        context = self.session.sparkContext
        slices = min(len(tasks), _TASKS * context.defaultParallelism)
        results: list[T] = context.parallelize(tasks, slices).map(_run).collect()
        return results


def _run(task: Callable[[], T]) -> T:
    return task()


class ColumnsTarget:
    """The dataset of ``options.output``, for results with this schema."""

    def __init__(self, options: RunOptions, schema: Schema, cluster: Cluster) -> None:
        self._options, self._schema = options, schema
        path, by = str(options.output), options.partition_by
        self._dataset = Dataset(path, options.format, by, cluster)
        self.position: Any = None

    def open(self, run: str, committed: int, position: Any = None) -> None:
        """Claim the directory for this run. Raises `UsageError` if the results cannot be written there."""
        form = Form(
            run, self._schema, JsonlWriter(self._schema), self._options.format, self._options.existing
        )
        self._dataset.open(form, position)
        self._dataset.check_last(committed + 1)
        self.position = self._dataset.commit() if position is None else position

    def place(self) -> AsideFolder:
        """The directory of staged rows, which readers skip."""
        return AsideFolder(self._dataset.staging, self._options)

    def write(self, output: Output, batch_results: Taken, group: Group, closes: bool) -> tuple[int, str]:
        ready = output.prepare(batch_results.slice_)
        keyed = [pair for outcome in batch_results.put for pair in outcome.keyed]
        digest = chained(group.written.digest, group.offset.encode())
        self._dataset.stage(keyed)
        self._dataset.write(Results(group.batch, (ready,), b"", last=closes, digest=digest))
        self.position = self._dataset.commit()
        return group.written.length + sum(chunk.length for _, chunk in keyed), digest

    def break_off(self) -> None:
        self._dataset.break_off()

    def finish(self) -> None:
        """Nothing to do: no reader waits at a directory."""

    def close(self) -> None:
        """Release the directory."""
        self._dataset.close()
