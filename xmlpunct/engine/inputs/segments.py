"""A spool's bytes on disk: segments of one size, of which the first are removed once nobody needs them.

::

    PATH, PATH.1, PATH.2 ...   the segments; those before the last are complete
    PATH.log                   a `WriteAheadLog`: the `Sum` of the complete ones, removed ones too; the last `Mark`,
                               of a source that can go on from positions; and, once nothing follows, the `End`

No more than `MOST_BYTES` are kept. Who writes waits until who reads has released some, so a reader must not wait
for more than `READ_AT_ONCE` bytes before it releases what came before them.
"""

from __future__ import annotations

import io
import json
import os
import sys
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from xmlpunct.engine.checkpoint.log import WriteAheadLog
from xmlpunct.engine.files import open_durably, write_all
from xmlpunct.firehose.steady import KEPT_BYTES, digest

SEGMENT_BYTES = 2**24
"""The size of a spool's file: so much is released at a time (docs/hostile.md)."""
MOST_BYTES = 2**28
"""The most that a spool holds. Then the peer has to wait (docs/hostile.md)."""
READ_AT_ONCE = 2**26
"""How much may be read of a spool before it is released. An element may be as large again."""
_GLANCE_SECONDS = 0.02
"""How often a full spool looks for room: a matter of latency."""
_SUM, _MARK, _END = "sum", "mark", "end"
"""The records of a spool's log, each by its one piece."""

Read = Callable[[int], bytes]


class End(NamedTuple):
    """The end of a spool: how its source failed, if it did."""

    failure: str | None


class Mark(NamedTuple):
    """A byte of the spool, and the position of the source that belongs to it."""

    byte: int
    position: Any


def log_of(spool: str | Path) -> WriteAheadLog:
    """The log of a spool."""
    return WriteAheadLog(Path(f"{spool}.log"))


def end_of(spool: str | Path) -> End | None:
    """The end of a spool, once it is complete. Raises OSError."""
    records = log_of(spool).read()
    return End(**json.loads(records[-1][_END])) if records and _END in records[-1] else None


def finish(spool: str | Path, failure: str | None) -> None:
    """Say that nothing follows. Raises `XmlPunctError`."""
    with closing(log_of(spool)) as log:
        log.append({_END: json.dumps({"failure": failure}).encode()})


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


def held_bytes(spool: str | Path) -> int:
    """How much room a spool takes on disk. Raises OSError."""
    total = 0
    for number in segments(spool):
        with suppress(FileNotFoundError):  # it was released meanwhile
            total += 512 * os.stat(segment(spool, number)).st_blocks
    return total


def drop(spool: str | Path) -> None:
    """Give back the room of a complete spool, which keeps its extent: nobody reads it any more. Raises OSError."""
    release(spool, sys.maxsize)
    last = segment(spool, (segments(spool) or [0])[-1])
    size = os.stat(last).st_size
    os.truncate(last, 0)
    os.truncate(last, size)


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
        self._sum, self.mark = _known(spool)
        # A segment that the sum covers is complete, even if the next one was never begun.
        self._number = max((segments(spool) or [0])[-1], self._sum.size // SEGMENT_BYTES)
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
        total = Sum()
        for _ in range(self._number):
            total = total.with_segment(read)
        if total != self._sum:
            return False
        with open(segment(self.spool, self._number), "rb") as before:
            while left := self._file.tell() - before.tell():
                given = read(min(left, 2**20))
                if not given or before.read(len(given)) != given:
                    return False
        return True

    def continues(self, read: Read) -> bool:
        """Whether a source that goes on from `mark` gives again what was spooled behind that, as far as it is there."""
        assert self.mark is not None
        at, there = self.mark.byte, segments(self.spool)[0] * SEGMENT_BYTES
        with open_at(self.spool, max(at, there)) as before:
            while left := self.size - at:
                given = read(min(left, 2**20))
                if not given or before.read(len(known := given[max(there - at, 0) :])) != known:
                    return False
                at += len(given)
        return True

    def note(self, position: Any) -> None:
        """Put down, durably, the position of the source that belongs to the end of the spool."""
        self.sync()
        self.mark = Mark(self.size, position)
        self._save()

    def _save(self) -> None:
        mark = [] if self.mark is None else [{_MARK: json.dumps(self.mark._asdict()).encode()}]
        log_of(self.spool).replace({_SUM: json.dumps(self._sum._asdict()).encode()}, *mark)

    def recognises(self, read: Callable[[int, int], bytes]) -> bool:
        """Whether a file, of which ``read`` gives so many bytes from one on, looks like what was read of it.

        Looked at are its head, and what comes before the place where it is to be read on.
        """
        begin, held = self._number * SEGMENT_BYTES, self._file.tell()
        with open(segment(self.spool, self._number), "rb") as ours:
            for at in (0, max(held - KEPT_BYTES, 0)):
                ours.seek(at)
                if read(begin + at, len(data := ours.read(KEPT_BYTES))) != data:
                    return False
        count = min(KEPT_BYTES, SEGMENT_BYTES)
        known = {0: self._sum.head, begin - count: self._sum.tail} if begin else {}
        return all(digest(read(at, count)) == wanted for at, wanted in known.items())

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
            self._sum = self._sum.with_segment(full.read)
        self._save()
        self._number += 1
        self._open()
        return True

    def _open(self) -> None:
        """Open the segment to be written, made if need be. Its name is on disk before anything in it is."""
        opened = open_durably(segment(self.spool, self._number), os.O_WRONLY | os.O_APPEND)
        self._file = open(opened, "ab", buffering=0)  # noqa: SIM115 - closed with this


class Sum(NamedTuple):
    """What is known of the complete segments: their ``size`` and checksum, and those of their head and tail."""

    size: int = 0
    total: str = ""
    head: str = ""
    tail: str = ""

    def with_segment(self, read: Read) -> Sum:
        """With what ``read`` gives as another segment."""
        total, left, count = blake2b(self.total.encode()), SEGMENT_BYTES, min(KEPT_BYTES, SEGMENT_BYTES)
        head, tail = b"", b""
        while left and (data := read(min(left, 2**20))):
            total.update(data)
            left -= len(data)
            head = (head + data)[:count] if len(head) < count else head
            tail = (tail + data)[-count:]
        size = self.size + SEGMENT_BYTES - left
        return Sum(size, total.hexdigest(), self.head or digest(head), digest(tail))


def _known(spool: Path) -> tuple[Sum, Mark | None]:
    """The last sum, and the last mark."""
    records = log_of(spool).read()
    sums = [record[_SUM] for record in records if _SUM in record]
    marks = [record[_MARK] for record in records if _MARK in record]
    total = Sum(**json.loads(sums[-1])) if sums else Sum()
    return total, Mark(**json.loads(marks[-1])) if marks else None
