"""A spool's bytes on disk: segments of one size, of which the first are removed once nobody needs them.

::

    PATH, PATH.1, PATH.2 ...   the segments; those before the last are complete
    PATH.sum                   how many bytes the complete ones hold (removed ones too), and their checksum
    PATH.end                   there once nothing follows: how the source failed, if it did

No more than `MOST_BYTES` are kept. Who writes waits until who reads has released some, so a reader must not wait
for more than `READ_AT_ONCE` bytes before it releases what came before them.
"""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

from xmlpunct.engine.durable.files import open_durably, save, write_all

SEGMENT_BYTES = 2**24
MOST_BYTES = 2**28
READ_AT_ONCE = 2**26
"""How much of a spool may be read before what comes before it is released: an element may be as large again."""
_GLANCE_SECONDS = 0.02

Read = Callable[[int], bytes]


def end_marker(spool: str | Path) -> Path:
    """The file that, once it is there, says that a spool is complete, and whether its source failed."""
    return Path(f"{spool}.end")


def finish(spool: str | Path, failure: str | None) -> None:
    """Say that nothing follows. Raises `XmlPunctError`."""
    _put(end_marker(spool), {"failure": failure})


def create(spool: Path) -> None:
    """Begin a spool, unless it was begun before. Raises OSError."""
    if not segments(spool):
        os.close(open_durably(spool, os.O_WRONLY))


def segment(spool: str | Path, number: int) -> Path:
    """The file of a segment."""
    return Path(f"{spool}.{number}") if number else Path(spool)


def segments(spool: str | Path) -> list[int]:
    """The numbers of the segments that are there, in order; the last one always is."""
    name, folder = os.path.basename(spool), os.path.dirname(spool)
    tails = [entry[len(name) :] for entry in os.listdir(folder or ".") if entry.startswith(name)]
    return sorted(int(tail[1:] or 0) for tail in tails if tail == "" or tail[1:].isdecimal())


def extent(spool: str | Path) -> tuple[int, float]:
    """How many bytes there are, or were, and when the last ones came. Raises OSError."""
    number = (segments(spool) or [0])[-1]
    found = os.stat(segment(spool, number))
    return number * SEGMENT_BYTES + found.st_size, found.st_mtime


def durable_extent(spool: str | Path) -> int:
    """How many bytes there are, or were, all of them on disk. Raises OSError."""
    number = (segments(spool) or [0])[-1]
    with open(segment(spool, number), "rb") as file:
        os.fsync(file.fileno())
        return number * SEGMENT_BYTES + os.fstat(file.fileno()).st_size


def release(spool: str | Path, byte: int) -> None:
    """Remove what lies before a byte, as far as whole segments do, but for the last segment."""
    for number in segments(spool)[:-1]:
        if (number + 1) * SEGMENT_BYTES <= byte:
            segment(spool, number).unlink(missing_ok=True)


def open_at(spool: str | Path, byte: int) -> BinaryIO:
    """The bytes from one on. Raises OSError if it has been removed."""
    return io.BufferedReader(_Segments(spool, byte))


class _Segments(io.RawIOBase):
    """Segments as one file, from ``byte`` on."""

    def __init__(self, spool: str | Path, byte: int) -> None:
        self._spool = spool
        self._number, offset = divmod(byte, SEGMENT_BYTES)
        if self._number and not offset and not segment(spool, self._number).exists():
            self._number, offset = self._number - 1, SEGMENT_BYTES  # all there is ends here
        self._file = open(segment(spool, self._number), "rb", buffering=0)  # noqa: SIM115 - closed with this
        self._file.seek(offset)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._file.readinto(buffer) or 0
        if count or self._file.tell() < SEGMENT_BYTES:
            return count
        try:
            following = open(segment(self._spool, self._number + 1), "rb", buffering=0)  # noqa: SIM115
        except FileNotFoundError:
            return 0
        self._file.close()
        self._file, self._number = following, self._number + 1
        return self._file.readinto(buffer) or 0

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class SpoolWriter:
    """Adds to a spool, from where it ends. ``stopped`` ends the wait for room. A context manager."""

    def __init__(self, spool: Path, stopped: threading.Event) -> None:
        self.spool, self._stopped = spool, stopped
        self._sum = _sum(spool)
        # A segment that the sum covers is complete, even if the next one was never begun.
        self._number = max((segments(spool) or [0])[-1], self._sum[0] // SEGMENT_BYTES)
        self._open()

    def __enter__(self) -> SpoolWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def size(self) -> int:
        """How many bytes there are, or were."""
        return self._number * SEGMENT_BYTES + self._file.tell()

    def repeats(self, read: Read) -> bool:
        """Whether a source gives again what it gave before, as far as that is known."""
        known, total = 0, ""
        for _ in range(self._number):
            total, count = _chained(total, read)
            known += count
        if (known, total) != self._sum:
            return False
        with open(segment(self.spool, self._number), "rb") as before:
            while left := self._file.tell() - before.tell():
                given = read(min(left, 2**20))
                if not given or before.read(len(given)) != given:
                    return False
        return True

    def append(self, data: bytes) -> None:
        """Add some bytes, once there is room; after ``stopped``, maybe not all. Raises OSError."""
        while data and self._has_room():
            count = SEGMENT_BYTES - self._file.tell()
            write_all(self._file.fileno(), data[:count])
            data = data[count:]

    def sync(self) -> None:
        """Come back when all is on disk."""
        os.fsync(self._file.fileno())

    def _has_room(self) -> bool:
        """Wait for room, in a new segment if need be; whether there is any."""
        if self._file.tell() < SEGMENT_BYTES:
            return True
        self.sync()
        while len(segments(self.spool)) * SEGMENT_BYTES >= MOST_BYTES:
            if self._stopped.wait(_GLANCE_SECONDS):
                return False
        self._file.close()
        with open(segment(self.spool, self._number), "rb") as full:
            total, count = _chained(self._sum[1], full.read)
        self._sum = (self._sum[0] + count, total)
        _put(Path(f"{self.spool}.sum"), self._sum)
        self._number += 1
        self._open()
        return True

    def _open(self) -> None:
        """Open the segment to be written, made if need be. Its name is on disk before anything in it is."""
        opened = open_durably(segment(self.spool, self._number), os.O_WRONLY | os.O_APPEND)
        self._file = open(opened, "ab", buffering=0)  # noqa: SIM115 - closed with this


def _chained(before: str, read: Read) -> tuple[str, int]:
    """The checksum of a segment and all that comes before it, and the size of the segment."""
    total, left = blake2b(before.encode()), SEGMENT_BYTES
    while left and (data := read(min(left, 2**20))):
        total.update(data)
        left -= len(data)
    return total.hexdigest(), SEGMENT_BYTES - left


def _sum(spool: Path) -> tuple[int, str]:
    try:
        size, total = json.loads(Path(f"{spool}.sum").read_text())
    except FileNotFoundError:
        return 0, ""
    return size, total


def _put(path: Path, values: Any) -> None:
    save(path, json.dumps(values).encode())
