"""Streaming reads of a table: each micro-batch reads the bytes that are new since the last one."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from xmlpunct.connectors.source import ChangedError
from xmlpunct.engine.run.inputs.open_file import OpenFile
from xmlpunct.engine.run.inputs.parse_ranges import AT_ONCE_BYTES
from xmlpunct.engine.run.inputs.ranges import advance, grouped
from xmlpunct.engine.spark.table.table_batch import TaskPieces, tasks
from xmlpunct.engine.spark.table.table_files import TablePart, labels, table_parts, waits
from xmlpunct.engine.spark.table.tasks import TablePiece, TableRead, input_of
from xmlpunct.firehose.labels import Label
from xmlpunct.firehose.position import Cursor
from xmlpunct.firehose.spec import elements_of

TableOffset = dict[str, Any]
FileKey = tuple[str, ...]


@dataclass(frozen=True)
class Progress:
    """The read position in a table: ``files`` complete files of ``bytes`` bytes in total, the last one ``last``.

    The next file is read up to the ``cursor``.
    """

    files: int = 0
    bytes: int = 0
    last: str = ""
    cursor: Cursor | None = None

    def to_json(self) -> TableOffset:
        """As plain values."""
        cursor = None if self.cursor is None else self.cursor.to_json()
        return {"files": self.files, "bytes": self.bytes, "last": self.last, "cursor": cursor}

    @classmethod
    def from_json(cls, values: TableOffset) -> Progress:
        """The inverse of `to_json`."""
        cursor = values["cursor"]
        return cls(values["files"], values["bytes"], values["last"], cursor and Cursor.from_json(cursor))

    def past(self, part: TablePart) -> Progress:
        """The position after a part."""
        return Progress(self.files + 1, self.bytes + (part.size or 0), part.name)


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Plans micro-batches in one process and reads their tasks in others.

    Files are read in the order of their names; a new file must come last in this order. Growing files are not
    supported here: `xmlpunct.spark.query` follows them.
    """

    def __init__(self, table: TableRead) -> None:
        self.table = table
        self._available_now: list[TablePart] | None = None

    def initialOffset(self) -> TableOffset:  # noqa: N802 - Spark's names
        return Progress().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        options = self.table.options
        if options.most_bytes is not None:
            return ReadMaxBytes(options.most_bytes)
        return ReadAllAvailable() if options.most_files is None else ReadMaxFiles(options.most_files)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._available_now = self._listed()

    def latestOffset(self, start: TableOffset, limit: ReadLimit) -> TableOffset:  # noqa: N802
        at = Progress.from_json(start)
        parts = self._unread(at)
        files, size = self._limits(limit)
        for part in parts:
            if files <= 0 or size <= 0:
                break
            unread_bytes = (part.size or 0) - (at.cursor.position.byte if at.cursor else 0)
            if unread_bytes > size and not self.table.tolerates and part.is_plain():
                _, cursor = self._advance(part, at.cursor or Cursor(), size)
                if not cursor.done:
                    return replace(at, cursor=cursor).to_json()
            at = at.past(part)
            files, size = files - 1, size - unread_bytes
        return at.to_json()

    def partitions(self, start: TableOffset, end: TableOffset) -> Sequence[InputPartition]:
        before, after = Progress.from_json(start), Progress.from_json(end)
        parts = [part for part in self._unread(before) if part.key <= _key(after.last)] if after.files else []
        if (
            len(parts) != after.files - before.files
            or sum(p.size or 0 for p in parts) != after.bytes - before.bytes
        ):
            raise ChangedError.of(
                ", ".join(self.table.options.paths),
                f"files up to {after.last} were added, removed or overwritten",
            )
        of_part = dict(zip(parts, labels(self.table.spec, parts, grows=True), strict=True))
        tasks_: list[TaskPieces] = []
        if before.cursor is not None and parts:
            first = parts.pop(0)
            tasks_ += self._between(first, of_part[first], before.cursor, None)
        elif before.cursor is not None and after.cursor != before.cursor:
            first = self._next(before)
            (label,) = labels(self.table.spec, [first], grows=True)
            return self._between(first, label, before.cursor, after.cursor)
        tasks_ += [
            TaskPieces(pieces) for pieces in tasks(self.table, [(part, of_part[part]) for part in parts])
        ]
        if after.cursor is not None and after != before:
            following = self._next(after)
            (label,) = labels(self.table.spec, [following], grows=True)
            tasks_ += self._between(following, label, Cursor(), after.cursor)
        return tasks_

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TaskPieces)
        return self.table.read(partition.pieces)

    def commit(self, end: TableOffset) -> None:
        """Nothing to do: files are not removed."""

    def stop(self) -> None:
        """Nothing to do: no resource is open."""

    def _limits(self, limit: ReadLimit) -> tuple[int, int]:
        """Maximal numbers of files and bytes of a micro-batch."""
        options = self.table.options
        if isinstance(limit, ReadAllAvailable):
            return sys.maxsize, sys.maxsize
        files, size = options.most_files or sys.maxsize, options.most_bytes or sys.maxsize
        if isinstance(limit, ReadMaxFiles):
            files = min(files, limit.max_files)
        elif isinstance(limit, ReadMaxBytes):
            size = min(size, limit.max_bytes)
        elif isinstance(limit, ReadMaxRows):
            size = min(size, limit.max_rows)  # a row has at least one byte
        return files, size

    def _listed(self) -> list[TablePart]:
        available_paths = [path for path in self.table.options.paths if not waits(path)]
        return sorted(table_parts(available_paths), key=lambda part: part.key) if available_paths else []

    def _unread(self, at: Progress) -> list[TablePart]:
        """The parts that are not read yet; with the trigger availableNow, of the parts at its start."""
        parts = self._listed() if self._available_now is None else self._available_now
        read = [part for part in parts if at.files and part.key <= _key(at.last)]
        if len(read) > at.files:
            raise ChangedError.of(
                ", ".join(self.table.options.paths),
                f"a new file has a name before {at.last}, which was read already: files are read in the order of "
                "their names",
            )
        return parts[len(read) :]

    def _next(self, at: Progress) -> TablePart:
        unread_parts = self._unread(at)
        if not unread_parts:
            raise ChangedError.of(
                ", ".join(self.table.options.paths), f"the files after {at.last} no longer exist"
            )
        return unread_parts[0]

    def _between(
        self, part: TablePart, part_labels: tuple[Label, ...], start: Cursor, stop: Cursor | None
    ) -> list[TaskPieces]:
        """The tasks for a part between two cursors; without ``stop``, up to its end."""
        ranges, end = self._advance(part, start, sys.maxsize, stop)
        if stop is not None and end != stop:
            raise ChangedError.of(part.name, "its content has changed since an earlier run read it")
        partition_bytes = self.table.options.partition_bytes
        return [
            TaskPieces((TablePiece(part, part_labels, group),)) for group in grouped(ranges, partition_bytes)
        ]

    def _advance(self, part: TablePart, start: Cursor, size: int, stop: Cursor | None = None) -> Any:
        elements = elements_of([self.table.spec], self.table.options.punct_namespace)
        at_once = min(AT_ONCE_BYTES, self.table.options.partition_bytes)
        return advance(input_of(part), elements, start, size, at_once, stop=stop, open_file=OpenFile())


def _key(name: str) -> FileKey:
    return TablePart("", name, None, None).key
