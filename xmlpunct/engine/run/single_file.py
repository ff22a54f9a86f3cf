"""The `Outlet` of a single Parquet or Arrow file."""

from __future__ import annotations

import os
import struct
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from xmlpunct.base.codec import dump, load
from xmlpunct.base.errors import UsageError, ended_by
from xmlpunct.connectors.outlet import Existing, Form, Outlet, Results, chained
from xmlpunct.engine.run.checkpoint.log import DamagedError
from xmlpunct.engine.run.datasets.dataset_files import write_file
from xmlpunct.engine.run.durable_files import Appender, sync_folder, writing

_HEAD = struct.Struct("<Q32s")
"""In front of each frame of rows: its length and its checksum."""


class SingleFile(Outlet):
    """A file in a columnar format, which is written when nothing follows: such a file cannot grow.

    Until then its rows are in ``_NAME.rows`` beside it, which readers skip. A position is the length of that file, and
    the checksum of its last frame, which continues the checksum of the frame before. A run that is stopped early writes
    the rows so far; with ``continues``, a later run takes up the rows and writes it anew.
    """

    takes_columns = can_replace = True

    def __init__(self, path: str, format_: str, *, continues: bool) -> None:
        self._path, self._format, self._continues = Path(path), format_, continues
        self._rows = self._path.with_name(f"_{self._path.name}.rows")
        self._length, self._check = 0, ""
        self._file: Appender | None = None
        self._is_written = self._is_complete = False

    def open(self, form: Form, position: Any) -> None:
        if position is None and form.existing is Existing.REFUSE and self._path.exists():
            raise UsageError(
                f"{self._path} exists, and the checkpoint is new: give the --checkpoint of the run that wrote it, "
                "name another file, or overwrite it with --replace"
            )
        if position is None and form.existing is Existing.REPLACE:
            self._path.unlink(missing_ok=True)
        self._schema, (self._length, self._check) = form.schema, position or (0, "")
        self._file = Appender(str(self._rows), self._length, begun=position is not None)

    def write(self, results: Results, *, again: bool = False) -> None:
        assert self._file is not None
        data = b""
        for frame in [dump(slice_.tuples) for slice_ in results.slices if slice_.tuples.height]:
            self._check = chained(self._check, frame)
            data += _HEAD.pack(len(frame), self._check.encode()) + frame
        self._length = self._file.append(data, self._length, replaying=again)
        self._is_written = False
        if results.last:
            self._is_complete = True
            self._write_file()

    def verify(self) -> None:
        with writing(self._rows):
            deque(self._frames(), maxlen=0)

    def commit(self) -> list[Any]:
        assert self._file is not None
        self._file.sync()
        return [self._length, self._check]

    def break_off(self) -> None:
        self._write_file()

    def check_complete(self, form: Form, position: Any) -> None:
        self._rows.unlink(missing_ok=True)  # a run that was killed after its last commit leaves it

    def close(self) -> None:
        if self._file is None:
            return
        with ended_by(self._file.close):
            self._write_file()
        if self._is_complete or not self._continues:
            self._rows.unlink(missing_ok=True)

    def _write_file(self) -> None:
        """Write the rows so far to the file, which appears by one rename."""
        if self._is_written:
            return
        with writing(self._path):
            half = self._rows.with_suffix(".half")
            write_file(self._format, self._schema, self._frames(), half)
            os.replace(half, self._path)
            sync_folder(self._path.resolve().parent)
        self._is_written = True

    def _frames(self) -> Iterator[pl.DataFrame]:
        with open(self._rows, "rb") as file:
            check = ""
            while (at := file.tell()) < self._length:
                length, expected = _HEAD.unpack(file.read(_HEAD.size).ljust(_HEAD.size))
                data = file.read(min(length, self._length))
                check = chained(check, data)
                if check.encode() != expected or file.tell() - at != _HEAD.size + length:
                    self._is_written = True  # a file that exists stays as it is
                    raise DamagedError(self._rows, at)
                yield load(data)
            if check != self._check:
                raise DamagedError(self._rows, self._length)
