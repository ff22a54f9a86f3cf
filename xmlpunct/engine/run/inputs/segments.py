"""The bytes of a spool on disk: segments of equal size; the oldest are removed once their bytes are released.

::

    PATH, PATH.1, PATH.2 ...   the segments; all but the last are full
    PATH.log                   a `WriteAheadLog`: the `Sum` of all full segments, also of removed ones; the last
                               `Mark`, for a source with positions; and, once the source has ended, the `End` and the
                               size

A segment has `SEGMENT_BYTES` for data. An entry for each appended piece follows them: the byte where the piece ends,
the CRC-32 of that number, of the piece, and of the checksum before, and a checksum of the entry. A reader compares
them. Pieces at the end that a power failure has torn are cut off (`recover`). A changed byte is damage: it is refused.

A spool stores at most `MOST_BYTES`. Then the writer waits until the reader releases bytes, so a reader must release
earlier bytes before it waits for more than `READ_AT_ONCE` bytes.
"""

from __future__ import annotations

import io
import json
import os
import struct
import sys
import threading
from bisect import bisect_right
from collections.abc import Callable
from contextlib import closing, suppress
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from zlib import crc32

from xmlpunct.connectors.local_files import KEPT_BYTES
from xmlpunct.engine.run.checkpoint.log import DamagedError, WriteAheadLog, is_torn
from xmlpunct.engine.run.durable_files import open_durably, private, write_all, writing
from xmlpunct.engine.run.inputs.open_file import digest

SEGMENT_BYTES = 2**24
"""The size of a segment, and so the least number of bytes to remove (docs/hostile.md)."""
MOST_BYTES = 2**28
"""The greatest size of a spool. When it is full, the peer has to wait (docs/hostile.md)."""
READ_AT_ONCE = 2**26
"""The greatest number of unreleased bytes that a reader may have read. An element may be as large again."""
_GLANCE_SECONDS = 0.02
"""The interval at which the writer of a full spool looks for room."""
_SUM, _MARK, _END, _SIZE = "sum", "mark", "end", "size"
"""The names of the entries in a spool's log. The last two are in one record."""
_CHECK, _OWN_BYTES = struct.Struct(">II8s"), 8
"""The entry of a piece: the byte where the piece ends in its segment, its checksum, and the checksum of the entry."""
_CHECKS_AT_ONCE = 4096
"""The greatest number of pieces, which may be short, that are read at once."""

Read = Callable[[int], bytes]


class End(NamedTuple):
    """The end of a spool, with the reason if its source failed."""

    failure: str | None


class Mark(NamedTuple):
    """A byte of the spool, and the source's position there."""

    byte: int
    position: Any


def log_of(spool: str | Path) -> WriteAheadLog:
    """The log of a spool."""
    return WriteAheadLog(Path(f"{spool}.log"))


def end_of(spool: str | Path) -> End | None:
    """The end of a complete spool; None for an incomplete one. Raises OSError."""
    records = log_of(spool).read()
    return End(**json.loads(records[-1][_END])) if records and _END in records[-1] else None


def finish(spool: str | Path, failure: str | None) -> None:
    """Record that the source has ended. Raises `XmlPunctError`."""
    with writing(spool):
        size = extent(spool)[0]
    with closing(log_of(spool)) as log:
        log.append({_END: json.dumps({"failure": failure}).encode(), _SIZE: str(size).encode()})


def create(spool: Path) -> None:
    """Create a spool unless it exists. Raises OSError."""
    if not segments(spool):
        os.close(open_durably(spool, os.O_WRONLY))


def recover(spool: str | Path) -> None:
    """Cut off incomplete pieces at the end. Raises OSError, and `DamagedError` for any other damage."""
    number = (segments(spool) or [0])[-1]
    path, (full, mark), size = segment(spool, number), _sum_and_mark(spool), _final_size(spool)
    if size is not None and not os.path.getsize(path):
        return  # it was dropped
    with open(path, "r+b", buffering=0) as file:
        count, filled = intact_pieces(path, file.fileno())
        if count < _count(file.fileno()):
            file.truncate(SEGMENT_BYTES + _CHECK.size * count)
    end_byte = number * SEGMENT_BYTES + filled
    is_complete = full.size in (number * SEGMENT_BYTES, end_byte)
    if not is_complete or end_byte < (mark.byte if mark is not None else 0) or size not in (None, end_byte):
        raise DamagedError(path, filled)


def segment(spool: str | Path, number: int) -> Path:
    """The file of a segment."""
    return Path(f"{spool}.{number}") if number else Path(spool)


