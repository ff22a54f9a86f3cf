"""The objects that Spark pickles: the source, and the processor of fragments.

They are pickled with their code, so a process that only forwards them, or inspects their state, need not import the
engine.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from xmlpunct.engine.spark.stage_messages import ROW_SCHEMA
from xmlpunct.engine.spark.state_store import KEY_SCHEMA, VALUE_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from xmlpunct.engine.spark.job import Job
    from xmlpunct.engine.spark.processor import FragmentProcessor
    from xmlpunct.engine.spark.spark_source import Offset, QueryReader

NAME = "xmlpunct-query"


class QuerySource(DataSource):  # type: ignore[misc]
    """Reads the inputs of the `Job` in option ``job``."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return ROW_SCHEMA

    def streamReader(self, schema: Any) -> LightReader:  # noqa: N802 - Spark's name
        return LightReader(self.options["job"])


class LightReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """A `QueryReader` that is created on first use."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._query_reader: QueryReader | None = None

    def _reader(self) -> QueryReader:
        if self._query_reader is None:
            from xmlpunct.engine.spark.job import Job
            from xmlpunct.engine.spark.spark_source import QueryReader

            self._query_reader = QueryReader(Job.from_text(self._job))
        return self._query_reader

    def initialOffset(self) -> Offset:  # noqa: N802
        return self._reader().initialOffset()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._reader().prepareForTriggerAvailableNow()

    def latestOffset(self, start: Offset, limit: Any) -> Offset:  # noqa: N802
        return self._reader().latestOffset(start, limit)

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        return self._reader().partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        return self._reader().read(partition)

    def commit(self, end: Offset) -> None:
        self._reader().commit(end)


class LightProcessor(StatefulProcessor):  # type: ignore[misc]
    """A `FragmentProcessor` for the fragments ``stages`` of a job, which is created for the first rows."""

    def __init__(self, job: str, stages: Sequence[int]) -> None:
        self._job, self._stages = job, stages
        self._processor: FragmentProcessor | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._values = {
            stage: handle.getMapState(f"fragment{stage}", KEY_SCHEMA, VALUE_SCHEMA) for stage in self._stages
        }

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        if self._processor is None:
            from xmlpunct.engine.spark.processor import FragmentProcessor

            self._processor = FragmentProcessor(self._job, self._values)
        return self._processor.push(key[0], rows)

    def close(self) -> None:
        pass


def with_fragments(rows: DataFrame, job: Job) -> DataFrame:
    """Append the fragments to the frame ``rows``. Independent fragments share a step of Spark."""
    for level in job.fragments.levels:
        processor = LightProcessor(job.to_text(), level)
        rows = rows.groupBy("shard").transformWithState(processor, ROW_SCHEMA, "append", "None")
    return rows


cloudpickle.register_pickle_by_value(sys.modules[__name__])
