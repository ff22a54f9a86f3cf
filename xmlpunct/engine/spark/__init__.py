"""The Spark engine: a query as one Structured Streaming query, each micro-batch a slice.

Reading order: `job` (what travels), `ranges` and `source` (what is read when), `edge` (what the reader does
with it), `processor` (the stateful fragments), `sink` and `commit` (what is written, once), `runner` (all).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING

from xmlpunct.base.errors import UsageError
from xmlpunct.engine.plan import Query
from xmlpunct.engine.run.inputs.injected_punctuations import Sayings
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
    sayings: Sayings | None = None,
) -> None:
    """Run a query to the end of its sources and write what it gives.

    ``session`` is used and left running; without one, one is made on ``options.master`` and stopped. ``sayings``
    are what is said to it while it runs.

    Raises `SourceError` when a source fails, after committing what came before; with ``options.strict``
    `StrictError` after the micro-batch with the first reject; `UsageError` if Spark or Java is missing, the
    options ask for what only the local engine does, or the checkpoint belongs to something else.
    """
    need_spark()
    if options.partial is not None:
        raise UsageError(NO_COPY)
    from xmlpunct.engine.spark.runner import Runner  # Spark is an extra, and takes a while to import

    Runner(query, options, stats, on_progress, sayings).run(session)


def need_spark() -> None:
    """Raise `UsageError` if what Spark needs is not installed."""
    if not all(map(_installed, _NEEDED)):
        raise UsageError("the Spark engine is not installed: pip install 'xmlpunct[spark]'")


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
