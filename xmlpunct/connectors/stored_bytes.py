"""The stored bytes of a source: files that must not change while they are read, and the first bytes of a stream.

Parts of two versions of a file do not form a stream.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from typing import BinaryIO

from xmlpunct.base.errors import TransientError
from xmlpunct.connectors.chunk_sources import NoBytesYetError

KEPT_BYTES = 2**16
"""Bytes compared of a file's head, and of the data read last: to compare all would be to read the file twice."""
MOST_BUFFERED_BYTES = 2**22
"""Maximum number of bytes buffered of an input that cannot be read again, to recover data before a corruption."""
_PEEKED_BYTES = 2**10
_BEGIN_XML = (b"", b"<", b" ", b"\t", b"\r", b"\n", b"\0", b"\xef", b"\xfe", b"\xff")


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


def begins_xml(head: bytes) -> bool:
    """True if data with this head can be XML in some encoding; a compressed file and a zip archive cannot."""
    return head[:1] in _BEGIN_XML


class Tap:
    """A byte stream with `peek`.

    ``rewind`` goes back to the first byte (None: impossible); without it, `keep` buffers the bytes up to a limit.
    """

    def __init__(
        self, read_some: Callable[[int], bytes | None], rewind: Callable[[], object] | None = None
    ) -> None:
        self._read_some, self._rewind = read_some, rewind
        self._head = b""
        self._failure: Exception | None = None
        self._buffer: bytearray | None = None
        self.bytes_read = 0
        """How many bytes have been fetched, peeked or read."""

    @classmethod
    def of(cls, file: BinaryIO) -> Tap:
        """The bytes of a file from its current position; a read returns available bytes rather than wait for all."""
        read_some: Callable[[int], bytes | None] = getattr(file, "read1", None) or file.read
        try:
            # A growing file is not rewound: its readers wait for no more bytes than are available.
            begin = file.tell() if file.seekable() and not hasattr(file, "stop") else None
        except (OSError, AttributeError):
            begin = None
        if begin is None:
            return cls(read_some)
        start = begin
        return cls(read_some, lambda: file.seek(start))

    def peek(self, count: int) -> bytes:
        """At least the next ``count`` bytes, or all that remain, without reading them.

        A failure after the first byte is raised when the bytes before it have been read.
        """
        try:
            while len(self._head) < count and (chunk := self._fetch(max(count, _PEEKED_BYTES))):
                self._head += chunk
        except NoBytesYetError:
            raise
        except Exception as error:  # raised by the read that reaches it
            if not self._head:
                raise
            self._failure = error
        return self._head

    def read(self, size: int) -> bytes:
        """Available bytes; empty at the end."""
        if self._head:
            data, self._head = self._head[:size], self._head[size:]
            return data
        return self._fetch(size)

    @property
    def at(self) -> int:
        """How many bytes have been read."""
        return self.bytes_read - len(self._head)

    def go_on(self, byte: int) -> None:
        """Continue at a byte to which the caller has moved the file."""
        self._head, self.bytes_read = b"", byte

    def keep(self) -> None:
        """Buffer the bytes that are read from now on, up to `MOST_BUFFERED_BYTES`, if they cannot be read again."""
        if not self.is_file:
            self._buffer = bytearray(self._head)

    @property
    def is_file(self) -> bool:
        """True if all data are available, so that reads do not wait."""
        return self._rewind is not None

    @property
    def can_rewind(self) -> bool:
        """True if `rewound` is likely to succeed."""
        return self.is_file or self._buffer is not None

    def rewound(self) -> Tap | None:
        """A tap of the same bytes from the first, if possible; this tap must not be read afterwards."""
        if self._buffer is not None:
            return Tap(io.BytesIO(self._buffer).read)
        if self._rewind is not None:
            with suppress(OSError, ValueError):
                self._rewind()
                return Tap(self._read_some)
        return None

    def _fetch(self, size: int) -> bytes:
        if self._failure is not None:
            raise self._failure
        data = self._read_some(size) or b""
        self.bytes_read += len(data)
        if self._buffer is not None:
            self._buffer += data
            if len(self._buffer) > MOST_BUFFERED_BYTES:
                self._buffer = None
        return data


def stamp(status: os.stat_result) -> tuple[int, int]:
    """Size and modification time: they change with a write, unless it keeps the size within the clock's resolution."""
    return status.st_size, status.st_mtime_ns
