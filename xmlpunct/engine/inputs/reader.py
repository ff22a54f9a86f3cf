"""An input read slice by slice in such a way that what was read once can be read again."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from zlib import crc32

from xmlpunct.engine.inputs.held import Held
from xmlpunct.engine.inputs.parts import Input, Part
from xmlpunct.engine.inputs.ranges import (
    Cursor,
    Range,
    advance,
    open_at,
    release,
    remaining,
    silence,
    there_is,
)
from xmlpunct.errors import SourceError
from xmlpunct.firehose.builder import Parsed
from xmlpunct.firehose.parser import Parser
from xmlpunct.firehose.position import Split
from xmlpunct.firehose.spec import StreamSpec, elements_of
from xmlpunct.firehose.steady import ChangedError
from xmlpunct.overlooked import add
from xmlpunct.slice import Slice, concat


class RangeReader:
    """Reads the streams of an input, from ``cursor`` on, of which ``bytes_read`` are in the past.

    Like a `FirehoseReader`, but that ``cursor`` tells where it stands, and that it can be told to ``stop`` at a
    place where another stood: the slices are then the same, however much more there is by now.
    """

    def __init__(self, given: Input, specs: Sequence[StreamSpec], punct_namespace: str) -> None:
        self.given, self.specs, self.punct_namespace = given, tuple(specs), punct_namespace
        self.cursor, self.bytes_read = Cursor(), 0
        self.error: SourceError | None = None
        self._elements = elements_of(specs, punct_namespace)
        self._parser = Parser(specs, punct_namespace)
        self._seen: tuple[int, bool] | None = None  # what there was, if it was not enough
        self._held = Held()

    @property
    def bytes_total(self) -> int | None:
        """The bytes of the whole input; None if nobody knows."""
        return remaining(self.given, Cursor())

    @property
    def remaining(self) -> int | None:
        """How many bytes are yet to be read; None if nobody knows."""
        return remaining(self.given, self.cursor)

    @property
    def silent(self) -> float:
        """For how many seconds nothing has come that could be read; 0 if something has."""
        return silence(self.given, self.bytes_read)

    @property
    def spooled(self) -> int:
        """The bytes read, if they come from a spool."""
        return self.bytes_read if any(part.spooled for part in self.given.parts) else 0

    def release(self) -> None:
        """Drop what has been read of a spool: nobody will go back before this place."""
        release(self.given, self.cursor)

    def is_ready(self) -> bool:
        """Whether it is worth while to `read`."""
        if self.cursor.done or not self.given.parts[self.cursor.part].spooled:
            return True
        return there_is(self.given, self.cursor) != self._seen

    def read(self, size: int, stop: Cursor | None = None) -> Parsed | None:
        """Read and parse about ``size`` bytes more, or what is there, which may be nothing; or up to ``stop``.

        None at the end of the input and after an error, which the last result carries. Raises `ChangedError`
        for a file that is not what it was.
        """
        if self.cursor.done or self.error:
            return None
        seen = there_is(self.given, self.cursor)
        budget = size if stop is None else sys.maxsize
        held = self._held
        ranges, cursor = advance(self.given, self._elements, self.cursor, budget, size, stop, held, keep=True)
        self._seen = seen if cursor == self.cursor else None
        self.cursor = cursor
        parsed, count = parse_ranges(self.given, ranges, self._parser)
        self.bytes_read += count
        self.error = parsed.error
        return parsed

    def close(self) -> None:
        """Let go of the file that is being read."""
        self._held.close()


def parse_ranges(given: Input, ranges: Sequence[Range], parser: Parser) -> tuple[Parsed, int]:
    """What consecutive ranges of an input hold, as one, and how many bytes were parsed for it.

    Never raises for what is wrong with the data: that is the ``error``, before which all is as it should be. But
    it raises `ChangedError` for data that is not what it was when the ranges were found.
    """
    specs = parser.specs
    found: list[list[Slice]] = [[] for _ in specs]
    zeros = [0] * len(specs)
    total = Parsed([], [[] for _ in specs], zeros, [*zeros], [{} for _ in specs])
    size = 0
    for r in ranges:
        part = given.parts[r.part]
        try:
            data = _load(part, r)
        except ChangedError:
            raise
        except SourceError as error:
            total.error = error
            break
        parsed = parser.parse(Split(part.name, r.start, data, r.final))
        if parsed.error is None and r.broken:
            parsed.error = SourceError(part.name, "malformed or too large", r.start.line, r.start.byte)
        size += len(data)
        for i, slice_ in enumerate(parsed.slices):
            found[i].append(slice_)
            total.rejects[i] += parsed.rejects[i]
            total.dropped[i] += parsed.dropped[i]
            total.read[i] += parsed.read[i]
            add(total.overlooked[i], parsed.overlooked[i])
        if parsed.error is not None:
            total.error = parsed.error
            break
    total.slices = [concat(spec.layout, slices) for spec, slices in zip(specs, found, strict=True)]
    return total, size


def _load(part: Part, r: Range) -> bytes:
    """A range's bytes: its own, or those of the part. Raises `SourceError`."""
    if r.failure is not None:
        raise SourceError(part.name, r.failure)
    if r.data is not None:
        return r.data
    try:
        with open_at(part, r.start.byte) as file:
            data = file.read(r.size)
    except OSError as error:
        raise SourceError(part.name, f"cannot read it: {error.strerror}") from None
    if len(data) != r.size or r.checksum not in (None, crc32(data)):
        begin, end = r.start.byte, r.start.byte + r.size
        raise ChangedError.of(
            part.name, f"its bytes {begin:,} to {end:,} are not those that were found there"
        )
    return data
