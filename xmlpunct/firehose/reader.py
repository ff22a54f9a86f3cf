"""A source from its beginning to its end, in one process."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from xmlpunct.base.errors import SourceError, TransientError, UsageError
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.open_source import PartReader, Source
from xmlpunct.connectors.unchanged import ChangedError
from xmlpunct.firehose.builder import Parsed, joined_splits
from xmlpunct.firehose.labels import labels_of
from xmlpunct.firehose.native.walker import Known
from xmlpunct.firehose.parser import Parser
from xmlpunct.firehose.position import Position, Split
from xmlpunct.firehose.spec import Limits, StreamSpec, elements_of
from xmlpunct.firehose.splitter import Splitter, malformed

AHEAD_BYTES = 2**20
"""How much of a source may be read before anyone takes it; whoever sends more has to wait."""
_CHUNK_BYTES = 2**16
_JOIN_SECONDS = 1.0


class PartStream(Protocol):
    """The bytes of a part, as UTF-8, one after the other.

    ``consumed`` counts those of the part as it is stored, ``ready`` says that `read` would not have to wait, and
    ``silent`` for how many seconds nothing has come.
    """

    @property
    def consumed(self) -> int: ...
    @property
    def ready(self) -> bool: ...
    @property
    def silent(self) -> float: ...

    def read(self, size: int) -> bytes | None:
        """At most about ``size`` bytes; empty at the end, None if there are none yet. Raises `SourceError`."""

    def close(self) -> None:
        """Let go of the part."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What was cut to be parsed: a split, if there is one, and what is known of it by now.

    ``is_last``: no other of its part follows. ``error`` is what is wrong behind it.
    """

    split: Split | None
    known: Known | None = None
    is_last: bool = False
    error: SourceError | None = None


class FirehoseReader:
    """Reads the streams of a source, slice by slice.

    With ``bell``, parts of unknown length (sockets, pipes, files that grow) are read ahead by a thread each,
    which notifies ``bell`` of all that happens, so that one can wait for several readers: see `is_ready`.
    Without, `read` waits for them itself.

    >>> from xmlpunct.schema import Schema
    >>> source = Source.of(b"<r><t><a>1</a></t><t><a>2</a></t></r>")
    >>> reader = FirehoseReader(source, [StreamSpec("s", Schema.parse("a INT"), "t")])
    >>> while (parsed := reader.read(1000)) is not None:
    ...     print(parsed.slices[0].tuples.rows())
    [(1,), (2,)]
    []
    >>> reader.ended
    True
    """

    resumes = False
    """Whether a later run reads on where a transient fault ends this one. Then nothing is cut because of the fault."""
    parses_ahead = True
    """Whether cutting does what it can of parsing, since one look at the bytes is less work than two."""

    def __init__(
        self,
        source: Source,
        specs: Sequence[StreamSpec],
        punct_namespace: str = PUNCT_NAMESPACE,
        limits: Limits = Limits(),  # noqa: B008 - immutable
        bell: threading.Condition | None = None,
    ) -> None:
        if source.senders:
            raise UsageError(f"{source.name} has several senders, which only a query can merge")
        self.source, self.specs = source, tuple(specs)
        self.punct_namespace, self.limits = punct_namespace, limits
        self.ended = False
        """Whether the end was reached, and in order: all roots closed and nothing wrong."""
        self.error: SourceError | None = None
        self.failure: str | None = None
        """What is wrong with the source itself, rather than with what came of it."""
        self.parsed_bytes = 0
        """How many bytes, in UTF-8, the splits held that were parsed."""
        self.bytes_total: int | None = source.size
        self._elements = elements_of(specs, punct_namespace)
        self._parser = Parser(specs, punct_namespace, limits)
        self._labels = labels_of(self.specs, source.labelled)
        self._part, self._position = 0, Position()  # what is read on from, where no file is open
        self._before = 0  # bytes of the parts already read
        self._bell = bell
        self._file: PartStream | None = None
        self._process = 0  # which opened it
        self._splitter: Splitter | None = None
        self._cut: Split | None = None  # what is to be parsed next, if it is known
        self._fault: SourceError | None = None  # of reading, once what came before it is cut
        self._halted = False

    @property
    def bytes_read(self) -> int:
        """How many bytes of the source, as it is stored, have been read."""
        return self._before + (self._file.consumed if self._file else 0)

    @property
    def remaining(self) -> int | None:
        """How many bytes of the source are yet to be read; None if unknown."""
        return None if self.bytes_total is None else max(0, self.bytes_total - self.bytes_read)

    @property
    def behind(self) -> int | None:
        """How many bytes are there by now that are yet to be read; None if unknown."""
        return self.remaining

    def read(self, size: int) -> Parsed | None:
        """Read about ``size`` bytes more and parse what is complete: one split, maybe with nothing in it.

        None at the end of the source and after an error, which the last result carries. It waits for bytes
        only if there are none at all. Raises `TransientError` for a file that cannot be read, behind what was read of
        it before, and for one that is not what it was.
        """
        piece = self.cut(size)
        if piece is None:
            return None
        parsed = self.parse(piece)
        if parsed.error is None:
            self.go_on(piece)
        else:
            self.error = parsed.error
            self.halt()
        return parsed

    def cut(self, size: int) -> Piece | None:
        """The first half of `read`: read about ``size`` bytes and cut what is complete, as a piece to `parse`.

        None at the end of the source and behind `halt`. Before the next one is cut, `go_on`.
        """
        if self.ended or self._halted:
            return None
        try:
            return self._step(size)
        except TransientError:
            raise
        except SourceError as error:
            self.failure = error.reason
            return Piece(None, error=error)

    def parse(self, piece: Piece) -> Parsed:
        """What is in a piece, in any thread. Never raises for bad data, which it is to `halt` for."""
        parsed = joined_splits(self.specs, [])
        if piece.split is not None:
            parsed = self._parser.parse(piece.split, piece.known)
        parsed.error = parsed.error or piece.error
        return parsed

    def go_on(self, piece: Piece) -> None:
        """Go on behind a piece, in which nothing is known to be wrong: to the next part, if one ends with it."""
        if piece.error is not None:
            self.halt()
        elif piece.is_last:
            self._stand(self._part, self._place)
            self.ended = self._part == len(self.source.parts) - 1
            if not self.ended:
                self._stand(self._part + 1, Position())

    def halt(self) -> None:
        """Read no more: something is wrong in what was cut last."""
        self._halted = True
        self._close_part()

    def is_ready(self) -> bool:
        """Whether `read` would not have to wait for anyone. To be asked while holding ``bell``."""
        if self._bell is None or self._cut is not None or self.ended or self._halted:
            return True
        if self.source.parts[self._part][1] is not None:
            return True
        return self._open()[0].ready

    @property
    def silent(self) -> float:
        """For how many seconds nothing has come of a part that may grow; 0 for all else."""
        return 0.0 if self._file is None or self._file.ready else self._file.silent

    def close(self) -> None:
        """Close the file being read."""
        self._close_part()

    def _close_part(self) -> None:
        if self._file:
            self._before += self._file.consumed
            if self._process == os.getpid():  # else the threads and locks that belong to it are not here
                self._file.close()
            self._file = None

    def _step(self, size: int) -> Piece:
        """One split, or nothing as yet."""
        file, splitter = self._open()
        if self._cut is None:
            if self._fault is not None:
                raise self._fault
            try:
                data = file.read(size)
            except SourceError as fault:
                if isinstance(fault, ChangedError) or (self.resumes and isinstance(fault, TransientError)):
                    raise
                self._fault = fault
                splitter.fail()
                self._cut = splitter.cut()
                if self._cut is None:
                    raise
            else:
                if data is None:
                    return Piece(None)
                if data:
                    splitter.feed(data)
                else:
                    splitter.end()
                self._cut = splitter.cut()
        split = self._cut
        if split is None:
            return Piece(None)
        known = self._parser.known(split)
        # Several documents may have come with one read: the next one needs no further bytes.
        self._cut = splitter.cut()
        self.parsed_bytes += len(split.data)
        error, is_last = None, splitter.finished and self._cut is None
        if is_last and not split.final:
            error = malformed(split)
        labels = self._labels[self._part] if self._labels else ()
        return Piece(replace(split, labels=labels) if labels else split, known, is_last, error)

    def _open(self) -> tuple[PartStream, Splitter]:
        """What the bytes of this part come from and go to."""
        if self._file is not None and self._process != os.getpid():
            raise UsageError(
                f"{self.source.name} was opened by another process: open it again in this process"
            )
        if self._file is None or self._splitter is None:
            self._process = os.getpid()
            self._file = self._open_part()
            name, ahead = self.source.parts[self._part][0], self._parser.ahead if self.parses_ahead else None
            self._splitter = Splitter(name, self._elements, self._position, self.limits, ahead)
        return self._file, self._splitter

    def _open_part(self) -> PartStream:
        """The bytes of the part that is to be read, from where it stands."""
        if self.source.parts[self._part][1] is None and self._bell is not None:
            return ReadAhead(self.source, self._part, self._bell)
        return self.source.open(self._part)

    @property
    def _place(self) -> Position:
        """Up to where the part has been parsed."""
        if self._cut is not None:
            return self._cut.start
        return self._position if self._splitter is None else self._splitter.position

    def _stand(self, part: int, position: Position) -> None:
        """Be at a place, from where to read on."""
        self._close_part()
        self._splitter = self._cut = None
        self._part, self._position = part, position


class ReadAhead:
    """Reads a part in a thread of its own, up to `AHEAD_BYTES` ahead; like a `PartReader` for who takes it.

    ``bell`` is notified when there is something to take, or an end.
    """

    def __init__(self, source: Source, part: int, bell: threading.Condition) -> None:
        self.name = source.parts[part][0]
        self.consumed = 0
        self._source, self._part, self._bell = source, part, bell
        self._reader: PartReader | None = None
        self._chunks: deque[tuple[bytes, int]] = deque()  # with how much was consumed after each
        self._held = 0
        self._ended = self._closed = False
        self._failure: Exception | None = None
        self._last = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"read {self.name}", daemon=True)
        self._thread.start()

    @property
    def ready(self) -> bool:
        """Whether `read` would come back at once."""
        return bool(self._chunks) or self._ended

    @property
    def silent(self) -> float:
        """The seconds since the last bytes came."""
        return time.monotonic() - self._last

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes, as soon as there are any; none only at the end. Raises `SourceError`."""
        found: list[bytes] = []
        with self._bell:
            self._bell.wait_for(lambda: self.ready)
            was_full = self._held >= AHEAD_BYTES
            left = size
            while self._chunks and left:
                data, consumed = self._chunks.popleft()
                if len(data) > left:
                    self._chunks.appendleft((data[left:], consumed))
                    data, consumed = data[:left], self.consumed
                found.append(data)
                left -= len(data)
                self._held -= len(data)
                self.consumed = consumed
            if was_full:
                self._bell.notify_all()
            if not found and self._failure is not None:
                raise self._failure
        return b"".join(found)

    def close(self) -> None:
        """Read no more. What cannot be interrupted is left waiting, in a thread that keeps nobody."""
        with self._bell:
            self._closed = True
            self._bell.notify_all()
            reader = self._reader
        own = threading.current_thread() is self._thread  # collecting what somebody left
        if reader is not None and (reader.stop() or self._ended) and not own:
            self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        failure: Exception | None = None
        try:
            with self._source.reader(self._part) as reader:
                with self._bell:
                    self._reader = reader
                    if self._closed:
                        return
                reader.begin()
                while (data := reader.read(_CHUNK_BYTES)) and self._put(data, reader.consumed):
                    pass
        except Exception as error:  # whatever it is, it must not look like an end
            failure = error
        finally:
            with self._bell:
                self._failure, self._ended = failure, True
                self._bell.notify_all()

    def _put(self, data: bytes, consumed: int) -> bool:
        """Hold some bytes out; whether more are wanted."""
        with self._bell:
            self._last = time.monotonic()
            self._chunks.append((data, consumed))
            self._held += len(data)
            self._bell.notify_all()
            self._bell.wait_for(lambda: self._held < AHEAD_BYTES or self._closed)
            return not self._closed
