"""Tables of readings for the tests of the data source, and a driver of its tasks as Spark has one."""

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
    found = spark.StructType()
    for name, type_ in columns.items():
        found.add(name, type_)
    return found


def feed(path: Path, hours: Iterator[int] | range, sid: str = "S1", said: int | None = None) -> Path:
    """A file of readings."""
    tuples = "".join(f'<t sid="{sid}"><hour>{hour}</hour></t>\n' for hour in hours)
    promise = "" if said is None else f"<p:t><hour>(,{said}]</hour></p:t>"
    path.write_text(f'<s xmlns:p="{NAMESPACE}">{tuples}{promise}</s>')
    return path


def table(columns: spark.StructType, path: Path | str, **options: Any) -> TableRead:
    said = {"element": "t", "path": str(path), **{name: str(value) for name, value in options.items()}}
    return TableRead(columns, TableOptions.read(said, WATCHING))


def of_tasks(reader: TableReader | TableStreamReader, tasks: Any) -> list[list[Row]]:
    """The rows of each task, read elsewhere."""
    found = []
    for task in tasks:
        there, given = pickle.loads(pickle.dumps((reader, task)))
        found.append([row for batch in there.read(given) for row in batch.to_pylist()])
    return found


def read(columns: spark.StructType, path: Path | str, **options: Any) -> list[Row]:
    reader = TableReader(table(columns, path, **options))
    return [row for rows in of_tasks(reader, reader.partitions()) for row in rows]


def hours(rows: list[Row]) -> list[int]:
    return [row["hour"] for row in rows]
