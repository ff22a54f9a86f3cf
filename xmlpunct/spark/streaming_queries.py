"""Queries as streaming data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xmlpunct.engine.spark import need_spark
from xmlpunct.spark.session_setup import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def query(
    spark: SparkSession,
    sql: str,
    *,
    columnNameOfPunctuation: str | None = None,  # noqa: N803 - as Spark names its options
    maxBytesPerTrigger: str | None = None,  # noqa: N803 - as Spark names its options
    mode: str = "PERMISSIVE",
    shards: int | None = None,
    spool: str | None = None,
    **frames: Any,
) -> DataFrame:
    """A query as a streaming data frame of its result's tuples, for any of Spark's sinks.

    ``sql`` is as for `xmlpunct.query`, without ORDER BY and LIMIT. ``frames`` has the streams by name: data frames,
    streaming or static, or paths of XML. A frame need not be declared: by default its columns are those of the frame.
    Its punctuations are in a column (see `punctuated`), or follow from PUNCTUATE ORDER BY; the rows of a micro-batch
    are in the order of its partitions. A static frame is written as XML at the call, and ends; a streaming one never
    ends.

    With ``columnNameOfPunctuation`` the result has a column of that name. In the row of a punctuation it holds the
    text of the punctuation, and the other columns are null. Results do not pass through the driver. Each result is
    delivered exactly once if the sink commits each micro-batch once.

    The workers log rejects. In the ``mode`` FAILFAST the first reject ends the query. If a source fails, the
    micro-batch with the failure fails, and with it the streaming query; the micro-batches before it are written.

    ``maxBytesPerTrigger`` is the amount of XML that a micro-batch reads, such as ``8MiB``. Without it, micro-batches
    begin with 32 MiB and adapt.

    ``shards`` is the number of shards of the state; by default Spark's number of task slots. A checkpoint belongs to a
    query, its inputs and its shards, and refuses any other. ``spool`` is a directory for inputs that are copied before
    they are read: sockets, compressed files, static frames. Without it the copies are deleted with this process, and a
    query over a socket cannot resume after a restart. Spark's tasks may run on other machines: paths and the spool
    must be the same there.

    Raises `SqlError` and `UsageError` before anything runs, and `SourceError` for a source that cannot be opened.
    """
    need_spark()
    from xmlpunct.engine.spark.dataframe import query_frame

    register(spark)
    return query_frame(spark, sql, frames, columnNameOfPunctuation, mode, maxBytesPerTrigger, shards, spool)


def punctuated(frame: DataFrame, column: str) -> Any:
    """A data frame for `query` whose ``column`` has punctuations: texts such as ``<*, [17,20), *>``.

    A row in which ``column`` is null is a tuple. Any other row is a punctuation: its text has a pattern for each of the
    other columns, in order, and their values are ignored. ``columnNameOfPunctuation`` writes the same form.
    """
    need_spark()
    from xmlpunct.engine.spark.dataframe import Punctuated

    return Punctuated(frame, column)
