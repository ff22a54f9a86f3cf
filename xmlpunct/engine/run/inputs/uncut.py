"""Ranges of files that are planned by what is known of them already: their sizes, or a table of their cuts."""

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
    """What comes next of an input as a range that nobody has to cut before: a file of at most ``most`` bytes, or a
    piece of a larger one whose pieces are known, by the number of its part.
    """

    def __init__(self, given: Input, most: int, pieces: Mapping[int, Sequence[Piece]]) -> None:
        self._given, self._most, self._pieces = given, most, pieces

    def following(self, cursor: Cursor, stop: Cursor | None = None) -> tuple[Range, Cursor] | None:
        """The next range, and how far the input is read behind it; None if it is to be cut.

        Up to ``stop``, whatever may have been one before is one.
        """
        number, part = cursor.part, self._given.parts[cursor.part]
        if part.spooled or cursor.done:
            return None
        found = self._piece(cursor) or self._whole(cursor, stop is not None)
        if found is None or stop is None or number < stop.part:
            return found
        further = found[1]
        is_before = further.part == number and further.position.byte <= stop.position.byte
        return found if further == stop or (is_before and not further.done) else None

    def _whole(self, cursor: Cursor, is_again: bool) -> tuple[Range, Cursor] | None:
        part = self._given.parts[cursor.part]
        size = part.size or 0
        if cursor.position != Position() or (size > self._most and not is_again):
            return None
        stamp = Stamp.of(part.path)
        r = Range(cursor.part, Position(), size, True, self._is_last(cursor), uncut=True, stamp=stamp)
        return r, self._behind(r)

    def _piece(self, cursor: Cursor) -> tuple[Range, Cursor] | None:
        """The piece that begins where an input is read to."""
        pieces = self._pieces.get(cursor.part, ())
        at = bisect_left(pieces, cursor.position.byte, key=lambda piece: piece.start.byte)
        if at == len(pieces) or pieces[at].start != cursor.position:
            return None
        start, size, checksum, final = pieces[at]
        if not final and at + 1 == len(pieces):  # nobody knows what is open behind it
            return None
        is_last = final and self._is_last(cursor)
        r = Range(cursor.part, start, size, final, is_last, checksum=checksum, uncut=True)
        return r, self._behind(r) if final else Cursor(cursor.part, pieces[at + 1].start)

    def _is_last(self, cursor: Cursor) -> bool:
        return cursor.part == len(self._given.parts) - 1

    @staticmethod
    def _behind(r: Range) -> Cursor:
        """How far an input is read behind the end of a part. How it ends, only the task knows that reads it."""
        return Cursor(r.part, Position(r.start.byte + r.size), True) if r.last else Cursor(r.part + 1)


def save(path: Path, tables: Tables) -> None:
    """Keep the pieces of large files, durably."""
    record = {f"{number}/{part}": _packed(pieces) for (number, part), pieces in tables.items()}
    WriteAheadLog(path).replace({"": b"", **record})


def saved(path: Path) -> dict[tuple[int, int], list[Piece]] | None:
    """What was saved; None if nothing was."""
    records = WriteAheadLog(path).read()
    if not records:
        return None
    found = {}
    for name, data in records[0].items():
        if name:
            number, _, part = name.partition("/")
            found[int(number), int(part)] = _unpacked(data)
    return found


def _packed(pieces: Sequence[Piece]) -> bytes:
    """Pieces as JSON. They are mostly inside the same elements."""
    opened: dict[tuple[str, ...], int] = {}
    rows = [
        (replace(start, open=()).to_json(), opened.setdefault(start.open, len(opened)), *rest)
        for start, *rest in pieces
    ]
    return json.dumps([list(opened), rows]).encode()


def _unpacked(data: bytes) -> list[Piece]:
    opened, rows = json.loads(data)
    return [
        Piece(replace(Position.from_json(start), open=tuple(opened[open_])), *rest)
        for start, open_, *rest in rows
    ]
