"""The input of the local engine: feeds, and portions of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xmlpunct.base.errors import Reject
from xmlpunct.engine.plan import Stream
from xmlpunct.engine.run.inputs.ahead import AheadReader
from xmlpunct.engine.run.inputs.injected_punctuations import InjectedTexts
from xmlpunct.firehose import Parsed
from xmlpunct.operators.driver import Precomputed
from xmlpunct.slice import Slice


class Feed:
    """A source, the streams that it carries, and its read position."""

    def __init__(self, number: int, streams: list[tuple[int, Stream]], reader: AheadReader) -> None:
        self.number, self.streams, self.reader = number, streams, reader
        self.done = False
        self.turn = 0
        """Sequence number of the last slice that was read from it."""

    @property
    def name(self) -> str:
        """Display name: the names of its streams."""
        return ", ".join(stream.name for _, stream in self.streams)


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

    feed: Feed | None = None
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
