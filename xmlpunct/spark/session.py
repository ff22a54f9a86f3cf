"""What a Spark session needs to know of xmlpunct."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from xmlpunct.engine.spark import need_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("xmlpunct")


def register(spark: SparkSession) -> None:
    """Let a session read and write ``format("xmlpunct")``, and run `query`.

    Queries keep state that only RocksDB can hold, so it becomes the provider of the session's state store, with
    changelog checkpoints, if the session has Spark's default; this is logged. Another provider, chosen by somebody, is
    left as it is: then `query` is refused. Works under Spark Connect too. Raises `UsageError` if PySpark
    is missing.
    """
    need_spark()
    from xmlpunct.engine.spark.session import active, with_state_store
    from xmlpunct.engine.spark.source import QuerySource
    from xmlpunct.engine.spark.table.datasource import XmlTable

    for name, value in with_state_store(spark).items():
        _log.info("%s is now %s in this session: queries keep their state there", name, value)
    with active(spark):
        spark.dataSource.register(XmlTable)
        spark.dataSource.register(QuerySource)
