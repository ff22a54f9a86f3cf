"""The files of a dataset: Parquet, Arrow IPC, CSV."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import polars as pl

from xmlpunct.firehose import writer_for
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

GROUP_ROWS = 128 * 1024
"""Rows per row group or record batch; this many are in memory at a time."""
FILE_BYTES = 256 * 2**20
"""Target size of a file."""


class Growing(Protocol):
    """A file that is being written."""

    def write(self, rows: pl.DataFrame) -> None:
        """Append rows."""

    def close(self) -> None:
        """Finish the file."""


class _Arrow:
    """A file that pyarrow writes batch by batch."""

    def __init__(self, make: Callable[[Any], Any], schema: Schema) -> None:
        self._types = _table(schema.empty()).schema
        self._writer = make(self._types)

    def write(self, rows: pl.DataFrame) -> None:
        self._writer.write_table(_table(rows).cast(self._types))

    def close(self) -> None:
        self._writer.close()


class _Parquet(_Arrow):
    """A Parquet file, compressed, with statistics for each row group."""

    def __init__(self, file: BinaryIO, schema: Schema) -> None:
        from pyarrow.parquet import ParquetWriter

        super().__init__(lambda types: ParquetWriter(file, types, compression="zstd"), schema)


class _Ipc(_Arrow):
    """A file in the Arrow IPC format, compressed."""

    def __init__(self, file: BinaryIO, schema: Schema) -> None:
        from pyarrow import ipc

        options = ipc.IpcWriteOptions(compression="zstd")
        super().__init__(lambda types: ipc.new_file(file, types, options=options), schema)


class _Csv:
    """A CSV file with a header line."""

    def __init__(self, file: BinaryIO, schema: Schema) -> None:
        self._file, self._writer = file, writer_for("csv", schema)
        file.write(self._writer.start())

    def write(self, rows: pl.DataFrame) -> None:
        self._file.write(self._writer.body(Slice(rows)))

    def close(self) -> None:
        self._file.write(self._writer.end())


FORMATS: dict[str, Callable[[BinaryIO, Schema], Growing]] = {
    "parquet": _Parquet,
    "arrow": _Ipc,
    "csv": _Csv,
}
"""Writers by format name, which is also the file extension."""


def write_files(
    format_: str,
    schema: Schema,
    rows: Iterable[pl.DataFrame],
    name: Callable[[int], Path],
    max_bytes: int | None,
) -> None:
    """Write rows, durably, into files of about ``max_bytes`` bytes (None: one file); ``name(n)`` is the path of file n.

    Raises OSError.
    """
    groups, number = _regrouped(rows), 0
    while (group := next(groups, None)) is not None:
        _write_file(format_, schema, chain([group], groups), name(number), max_bytes)
        number += 1


def write_file(format_: str, schema: Schema, rows: Iterable[pl.DataFrame], path: Path) -> None:
    """Write rows, durably, into one file, which may hold no row. Raises OSError."""
    _write_file(format_, schema, _regrouped(rows), path, None)


def _write_file(
    format_: str, schema: Schema, groups: Iterable[pl.DataFrame], path: Path, max_bytes: int | None
) -> None:
    with open(path, "wb") as file:
        growing = FORMATS[format_](file, schema)
        with closing(growing):
            for group in groups:
                growing.write(group)
                if max_bytes is not None and file.tell() >= max_bytes:
                    break
        file.flush()
        os.fsync(file.fileno())


def _regrouped(rows: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Regroup rows into frames of `GROUP_ROWS` rows."""
    frames, height = list[pl.DataFrame](), 0
    for frame in rows:
        frames.append(frame)
        height += frame.height
        while height >= GROUP_ROWS:
            rows_so_far = pl.concat(frames)
            yield rows_so_far[:GROUP_ROWS]
            frames, height = [rows_so_far[GROUP_ROWS:]], height - GROUP_ROWS
    if height:
        yield pl.concat(frames)


def _table(rows: pl.DataFrame) -> Any:
    """Rows as an Arrow table, with types that all readers support."""
    return rows.to_arrow(compat_level=pl.CompatLevel.oldest())
