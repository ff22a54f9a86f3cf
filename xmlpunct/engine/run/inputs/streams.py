"""The bytes of an input that can be read again, as streams."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import BinaryIO

from xmlpunct.base.errors import SourceError, reading
from xmlpunct.connectors.read_ahead import PartStream
from xmlpunct.connectors.source import ChangedError
from xmlpunct.engine.run.inputs import segments
from xmlpunct.engine.run.inputs.open_file import OpenFile
from xmlpunct.engine.run.inputs.parts import Input, Part
from xmlpunct.firehose.position import Cursor


@dataclass(frozen=True)
class Extent:
    """The byte up to which a part is available. ``complete``: no bytes follow, but perhaps a ``failure``."""

    size: int
    complete: bool = True
    failure: str | None = None

    @classmethod
    def of(cls, part: Part, stop: Cursor | None = None) -> Extent:
        """The extent of a part; up to ``stop``, if it is given. Raises OSError."""
        if stop is not None:
            return cls(stop.position.byte, stop.done, stop.failure)
        if not part.spooled:
            return cls(part.size or 0)
        # The end is read first: if there is one, the size is final.
        end = segments.end_of(part.path)
        # Bytes that an offset counts as read must survive a crash.
        size = segments.durable_extent(part.path)
        return cls(size, end is not None, None if end is None else end.failure)

    def is_end(self, byte: int) -> bool:
        """True if the part ends at this byte, in order."""
        return byte >= self.size and self.complete and self.failure is None

    def after(self, name: str) -> bytes | None:
        """The result of `PartStream.read` at ``size``. Raises `SourceError` for a failure of the source."""
        if self.failure is not None:
            raise SourceError(name, self.failure)
        return b"" if self.complete else None


class ExtentStream:
    """The bytes of a file, which is at byte ``at`` of the part called ``name``, up to an extent."""

    ready, silent, consumed = True, 0.0, 0

    def __init__(self, name: str, file: BinaryIO | None, at: int, extent: Extent) -> None:
        self._name, self._file, self._at, self._extent = name, file, at, extent

    @property
    def at_end(self) -> bool:
        return self._extent.is_end(self._at)

    def read(self, size: int) -> bytes | None:
        """The next bytes, at most ``size``; empty at the end, None if there are none yet.

        Raises `SourceError` for a failure of the source, and `TransientError` for bytes that cannot be read.
        """
        if self._at >= self._extent.size:
            return self._extent.after(self._name)
        data = self._read(min(size, self._extent.size - self._at))
        self._at += len(data)
        if not data:
            raise ChangedError.of(self._name, f"it ends at byte {self._at:,}, and had {self._extent.size:,}")
        return data

    def close(self) -> None:
        """The file stays open."""

    def _read(self, size: int) -> bytes:
        assert self._file is not None
        with reading(self._name):
            return self._file.read(size)


class FileStream(ExtentStream):
    """A plain file from a byte on, up to which its trace is ``trace``. `OpenFile` keeps it open."""

    def __init__(self, part: Part, open_file: OpenFile, byte: int, trace: str | None, extent: Extent) -> None:
        super().__init__(part.name, None, byte, extent)
        self._part, self._open_file, self._trace = part, open_file, trace
        self._read(0)  # opens it, even if there is nothing to read

    def _read(self, size: int) -> bytes:
        with reading(self._name):
            data = self._open_file.open(self._part, self._at, self._trace).read(size)
            if len(data) < size:
                raise ChangedError.of(self._name, f"it ends at byte {self._at + len(data):,}")
            self._trace = self._open_file.trace(self._at + size)
        return data


class SpoolStream(ExtentStream):
    """A spool from a byte on, up to ``stop`` if it is given. Its bytes are on disk, so they count as read."""

    def __init__(self, part: Part, byte: int, stop: Cursor | None) -> None:
        self._part, self._stop = part, stop
        with self._reading():
            super().__init__(part.name, segments.open_at(part.path, byte), byte, Extent(byte, False))

    def _reading(self) -> AbstractContextManager[None]:
        return reading(self._part.name, f"its spool {self._part.path} cannot be read")

    @property
    def ready(self) -> bool:  # type: ignore[override]
        """True if there are more bytes, or an end. Raises `TransientError`."""
        path = self._part.path
        with self._reading():
            return segments.extent(path)[0] > self._at or segments.end_of(path) is not None

    @property
    def silent(self) -> float:  # type: ignore[override]
        """The seconds since the last bytes came. Raises `TransientError`."""
        with self._reading():
            return time.time() - segments.extent(self._part.path)[1]

    def read(self, size: int) -> bytes | None:
        with self._reading():
            if self._at >= self._extent.size:
                self._extent = Extent.of(self._part, self._stop)
            return super().read(size)

    def close(self) -> None:
        """Close the segment that is being read."""
        assert self._file is not None
        self._file.close()


class InputOpener:
    """Opens the parts of an input, up to ``stop`` if it is given. The plain file that is being read stays open."""

    resumes = True

    def __init__(self, given: Input, open_file: OpenFile | None = None, stop: Cursor | None = None) -> None:
        self.input, self.source, self.stop = given, given.as_source(), stop
        self.open_file = open_file or OpenFile()

    def is_live(self, part: int) -> bool:
        return self.input.parts[part].spooled

    def open(self, part: int, byte: int, trace: str | None) -> FileStream | SpoolStream:
        opened, stop = self.input.parts[part], None
        if self.stop is not None and self.stop.part == part:
            stop = self.stop
        if opened.spooled:
            return SpoolStream(opened, byte, stop)
        return FileStream(opened, self.open_file, byte, trace, Extent.of(opened, stop))

    def trace(self, part: int, byte: int) -> str | None:
        traced = self.input.parts[part]
        with reading(traced.name):
            return None if traced.spooled else self.open_file.trace(byte)

    def close(self) -> None:
        self.open_file.close()


class StreamOpener:
    """Gives a `Cutter` one stream, such as a range of a file."""

    resumes = True

    def __init__(self, part: Part, stream: PartStream) -> None:
        self.source, self._stream = Input(part.name, (), (part,)).as_source(), stream

    def is_live(self, part: int) -> bool:
        return False

    def open(self, part: int, byte: int, trace: str | None) -> PartStream:
        return self._stream

    def trace(self, part: int, byte: int) -> str | None:
        return None

    def close(self) -> None:
        self._stream.close()
