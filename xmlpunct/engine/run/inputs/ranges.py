"""Ranges of inputs: planned from one cursor to the next, and repeated exactly."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol
from zlib import crc32

from xmlpunct.base.errors import TransientError, reading
from xmlpunct.connectors.source import ChangedError
from xmlpunct.engine.run.checkpoint.log import DamagedError
from xmlpunct.engine.run.inputs import segments
from xmlpunct.engine.run.inputs.open_file import OpenFile
from xmlpunct.engine.run.inputs.parts import Input, Part
from xmlpunct.engine.run.inputs.streams import Extent, InputOpener
from xmlpunct.firehose.position import Cursor, Position
from xmlpunct.firehose.slice_reader import STEP, Cutter, ReadState
from xmlpunct.firehose.spec import ElementName

READ_BYTES = 15 * 2**16
"""Bytes to read at a time: a little less than `AT_ONCE_BYTES`, so that a task does not cut a range in two."""


class Stamp(NamedTuple):
    """When a file was last written, and when this was checked, in nanoseconds since 1970."""

    written: int
    checked: int

    @classmethod
    def of(cls, path: str) -> Stamp:
        """The stamp of a file, which may be gone."""
        written, checked = 0, time.time_ns()
        with suppress(OSError):
            written = os.stat(path).st_mtime_ns
        return cls(written, checked)


@dataclass(frozen=True)
class Range:
    """A section of a part that is parsed independently: ``size`` bytes from ``start``.

    ``data`` has the bytes, if they travel with the task; otherwise ``checksum`` detects a change. ``final``: the part
    ends here, in order; ``last``: the input ends here, in order; ``broken``: the part ends here because of malformed
    data. With a ``failure`` of the source there are no bytes.

    uncut: the range can be large, and its task cuts it. Before anyone has read it, it has a ``stamp`` instead of a
    checksum, and may be broken.
    """

    part: int
    start: Position
    size: int
    final: bool = False
    last: bool = False
    broken: bool = False
    failure: str | None = None
    data: bytes | None = None
    checksum: int | None = None
    uncut: bool = False
    stamp: Stamp | None = None


class Uncut(Protocol):
    """Ranges that are planned without reading: see `xmlpunct.engine.run.inputs.uncut.Uncut`."""

    def following(self, cursor: Cursor, stop: Cursor | None = None) -> tuple[Range, Cursor] | None: ...


def check_read(input_: Input, cursor: Cursor) -> None:
    """Raise `DamagedError` if a spool lost bytes that were read; `XmlPunctError` if it cannot be read."""
    part, byte = input_.parts[cursor.part], cursor.position.byte
    if part.spooled and not cursor.done:
        with reading(part.path):
            size = segments.extent(part.path)[0]
        if size < byte:
            raise DamagedError(Path(part.path), size)


def open_at(part: Part, byte: int) -> BinaryIO:
    """A part's bytes from ``byte`` on. Raises OSError."""
    if part.spooled:
        return segments.open_at(part.path, byte)
    file = open(part.path, "rb")  # noqa: SIM115 - the caller closes it
    file.seek(byte)
    return file


def available_bytes(input_: Input, cursor: Cursor) -> tuple[int, bool]:
    """The available bytes of the part being read, and whether no more follow. Fast enough to call often."""
    part = input_.parts[cursor.part]
    if not part.spooled:
        return part.size or 0, True
    with reading(part.name, f"its spool {part.path} cannot be read"):
        ended = segments.end_of(part.path) is not None
        return segments.extent(part.path)[0], ended


def release(input_: Input, cursor: Cursor) -> None:
    """Remove the spooled bytes of an input before a cursor: no run will read them again. Raises `TransientError`."""
    earlier, part = (
        [part.path for part in input_.parts[: cursor.part] if part.spooled],
        input_.parts[cursor.part],
    )
    with reading(input_.source, "its spool cannot be released"):
        # The spools before an empty one were dropped before.
        for path in [*takewhile(segments.held_bytes, reversed(earlier))][::-1]:
            segments.drop(path)
        if part.spooled:
            segments.release(part.path, cursor.position.byte)


def unread_bytes(input_: Input, read: int) -> int:
    """The number of available bytes of an input after the first ``read`` bytes."""
    available = 0
    for part in input_.parts:
        try:
            available += segments.extent(part.path)[0] if part.spooled else part.size or 0
        except OSError:  # nothing has come of it; or the run is over, and its checkpoint emptied
            continue
    return max(0, available - read)


def silence(input_: Input, read: int) -> float:
    """The seconds since the last bytes of an input; 0 after its end, or if more bytes than ``read`` are available.

    Less than one `STEP` does not count, because it can be an incomplete element.
    """
    available = 0
    for part in input_.parts:
        if part.spooled:
            try:
                size, last = segments.extent(part.path)
                ended = segments.end_of(part.path) is not None
            except OSError:  # the run is over, and its checkpoint emptied
                return 0.0
            available += size
            if not ended:
                return time.time() - last if available - read < STEP else 0.0
        available += part.size or 0
    return 0.0


def remaining(input_: Input, cursor: Cursor) -> int | None:
    """The number of bytes of an input after a cursor; None if unknown."""
    if cursor.done:
        return 0
    sizes = [part.size for part in input_.parts[cursor.part :]]
    if any(size is None for size in sizes):
        return None
    return sum(size or 0 for size in sizes) - cursor.position.byte


