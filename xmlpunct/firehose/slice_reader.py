"""Reads the slices of a source: cuts it, and parses the pieces."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial

from xmlpunct.base.errors import SourceError
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.read_ahead import LiveOpener, PartOpener
from xmlpunct.connectors.source import Source
from xmlpunct.firehose.builder import Parsed, joined_splits
from xmlpunct.firehose.cutter import Cuts, Cutter, Piece, ReadState
from xmlpunct.firehose.labels import Label, labels_of
from xmlpunct.firehose.parser import Parser
from xmlpunct.firehose.position import Cursor
from xmlpunct.firehose.spec import Limits, StreamSpec

_CHECKED_BYTES = 2**20
"""The bytes that the check of a file parses at a time."""


class SliceReader:
    """Reads the streams of a source, slice by slice.

    `read` has three steps: `Cutter.cut` in order, `parse` in any order, and `take` in order. Other threads can do the
    first two in advance. For ``bell`` see `LiveOpener`. With ``walks_ahead`` the parser is the walker of the cutter.
    ``labels`` replace those in the names of the parts.

    >>> from xmlpunct.schema import Schema
    >>> source = Source.of(b"<r><t><a>1</a></t><t><a>2</a></t></r>")
    >>> reader = SliceReader(source, [StreamSpec("s", Schema.parse("a INT"), "t")])
    >>> while (parsed := reader.read(1000)) is not None:
    ...     print(parsed.slices[0].tuples.rows())
    [(1,), (2,)]
    []
    >>> reader.ended
    True
    """

    def __init__(
        self,
        source: Source | PartOpener,
        specs: Sequence[StreamSpec],
        punct_namespace: str = PUNCT_NAMESPACE,
        limits: Limits = Limits(),  # noqa: B008 - immutable
        bell: threading.Condition | None = None,
        walks_ahead: bool = True,
        labels: Sequence[tuple[Label, ...]] | None = None,
    ) -> None:
        opener = source
        if isinstance(source, Source) and bell is not None:
            opener = LiveOpener(source, bell)
        self.source, self.specs = opener.source, tuple(specs)
        check_files(self.source, specs, punct_namespace, limits)
        self.parser = Parser(specs, punct_namespace, limits)
        if labels is None:
            labels = labels_of(self.specs, self.source.labelled)
        walker = self.parser if walks_ahead else None
        self.cutter = Cutter(opener, self.parser.elements, limits, walker, labels)
        self.state = ReadState()
        """How far the source is read, by `read` or `take`."""
        self.error: SourceError | None = None
        self.bytes_total: int | None = self.source.size

    @property
    def cursor(self) -> Cursor:
        """The cursor after the last slice."""
        return self.state.cursor

    @property
    def ended(self) -> bool:
        """True if the source was read to its end, without an error."""
        return self.cursor.done and self.error is None

    @property
    def bytes_read(self) -> int:
        """The bytes that were read: see `ReadState`."""
        return self.state.bytes_read

    @property
    def remaining(self) -> int | None:
        """The bytes that are yet to be read; None if unknown."""
        return None if self.bytes_total is None else max(0, self.bytes_total - self.bytes_read)

    def read(self, size: int) -> Parsed | None:
        """Read about ``size`` bytes more and parse what is complete, which may be nothing.

        None at the end of the source and after an error, which the last result has. It waits only if there are no bytes
        at all. Raises `TransientError` for a file that cannot be read or has changed, after the slices before it.
        """
        cuts = self.cutter.cut(size)
        return None if cuts is None else self.take(*self.parse(cuts))

    def parse(self, cuts: Cuts) -> tuple[Parsed, ReadState]:
        """Parse pieces, up to an error. Any thread may call it, and it never raises for bad data."""
        parts: list[Parsed] = []
        for piece in cuts.pieces:
            parts.append(parsed_piece(self.parser, piece))
            if parts[-1].error is not None:
                return joined_splits(self.specs, parts), piece.state
        return joined_splits(self.specs, parts), cuts.state

    def take(self, parsed: Parsed, state: ReadState) -> Parsed:
        """Go on to ``state``. Called in the order of the cuts, and not after an error."""
        self.state, self.error = state, parsed.error
        if parsed.error is not None:
            self.cutter.halt()
        return parsed

    def is_ready(self) -> bool:
        """True if `read` returns without waiting for a sender. Called while holding ``bell``."""
        return self.cutter.is_ready()

    def restore(self, state: ReadState, error: SourceError | None) -> None:
        """Go to the state of an earlier reader of the same source, which may have met an ``error``."""
        self.cutter.restore(state)
        self.state, self.error = state, error
        if error is not None:
            self.cutter.halt()

    def close(self) -> None:
        """Close the part that is being read."""
        self.cutter.close()


def check_files(
    source: Source,
    specs: Sequence[StreamSpec],
    punct_namespace: str,
    limits: Limits = Limits(),  # noqa: B008 - immutable
) -> None:
    """Let a watched folder check each file: it is read to its end, as these streams would read it."""
    if source.gate is not None:
        source.gate.run = partial(_read_to_the_end, tuple(specs), punct_namespace, limits)


def _read_to_the_end(specs: Sequence[StreamSpec], punct_namespace: str, limits: Limits, file: Source) -> None:
    reader = SliceReader(file, specs, punct_namespace, limits)
    try:
        while (parsed := reader.read(_CHECKED_BYTES)) is not None:
            if parsed.error is not None:
                raise parsed.error
    finally:
        reader.close()


def parsed_piece(parser: Parser, piece: Piece) -> Parsed:
    """The output of a piece. Never raises for bad data."""
    if piece.split is None:
        parsed = joined_splits(parser.specs, [])
    else:
        parsed = parser.parse(piece.split, piece.known)
    parsed.error = parsed.error or piece.error
    return parsed