def segments(spool: str | Path) -> list[int]:
    """The numbers of the existing segments, in order. The last segment always exists."""
    name, folder = os.path.basename(spool), os.path.dirname(spool)
    tails = [entry[len(name) :] for entry in os.listdir(folder or ".") if entry.startswith(name)]
    return sorted(int(tail[1:] or 0) for tail in tails if tail == "" or tail[1:].isdecimal())


def extent(spool: str | Path) -> tuple[int, float]:
    """The number of appended bytes, and the time of the last one. Raises OSError."""
    number = (segments(spool) or [0])[-1]
    with open(segment(spool, number), "rb", buffering=0) as file:
        filled, written = _filled(file.fileno()), os.fstat(file.fileno()).st_mtime
    dropped = None if filled else _final_size(spool)
    return number * SEGMENT_BYTES + filled if dropped is None else dropped, written


def durable_extent(spool: str | Path) -> int:
    """The number of appended bytes, after a sync. Raises OSError."""
    number = (segments(spool) or [0])[-1]
    with open(segment(spool, number), "rb", buffering=0) as file:
        filled = _filled(file.fileno())
        os.fsync(file.fileno())
    return number * SEGMENT_BYTES + filled if filled else extent(spool)[0]


def release(spool: str | Path, byte: int) -> None:
    """Remove the segments that end before a byte, except the last segment."""
    for number in segments(spool)[:-1]:
        if (number + 1) * SEGMENT_BYTES <= byte:
            segment(spool, number).unlink(missing_ok=True)


def copy_segment(path: Path, target: Path) -> None:
    """Copy the pieces of a segment, which may grow meanwhile. Raises OSError and `DamagedError`."""
    with open(path, "rb", buffering=0) as file, open(target, "xb", opener=private) as copy:
        count, filled = intact_pieces(path, file.fileno())
        copy.write(os.pread(file.fileno(), filled, 0))
        copy.seek(SEGMENT_BYTES)
        copy.write(_entries(file.fileno(), 0, count))


def held_bytes(spool: str | Path) -> int:
    """The size of a spool on disk, in bytes. Raises OSError."""
    total = 0
    for number in segments(spool):
        with suppress(FileNotFoundError):  # it was released meanwhile
            total += 512 * os.stat(segment(spool, number)).st_blocks
    return total


def drop(spool: str | Path) -> None:
    """Remove the bytes of a complete spool that is not read any more. Its extent stays. Raises OSError."""
    release(spool, sys.maxsize)
    os.truncate(segment(spool, (segments(spool) or [0])[-1]), 0)


def open_at(spool: str | Path, byte: int) -> BinaryIO:
    """The bytes of a spool from ``byte`` on. Raises OSError if that byte has been removed."""
    return io.BufferedReader(_Segments(spool, byte))


