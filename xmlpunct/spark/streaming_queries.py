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
    """Run a query as a streaming data frame of its result's tuples, for any of Spark's sinks.

    Parameters
    ----------
    spark : SparkSession
    sql : str
        As for `xmlpunct.query`, without ORDER BY and LIMIT.
    columnNameOfPunctuation : str, optional
        Adds a column of this name, which holds the text of a punctuation in its row; the other columns of the row are
        null.
    maxBytesPerTrigger : str, optional
        How much XML a micro-batch reads, such as ``8MiB``. Without it, micro-batches begin with 32 MiB and adapt.
    mode : str, default "PERMISSIVE"
        In the mode FAILFAST the first reject ends the query.
    shards : int, optional
        The number of shards; by default the number of tasks that Spark runs at once.
    spool : str, optional
        A directory for copies of inputs that cannot be read twice: sockets, compressed files, frames that are not
        streaming. Without it, the copies are deleted with this process, and a query over a socket cannot be restarted.
    **frames : DataFrame or str
        The streams by name: data frames, streaming or not, or paths of XML. A frame needs no declaration; then it
        keeps its own columns. Its punctuations are in a column (see `punctuated`), or follow from PUNCTUATE ORDER BY.

    Returns
    -------
    DataFrame

    Raises
    ------
    SqlError, UsageError
        Before anything runs.
    SourceError
        For a source that cannot be opened.

    Notes
    -----
    Results do not pass the driver. Each result is written once if the sink writes each micro-batch once. A frame that
    is not streaming is written as XML now, and ends; a streaming one never ends. Workers log rejects where they occur.
    Where a source fails, the micro-batch with the fault fails, and with it the streaming query; earlier micro-batches
    are written. A checkpoint belongs to a query, its inputs and its number of shards, and refuses any other. Paths
    must be the same on all machines.
    """
    need_spark()
    from xmlpunct.engine.spark.dataframe import query_frame

    register(spark)
    return query_frame(spark, sql, frames, columnNameOfPunctuation, mode, maxBytesPerTrigger, shards, spool)


def punctuated(frame: DataFrame, column: str) -> Any:
    """A data frame for `query` with a column of punctuations.

    Parameters
    ----------
    frame : DataFrame
        Tuples, and rows of punctuations.
    column : str
        The column with texts such as ``<*, [17,20), *>``: a pattern for each other column, in order. A row in which it
        is null is a tuple; in any other row the other columns do not count.

    Returns
    -------
    Punctuated
        An argument for `query`. A result with ``columnNameOfPunctuation`` has the same form.
    """
    need_spark()
    from xmlpunct.engine.spark.dataframe import Punctuated

    return Punctuated(frame, column)
