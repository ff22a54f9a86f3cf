"""Tables of readings for the tests of the data source, and a driver that runs its tasks as Spark does."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import types as spark

from tests.spark.support import NAMESPACE
from xmlpunct.engine.spark.table.stream import TableStreamReader
from xmlpunct.engine.spark.table.table_batch import TableReader
from xmlpunct.engine.spark.table.table_options import WATCHING, TableOptions
from xmlpunct.engine.spark.table.tasks import TableRead

Row = dict[str, Any]
READINGS = spark.StructType().add("_sid", "string").add("hour", "integer")


def struct(**columns: Any) -> spark.StructType:
    schema = spark.StructType()
    for name, type_ in columns.items():
        schema.add(name, type_)
    return schema


def feed(path: Path, hours: Iterator[int] | range, sid: str = "S1", closed_hour: int | None = None) -> Path:
    """A file of readings, which ends with a punctuation for all hours up to ``closed_hour``."""
    tuples = "".join(f'<t sid="{sid}"><hour>{hour}</hour></t>\n' for hour in hours)
    punctuation = "" if closed_hour is None else f"<p:t><hour>(,{closed_hour}]</hour></p:t>"
    path.write_text(f'<s xmlns:p="{NAMESPACE}">{tuples}{punctuation}</s>')
    return path


def table(columns: spark.StructType, path: Path | str, **options: Any) -> TableRead:
    settings = {"element": "t", "path": str(path), **{name: str(value) for name, value in options.items()}}
    return TableRead(columns, TableOptions.read(settings, WATCHING))


def of_tasks(reader: TableReader | TableStreamReader, tasks: Any) -> list[list[Row]]:
    """The rows of each task, read by a pickled copy of the reader."""
    rows_by_task = []
    for task in tasks:
        task_reader, task_copy = pickle.loads(pickle.dumps((reader, task)))
        rows_by_task.append([row for batch in task_reader.read(task_copy) for row in batch.to_pylist()])
    return rows_by_task


def read(columns: spark.StructType, path: Path | str, **options: Any) -> list[Row]:
    reader = TableReader(table(columns, path, **options))
    return [row for rows in of_tasks(reader, reader.partitions()) for row in rows]


def hours(rows: list[Row]) -> list[int]:
    return [row["hour"] for row in rows]
