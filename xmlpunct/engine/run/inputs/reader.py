"""The reader of the local engine."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from xmlpunct.base.errors import SourceError, reading
from xmlpunct.connectors.source import Source
from xmlpunct.engine.run.inputs.open_file import OpenFile
from xmlpunct.engine.run.inputs.parse_ranges import parse_ranges
from xmlpunct.engine.run.inputs.parts import Input
from xmlpunct.engine.run.inputs.ranges import STEP, Cursor, advance, behind, check_read, release
from xmlpunct.engine.run.inputs.streams import FileStream, SpoolStream
from xmlpunct.firehose import FirehoseReader, StreamSpec
from xmlpunct.firehose.builder import Parsed, joined_splits
from xmlpunct.firehose.reader import PartStream, Piece

AGAIN_BYTES = 4 * 2**20
"""What was read before is parsed so many bytes at a time."""


@dataclass(frozen=True)
class Standing:
    """Where a reader stands: its cursor, and how many bytes it has parsed, and read of the source as it is stored."""

    cursor: Cursor = field(default_factory=Cursor)
    parsed_bytes: int = 0
    bytes_read: int = 0


@dataclass(frozen=True)
class Cuts:
    """What was cut to be parsed as one: pieces, each with where the reader stands if it is wrong; and if none is."""

    pieces: list[tuple[Piece, Standing]]
    behind: Standing


class InputReader(FirehoseReader):
    """Reads the streams of a source, and tells where it stands: at ``at``, up to where `read` or `take` has come.

    An `Input` is on disk, and what was read of it can be read `again`. Of any other source, what is read and not
    yet parsed is in memory, and goes with it. ``bell`` is rung when there is more of an input; another source that
    is ``alone`` is waited for where it is read, which takes no thread.
    """

    def __init__(
        self,
        given: Source | Input,
        specs: Sequence[StreamSpec],
        punct_namespace: str,
        bell: threading.Condition,
        alone: bool,
    ) -> None:
        self._input = given if isinstance(given, Input) else None
        self.resumes = self._input is not None
        source = given if isinstance(given, Source) else given.as_source()
        is_waited_for = alone and self._input is None
        super().__init__(source, specs, punct_namespace, bell=None if is_waited_for else bell)
        self.at = Standing()
        self._passed = Cursor()  # up to where it has been cut
        self._open_file = OpenFile()

    @property
    def cursor(self) -> Cursor:
        """Where it stands."""
        return self.at.cursor

    @property
    def bytes_read(self) -> int:
        """How many bytes have been read: of an input, of those that will not be read again from ``cursor`` on."""
        return self.at.bytes_read if self._input is None else self.at.parsed_bytes

    @property
    def behind(self) -> int | None:
        """How many bytes are there by now that are yet to be read; None if unknown."""
        return super().behind if self._input is None else behind(self._input, self.at.parsed_bytes)

    @property
    def is_there(self) -> bool:
        """Whether all of it is there, so that reading it waits for nobody."""
        if self._input is not None:
            return not self._input.spooled
        return all(size is not None for _, size in self.source.parts)

    @property
    def spooled(self) -> int:
        """The bytes read, if they are kept in a spool until `release`."""
        return self.at.parsed_bytes if self._input is not None and self._input.spooled else 0

    def release(self) -> None:
        """Drop what has been read of a spool: nobody will go back before this place."""
        if self._input is not None:
            release(self._input, self.cursor)

    def read(self, size: int) -> Parsed | None:
        """Read and parse what is complete of the next ``size`` bytes, or of as many as hold something complete.

        None at the end and after an error. An input gives the same again from ``cursor`` on, whoever reads it;
        where it may grow, what is there by then.
        """
        cuts = self.cut_some(size)
        return None if cuts is None else self.take(*self.parse_all(cuts))

    def cut_some(self, size: int) -> Cuts | None:
        """The first third of `read`: what it is to parse. One thread at a time, which is then ahead of ``at``."""
        before = self.parsed_bytes
        pieces: list[tuple[Piece, Standing]] = []
        while (piece := self.cut(self._wanted(size))) is not None:
            pieces.append((piece, self._here()))
            self.go_on(piece)
            if self._cut is None and (self.parsed_bytes > before or not self._has_more):
                break
        return Cuts(pieces, self._here()) if pieces else None

    def parse_all(self, cuts: Cuts) -> tuple[Parsed, Standing]:
        """The second third, in any thread: what was cut, and where the reader stands behind it."""
        parts: list[Parsed] = []
        for piece, here in cuts.pieces:
            parts.append(self.parse(piece).settle())
            if parts[-1].error is not None:
                return joined_splits(self.specs, parts), here
        return joined_splits(self.specs, parts), cuts.behind

    def take(self, parsed: Parsed, at: Standing) -> Parsed:
        """The last third: go to where it stands. In the order in which it was cut, and none behind an error."""
        self.at, self.error = at, parsed.error
        if parsed.error is not None:
            self.halt()
        return parsed

    def again(self, stop: Cursor) -> Parsed | None:
        """Read once more what was read before, from ``cursor`` to a place where another stood: the same slices."""
        assert self._input is not None
        if self.cursor.done or self.error is not None:
            return None
        given, elements = self._input, self._elements
        ranges, here = advance(
            given, elements, self.cursor, sys.maxsize, AGAIN_BYTES, stop, self._open_file, keep=True
        )
        parsed, count, _ = parse_ranges(given, ranges, self._parser)
        self.restore(here, self.parsed_bytes + count, parsed.error)
        return parsed

    def check(self, cursor: Cursor) -> None:
        """Raise `XmlPunctError` if what was spooled of an input does not reach as far as it was read."""
        if self._input is not None:
            check_read(self._input, cursor)

    def restore(self, cursor: Cursor, count: int, error: SourceError | None) -> None:
        """Stand where another stood that had read ``count`` bytes, and perhaps met an ``error``."""
        self._stand(cursor.part, cursor.position)
        self.parsed_bytes, self.error, self.failure = count, error, cursor.failure
        self.at, self._passed = Standing(cursor, count, count), cursor
        self.ended = cursor.done and error is None
        if error is not None:
            self.halt()

    def close(self) -> None:
        """Let go of the file that is being read."""
        super().close()
        self._open_file.close()

    def _here(self) -> Standing:
        """Where what was cut ends."""
        place, done = self._place, self.ended or self.failure is not None or self._is_cut
        before = self._passed
        if (place, done, self._part) != (before.position, before.done, before.part):
            traced = before.trace
            if (place, self._part) != (before.position, before.part):
                with reading(self.source.parts[self._part][0]):
                    traced = self._open_file.trace(place.byte) if self._is_plain else None
            self._passed = Cursor(self._part, place, done, self.failure, traced)
        return Standing(self._passed, self.parsed_bytes, super().bytes_read)

    def _wanted(self, size: int) -> int:
        """How much to read, so that ``size`` bytes are there, or more where those were not enough."""
        pending = 0 if self._input is None or self._splitter is None else self._splitter.pending
        return size - pending if pending < size else STEP

    @property
    def _has_more(self) -> bool:
        """Whether there is more of an input, or an end, that was not looked at."""
        return self._input is not None and self._file is not None and self._file.ready

    @property
    def _is_cut(self) -> bool:
        """Whether the part has been cut to its end."""
        return self._cut is None and self._splitter is not None and self._splitter.finished

    @property
    def _is_plain(self) -> bool:
        """Whether the part is a file that somebody might change."""
        return self._input is not None and not self._input.parts[self._part].spooled

    def _open_part(self) -> PartStream:
        if self._input is None:
            return super()._open_part()
        part, byte = self._input.parts[self._part], self._position.byte
        if part.spooled:
            return SpoolStream(part, byte)
        return FileStream(part, self._open_file, byte, self._passed.trace if byte else None)
