"""Reading a table once: all files as they are now, in parallel."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from xmlpunct.engine.run.inputs.parse_ranges import AT_ONCE_BYTES
from xmlpunct.engine.run.inputs.ranges import Cursor, advance, grouped
from xmlpunct.engine.spark.table.table_files import TablePart, labels, listed
from xmlpunct.engine.spark.table.tasks import Piece, Table, input_of
from xmlpunct.firehose.labels import Label
from xmlpunct.firehose.spec import elements_of


class Pieces(InputPartition):  # type: ignore[misc]
    """A task as Spark hands it around: the pieces that it reads, one after the other."""

    def __init__(self, pieces: tuple[Piece, ...]) -> None:
        super().__init__(pieces)
        self.pieces = pieces


class TableReader(DataSourceReader):  # type: ignore[misc]
    """Plans a read in the driver, and reads its tasks elsewhere."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def partitions(self) -> Sequence[InputPartition]:
        parts = listed(self.table.options.paths)
        return [
            Pieces(pieces)
            for pieces in tasks(self.table, zip(parts, labels(self.table.spec, parts), strict=True))
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Pieces)
        return self.table.read(partition.pieces)


def tasks(table: Table, parts: Iterable[tuple[TablePart, tuple[Label, ...]]]) -> list[tuple[Piece, ...]]:
    """Whole parts and ranges of large ones, by the task that reads them: about `TableOptions.partition_bytes` each."""
    most = table.options.partition_bytes
    found: list[tuple[Piece, ...]] = []
    together: list[Piece] = []
    size = 0
    for part, known in parts:
        ranges = list(cut(table, part, known))
        if ranges:
            found += [(piece,) for piece in ranges]
            continue
        wanted = most if part.size is None else part.size
        if together and size + wanted > most:
            found.append(tuple(together))
            together, size = [], 0
        together.append(Piece(part, known))
        size += wanted
    return [*found, tuple(together)] if together else found


def cut(table: Table, part: TablePart, known: tuple[Label, ...]) -> Iterator[Piece]:
    """A large part in ranges that can be read apart; nothing if it is to be read whole.

    Where reading goes on behind what is not well formed, it is: of the tuples behind that place, who reads another
    range would not know.
    """
    most = table.options.partition_bytes
    if part.size is None or part.size <= most or table.tolerates or not part.is_plain():
        return
    elements = elements_of([table.spec], table.options.punct_namespace)
    at_once = min(AT_ONCE_BYTES, most)
    ranges, _ = advance(input_of(part), elements, Cursor(), sys.maxsize, at_once)
    for group in grouped(ranges, most):
        yield Piece(part, known, group)
