"""A file of records that grows at its end, each of which is there as a whole or not at all."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

from xmlpunct.engine.files import open_durably, write_all, writing
from xmlpunct.errors import XmlPunctError

_HEAD = struct.Struct(">II")
"""Before each record: its length, and its checksum."""


class Log:
    """The log at ``path``, made if need be. ``records`` are those that were found in it, in order.

    What follows the last whole record is half of one that a crash kept from being written; it is cut off.
    Raises `XmlPunctError` where the file cannot be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for record in (b"one", b"two"):
    ...         log = Log(Path(folder) / "log")
    ...         log.append(record)
    ...         log.close()
    ...     _ = (log.path.write_bytes(log.path.read_bytes()[:-1]))
    ...     Log(log.path).records
    [b'one']
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with writing(path):
            self._file = open_durably(path, os.O_RDWR | os.O_APPEND)
            self.records, whole = _whole(path.read_bytes())
            os.ftruncate(self._file, whole)

    def append(self, record: bytes) -> None:
        """Add a record, durably."""
        data = _HEAD.pack(len(record), zlib.crc32(record)) + record
        with writing(self.path):
            if not os.fstat(self._file).st_nlink:
                raise XmlPunctError(f"{self.path} is gone: the checkpoint was removed under this run")
            write_all(self._file, data)
            os.fsync(self._file)

    def clear(self) -> None:
        """Drop all records: nobody needs them any more."""
        with writing(self.path):
            os.ftruncate(self._file, 0)
        self.records = []

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _whole(data: bytes) -> tuple[list[bytes], int]:
    """The whole records that some bytes begin with, and how many bytes those are."""
    records: list[bytes] = []
    at = 0
    while at + _HEAD.size <= len(data):
        length, checksum = _HEAD.unpack_from(data, at)
        begin = at + _HEAD.size
        record = data[begin : begin + length]
        if len(record) < length or zlib.crc32(record) != checksum or not length:
            break
        records.append(record)
        at = begin + length
    return records, at