def advance(
    input_: Input,
    elements: frozenset[ElementName],
    cursor: Cursor,
    budget: int,
    piece: int,
    stop: Cursor | None = None,
    open_file: OpenFile | None = None,
    keep: bool = False,
    uncut: Uncut | None = None,
) -> tuple[list[Range], Cursor]:
    """The ranges in the next ``budget`` bytes (about) after ``cursor``, and the cursor after them.

    A range has about ``piece`` bytes. Ranges of ``uncut`` can be larger; there is at least one, and as many as the
    budget has room for. Of a growing source, only the available bytes count, and there can be none. With ``stop``, the
    ranges are those of an earlier call that ended there. ``open_file`` keeps the file open for the next call. With
    ``keep``, ranges of files have their bytes, too.

    Raises `TransientError` for a file that cannot be read or has changed. Ranges before it are returned first, and the
    next call raises.
    """
    opener = InputOpener(input_, open_file, stop)
    cutter = Cutter(opener, elements)
    ranges: list[Range] = []
    while not cursor.done and budget > 0 and cursor != stop:
        following = None if uncut is None else uncut.following(cursor, stop)
        if following is not None:
            if ranges and following[0].size > budget:
                break
            ranges.append(following[0])
            budget -= max(following[0].size, 1)
            cursor = following[1]
            continue
        try:
            with reading(input_.parts[cursor.part].name):
                new_ranges, further = _advance_part(opener, cutter, cursor, budget, piece, keep)
        except TransientError:
            if ranges and stop is None:
                break
            raise
        if further.done and further.failure is not None:
            new_ranges.append(Range(cursor.part, further.position, 0, False, failure=further.failure))
        ranges += new_ranges
        budget -= sum(r.size for r in new_ranges)
        moved_on = further.part != cursor.part
        cursor = further
        if not moved_on:
            break
    return ranges, cursor


def _advance_part(
    opener: InputOpener, cutter: Cutter, cursor: Cursor, budget: int, piece: int, keep: bool
) -> tuple[list[Range], Cursor]:
    input_, number, stop = opener.input, cursor.part, opener.stop
    part, is_last = input_.parts[number], number == len(input_.parts) - 1
    stop_here = stop if stop is not None and stop.part == number else None
    if part.spooled:
        check_read(input_, cursor)
        budget = min(budget, segments.READ_AT_ONCE)
    if stop is not None:
        budget = Extent.of(part, stop_here).size - cursor.position.byte
    cutter.restore(ReadState(cursor))
    ranges, size, keep, end = list[Range](), 0, keep or part.spooled, False
    while not end and (size < budget or not size):
        cuts = cutter.cut(min(max(budget - size, 1), READ_BYTES), min(piece, max(budget, 1)))
        assert cuts is not None
        cursor = cuts.state.cursor
        for split, error in ((piece.split, piece.error) for piece in cuts.pieces if piece.split):
            is_broken = error is not None
            range_ = Range(number, split.start, 0, split.final, split.final and is_last, is_broken)
            ranges.append(_longer(range_, split.data, keep))
            size += len(split.data)
        end = cursor.done or cursor.part != number or cuts.pieces[-1].split is None
        end = end or (size > 0 and size + cutter.pending >= budget)
    if stop_here is None:
        return ranges, cursor
    is_cut, position, trace = cursor.done and cursor.failure is None, cursor.position, cursor.trace
    after_last = None if is_cut else cutter.rest()
    if after_last is not None and b"<" not in after_last.data:
        ranges = _stretched(ranges, Range(number, after_last.start, 0), after_last.data, keep)
        position, trace = stop_here.position, opener.trace(number, stop_here.position.byte)
    if stop_here.trace not in (None, trace) or position != stop_here.position:
        raise ChangedError.of(part.name, f"its content has changed before byte {stop_here.position.byte}")
    return ranges, cursor if is_cut else stop_here


def _longer(range_: Range, data: bytes, keep: bool) -> Range:
    """A range with more bytes at its end."""
    size = range_.size + len(data)
    if keep:
        return replace(range_, size=size, data=(range_.data or b"") + data)
    return replace(range_, size=size, checksum=crc32(data, range_.checksum or 0))


def _stretched(ranges: list[Range], after_last: Range, data: bytes, keep: bool) -> list[Range]:
    """``ranges`` with ``data`` added to the last: the white space before the element that was next then.

    Where the bytes end, a splitter cannot know of that element, and cuts before the space.
    """
    if not data:
        return ranges
    *before, last = ranges or [after_last]
    return [*before, _longer(last, data, keep)]


def grouped(ranges: list[Range], piece: int) -> Iterator[tuple[Range, ...]]:
    """Ranges by the task that reads them: at most ``piece`` bytes, or one range."""
    group: list[Range] = []
    size = 0
    for r in ranges:
        if group and size + r.size > piece:
            yield tuple(group)
            group, size = [], 0
        group.append(r)
        size += r.size
    if group:
        yield tuple(group)


def budgets(remains: dict[int, int | None], size: int) -> dict[int, int]:
    """The bytes to read of each input: of finite ones in proportion, so that all end together.

    The input with the most bytes left gets ``size`` bytes, and so does each input of unknown size.

    >>> budgets({0: 1000, 1: 500, 2: None}, 100)
    {0: 100, 1: 50, 2: 100}
    """
    longest = max((left for left in remains.values() if left is not None), default=0)
    return {
        number: size if left is None or not longest else max(1, -(-size * left // longest))
        for number, left in remains.items()
    }


def share_left(input_: Input, left: int | None) -> float:
    """The share of an input that ``left`` bytes are; 1 if their number is unknown."""
    return 1.0 if left is None else left / max(1, sum(part.size or 0 for part in input_.parts))
