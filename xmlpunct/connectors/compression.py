"""Decompresses gzip, bzip2, xz and zstd, which it detects by the first bytes, whatever the name.

At most `PIECE_BYTES` are decompressed at a time, so an input that expands to a large one takes no more memory than
any other. A truncated or corrupt input fails at an offset of its decompressed data, after all data before that offset.
Concatenated gzip, bzip2, xz or zstd streams are read as one, as their own tools do.

The engines are those of the standard library, and pyarrow's for zstd. The library's file classes (`gzip.GzipFile`,
`bz2.BZ2File`, `lzma.LZMAFile`) are not used, because they lose the last data before a corruption, and `LZMAFile` does
not limit its memory.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from xmlpunct.base.errors import SourceError, UsageError
from xmlpunct.base.library_guard import guarded, library_reason
from xmlpunct.connectors.chunk_sources import NoBytesYetError
from xmlpunct.connectors.utf8_stream import HEAD_BYTES, Tap

PIECE_BYTES = 2**18
"""Maximum number of bytes decompressed at a time."""
_STORED_BYTES = 2**16
_LIVE_BYTES = 2**12
_XZ_MEMORY_BYTES = 2**28  # the largest preset needs a quarter of this


class Engine(Protocol):
    """A decompressor of one stream, with the interface of `bz2.BZ2Decompressor`."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class Inflate:
    """zlib's decompressor with the interface of `Engine`. ``bits`` is zlib's ``wbits``, which selects the header."""

    def __init__(self, bits: int = 31) -> None:
        self._engine = zlib.decompressobj(bits)

    @property
    def eof(self) -> bool:
        return self._engine.eof

    @property
    def needs_input(self) -> bool:
        return not self._engine.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._engine.unused_data

    def copy(self) -> Inflate:
        """A copy in the same state."""
        twin = Inflate.__new__(Inflate)
        twin._engine = self._engine.copy()
        return twin

    def decompress(self, data: bytes, max_length: int = 0) -> bytes:
        left = self._engine.unconsumed_tail
        return self._engine.decompress(left + data if left else data, max_length)


@dataclass(frozen=True)
class Format:
    """A compression format: its name, its first bytes, and its decompressor (None: pyarrow's)."""

    name: str
    magic: bytes
    engine: Callable[[], Engine] | None


FORMATS = (
    Format("gzip", b"\x1f\x8b\x08", Inflate),
    Format("bzip2", b"BZh", bz2.BZ2Decompressor),
    Format("xz", b"\xfd7zX", lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, _XZ_MEMORY_BYTES)),
    Format("zstd", b"\x28\xb5\x2f\xfd", None),
)


def format_of(head: bytes) -> Format | None:
    """The format of data with this head (`HEAD_BYTES` bytes, or all data if shorter); None if uncompressed."""
    if not head:
        return None
    return next((f for f in FORMATS if head.startswith(f.magic) or f.magic.startswith(head)), None)


