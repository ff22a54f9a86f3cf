"""Tasks on Spark that belong to no query: they make the files of datasets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pyspark.sql import SparkSession

T = TypeVar("T")
_TASKS = 4
"""Tasks per core: several, so that a slow task delays less."""


@dataclass
class SparkExecutor:
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
