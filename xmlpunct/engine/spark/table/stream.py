"""Watching a table: what is new since the last micro-batch, to the byte."""

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

from xmlpunct.connectors.unchanged import ChangedError
from xmlpunct.engine.run.inputs.held import Held
from xmlpunct.engine.run.inputs.parse_ranges import AT_ONCE_BYTES
from xmlpunct.engine.run.inputs.ranges import Cursor, advance, grouped
from xmlpunct.engine.spark.table.table_batch import Pieces, tasks
from xmlpunct.engine.spark.table.table_files import TablePart, labels, listed, waits
from xmlpunct.engine.spark.table.tasks import Piece, Table, input_of
from xmlpunct.firehose.labels import Label
from xmlpunct.firehose.spec import elements_of

Offset = dict[str, Any]
Key = tuple[str, ...]


@dataclass(frozen=True)
class Progress:
    """How far a table is read: ``files`` whole files of ``bytes`` bytes, the last one ``last``.

    Of the file that follows, what comes before the ``cursor`` is read, too.
    """

    files: int = 0
    bytes: int = 0
    last: str = ""
    cursor: Cursor | None = None

    def to_json(self) -> Offset:
        """As plain values."""
        cursor = None if self.cursor is None else self.cursor.to_json()
        return {"files": self.files, "bytes": self.bytes, "last": self.last, "cursor": cursor}

    @classmethod
    def from_json(cls, values: Offset) -> Progress:
        """The inverse of `to_json`."""
        cursor = values["cursor"]
        return cls(values["files"], values["bytes"], values["last"], cursor and Cursor.from_json(cursor))

    def past(self, part: TablePart) -> Progress:
        """How far it is when a part has been read."""
        return Progress(self.files + 1, self.bytes + (part.size or 0), part.name)


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Plans micro-batches in one process and reads their tasks in others.

    Files are read in the order of their names, and what appears later is read if its name comes later. A file that
    is to be followed byte by byte is for a query: there is more to say of one than where it ends.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self._until: list[TablePart] | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's names
        return Progress().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        options = self.table.options
        if options.most_bytes is not None:
            return ReadMaxBytes(options.most_bytes)
        return ReadAllAvailable() if options.most_files is None else ReadMaxFiles(options.most_files)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._until = self._listed()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        at = Progress.from_json(start)
        parts = self._behind(at)
        files, size = self._limits(limit)
        for part in parts:
            if files <= 0 or size <= 0:
                break
            rest = (part.size or 0) - (at.cursor.position.byte if at.cursor else 0)
            if rest > size and not self.table.tolerates and part.is_plain():
                _, cursor = self._advance(part, at.cursor or Cursor(), size)
                if not cursor.done:
                    return replace(at, cursor=cursor).to_json()
            at = at.past(part)
            files, size = files - 1, size - rest
        return at.to_json()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        before, after = Progress.from_json(start), Progress.from_json(end)
        parts = [part for part in self._behind(before) if part.key <= _key(after.last)] if after.files else []
        if (
            len(parts) != after.files - before.files
            or sum(p.size or 0 for p in parts) != after.bytes - before.bytes
        ):
            raise ChangedError.of(
                ", ".join(self.table.options.paths),
                f"files up to {after.last} were added, removed or written anew",
            )
        known = dict(zip(parts, labels(self.table.spec, parts, grows=True), strict=True))
        found: list[Pieces] = []
        if before.cursor is not None and parts:
            first = parts.pop(0)
            found += self._between(first, known[first], before.cursor, None)
        elif before.cursor is not None and after.cursor != before.cursor:
            first = self._next(before)
            (label,) = labels(self.table.spec, [first], grows=True)
            return self._between(first, label, before.cursor, after.cursor)
        found += [Pieces(pieces) for pieces in tasks(self.table, [(part, known[part]) for part in parts])]
        if after.cursor is not None and after != before:
            following = self._next(after)
            (label,) = labels(self.table.spec, [following], grows=True)
            found += self._between(following, label, Cursor(), after.cursor)
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Pieces)
        return self.table.read(partition.pieces)

    def commit(self, end: Offset) -> None:
        """Files stay where they are."""

    def stop(self) -> None:
        """Nothing is held."""

    def _limits(self, limit: ReadLimit) -> tuple[int, int]:
        """How many files, and how many bytes, a micro-batch may have."""
        options = self.table.options
        if isinstance(limit, ReadAllAvailable):
            return sys.maxsize, sys.maxsize
        files, size = options.most_files or sys.maxsize, options.most_bytes or sys.maxsize
        if isinstance(limit, ReadMaxFiles):
            files = min(files, limit.max_files)
        elif isinstance(limit, ReadMaxBytes):
            size = min(size, limit.max_bytes)
        elif isinstance(limit, ReadMaxRows):
            size = min(size, limit.max_rows)  # a row has a byte at least
        return files, size

    def _listed(self) -> list[TablePart]:
        there = [path for path in self.table.options.paths if not waits(path)]
        return sorted(listed(there), key=lambda part: part.key) if there else []

    def _behind(self, at: Progress) -> list[TablePart]:
        """The parts that are yet to be read, of those that count."""
        parts = self._listed() if self._until is None else self._until
        read = [part for part in parts if at.files and part.key <= _key(at.last)]
        if len(read) > at.files:
            raise ChangedError.of(
                ", ".join(self.table.options.paths),
                f"a file has come whose name is before {at.last}, which was read: files are read in the order of "
                "their names",
            )
        return parts[len(read) :]

    def _next(self, at: Progress) -> TablePart:
        behind = self._behind(at)
        if not behind:
            raise ChangedError.of(", ".join(self.table.options.paths), f"what came behind {at.last} is gone")
        return behind[0]

    def _between(
        self, part: TablePart, known: tuple[Label, ...], start: Cursor, stop: Cursor | None
    ) -> list[Pieces]:
        """The tasks for what stands between two places of a part; without ``stop``, up to its end."""
        ranges, end = self._advance(part, start, sys.maxsize, stop)
        if stop is not None and end != stop:
            raise ChangedError.of(part.name, "it does not hold what was read of it before")
        most = self.table.options.partition_bytes
        return [Pieces((Piece(part, known, group),)) for group in grouped(ranges, most)]

    def _advance(self, part: TablePart, start: Cursor, size: int, stop: Cursor | None = None) -> Any:
        elements = elements_of([self.table.spec], self.table.options.punct_namespace)
        at_once = min(AT_ONCE_BYTES, self.table.options.partition_bytes)
        return advance(input_of(part), elements, start, size, at_once, stop=stop, held=Held())


def _key(name: str) -> Key:
    return TablePart("", name, None, None).key
