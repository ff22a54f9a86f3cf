"""Ranges of files that are planned without reading them: by their sizes, or by a table of their cuts."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from xmlpunct.engine.run.checkpoint.log import WriteAheadLog
from xmlpunct.engine.run.inputs.cuts import Piece
from xmlpunct.engine.run.inputs.parts import Input
from xmlpunct.engine.run.inputs.ranges import Range, Stamp
from xmlpunct.firehose.position import Cursor, Position

Tables = Mapping[tuple[int, int], Sequence[Piece]]
"""The pieces of large files, by the number of an input, and of its part."""


class Uncut:
    """Plans the next range of an input without reading it: a file of at most ``max_bytes``, or one of the ``pieces`` of
    a larger file, which are listed by the number of its part.
    """

    def __init__(self, input_: Input, max_bytes: int, pieces: Mapping[int, Sequence[Piece]]) -> None:
        self._input, self._max_bytes, self._pieces = input_, max_bytes, pieces

    def following(self, cursor: Cursor, stop: Cursor | None = None) -> tuple[Range, Cursor] | None:
        """The next range, and the cursor after it; None if the range must be cut first.

        An earlier call may have planned the ranges up to ``stop``, with another ``max_bytes``.
        """
        number, part = cursor.part, self._input.parts[cursor.part]
        if part.spooled or cursor.done:
            return None
        planned = self._piece(cursor) or self._file(cursor, stop is not None)
        if planned is None or stop is None or number < stop.part:
            return planned
        after = planned[1]
        is_before = after.part == number and after.position.byte <= stop.position.byte
        return planned if after == stop or (is_before and not after.done) else None

    def _file(self, cursor: Cursor, is_again: bool) -> tuple[Range, Cursor] | None:
        part = self._input.parts[cursor.part]
        size = part.size or 0
        if cursor.position != Position() or (size > self._max_bytes and not is_again):
            return None
        stamp = Stamp.of(part.path)
        r = Range(cursor.part, Position(), size, True, self._is_last(cursor), uncut=True, stamp=stamp)
        return r, self._cursor_after(r)

    def _piece(self, cursor: Cursor) -> tuple[Range, Cursor] | None:
        """The piece that starts at the cursor."""
        pieces = self._pieces.get(cursor.part, ())
        at = bisect_left(pieces, cursor.position.byte, key=lambda piece: piece.start.byte)
        if at == len(pieces) or pieces[at].start != cursor.position:
            return None
        start, size, checksum, final = pieces[at]
        if not final and at + 1 == len(pieces):  # the elements that are open after it are unknown
            return None
        is_last = final and self._is_last(cursor)
        r = Range(cursor.part, start, size, final, is_last, checksum=checksum, uncut=True)
        return r, self._cursor_after(r) if final else Cursor(cursor.part, pieces[at + 1].start)

    def _is_last(self, cursor: Cursor) -> bool:
        return cursor.part == len(self._input.parts) - 1

    @staticmethod
    def _cursor_after(r: Range) -> Cursor:
        """The cursor after the last range of a part. Only the task that reads it finds out how the part ends."""
        return Cursor(r.part, Position(r.start.byte + r.size), True) if r.last else Cursor(r.part + 1)


def save(path: Path, tables: Tables) -> None:
    """Write the pieces of large files durably."""
    record = {f"{number}/{part}": _packed(pieces) for (number, part), pieces in tables.items()}
    WriteAheadLog(path).replace({"": b"", **record})


def saved(path: Path) -> dict[tuple[int, int], list[Piece]] | None:
    """The saved pieces; None if there are none."""
    records = WriteAheadLog(path).read()
    if not records:
        return None
    tables = {}
    for name, data in records[0].items():
        if name:
            number, _, part = name.partition("/")
            tables[int(number), int(part)] = _unpacked(data)
    return tables


def _packed(pieces: Sequence[Piece]) -> bytes:
    """Pieces as JSON. Most are inside the same elements."""
    opened: dict[tuple[str, ...], int] = {}
    rows = [
        (replace(start, open=()).to_json(), opened.setdefault(start.open, len(opened)), *fields)
        for start, *fields in pieces
    ]
    return json.dumps([list(opened), rows]).encode()


def _unpacked(data: bytes) -> list[Piece]:
    opened, rows = json.loads(data)
    return [
        Piece(replace(Position.from_json(start), open=tuple(opened[open_])), *fields)
        for start, open_, *fields in rows
    ]
