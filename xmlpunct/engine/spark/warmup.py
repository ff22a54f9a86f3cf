"""Starting what Spark would start only when it is needed, while it still plans."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pyspark.sql import SparkSession

_WAIT_SECONDS = 5.0
"""How long the end of the run waits for the warm-up, whose result nobody needs."""


@contextmanager
def warming(session: SparkSession) -> Iterator[None]:
    """Beside what is in the block, run a job that does nothing on all cores: workers start and load what they need.

    What becomes of it is of no importance.
    """

    def run() -> None:
        with suppress(Exception):  # of many kinds, if the session ends meanwhile
            count = session.sparkContext.defaultParallelism
            session.range(0, count, 1, count).mapInArrow(_load, "id LONG").collect()

    thread = threading.Thread(target=run, name="warm up", daemon=True)
    thread.start()
    yield
    thread.join(_WAIT_SECONDS)  # what fails, or is stopped, does not wait: the job ends with the session


def _load(batches: Iterator[Any]) -> Iterator[Any]:
    import xmlpunct.engine.spark.processor
    import xmlpunct.engine.spark.spark_source  # noqa: F401

    yield from batches
