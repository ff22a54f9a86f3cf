"""The parts of a source as streams of UTF-8 bytes; a part that may have to be waited for is read by a thread."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Protocol

from xmlpunct.connectors.source import Source
from xmlpunct.connectors.utf8_stream import Utf8Stream

AHEAD_BYTES = 2**20
"""Maximal number of bytes that are read before they are taken; then the sender has to wait."""
_CHUNK_BYTES = 2**16
_JOIN_SECONDS = 1.0


class PartStream(Protocol):
    """The UTF-8 bytes of a part, in order.

    ``consumed`` is the number of stored bytes read; ``ready``: `read` returns without waiting; ``silent``: seconds
    since the last bytes came; ``at_end``: it is known that no bytes follow.
    """

    @property
    def consumed(self) -> int: ...
    @property
    def ready(self) -> bool: ...
    @property
    def silent(self) -> float: ...
    @property
    def at_end(self) -> bool: ...

    def read(self, size: int) -> bytes | None:
        """At most about ``size`` bytes; empty at the end, None if there are none yet. Raises `SourceError`."""

    def close(self) -> None:
        """Close the part."""


class PartOpener(Protocol):
    """Opens the parts of a source. A `Source` opens its own.

    ``resumes``: a later run reads on after a transient failure, so the failure is no end of the data.
    """

    @property
    def resumes(self) -> bool: ...
    @property
    def source(self) -> Source: ...

    def is_live(self, part: int) -> bool:
        """True if reading a part may have to wait for its sender: then the stream's `ready` must be asked."""

    def open(self, part: int, byte: int, trace: str | None) -> PartStream:
        """The bytes of a part from ``byte`` on, up to which its file had this ``trace``. Raises `SourceError`."""

    def trace(self, part: int, byte: int) -> str | None:
        """The checksums of a file up to ``byte``, if a later run compares them. Raises `SourceError`."""

    def close(self) -> None:
        """Close all files that streams share."""


class LiveOpener:
    """Opens the parts of a source. Each part of unknown length is read ahead by a thread.

    The threads notify ``bell``, so that a reader can wait for several sources.
    """

    resumes = False

    def __init__(self, source: Source, bell: threading.Condition) -> None:
        self.source, self._bell = source, bell

    def is_live(self, part: int) -> bool:
        return self.source.parts[part][1] is None

    def open(self, part: int, byte: int, trace: str | None) -> PartStream:
        if self.is_live(part):
            return ReadAhead(self.source, part, self._bell)
        return self.source.open(part, byte)

    def trace(self, part: int, byte: int) -> str | None:
        return None

    def close(self) -> None:
        """Nothing to do: streams share no file."""


class ReadAhead:
    """A part that a thread reads, up to `AHEAD_BYTES` ahead. ``bell`` is notified of bytes and of the end."""

    at_end = False

    def __init__(self, source: Source, part: int, bell: threading.Condition) -> None:
        self.name = source.parts[part][0]
        self.consumed = 0
        self._source, self._part, self._bell = source, part, bell
        self._reader: Utf8Stream | None = None
        self._chunks: deque[tuple[bytes, int]] = deque()  # with how much was consumed after each
        self._held = 0
        self._ended = self._closed = False
        self._failure: Exception | None = None
        self._last = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"read {self.name}", daemon=True)
        self._thread.start()

    @property
    def ready(self) -> bool:
        """True if `read` returns at once."""
        return bool(self._chunks) or self._ended

    @property
    def silent(self) -> float:
        """The seconds since the last bytes came."""
        return time.monotonic() - self._last

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes, as soon as there are any; none only at the end. Raises `SourceError`."""
        chunks: list[bytes] = []
        with self._bell:
            self._bell.wait_for(lambda: self.ready)
            was_full = self._held >= AHEAD_BYTES
            left = size
            while self._chunks and left:
                data, consumed = self._chunks.popleft()
                if len(data) > left:
                    self._chunks.appendleft((data[left:], consumed))
                    data, consumed = data[:left], self.consumed
                chunks.append(data)
                left -= len(data)
                self._held -= len(data)
                self.consumed = consumed
            if was_full:
                self._bell.notify_all()
            if not chunks and self._failure is not None:
                raise self._failure
        return b"".join(chunks)

    def close(self) -> None:
        """Stop reading. A read that cannot be interrupted keeps waiting, in a daemon thread."""
        with self._bell:
            self._closed = True
            self._bell.notify_all()
            reader = self._reader
        own = threading.current_thread() is self._thread  # garbage collection of a stream left open
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
        except Exception as error:  # any error, because none may look like an end
            failure = error
        finally:
            with self._bell:
                self._failure, self._ended = failure, True
                self._bell.notify_all()

    def _put(self, data: bytes, consumed: int) -> bool:
        """Add bytes, and wait until there is room; False if the stream was closed."""
        with self._bell:
            self._last = time.monotonic()
            self._chunks.append((data, consumed))
            self._held += len(data)
            self._bell.notify_all()
            self._bell.wait_for(lambda: self._held < AHEAD_BYTES or self._closed)
            return not self._closed
