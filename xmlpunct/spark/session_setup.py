"""What a Spark session needs to know of xmlpunct."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from xmlpunct.engine.spark import need_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("xmlpunct")


def start(master: str = "local[*]") -> SparkSession:
    """A Spark session that is registered: the one that runs, or a new one on ``master``.

    A new one runs Python tasks with this process' Python, finds the Java of ``pip install 'xmlpunct[java]'`` where
    there is no other, and has as many shuffle partitions as it runs tasks at a time. Stop it as any other. Raises
    `UsageError` if PySpark or Java is missing.
    """
    need_spark()
    from xmlpunct.engine.spark.spark_session import start_session

    spark = start_session(master)
    register(spark)
    return spark


def register(spark: SparkSession) -> None:
    """Let a session read and write ``format("xmlpunct")``, and run `query`.

    Where Spark's Python finds the installed package, the format is known to every session without this.

    Queries keep state that only RocksDB can hold, so it becomes the provider of the session's state store, with
    changelog checkpoints, if the session has Spark's default; this is logged. Another provider, chosen by somebody, is
    left as it is: then `query` is refused. Works under Spark Connect too. Raises `UsageError` if PySpark
    is missing.
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
