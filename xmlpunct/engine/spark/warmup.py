"""Starts Spark's workers early, while the query is still being planned."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pyspark.sql import SparkSession

_WAIT_SECONDS = 5.0
"""Maximal wait for the warm-up at the end of a run."""


@contextmanager
def warming(session: SparkSession) -> Iterator[None]:
    """During the block, run an empty job on all cores, so that workers start and import modules.

    Its failure is ignored.
    """

    def run() -> None:
        with suppress(Exception):  # errors of many types, if the session ends meanwhile
            count = session.sparkContext.defaultParallelism
            session.range(0, count, 1, count).mapInArrow(_load, "id LONG").collect()

    thread = threading.Thread(target=run, name="warm up", daemon=True)
    thread.start()
    yield
    thread.join(_WAIT_SECONDS)  # not reached after an error: the job ends with the session


def _load(batches: Iterator[Any]) -> Iterator[Any]:
    import xmlpunct.engine.spark.processor
    import xmlpunct.engine.spark.spark_source  # noqa: F401

    yield from batches