class _Segments(io.RawIOBase):
    """Segments as one file, from ``byte`` on. Reading raises `DamagedError` if a checksum does not match."""

    def __init__(self, spool: str | Path, byte: int) -> None:
        self._spool, self._left = spool, memoryview(b"")
        number, offset = divmod(byte, SEGMENT_BYTES)
        if number and not offset and not segment(spool, number).exists():
            number, offset = number - 1, SEGMENT_BYTES  # the spool ends here
        self._open(number)
        count = _count(self._file)
        self._next = bisect_right(range(count), offset, key=lambda i: _checks(self._file, i, 1)[0][0])
        if self._next:
            self._before = _checks(self._file, self._next - 1, 1)[0]
        self._skip = offset - self._before[0]

    def _open(self, number: int) -> None:
        self._file, self._number = os.open(segment(self._spool, number), os.O_RDONLY | os.O_CLOEXEC), number
        # The number of the next piece, and the checksum of the piece before it.
        self._next, self._before = 0, (0, 0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._left:
            self._left = memoryview(self._pieces(len(buffer)))
        count = min(len(buffer), len(self._left))
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count

    def _pieces(self, size: int) -> bytes:
        """The next pieces, with at least ``size`` bytes if the spool has them."""
        if self._before[0] == SEGMENT_BYTES and segment(self._spool, self._number + 1).exists():
            os.close(self._file)
            self._open(self._number + 1)
        begin, first = self._before[0], self._next
        checks = _checks(self._file, first, _CHECKS_AT_ONCE)
        count = bisect_right(checks, begin + self._skip + size, key=lambda check: check[0]) + 1
        checks = [self._before, *checks[:count]]
        data = os.pread(self._file, max(checks[-1][0] - begin, 0), begin)
        for number, (before, check) in enumerate(pairwise(checks), first):
            if check[0] <= before[0] or _check(data[before[0] - begin : check[0] - begin], before) != check:
                raise DamagedError(segment(self._spool, self._number), before[0])
            self._next, self._before = number + 1, check
        data, self._skip = data[self._skip :], max(self._skip - len(data), 0)
        return data

    def close(self) -> None:
        if not self.closed:
            os.close(self._file)
        super().close()


def _count(file: int) -> int:
    """The number of pieces in a segment."""
    return max(os.fstat(file).st_size - SEGMENT_BYTES, 0) // _CHECK.size


def _checks(file: int, first: int, count: int | None = None) -> list[tuple[int, int]]:
    """The checksums of at most ``count`` pieces of a segment, from the ``first`` on."""
    return [(end, crc) for end, crc, _ in _CHECK.iter_unpack(_entries(file, first, count))]


def _entries(file: int, first: int, count: int | None = None) -> bytes:
    """At most ``count`` entries of a segment, from the ``first`` on."""
    count = _count(file) if count is None else count
    data = os.pread(file, count * _CHECK.size, SEGMENT_BYTES + first * _CHECK.size)
    return data[: len(data) // _CHECK.size * _CHECK.size]


def _packed_entry(check: tuple[int, int]) -> bytes:
    """The entry of a piece with this checksum."""
    own = blake2b(check[0].to_bytes(8, "big") + check[1].to_bytes(8, "big"), digest_size=_OWN_BYTES)
    return _CHECK.pack(*check, own.digest())


def intact_pieces(path: Path, file: int) -> tuple[int, int]:
    """The number of intact pieces of a segment, and their size. Raises `DamagedError` if no crash explains the rest."""
    entries, before, first_torn = _entries(file, 0), (0, 0), None
    for number in range(len(entries) // _CHECK.size):
        entry = entries[number * _CHECK.size :][: _CHECK.size]
        end, crc, _ = _CHECK.unpack(entry)
        is_written = entry == _packed_entry((end, crc))
        data = (
            os.pread(file, max(end - before[0], 0), before[0]) if is_written and end <= SEGMENT_BYTES else b""
        )
        if first_torn is None and is_written and data and _check(data, before) == (end, crc):
            before = end, crc
            continue
        is_lost = not any(entry) or (is_written and _is_lost(file, before[0], end))
        if (first_torn is None and not is_lost) or (any(entry) and not is_written):
            raise DamagedError(path, before[0])
        if first_torn is None:
            first_torn = number  # the checksums of the pieces after it cannot be compared
    return len(entries) // _CHECK.size if first_torn is None else first_torn, before[0]


def _is_lost(file: int, begin: int, end: int) -> bool:
    """Whether a crash has taken sectors of the bytes of a segment from ``begin`` to ``end``."""
    first = begin - begin % 512
    data = os.pread(file, min(-(-end // 512) * 512, SEGMENT_BYTES) - first, first)
    return begin < end <= SEGMENT_BYTES and is_torn(data, begin - first, end - first)


def _filled(file: int) -> int:
    """The number of bytes in the pieces of a segment."""
    count = _count(file)
    return _checks(file, count - 1, 1)[0][0] if count else 0


def _check(data: bytes, before: tuple[int, int]) -> tuple[int, int]:
    """The checksum of a piece that follows the one with the checksum ``before``."""
    end = before[0] + len(data)
    return end, crc32(data, crc32(end.to_bytes(8, "big"), before[1]))


class SpoolWriter:
    """Appends to a spool. ``stopped`` ends the wait for room. A context manager."""

    def __init__(self, spool: Path, stopped: threading.Event) -> None:
        self.spool, self._stopped = spool, stopped
        self._sum, self.mark = _sum_and_mark(spool)
        # A segment that the sum covers is complete, even if the next one was never begun.
        self._number = max((segments(spool) or [0])[-1], self._sum.size // SEGMENT_BYTES)
        self._file, self._count, self._last = -1, 0, (0, 0)  # the segment, its pieces, and the last checksum
        self._open()

    def __enter__(self) -> SpoolWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    @property
    def size(self) -> int:
        """The number of appended bytes."""
        return self._number * SEGMENT_BYTES + self._last[0]

    def repeats(self, read: Read) -> bool:
        """Whether a source, read from its start, repeats the spooled bytes; checksums stand for removed bytes."""
        total = Sum()
        for _ in range(self._number):
            total = total.with_segment(read)
        if total != self._sum:
            return False
        left = self._last[0]
        with open_at(self.spool, self._number * SEGMENT_BYTES) as before:
            while left:
                new_data = read(min(left, 2**20))
                if not new_data or before.read(len(new_data)) != new_data:
                    return False
                left -= len(new_data)
        return True

    def continues(self, read: Read) -> bool:
        """Whether a source, read from `mark` on, repeats the spooled bytes that are not removed."""
        assert self.mark is not None
        at, first_byte = self.mark.byte, segments(self.spool)[0] * SEGMENT_BYTES
        with open_at(self.spool, max(at, first_byte)) as before:
            while left := self.size - at:
                new_data = read(min(left, 2**20))
                if (
                    not new_data
                    or before.read(len(repeated := new_data[max(first_byte - at, 0) :])) != repeated
                ):
                    return False
                at += len(new_data)
        return True

    def note(self, position: Any) -> None:
        """Record durably the source's position at the end of the spool."""
        self.sync()
        self.mark = Mark(self.size, position)
        self._save()

    def _save(self) -> None:
        mark = [] if self.mark is None else [{_MARK: json.dumps(self.mark._asdict()).encode()}]
        log_of(self.spool).replace({_SUM: json.dumps(self._sum._asdict()).encode()}, *mark)

    def recognises(self, read: Callable[[int, int], bytes]) -> bool:
        """Whether a file has the spooled bytes at its start and before the byte where reading continues.

        ``read`` returns a number of bytes from an offset on.
        """
        begin, size_in_segment = self._number * SEGMENT_BYTES, self._last[0]
        for at in (0, max(size_in_segment - KEPT_BYTES, 0)):
            with open_at(self.spool, begin + at) as ours:
                if read(begin + at, len(data := ours.read(min(KEPT_BYTES, size_in_segment - at)))) != data:
                    return False
        count = min(KEPT_BYTES, SEGMENT_BYTES)
        digests = {0: self._sum.head, begin - count: self._sum.tail} if begin else {}
        return all(digest(read(at, count)) == expected for at, expected in digests.items())

    def append(self, data: bytes) -> None:
        """Append bytes once there is room; after ``stopped``, perhaps not all of them. Raises OSError."""
        while data and self._has_room():
            piece = data[: SEGMENT_BYTES - self._last[0]]
            self._write(piece, self._last[0])
            self._last = _check(piece, self._last)
            self._write(_packed_entry(self._last), SEGMENT_BYTES + self._count * _CHECK.size)
            self._count += 1
            data = data[len(piece) :]

    def _write(self, data: bytes, at: int) -> None:
        os.lseek(self._file, at, os.SEEK_SET)
        write_all(self._file, data)

    def sync(self) -> None:
        """Sync the current segment to disk."""
        os.fsync(self._file)

    def _has_room(self) -> bool:
        """Wait for room, begin a new segment if the current one is full; False if ``stopped``."""
        if self._last[0] < SEGMENT_BYTES:
            return True
        self.sync()
        while len(segments(self.spool)) * SEGMENT_BYTES >= MOST_BYTES:
            if self._stopped.wait(_GLANCE_SECONDS):
                return False
        self._close()
        with open(segment(self.spool, self._number), "rb") as full:
            self._sum = self._sum.with_segment(full.read)
        self._save()
        self._number += 1
        self._open()
        return True

    def _open(self) -> None:
        """Open the current segment, created if it does not exist. Its name is on disk before its bytes are."""
        self._file = open_durably(segment(self.spool, self._number), os.O_RDWR)
        self._count = _count(self._file)
        self._last = _checks(self._file, self._count - 1, 1)[0] if self._count else (0, 0)


class Sum(NamedTuple):
    """The ``size`` and checksum of all full segments, and the checksums of their first and last bytes."""

    size: int = 0
    total: str = ""
    head: str = ""
    tail: str = ""

    def with_segment(self, read: Read) -> Sum:
        """The sum with the bytes of ``read`` as one more segment."""
        total, left, count = blake2b(self.total.encode()), SEGMENT_BYTES, min(KEPT_BYTES, SEGMENT_BYTES)
        head, tail = b"", b""
        while left and (data := read(min(left, 2**20))):
            total.update(data)
            left -= len(data)
            head = (head + data)[:count] if len(head) < count else head
            tail = (tail + data)[-count:]
        size = self.size + SEGMENT_BYTES - left
        return Sum(size, total.hexdigest(), self.head or digest(head), digest(tail))


def _final_size(spool: str | Path) -> int | None:
    """The size of a complete spool. Raises OSError."""
    records = log_of(spool).read()
    return int(records[-1][_SIZE]) if records and _SIZE in records[-1] else None


def _sum_and_mark(spool: str | Path) -> tuple[Sum, Mark | None]:
    """The last recorded sum and mark."""
    records = log_of(spool).read()
    sums = [record[_SUM] for record in records if _SUM in record]
    marks = [record[_MARK] for record in records if _MARK in record]
    total = Sum(**json.loads(sums[-1])) if sums else Sum()
    return total, Mark(**json.loads(marks[-1])) if marks else None
