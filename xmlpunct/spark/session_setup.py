"""Spark sessions in which xmlpunct is registered."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from xmlpunct.engine.spark import need_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("xmlpunct")


def use_this_python() -> None:
    """Let Spark run tasks with the Python of this process, if ``python3`` in PATH belongs to another environment.

    A setting of the user prevails. A running session is changed only if its tasks run on this machine; for any other,
    a warning says what to set.
    """
    python3 = shutil.which("python3")
    is_activated = python3 is not None and Path(python3).parent == Path(sys.executable).parent
    if is_activated or "PYSPARK_PYTHON" in os.environ:
        return
    pyspark = sys.modules.get("pyspark")
    if pyspark is not None and (context := pyspark.SparkContext._active_spark_context) is not None:
        if context.master.startswith("local"):
            context.pythonExec = sys.executable
        else:
            _log.warning(
                "Spark's tasks run python3 of PATH, which belongs to another environment than this Python: set "
                "PYSPARK_PYTHON=%s before the session starts, or the path of the package's Python on the workers",
                sys.executable,
            )
    elif "PYSPARK_GATEWAY_PORT" not in os.environ:  # else spark-submit has started Java already
        os.environ["PYSPARK_PYTHON"] = sys.executable


def start(master: str = "local[*]") -> SparkSession:
    """A registered Spark session: the active one, or a new one on ``master``.

    A new session runs Python tasks with the Python of this process, and has one shuffle partition for each task slot.
    If there is no Java, it uses the one of ``pip install 'xmlpunct[java]'``. Stop the session like any other. Raises
    `UsageError` if PySpark or Java is missing.
    """
    need_spark()
    from xmlpunct.engine.spark.notebook_progress import shown_start
    from xmlpunct.engine.spark.spark_session import start_session

    with shown_start():
        spark = start_session(master)
    register(spark)
    return spark


def register(spark: SparkSession) -> None:
    """Let a session read and write ``format("xmlpunct")``, and run `query`.

    The format needs no registration in sessions whose Python has the package installed. If ``python3`` in PATH belongs
    to another environment, a session on this machine runs its tasks with the Python of this process. In a notebook, a
    line below each cell counts Spark's tasks from now on.

    Queries need RocksDB for their state. If the session has Spark's default provider of state stores, RocksDB with
    changelog checkpoints replaces it, and this is logged. A provider that the user chose remains; then `query` is
    refused. Works under Spark Connect too. Raises `UsageError` if PySpark is missing.
    """
    need_spark()
    from xmlpunct.engine.spark.notebook_progress import show_in_notebook
    from xmlpunct.engine.spark.spark_session import active, knows, with_state_store
    from xmlpunct.engine.spark.table.datasource import XmlTable
    from xmlpunct.engine.spark.worker_stubs import QuerySource

    for name, value in with_state_store(spark).items():
        _log.info("%s is now %s in this session: queries keep their state there", name, value)
    with active(spark):
        for source in (XmlTable, QuerySource):
            if not knows(spark, source.name()):
                spark.dataSource.register(source)
    show_in_notebook()
