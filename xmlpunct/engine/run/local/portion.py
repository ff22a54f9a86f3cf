"""The input of the local engine: feeds, and portions of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xmlpunct.base.errors import Reject
from xmlpunct.engine.plan import Stream
from xmlpunct.engine.run.inputs.injected_punctuations import InjectedTexts
from xmlpunct.engine.run.inputs.parse_ranges import parse_ranges
from xmlpunct.engine.run.inputs.parts import Input
from xmlpunct.engine.run.inputs.prefetcher import Prefetcher
from xmlpunct.engine.run.inputs.ranges import advance, check_read, release, unread_bytes
from xmlpunct.engine.run.inputs.streams import InputOpener
from xmlpunct.firehose import Parsed
from xmlpunct.firehose.position import Cursor
from xmlpunct.firehose.slice_reader import ReadState, SliceReader
from xmlpunct.operators.driver import Precomputed
from xmlpunct.slice import Slice

REREAD_BYTES = 4 * 2**20
"""How many bytes of an input that was read before are parsed at a time."""


class SourceFeed:
    """A source or an input, the streams that it carries, and its reader.

    An input is on disk, so what was read of it can be read again. Of another source, the bytes that are read and not
    yet processed are in memory only.
    """

    def __init__(
        self,
        number: int,
        streams: list[tuple[int, Stream]],
        reader: SliceReader,
        prefetcher: Prefetcher,
    ) -> None:
        self.number, self.streams, self.reader, self.prefetcher = number, streams, reader, prefetcher
        opener = reader.cutter.opener
        self._opener = opener if isinstance(opener, InputOpener) else None
        self.done = False
        self.turn = 0
        """Sequence number of the last slice that was read from it."""

    @property
    def name(self) -> str:
        """Display name: the names of its streams."""
        return ", ".join(stream.name for _, stream in self.streams)

    @property
    def input(self) -> Input | None:
        """The input, if it is one."""
        return None if self._opener is None else self._opener.input

    @property
    def behind(self) -> int | None:
        """The number of available bytes that are not read yet; None if unknown."""
        return (
            self.reader.remaining if self.input is None else unread_bytes(self.input, self.reader.bytes_read)
        )

    @property
    def is_complete(self) -> bool:
        """True if all its bytes are available, so that reading them does not wait for a sender."""
        if self.input is not None:
            return not self.input.spooled
        return all(size is not None for _, size in self.reader.source.parts)

    @property
    def spooled(self) -> int:
        """The bytes read, if they stay in a spool until `release`."""
        return self.reader.bytes_read if self.input is not None and self.input.spooled else 0

    def release(self) -> None:
        """Remove the bytes read from the spools: no run will read them again."""
        if self.input is not None:
            release(self.input, self.reader.cursor)

    def check(self, cursor: Cursor) -> None:
        """Raise `XmlPunctError` if the spool of an input is shorter than what was read of it."""
        if self.input is not None:
            check_read(self.input, cursor)

    def reread(self, stop: Cursor) -> Parsed | None:
        """Read the input once more up to ``stop``, where an earlier run stood: the same slices."""
        assert self._opener is not None
        reader, input_, file = self.reader, self._opener.input, self._opener.open_file
        if reader.cursor.done or reader.error is not None:
            return None
        ranges, cursor = advance(
            input_, reader.parser.elements, reader.cursor, sys.maxsize, REREAD_BYTES, stop, file, keep=True
        )
        parsed, size, _ = parse_ranges(input_, ranges, reader.parser)
        reader.restore(ReadState(cursor, reader.bytes_read + size), parsed.error)
        return parsed


@dataclass(frozen=True)
class TableRows:
    """A batch of a table as tuples of stream ``number``, with its rejects; or the end of the table."""

    number: int
    stream: Stream
    tuples: Slice
    rejects: list[Reject]


@dataclass(frozen=True)
class Portion:
    """The input of one slice: parsed content of a feed (None: the end of the feed). Without a feed it is empty.

    Alternatives are an ``injected`` punctuation at the feed's position, or ``rows`` of a table. ``precomputed`` holds
    the results that other threads computed from it, for each stream of the feed.
    """

    feed: SourceFeed | None = None
    parsed: Parsed | None = None
    injected: InjectedTexts | None = None
    rows: TableRows | None = None
    precomputed: Sequence[Precomputed] = ()

    @property
    def position(self) -> list[Any] | None:
        """The read position of the feed after this portion, as plain values; None without a feed."""
        if self.feed is None:
            return None
        position = [self.feed.number, self.feed.reader.cursor.to_json()]
        return position if self.injected is None else [*position, self.injected]
