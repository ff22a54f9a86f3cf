"""The Spark engine: a query as one Structured Streaming query, each micro-batch a slice.

Reading order: `job` (the rows between stages), `ranges` and `spark_source` (the planning of reads), `edge` (the tasks
of the reader), `processor` (the stateful fragments), `spark_sink` and `commit` (exactly-once output), `runner` (the
run).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING

from xmlpunct.base.errors import UsageError
from xmlpunct.engine.plan import Query
from xmlpunct.engine.run.inputs.injected_punctuations import InjectionQueue
from xmlpunct.engine.run.run_options import NO_COPY, RunOptions
from xmlpunct.engine.run.stats import RunStats

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NEEDED = ("pyspark", "pandas", "google.protobuf")


def run(
    query: Query,
    options: RunOptions,
    stats: RunStats,
    on_progress: Callable[[RunStats], None] | None = None,
    session: SparkSession | None = None,
    injections: InjectionQueue | None = None,
) -> None:
    """Run a query to the end of its sources and write its results.

    ``session`` stays running; without one, a session is started on ``options.master`` and stopped at the end.
    ``injections`` are punctuations that other threads inject.

    Raises `SourceError` if a source fails, after committing the results before it; with ``options.strict``
    `StrictError` after the micro-batch with the first reject; `UsageError` if Spark or Java is missing, an option
    requires the local engine, or the checkpoint belongs to another run.
    """
    need_spark()
    if options.partial is not None:
        raise UsageError(NO_COPY)
    from xmlpunct.engine.spark.runner import Runner  # Spark is an optional dependency, and slow to import

    Runner(query, options, stats, on_progress, injections).run(session)


def need_spark() -> None:
    """Raise `UsageError` if a module that Spark needs is not installed."""
    if not spark_is_installed():
        raise UsageError("the Spark engine is not installed: pip install 'xmlpunct[spark]'")


def spark_is_installed() -> bool:
    """True if all modules that Spark needs are installed."""
    return all(map(_installed, _NEEDED))


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
