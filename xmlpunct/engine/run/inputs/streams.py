"""The bytes of an input that can be read again, as streams."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager

from xmlpunct.base.errors import SourceError, reading
from xmlpunct.connectors.unchanged import ChangedError
from xmlpunct.engine.run.inputs import segments
from xmlpunct.engine.run.inputs.open_file import OpenFile
from xmlpunct.engine.run.inputs.parts import Input, Part
from xmlpunct.engine.run.inputs.ranges import Extent


class FileStream:
    """A plain file from a byte on, up to which it is ``traced``: see `OpenFile`, which keeps it open."""

    ready, silent, consumed = True, 0.0, 0

    def __init__(self, part: Part, open_file: OpenFile, byte: int, traced: str | None) -> None:
        self._part, self._open_file, self._at, self._traced = part, open_file, byte, traced

    def read(self, size: int) -> bytes:
        """The next bytes, at most ``size``; empty at the end. Raises `TransientError`."""
        count = min(size, (self._part.size or 0) - self._at)
        with reading(self._part.name):
            data = self._open_file.open(self._part, self._at, self._traced).read(count)
            if len(data) < count:
                raise ChangedError.of(self._part.name, f"it ends at byte {self._at + len(data):,}")
            self._at += len(data)
            self._traced = self._open_file.trace(self._at)
        return data

    def close(self) -> None:
        """The file stays open in its `OpenFile`."""


class SpoolStream:
    """A spool from a byte on. Its bytes are on disk, so they count as read."""

    consumed = 0

    def __init__(self, part: Part, byte: int) -> None:
        self._part, self._at, self._durable = part, byte, byte
        with self._reading():
            self._file = segments.open_at(part.path, byte)

    def _reading(self) -> AbstractContextManager[None]:
        return reading(self._part.name, f"its spool {self._part.path} cannot be read")

    @property
    def ready(self) -> bool:
        """Whether there is more, or an end. Raises `TransientError`."""
        path = self._part.path
        with self._reading():
            return segments.extent(path)[0] > self._at or segments.end_of(path) is not None

    @property
    def silent(self) -> float:
        """The seconds since the last bytes came. Raises `TransientError`."""
        with self._reading():
            return time.time() - segments.extent(self._part.path)[1]

    def read(self, size: int) -> bytes | None:
        """The next bytes, at most ``size``; empty at the end, None if there are none yet.

        Raises `SourceError` where the source failed, and `TransientError` where the spool cannot be read.
        """
        with self._reading():
            if self._at == self._durable:
                extent = Extent.of(self._part)
                self._durable = extent.size
                if self._at == self._durable:
                    if extent.failure is not None:
                        raise SourceError(self._part.name, extent.failure)
                    return b"" if extent.complete else None
            data = self._file.read(min(size, self._durable - self._at))
        self._at += len(data)
        return data

    def close(self) -> None:
        """Close the segment that is being read."""
        self._file.close()


class InputOpener:
    """Opens the parts of an input, which can be read again. The plain file that is being read stays open."""

    resumes = True

    def __init__(self, given: Input) -> None:
        self.input, self.source = given, given.as_source()
        self.open_file = OpenFile()

    def is_live(self, part: int) -> bool:
        return self.input.parts[part].spooled

    def open(self, part: int, byte: int, trace: str | None) -> FileStream | SpoolStream:
        opened = self.input.parts[part]
        return (
            SpoolStream(opened, byte) if opened.spooled else FileStream(opened, self.open_file, byte, trace)
        )

    def trace(self, part: int, byte: int) -> str | None:
        traced = self.input.parts[part]
        with reading(traced.name):
            return None if traced.spooled else self.open_file.trace(byte)

    def close(self) -> None:
        self.open_file.close()
