"""Parses ranges of an input, in a task or to repeat an earlier read."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple
from zlib import crc32

from xmlpunct.base.errors import SourceError, TransientError, reading
from xmlpunct.connectors.source import ChangedError
from xmlpunct.engine.run.inputs.parts import Input, Part
from xmlpunct.engine.run.inputs.ranges import READ_BYTES, Range, Stamp, open_at
from xmlpunct.engine.run.inputs.streams import Extent, ExtentStream, StreamOpener
from xmlpunct.firehose.builder import Parsed, joined_splits
from xmlpunct.firehose.labels import Label, labels_of
from xmlpunct.firehose.parser import Parser
from xmlpunct.firehose.position import Cursor, Split
from xmlpunct.firehose.slice_reader import Cutter, ReadState, parsed_piece
from xmlpunct.firehose.splitter import malformed

AT_ONCE_BYTES = 2**20
"""Bytes to parse, or cut, at a time. They fit into the processor's cache (`benchmarks/parse.py --mib`)."""


class Read(NamedTuple):
    """The output of consecutive ranges, the number of bytes parsed, and the checksums of uncut files by part."""

    parsed: Parsed
    size: int
    checksums: dict[int, int]


def parse_ranges(input_: Input, ranges: Sequence[Range], parser: Parser) -> Read:
    """Parse consecutive ranges of an input.

    Never raises for malformed data: this is the ``error``, which ends the output. Raises `TransientError` for data that
    cannot be read, or that has changed since the ranges were found.
    """
    results: list[Parsed] = []
    labels = labels_of(parser.specs, input_.labelled)
    size, checksums = 0, dict[int, int]()
    for r in ranges:
        part, label = input_.parts[r.part], labels[r.part] if labels else ()
        try:
            if r.uncut:
                with _RangeStream(part, r) as file:
                    results += _parse_uncut(part, r, file, parser, label)  # as far as it comes
                    file.check()
                size += file.size
                if r.checksum is None:
                    checksums[r.part] = file.checksum
            else:
                results.append(parse_range(part, r, parser, label).settle())
                size += r.size
        except TransientError:
            raise
        except SourceError as error:
            results.append(joined_splits(parser.specs, []))
            results[-1].error = error
        if results and results[-1].error is not None:
            break
    return Read(joined_splits(parser.specs, results), size, checksums)


def parse_range(part: Part, r: Range, parser: Parser, label: tuple[Label, ...] = ()) -> Parsed:
    """Parse a range that is one split. Raises `SourceError` if it cannot be read or has changed."""
    split = Split(part.name, r.start, _range_bytes(part, r), r.final, label)
    parsed = parser.parse(split)
    if r.broken and parsed.error is None:
        parsed.error = malformed(split)
    return parsed


def _parse_uncut(
    part: Part, r: Range, file: _RangeStream, parser: Parser, label: tuple[Label, ...]
) -> Iterator[Parsed]:
    """The output of a range, split by split, up to an error. Raises `SourceError` where it cannot be read."""
    cutter = Cutter(StreamOpener(part, file), parser.elements, walker=parser, labels=[label] if label else [])
    cutter.restore(ReadState(Cursor(0, r.start)))
    step = min(READ_BYTES, AT_ONCE_BYTES)
    while (cuts := cutter.cut(step, AT_ONCE_BYTES)) is not None and cuts.pieces[-1].split is not None:
        for piece in cuts.pieces:
            parsed = parsed_piece(parser, piece).settle()
            yield parsed
            if parsed.error is not None:
                return
    if not r.final and (split := cutter.rest()) is not None:
        yield parser.parse(replace(split, labels=label)).settle()


class _RangeStream(ExtentStream):
    """The bytes of a range, with the ``size`` and ``checksum`` of those read. A context manager."""

    def __init__(self, part: Part, r: Range) -> None:
        self._part, self._range, self.size, self.checksum = part, r, 0, 0
        with reading(part.name):
            file = open_at(part, r.start.byte) if r.data is None else io.BytesIO(r.data)
        super().__init__(part.name, file, r.start.byte, Extent(r.start.byte + r.size, r.final))

    def _read(self, size: int) -> bytes:
        data = super()._read(size)
        self.size, self.checksum = self.size + len(data), crc32(data, self.checksum)
        return data

    def check(self) -> None:
        """Raise `ChangedError` if the range has changed since it was planned. Reads its remaining bytes."""
        r = self._range
        if r.checksum is None:
            _check(self._part, r.stamp)
            return
        while self.read(AT_ONCE_BYTES):
            pass
        if self.checksum != r.checksum:
            raise _changed(self._part, r)

    def __enter__(self) -> _RangeStream:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._file is not None
        self._file.close()


def _check(part: Part, stamp: Stamp | None) -> None:
    """Raise `ChangedError` for a file that was written since it was stamped, and is as large as it was."""
    with reading(part.name), suppress(FileNotFoundError):
        status = os.stat(part.path)
        is_later = stamp is not None and stamp.checked < status.st_mtime_ns != stamp.written
        if is_later and status.st_size == part.size:
            raise ChangedError.of(
                part.name, "it was written between the planning and the reading of its parts"
            )


def _range_bytes(part: Part, r: Range) -> bytes:
    """A range's bytes: its own, or those of the part. Raises `SourceError`."""
    if r.failure is not None:
        raise SourceError(part.name, r.failure)
    if r.data is not None:
        return r.data
    with reading(part.name), open_at(part, r.start.byte) as file:
        data = file.read(r.size)
    if len(data) != r.size or r.checksum not in (None, crc32(data)):
        raise _changed(part, r)
    return data


def _changed(part: Part, r: Range) -> ChangedError:
    begin, end = r.start.byte, r.start.byte + r.size
    return ChangedError.of(part.name, f"its bytes {begin:,} to {end:,} have changed")
