"""Spark sessions in which xmlpunct is registered."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from xmlpunct.engine.spark import need_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("xmlpunct")


def start(master: str = "local[*]") -> SparkSession:
    """A registered Spark session: the active one, or a new one on ``master``.

    A new session runs Python tasks with the Python of this process, and has one shuffle partition for each task slot.
    If there is no Java, it uses the one of ``pip install 'xmlpunct[java]'``. Stop the session like any other. Raises
    `UsageError` if PySpark or Java is missing.
    """
    need_spark()
    from xmlpunct.engine.spark.spark_session import start_session

    spark = start_session(master)
    register(spark)
    return spark


def register(spark: SparkSession) -> None:
    """Let a session read and write ``format("xmlpunct")``, and run `query`.

    The format needs no registration in sessions whose Python has the package installed.

    Queries need RocksDB for their state. If the session has Spark's default provider of state stores, RocksDB with
    changelog checkpoints replaces it, and this is logged. A provider that the user chose remains; then `query` is
    refused. Works under Spark Connect too. Raises `UsageError` if PySpark is missing.
    """
    need_spark()
    from xmlpunct.engine.spark.spark_session import active, knows, with_state_store
    from xmlpunct.engine.spark.table.datasource import XmlTable
    from xmlpunct.engine.spark.worker_stubs import QuerySource

    for name, value in with_state_store(spark).items():
        _log.info("%s is now %s in this session: queries keep their state there", name, value)
    with active(spark):
        for source in (XmlTable, QuerySource):
            if not knows(spark, source.name()):
                spark.dataSource.register(source)
