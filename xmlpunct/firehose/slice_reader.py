"""Reads the slices of a source: a cutter cuts it into splits, from a position to the next, and a parser parses them."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

from xmlpunct.base.errors import SourceError, TransientError, UsageError
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.read_ahead import LiveOpener, PartOpener, PartStream
from xmlpunct.connectors.source import ChangedError, Source
from xmlpunct.firehose.builder import Parsed, joined_splits
from xmlpunct.firehose.labels import Label, labels_of
from xmlpunct.firehose.native.walker import Known
from xmlpunct.firehose.parser import Parser
from xmlpunct.firehose.position import Cursor, Position, Split
from xmlpunct.firehose.spec import ElementName, Limits, StreamSpec
from xmlpunct.firehose.splitter import Splitter, malformed

STEP = 256 * 1024
"""The number of further bytes to read when the bytes read so far contain no whole element."""
MOST_PIECES = 64
"""In one cut. With more, the garbage collector takes a quarter of the time of a file of 3,000 tiny documents."""


@dataclass(frozen=True)
class ReadState:
    """How far a source is read: its cursor, and a number of bytes.

    Of a source that can be read again (`PartOpener.resumes`) these are the bytes of its splits, as UTF-8; of another
    source the stored bytes that were read.
    """

    cursor: Cursor = Cursor()  # noqa: RUF009 - immutable
    bytes_read: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """A split to parse, if there is one, with the results of `Parser.ahead` for it.

    ``error`` follows the split. ``state``: how far the source is read if the split has an error.
    """

    split: Split | None
    known: Known | None
    error: SourceError | None
    state: ReadState


@dataclass(frozen=True)
class Cuts:
    """Consecutive pieces to parse as one, and how far the source is read if no piece has an error."""

    pieces: list[Piece]
    state: ReadState


class Cutter:
    """Cuts a source into splits that divide none of these ``elements``, part by part, from a cursor on.

    One thread at a time may call it. Parsing the pieces can follow in other threads, and later. With a ``walker`` its
    walk for parsing also finds the boundaries: less work in all, but more of it in this thread. ``labels``: the labels
    of each part, if there are any.

    >>> from xmlpunct.connectors.source import Source
    >>> source = Source.of(b"<r><t><a>1</a></t><t><a>2</a></t></r>")
    >>> cutter = Cutter(source, {"t"})
    >>> while (cuts := cutter.cut(20)) is not None:
    ...     print([piece.split and piece.split.data for piece in cuts.pieces], cuts.state.cursor.position.byte)
    [b'<r><t><a>1</a></t>'] 18
    [b'<t><a>2</a></t></r>'] 37
    [b''] 37
    """

    def __init__(
        self,
        opener: PartOpener,
        elements: Collection[ElementName],
        limits: Limits = Limits(),  # noqa: B008 - immutable
        walker: Parser | None = None,
        labels: Sequence[tuple[Label, ...]] = (),
    ) -> None:
        self.source, self.opener = opener.source, opener
        self._elements, self._limits, self._walker, self._labels = elements, limits, walker, labels
        self._cursor = Cursor()  # after the last split
        self._part, self._start = 0, Position()  # where the stream begins
        self._stream: PartStream | None = None
        self._process = 0  # that opened the stream
        self._splitter: Splitter | None = None
        self._limit: int | None = None  # bytes of a split
        self._next: Split | None = None  # the next split, if the stream's bytes so far contain it
        self._fault: SourceError | None = None  # to raise after the splits before it
        self._failure: str | None = None
        self._is_waiting = False  # the last read returned no bytes yet
        self._ended = self._halted = False
        self._split_bytes = 0
        self._closed_bytes = 0  # stored bytes of the parts already read

    def cut(self, size: int, limit: int | None = None) -> Cuts | None:
        """Read about ``size`` bytes more, and cut them; None at the end of the source and after `halt`.

        A split has at most ``limit`` bytes, or is one element with the bytes around it. A source that can be read
        again is read on until there is a split. The last split of a document that is cut short comes alone, so that the
        tuples before its error are processed. Raises `TransientError` if a file cannot be read or has changed; if the
        source does not resume, the splits before it come first.
        """
        self._limit, pieces, before = limit, list[Piece](), self._split_bytes
        while not (self._ended or self._halted):
            pieces.append(self._piece(self._wanted(size)))
            self._go_on(pieces[-1])
            if self._next is None and (self._split_bytes > before or not self._has_more):
                break
            if len(pieces) == MOST_PIECES:
                break
            if self._next is not None and self._splitter is not None and self._splitter.cut_short:
                break
        return Cuts(pieces, self._state()) if pieces else None

    @property
    def pending(self) -> int:
        """The bytes that were read after the last split."""
        return 0 if self._splitter is None else self._splitter.pending

    def rest(self) -> Split | None:
        """The bytes after the last split, where a part of a file ends between two tokens. No split follows it."""
        return None if self._splitter is None else self._splitter.rest()

    def halt(self) -> None:
        """Cut no more, because there is an error in a piece."""
        self._halted = True
        self._close_stream()

    def restore(self, state: ReadState) -> None:
        """Go to a state of an earlier cutter of the same source."""
        self._go_to(state.cursor.part, state.cursor.position)
        self._cursor, self._split_bytes, self._failure = state.cursor, state.bytes_read, state.cursor.failure
        self._ended = state.cursor.done

    def is_ready(self) -> bool:
        """True if `cut` returns without waiting for a sender."""
        if self._next is not None or self._ended or self._halted:
            return True
        return not self.opener.is_live(self._part) or self._open()[0].ready

    @property
    def silent(self) -> float:
        """The seconds since the last bytes of a live part came; 0 if there are bytes to read, or no part is open."""
        return 0.0 if self._stream is None or self._stream.ready else self._stream.silent

    def close(self) -> None:
        """Close the part that is being read."""
        self._close_stream()
        self.opener.close()

    def _piece(self, size: int) -> Piece:
        try:
            split, known, error = self._split(size)
        except TransientError:
            raise
        except SourceError as failure:
            self._failure = failure.reason
            split, known, error = None, None, failure
        return Piece(split, known, error, self._state())

    def _split(self, size: int) -> tuple[Split | None, Known | None, SourceError | None]:
        """The next split, None if there is none yet; the parser's results for it; and an error after it."""
        stream, splitter = self._open()
        if self._next is None:
            if self._fault is not None:
                raise self._fault
            self._read(stream, splitter, size)
        split = self._next
        if split is None:
            if self._fault is not None:
                raise self._fault
            return None, None, None
        known = None if self._walker is None else self._walker.known(split)
        self._next = splitter.cut(self._limit)  # one read may have returned several documents
        self._split_bytes += len(split.data)
        error = malformed(split) if self._is_cut and not split.final else None
        if self._labels:
            split = replace(split, labels=self._labels[self._part])
        return split, known, error

    def _read(self, stream: PartStream, splitter: Splitter, size: int) -> None:
        try:
            data = stream.read(size)
        except SourceError as fault:
            if isinstance(fault, ChangedError) or (self.opener.resumes and isinstance(fault, TransientError)):
                raise
            self._fault = fault
            splitter.fail()
        else:
            self._is_waiting = data is None
            if data is None:
                return
            if data:
                splitter.feed(data)
            if not data or stream.at_end:
                splitter.end()
        self._next = splitter.cut(self._limit)

    def _go_on(self, piece: Piece) -> None:
        """Go to the next part, if a piece is the last of its part."""
        if piece.error is not None:
            self.halt()
        elif piece.split is not None and self._is_cut:
            if self._part < len(self.source.parts) - 1:
                self._go_to(self._part + 1, Position())
            else:
                self._go_to(self._part, self._position)
                self._ended = True

    def _state(self) -> ReadState:
        """How far the source is read."""
        part, position, last = self._part, self._position, self._cursor
        done = self._ended or self._failure is not None or self._is_cut
        if (position, done, part) != (last.position, last.done, last.part):
            has_moved = (position, part) != (last.position, last.part)
            trace = self.opener.trace(part, position.byte) if has_moved else last.trace
            self._cursor = Cursor(part, position, done, self._failure, trace)
        read = self._closed_bytes + (self._stream.consumed if self._stream else 0)
        return ReadState(self._cursor, self._split_bytes if self.opener.resumes else read)

    def _wanted(self, size: int) -> int:
        """The bytes to read so that ``size`` bytes are there, or more if they did not hold a split."""
        pending = self.pending if self.opener.resumes else 0
        return size - pending if pending < size else STEP

    @property
    def _has_more(self) -> bool:
        """True if there are more bytes of a source that can be read again, or its end."""
        stream = self._stream
        return self.opener.resumes and not self._is_waiting and stream is not None and stream.ready

    @property
    def _is_cut(self) -> bool:
        """True if the part has been cut to its end."""
        return self._next is None and self._splitter is not None and self._splitter.finished

    @property
    def _position(self) -> Position:
        """The position after the last split."""
        if self._next is not None:
            return self._next.start
        return self._start if self._splitter is None else self._splitter.position

    def _go_to(self, part: int, position: Position) -> None:
        self._close_stream()
        self._splitter = self._next = None
        self._part, self._start = part, position

    def _open(self) -> tuple[PartStream, Splitter]:
        """The stream of the part, and the splitter that its bytes go to."""
        if self._stream is not None and self._process != os.getpid():
            raise UsageError(
                f"{self.source.name} was opened by another process: open it again in this process"
            )
        if self._stream is None or self._splitter is None:
            self._process, byte = os.getpid(), self._start.byte
            self._stream = self.opener.open(self._part, byte, self._cursor.trace if byte else None)
            name = self.source.parts[self._part][0]
            ahead = None if self._walker is None else self._walker.ahead
            self._splitter = Splitter(name, self._elements, self._start, self._limits, ahead)
        return self._stream, self._splitter

    def _close_stream(self) -> None:
        if self._stream:
            self._closed_bytes += self._stream.consumed
            if self._process == os.getpid():  # threads and locks of another process are not in this one
                self._stream.close()
            self._stream = None


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
