"""Files that must not change while they are read: parts of two versions do not form a stream."""

from __future__ import annotations

import io
import os
import stat
from hashlib import blake2b

from xmlpunct.base.errors import TransientError

KEPT_BYTES = 2**16
"""Bytes compared of a file's head, and of the data read last: to compare all would be to read the file twice."""


class ChangedError(TransientError):
    """A source differs from the data read before. The run can continue once the source is restored."""

    @classmethod
    def of(cls, source: str, change: str) -> ChangedError:
        """The error for a source, with a message about the change."""
        return cls(source, f"an input has changed: {change}")


def digest(data: bytes) -> str:
    """A checksum of some bytes."""
    return blake2b(data, digest_size=16).hexdigest()


def read_at(file: int, byte: int, count: int) -> bytes:
    """``count`` bytes of a file from an offset, or fewer at its end. Raises OSError."""
    data = bytearray()
    while len(data) < count and (chunk := os.pread(file, count - len(data), byte + len(data))):
        data += chunk
    return bytes(data)


class SteadyFile(io.FileIO):
    """A file at its size when it is opened: data appended later is not read. Pipes and devices are read to their end.

    If another file takes over its path, this one is still read to its end. Reading raises `ChangedError` if the file
    becomes shorter, or if the compared bytes have changed.
    """

    def __init__(self, path: str, name: str) -> None:
        super().__init__(path, "rb")
        try:
            status = os.fstat(self.fileno())
        except OSError:
            self.close()
            raise
        self._name, self._plain = name, stat.S_ISREG(status.st_mode) and status.st_size > 0
        self._size, self._stamp = status.st_size, stamp(status)
        self._first: tuple[int, bytes] | None = None  # the first and the last bytes read, with their offsets
        self._last = (0, b"")

    def read(self, size: int | None = -1) -> bytes:
        """Some bytes, none at the end."""
        if not self._plain:
            return super().read(size) or b""
        at = self.tell()
        left = max(self._size - at, 0)
        data = super().read(left if size is None or size < 0 else min(size, left)) or b""
        self._check()
        if data:
            self._first = self._first or (at, data[:KEPT_BYTES])
            last = data[-KEPT_BYTES:]
            self._last = (at + len(data) - len(last), last)
        return data

    def _check(self) -> None:
        status = os.fstat(self.fileno())
        if stamp(status) == self._stamp:
            return
        if status.st_size < self._size:
            raise ChangedError.of(self._name, f"it has {status.st_size:,} bytes, and had {self._size:,}")
        read = (self._first or self._last, self._last)
        if any(read_at(self.fileno(), at, len(data)) != data for at, data in read):
            raise ChangedError.of(self._name, "it was overwritten while it was read")
        self._stamp = stamp(status)  # data was appended, or only the time changed


def stamp(status: os.stat_result) -> tuple[int, int]:
    """Size and modification time: they change with a write, unless it keeps the size within the clock's resolution."""
    return status.st_size, status.st_mtime_ns
