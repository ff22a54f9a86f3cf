"""Files that must not change while they are read: half of one and half of another is nobody's stream."""

from __future__ import annotations

import io
import os
import stat
from hashlib import blake2b

from xmlpunct.base.errors import TransientError

KEPT_BYTES = 2**16
"""How much of a file's head, and of what was read last, is compared: all of it would be to read it twice."""


class ChangedError(TransientError):
    """A source is no longer what was read of it. Once it is again, the same run can go on."""

    @classmethod
    def of(cls, source: str, what: str) -> ChangedError:
        """The error that says ``what`` has become of a source."""
        return cls(source, f"an input has changed: {what}")


def digest(data: bytes) -> str:
    """A checksum of some bytes."""
    return blake2b(data, digest_size=16).hexdigest()


def read_at(file: int, byte: int, count: int) -> bytes:
    """``count`` bytes of a file from one on, or as many as there are. Raises OSError."""
    found = bytearray()
    while len(found) < count and (more := os.pread(file, count - len(found), byte + len(found))):
        found += more
    return bytes(found)


class SteadyFile(io.FileIO):
    """A file as it is when it is opened: what is added later is not read. What is no plain file is read as it comes.

    Whoever gives its name to another file does not disturb: this one is read to its end. Reading raises
    `ChangedError` if it becomes shorter than it was, or if other bytes are where some were read.
    """

    def __init__(self, path: str, name: str) -> None:
        super().__init__(path, "rb")
        try:
            found = os.fstat(self.fileno())
        except OSError:
            self.close()
            raise
        self._name, self._plain = name, stat.S_ISREG(found.st_mode) and found.st_size > 0
        self._size, self._stamp = found.st_size, stamp(found)
        self._first: tuple[int, bytes] | None = None  # what was read, each with its place
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
        found = os.fstat(self.fileno())
        if stamp(found) == self._stamp:
            return
        if found.st_size < self._size:
            raise ChangedError.of(self._name, f"of {self._size:,} bytes {found.st_size:,} are left")
        read = (self._first or self._last, self._last)
        if any(read_at(self.fileno(), at, len(data)) != data for at, data in read):
            raise ChangedError.of(self._name, "it was written over while it was read")
        self._stamp = stamp(found)  # something was added, or it was only touched


def stamp(found: os.stat_result) -> tuple[int, int]:
    """What changes when a file is written, but for what is written within the same moment."""
    return found.st_size, found.st_mtime_ns
