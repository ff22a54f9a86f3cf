"""Batch reads of a table: all current files, in parallel."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from xmlpunct.engine.run.inputs.parse_ranges import AT_ONCE_BYTES
from xmlpunct.engine.run.inputs.ranges import advance, grouped
from xmlpunct.engine.spark.table.table_files import TablePart, labels, table_parts
from xmlpunct.engine.spark.table.tasks import TablePiece, TableRead, input_of
from xmlpunct.firehose.labels import Label
from xmlpunct.firehose.position import Cursor
from xmlpunct.firehose.spec import elements_of


class TaskPieces(InputPartition):  # type: ignore[misc]
    """A task in the form that Spark passes to workers: the pieces that it reads in sequence."""

    def __init__(self, pieces: tuple[TablePiece, ...]) -> None:
        super().__init__(pieces)
        self.pieces = pieces


class TableReader(DataSourceReader):  # type: ignore[misc]
    """Plans a read in the driver, and reads its tasks in workers."""

    def __init__(self, table: TableRead) -> None:
        self.table = table

    def partitions(self) -> Sequence[InputPartition]:
        parts = table_parts(self.table.options.paths)
        return [
            TaskPieces(pieces)
            for pieces in tasks(self.table, zip(parts, labels(self.table.spec, parts), strict=True))
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TaskPieces)
        return self.table.read(partition.pieces)


def tasks(
    table: TableRead, parts: Iterable[tuple[TablePart, tuple[Label, ...]]]
) -> list[tuple[TablePiece, ...]]:
    """Group parts, and ranges of large parts, into tasks of about `TableOptions.partition_bytes`."""
    partition_bytes = table.options.partition_bytes
    planned: list[tuple[TablePiece, ...]] = []
    group: list[TablePiece] = []
    size = 0
    for part, part_labels in parts:
        ranges = list(cut_ranges(table, part, part_labels))
        if ranges:
            planned += [(piece,) for piece in ranges]
            continue
        part_bytes = partition_bytes if part.size is None else part.size
        if group and size + part_bytes > partition_bytes:
            planned.append(tuple(group))
            group, size = [], 0
        group.append(TablePiece(part, part_labels))
        size += part_bytes
    return [*planned, tuple(group)] if group else planned


def cut_ranges(table: TableRead, part: TablePart, part_labels: tuple[Label, ...]) -> Iterator[TablePiece]:
    """Cut a large part into ranges that can be read independently; empty if it must be read whole.

    A table that tolerates ill-formed documents reads parts whole: tuples after the error are dropped, and the tasks of
    later ranges would not detect it.
    """
    partition_bytes = table.options.partition_bytes
    if part.size is None or part.size <= partition_bytes or table.tolerates or not part.is_plain():
        return
    elements = elements_of([table.spec], table.options.punct_namespace)
    at_once = min(AT_ONCE_BYTES, partition_bytes)
    ranges, _ = advance(input_of(part), elements, Cursor(), sys.maxsize, at_once)
    for group in grouped(ranges, partition_bytes):
        yield TablePiece(part, part_labels, group)