class Unpacked:
    """The decompressed bytes of a tap. ``single``: do not read beyond the first compressed stream."""

    def __init__(self, name: str, stored: Tap, kind: Format, single: bool = False) -> None:
        self.name, self._kind = name, kind
        self.position = 0
        """How many bytes have been decompressed."""
        self._stored, self._single = stored, single
        if kind.engine is not Inflate:  # Inflate can be copied, so no decompressed bytes are lost
            stored.keep()
        self._streams = _open_streams(kind, stored, single)
        self._failure: SourceError | None = None

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes, as soon as any are available; empty at the end. Raises `SourceError`."""
        pieces = [self._piece(size)]
        if self._stored.is_file:
            left = size - len(pieces[0])
            with suppress(SourceError):  # raised again by the next read
                while left and pieces[-1]:
                    pieces.append(self._piece(left))
                    left -= len(pieces[-1])
        return b"".join(pieces) if len(pieces) > 1 else pieces[0]

    def _piece(self, size: int) -> bytes:
        """Some bytes. After a failure every read fails, because bytes may have been lost."""
        if self._failure is not None:
            raise self._failure
        try:
            with guarded(self.name, f"its {self._kind.name} data cannot be unpacked", byte=self.position):
                unpacked = self._decompress(min(size, self._chunk_bytes))
        except SourceError as failure:
            self._failure = failure
            raise
        self.position += len(unpacked)
        return unpacked

    def _decompress(self, size: int) -> bytes:
        try:
            return self._streams.read(size)
        except _Broken as broken:
            unpacked = self._lost_bytes() if broken.before is None else broken.before
            byte = self.position + len(unpacked)
            reason = f"its {self._kind.name} data {broken.problem} at byte {byte} of what it unpacks to"
            self._failure = SourceError(self.name, reason, None, byte)
            if not unpacked:
                raise self._failure from None
            return unpacked

    @property
    def _chunk_bytes(self) -> int:
        """Bytes to decompress at once: an error loses at most these, if the input cannot be read again."""
        return PIECE_BYTES if self._stored.can_rewind or self._kind.engine is Inflate else _LIVE_BYTES

    def _lost_bytes(self) -> bytes:
        """The decompressed bytes before an error that were lost with it, if the stored bytes can be read again."""
        slow_from = self._stored.at - _STORED_BYTES
        rewound_tap = self._stored.rewound()
        if rewound_tap is None:
            return b""
        # Fed one byte at a time, an engine returns all bytes before it detects the error.
        stored = Tap(lambda size: rewound_tap.read(max(1, min(size, slow_from - rewound_tap.at))))
        streams, left, unpacked = _open_streams(self._kind, stored, self._single), self.position, bytearray()
        with suppress(_Broken):
            while left and (data := streams.read(min(left, PIECE_BYTES))):
                left -= len(data)
            while len(unpacked) < PIECE_BYTES and (data := streams.read(1)):
                unpacked += data
        return bytes(unpacked)


def unpacked(name: str, stored: Tap) -> Tap | None:
    """The decompressed bytes of a tap; None if they are not compressed."""
    kind = format_of(stored.peek(HEAD_BYTES))
    return None if kind is None else Tap(Unpacked(name, stored, kind).read)


class _Broken(Exception):
    """The data are truncated or corrupt; ``before``: bytes decompressed before the error (None: lost)."""

    def __init__(self, problem: str, before: bytes | None = None) -> None:
        super().__init__(problem)
        self.problem, self.before = problem, before


class _Streams(Protocol):
    def read(self, size: int) -> bytes: ...


def _open_streams(kind: Format, stored: Tap, single: bool) -> _Streams:
    return ByArrow(stored) if kind.engine is None else ByEngine(kind.engine, stored, single)


class ByEngine:
    """Concatenated streams, each decompressed by an engine of its own; zero bytes may separate them."""

    def __init__(self, engine: Callable[[], Engine], stored: Tap, single: bool) -> None:
        self._make, self._stored, self._single = engine, stored, single
        self._engine: Engine | None = engine()
        self._unused = b""  # stored bytes that no engine has received
        self._hungry = True

    def read(self, size: int) -> bytes:
        while self._engine is not None or self._begin_next():
            engine, data = self._engine, b""
            assert engine is not None
            if self._hungry:
                data, self._unused = self._unused or self._stored.read(_STORED_BYTES), b""
                if not data:
                    raise _Broken("is cut short", b"")
            saved = engine.copy() if isinstance(engine, Inflate) else None
            try:
                unpacked = engine.decompress(data, size)
            except Exception as error:
                before = _decompress_bytewise(saved, data) if saved else None
                raise _Broken(f"is corrupt ({library_reason(error)})", before) from None
            self._hungry = len(unpacked) < size and engine.needs_input
            if engine.eof:
                self._unused, self._hungry = engine.unused_data, True
                self._engine = None
            if unpacked:
                return unpacked
        return b""

    def _begin_next(self) -> bool:
        """Begin the next stream; false if there is none."""
        while not self._single:
            self._unused = self._unused.lstrip(b"\0")
            if self._unused:
                self._engine = self._make()
                return True
            self._unused = self._stored.read(_STORED_BYTES)
            if not self._unused:
                break
        return False


def _decompress_bytewise(engine: Inflate, data: bytes) -> bytes:
    """The decompressed bytes before the byte at which ``data`` fails."""
    unpacked = bytearray()
    with suppress(zlib.error):
        unpacked += engine.decompress(b"")
        for byte in data:
            unpacked += engine.decompress(bytes([byte]))
    return bytes(unpacked)


class ByArrow:
    """zstd streams, by pyarrow: not every Python version can decompress them."""

    def __init__(self, stored: Tap) -> None:
        import pyarrow as pa

        self._file = _ForArrow(stored)
        self._streams = pa.CompressedInputStream(pa.PythonFile(self._file, mode="r"), "zstd")

    def read(self, size: int) -> bytes:
        try:
            return bytes(self._streams.read(size))
        except Exception as error:
            if self._file.failure is not None:
                raise self._file.failure from None
            cut = "Truncated" in str(error)
            problem = "is cut short" if cut else f"is corrupt ({library_reason(error).rpartition(': ')[2]})"
            raise _Broken(problem) from None


class _ForArrow(io.RawIOBase):
    """A tap as a file for pyarrow."""

    def __init__(self, stored: Tap) -> None:
        self._stored = stored
        self.failure: Exception | None = None

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        try:
            return self._stored.read(size)
        except NoBytesYetError:  # pyarrow would lose the bytes before
            self.failure = UsageError("zstd data cannot be pushed: decompress them first")
            raise
        except Exception as error:
            self.failure = error
            raise
