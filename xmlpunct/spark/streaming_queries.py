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

    ``sql`` is as for `xmlpunct.query`, without ORDER BY and LIMIT. ``frames`` are the streams by name: data frames,
    streaming or not, or paths of XML. A frame need not be declared; then its columns are as it has them. Its
    punctuations are in a column (see `punctuated`), or follow from PUNCTUATE ORDER BY, where a micro-batch is in the
    order of its partitions. A frame that is not streaming is written as XML, now, and ends; a streaming one never ends.

    With ``columnNameOfPunctuation`` the result has that column, too: in a row of a punctuation it has its text, and
    the others are null. Results do not pass the driver. Each comes once if the sink takes micro-batches once.

    Rejects are logged where they are found, by the workers; in the ``mode`` FAILFAST the first one ends the query.
    Where a source fails, the micro-batch with the failure fails, and with it the streaming query; the micro-batches
    before it are written.

    ``maxBytesPerTrigger`` is how much of the XML a micro-batch reads, such as ``8MiB``. Without it, micro-batches
    begin with 32 MiB and adapt.

    ``shards`` are how many parts the state has: as many as Spark runs tasks, if not given. A checkpoint belongs to a
    query, its inputs and its shards, and refuses any other. ``spool`` is a directory for what has to be copied before
    it is read: sockets, compressed files, frames that are not streaming. Without it they go with this process, and a
    query over a socket cannot go on after a restart. Spark's tasks run elsewhere: paths, and the spool, have to be the
    same there.

    Raises `SqlError` and `UsageError` before anything runs, and `SourceError` for a source that cannot be opened.
    """
    need_spark()
    from xmlpunct.engine.spark.dataframe import query_frame

    register(spark)
    return query_frame(spark, sql, frames, columnNameOfPunctuation, mode, maxBytesPerTrigger, shards, spool)


def punctuated(frame: DataFrame, column: str) -> Any:
    """A data frame for `query` whose ``column`` has punctuations: texts such as ``<*, [17,20), *>``.

    A row in which it is null is a tuple; else the other columns do not count, and the text has a pattern for each of
    them, in order. That is what ``columnNameOfPunctuation`` gives.
    """
    need_spark()
    from xmlpunct.engine.spark.dataframe import Punctuated

    return Punctuated(frame, column)
