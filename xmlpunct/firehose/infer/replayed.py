"""A source that can be read only once is buffered while its beginning is read, and replayed."""

from __future__ import annotations

from dataclasses import replace
from typing import BinaryIO

from xmlpunct.connectors.source import Source


def rereadable(source: Source) -> tuple[Source, list[_Replay]]:
    """The same source; parts that can perhaps be read only once are buffered while they are read, and replayed once.

    After the replay, opening a part opens the original source.
    """
    if all(size is not None for _, size in source.parts):
        return source, []
    files = [_Replay(source, part) for part in range(len(source.parts))]

    def open_again(part: int) -> tuple[BinaryIO, bool]:
        replay = files[part]
        if replay.is_replayed:
            return source.opener(part)
        replay.at, replay.is_replayed = 0, not replay.remembers
        return replay, replay.is_replayed  # type: ignore[return-value]

    return replace(source, opener=open_again), files


class _Replay:
    """A file that buffers its data while ``remembers`` is true, and replays them after ``at`` is reset.

    is_replayed: it was opened for the replay.
    """

    def __init__(self, source: Source, part: int) -> None:
        self.source, self.part, self.at = source, part, 0
        self.buffer, self.remembers, self.is_replayed = bytearray(), True, False
        self.file: BinaryIO | None = None
        self.owned = False

    def read1(self, size: int) -> bytes:
        if self.file is None:
            self.file, self.owned = self.source.opener(self.part)
        if self.at < len(self.buffer):
            data = bytes(self.buffer[self.at : self.at + size])
        else:
            data = (getattr(self.file, "read1", None) or self.file.read)(size) or b""
            if self.remembers:
                self.buffer += data
            else:
                self.buffer.clear()
        self.at += len(data)
        return data

    def stop(self) -> None:
        """Interrupt a waiting read, if the file supports it."""
        stop = getattr(self.file, "stop", None)
        if stop is not None:
            stop()

    def seekable(self) -> bool:
        return False

    def seek(self, offset: int) -> int:
        raise OSError("it can be read only once")

    def close(self) -> None:
        if self.file is not None and self.owned:
            self.file.close()

    def __del__(self) -> None:
        self.close()
