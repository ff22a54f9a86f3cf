"""A file of records that grows at its end, each of which is there as a whole or not at all.

All that a checkpoint has to know stands in such files: what the run is, what it has committed and read since, and
how far each spool is complete. A record is `xmlpunct.codec.pack`ed: named pieces of bytes.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Mapping
from errno import ESTALE
from pathlib import Path

import polars as pl

from xmlpunct.codec import pack, pieces
from xmlpunct.engine.files import is_there, open_durably, open_saved, write_all, writing
from xmlpunct.errors import XmlPunctError

_HEAD = struct.Struct(">II")
"""Before each record: its length, and its checksum."""

Record = Mapping[str, pl.DataFrame | bytes]
"""What is written: pieces by name."""


class WriteAheadLog:
    """The log at ``path``, which the first record makes. Raises `XmlPunctError` where it cannot be written.

    What follows the last whole record is half of one that a crash kept from being written; it is cut off before
    another is added.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = WriteAheadLog(Path(folder) / "log")
    ...     for word in (b"one", b"two"):
    ...         log.append({"word": word})
    ...     log.close()
    ...     _ = log.path.write_bytes(log.path.read_bytes()[:-1])
    ...     log.read()
    [{'word': b'one'}]
    """

    def __init__(self, path: Path) -> None:
        self.path, self._file = path, -1
        self._whole: int | None = None  # the bytes of all whole records, once known

    def read(self) -> list[dict[str, bytes]]:
        """The records, in order. Somebody else may be adding to them. Raises OSError."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        records, self._whole = _whole(data)
        return records

    def append(self, record: Record) -> None:
        """Add a record, durably."""
        data = _framed(record)
        with writing(self.path):
            if self._file < 0:
                self._open()
            self.check()
            write_all(self._file, data)
            os.fsync(self._file)
        self._whole = (self._whole or 0) + len(data)

    def replace(self, *records: Record) -> None:
        """Put these in the place of all records, durably: whoever looks sees the old ones or the new."""
        self.check()
        self._save(b"".join(map(_framed, records)))

    def take_over(self) -> None:
        """Be the only one who can add to it: whoever did so before is refused from now on."""
        self._save(self.path.read_bytes()[: self._whole])

    def close(self) -> None:
        """Close the file; another record opens it again."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _open(self) -> None:
        """Open the file to add to it, and cut off what is no whole record."""
        self.check()
        if self._whole is None:
            self.read()
        self._file = open_durably(self.path, os.O_RDWR | os.O_APPEND)
        if os.fstat(self._file).st_size > (self._whole or 0):
            os.ftruncate(self._file, self._whole or 0)

    def _save(self, data: bytes) -> None:
        """Put a new file in the place of the old one, and keep it open: so one knows whether it is still there."""
        self.close()
        self._file = open_saved(self.path, data)
        self._whole = len(data)

    def check(self) -> None:
        """Raise `XmlPunctError` if there were records, and the file with them has been removed or replaced."""
        with writing(self.path):
            is_named = _is_there(self._file) if self._file >= 0 else is_there(self.path)
            if self._whole is None or is_named:
                return
            if is_there(self.path):
                raise XmlPunctError(
                    f"another run has taken over {self.path.parent}: this one writes nothing more"
                )
            raise XmlPunctError(f"{self.path} is gone: the checkpoint was removed under this run")


def _is_there(file: int) -> bool:
    """Whether an open file has a name, on the machine that holds it. Raises OSError."""
    try:
        return os.fstat(file).st_nlink > 0
    except OSError as error:
        if error.errno == ESTALE:  # what a network says of a file that others have replaced
            return False
        raise


def _framed(record: Record) -> bytes:
    data = pack(record)
    return _HEAD.pack(len(data), zlib.crc32(data)) + data


def _whole(data: bytes) -> tuple[list[dict[str, bytes]], int]:
    """The whole records that some bytes begin with, and how many bytes those are."""
    records: list[dict[str, bytes]] = []
    at = 0
    while at + _HEAD.size <= len(data):
        length, checksum = _HEAD.unpack_from(data, at)
        begin = at + _HEAD.size
        record = data[begin : begin + length]
        if len(record) < length or zlib.crc32(record) != checksum or not length:
            break
        records.append(pieces(record))
        at = begin + length
    return records, at
