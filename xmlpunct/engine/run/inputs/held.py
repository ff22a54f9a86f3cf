"""The plain file that is being read of an input, and how it is told from any other."""

from __future__ import annotations

import io
import os
from typing import BinaryIO
from zlib import crc32

from xmlpunct.connectors.unchanged import KEPT_BYTES, ChangedError, digest, read_at, stamp
from xmlpunct.engine.run.inputs.parts import Part


class Held:
    """Keeps the file that is being read open, so that no other can take its place, or its inode, unseen.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"<s/>")
    ...     file.flush()
    ...     held = Held()
    ...     held.open(Part("s", file.name, 4), 2).read()
    b'/>'
    """

    def __init__(self) -> None:
        self._path, self._file = "", -1
        self._head: tuple[tuple[int, int], str] | None = None  # its checksum, and when that was so
        self._traced: tuple[tuple[int, int], int, str | None] | None = None  # when, up to where, and how

    def open(self, part: Part, byte: int, traced: str | None = None) -> BinaryIO:
        """The file of a part, from a byte on, up to which it is ``traced``, if anybody knows.

        Raises `ChangedError` if it is not the one that was opened before, or is shorter than it was, or other
        bytes are in it than were read, as far as that is looked at; and OSError if it cannot be opened.
        """
        if part.path != self._path:
            self.close()
            self._file, self._path = os.open(part.path, os.O_RDONLY | os.O_CLOEXEC), part.path
        found = os.fstat(self._file)
        if not _is_at(part.path, found):
            raise ChangedError.of(part.name, "another file replaced it while it was read")
        if part.size is not None and found.st_size < part.size:
            raise ChangedError.of(part.name, f"it has {found.st_size:,} bytes, and had {part.size:,}")
        known = (stamp(found), byte, traced) == self._traced
        if traced is not None and not known and self.trace(byte) != traced:
            what = f"its first bytes, or those before byte {byte}, have changed"
            raise ChangedError.of(part.name, what)
        file = io.BufferedReader(io.FileIO(self._file, closefd=False))
        file.seek(byte)
        return file

    def trace(self, byte: int) -> str | None:
        """What tells the file, up to a byte, from others; None at its beginning. Raises OSError and `ChangedError`."""
        if not byte:
            return None
        when, count = stamp(os.fstat(self._file)), min(KEPT_BYTES, byte)
        head = self._head[1] if self._head is not None and self._head[0] == when else ""
        if count < KEPT_BYTES or not head:
            head = digest(self._known(0, count))
            self._head = (when, head) if count == KEPT_BYTES else None
        found = f"{head} {crc32(self._known(byte - count, count)):08x}"
        self._traced = when, byte, found
        return found

    def _known(self, byte: int, count: int) -> bytes:
        """Bytes that were read before. Raises `ChangedError` if they are gone."""
        found = read_at(self._file, byte, count)
        if len(found) < count:
            raise ChangedError.of(
                self._path, f"it ends before byte {byte + count:,}, but was read up to there"
            )
        return found

    def close(self) -> None:
        """Let go of the file."""
        if self._file >= 0:
            os.close(self._file)
            self._path, self._file, self._head, self._traced = "", -1, None, None

    def __del__(self) -> None:
        self.close()


def _is_at(path: str, found: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), found)
    except FileNotFoundError:
        return False
