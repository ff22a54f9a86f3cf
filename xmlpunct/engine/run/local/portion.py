"""What the local engine reads: feeds, and portions of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xmlpunct.base.errors import Reject
from xmlpunct.engine.plan import Stream
from xmlpunct.engine.run.inputs.ahead import AheadReader
from xmlpunct.engine.run.inputs.injected_punctuations import Plain
from xmlpunct.firehose import Parsed
from xmlpunct.operators.driver import Ahead
from xmlpunct.slice import Slice


class Feed:
    """A source, the streams it carries, and where it stands. An `Input` is one that can be read again."""

    def __init__(self, number: int, streams: list[tuple[int, Stream]], reader: AheadReader) -> None:
        self.number, self.streams, self.reader = number, streams, reader
        self.done = False
        self.turn = 0
        """When it was read last, in slices of the run."""

    @property
    def name(self) -> str:
        """What people know it by."""
        return ", ".join(stream.name for _, stream in self.streams)


@dataclass(frozen=True)
class Rows:
    """Some rows of a table, as tuples of the stream of that ``number``, and those that are none; or its end."""

    number: int
    stream: Stream
    tuples: Slice
    rejects: list[Reject]


@dataclass(frozen=True)
class Portion:
    """What was read for a slice: of which feed and what (None: its end). Without a feed, nothing has come.

    Or it is what was ``said`` in a stream's place, where the feed stands. Or it is some of a table's ``rows``. Results
    of stateless operators on it are ``precomputed``, for each of the feed's streams.
    """

    feed: Feed | None = None
    parsed: Parsed | None = None
    said: Plain | None = None
    rows: Rows | None = None
    precomputed: Sequence[Ahead] = ()

    @property
    def place(self) -> list[Any] | None:
        """Up to where the feed has been read with it, as plain values; None if nothing has."""
        if self.feed is None:
            return None
        where = [self.feed.number, self.feed.reader.cursor.to_json()]
        return where if self.said is None else [*where, self.said]
