"""The file that an input reads, and a trace that tells whether a file with its name is still the same."""

from __future__ import annotations

import io
import os
from hashlib import blake2b
from typing import BinaryIO
from zlib import crc32

from xmlpunct.connectors.local_files import KEPT_BYTES, read_at, stamp
from xmlpunct.connectors.source import ChangedError
from xmlpunct.engine.run.inputs.parts import Part


def digest(data: bytes) -> str:
    """A checksum of some bytes."""
    return blake2b(data, digest_size=16).hexdigest()


class OpenFile:
    """Keeps the file of a part open, so that no other file can take its name or its inode unnoticed.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"<s/>")
    ...     file.flush()
    ...     open_file = OpenFile()
    ...     open_file.open(Part("s", file.name, 4), 2).read()
    b'/>'
    """

    def __init__(self) -> None:
        self._path, self._file = "", -1
        self._head: tuple[tuple[int, int], str] | None = (
            None  # the stamp of the file, and the checksum of its first bytes
        )
        self._traced: tuple[tuple[int, int], int, str | None] | None = (
            None  # the stamp, the byte and the trace up to it
        )

    def open(self, part: Part, byte: int, traced: str | None = None) -> BinaryIO:
        """The file of a part, from a byte on; ``traced`` is its expected trace up to that byte.

        Raises `ChangedError` if the file is another than before, is shorter than it was, or has another trace; OSError
        if it cannot be opened.
        """
        if part.path != self._path:
            self.close()
            self._file, self._path = os.open(part.path, os.O_RDONLY | os.O_CLOEXEC), part.path
        status = os.fstat(self._file)
        if not _is_at(part.path, status):
            raise ChangedError.of(part.name, "another file replaced it while it was read")
        if part.size is not None and status.st_size < part.size:
            raise ChangedError.of(part.name, f"it has {status.st_size:,} bytes, and had {part.size:,}")
        is_traced = (stamp(status), byte, traced) == self._traced
        if traced is not None and not is_traced and self.trace(byte) != traced:
            raise ChangedError.of(part.name, f"its first bytes, or those before byte {byte}, have changed")
        file = io.BufferedReader(io.FileIO(self._file, closefd=False))
        file.seek(byte)
        return file

    def trace(self, byte: int) -> str | None:
        """The checksums of the first bytes and of the bytes before ``byte``; None for byte 0.

        Raises OSError and `ChangedError`.
        """
        if not byte:
            return None
        when, count = stamp(os.fstat(self._file)), min(KEPT_BYTES, byte)
        head = self._head[1] if self._head is not None and self._head[0] == when else ""
        if count < KEPT_BYTES or not head:
            head = digest(self._read_again(0, count))
            self._head = (when, head) if count == KEPT_BYTES else None
        trace = f"{head} {crc32(self._read_again(byte - count, count)):08x}"
        self._traced = when, byte, trace
        return trace

    def _read_again(self, byte: int, count: int) -> bytes:
        """Bytes that were read before. Raises `ChangedError` if the file has become shorter."""
        data = read_at(self._file, byte, count)
        if len(data) < count:
            raise ChangedError.of(
                self._path, f"it ends before byte {byte + count:,}, but was read up to there"
            )
        return data

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._path, self._file, self._head, self._traced = "", -1, None, None

    def __del__(self) -> None:
        self.close()


def _is_at(path: str, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), status)
    except FileNotFoundError:
        return False
