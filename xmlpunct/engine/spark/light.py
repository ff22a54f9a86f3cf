"""The source as Spark hands it around. It is pickled with its code: who only passes it on need not load the engine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from xmlpunct.engine.spark.job import ROW_SCHEMA

if TYPE_CHECKING:
    from xmlpunct.engine.spark.source import Offset, QueryReader

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
    """A `QueryReader` that is made when it is asked something."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._made: QueryReader | None = None

    def _reader(self) -> QueryReader:
        if self._made is None:
            from xmlpunct.engine.spark.job import Job
            from xmlpunct.engine.spark.source import QueryReader

            self._made = QueryReader(Job.from_text(self._job))
        return self._made

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


cloudpickle.register_pickle_by_value(sys.modules[__name__])
