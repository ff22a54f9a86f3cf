"""Compressed bytes as they were before: gzip, bzip2, xz and zstd, known by their first bytes, whatever the name.

At most `PIECE_BYTES` are unpacked at a time, so a small input that unpacks to a large one takes no more memory than
any other. What is cut short or corrupt fails at a byte of what it unpacks to, after everything before that byte.
Several gzip, bzip2, xz or zstd streams one behind another are one, as for their own tools.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from xmlpunct.base.errors import SourceError
from xmlpunct.base.library_guard import guarded, why

PIECE_BYTES = 2**18
"""How much is unpacked at a time."""
MOST_LAYERS = 4
"""How many times over something may be compressed."""
HEAD_BYTES = 4
"""How many bytes tell what something is compressed with."""
KEPT_BYTES = 2**22
"""How much is remembered of what comes from where nothing can be read again, for when it turns out to be corrupt."""
_PEEKED_BYTES = 2**10
_STORED_BYTES = 2**16
_LIVE_BYTES = 2**12
_XZ_MEMORY_BYTES = 2**28  # the largest preset needs a quarter of this


class Engine(Protocol):
    """What unpacks one stream: the interface of `bz2.BZ2Decompressor`."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class Inflate:
    """zlib's decompressor with the interface of the others. ``bits`` as zlib names headers."""

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
        """Another one that stands where this one does."""
        twin = Inflate.__new__(Inflate)
        twin._engine = self._engine.copy()
        return twin

    def decompress(self, data: bytes, max_length: int = 0) -> bytes:
        left = self._engine.unconsumed_tail
        return self._engine.decompress(left + data if left else data, max_length)


@dataclass(frozen=True)
class Format:
    """A way to compress: its name, the bytes that it begins with, what unpacks it (None: pyarrow does)."""

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
    """How something that begins like this is compressed, if it is; four bytes tell, or fewer if that is all."""
    if not head:
        return None
    return next((f for f in FORMATS if head.startswith(f.magic) or f.magic.startswith(head)), None)


class Tap:
    """Bytes as they come, the first of which can be looked at before they are read.

    ``again`` goes back to the first, where that is possible. Where it is not, `keep` remembers them for a while.
    """

    def __init__(
        self, some: Callable[[int], bytes | None], again: Callable[[], object] | None = None
    ) -> None:
        self._some, self._again = some, again
        self._head = b""
        self._failure: Exception | None = None
        self._kept: bytearray | None = None
        self.taken = 0
        """How many bytes have come, looked at or read."""

    @classmethod
    def of(cls, file: BinaryIO) -> Tap:
        """The bytes of a file from where it stands: what is there already, rather than all that is asked for."""
        some: Callable[[int], bytes | None] = getattr(file, "read1", None) or file.read
        try:
            # What may grow is not gone back in: whoever reads it waits for no more than there is.
            begin = file.tell() if file.seekable() and not hasattr(file, "stop") else None
        except (OSError, AttributeError):
            begin = None
        if begin is None:
            return cls(some)
        start = begin
        return cls(some, lambda: file.seek(start))

    def peek(self, count: int) -> bytes:
        """At least the next ``count`` bytes, or as many as there are; they are still to be read.

        What fails behind the first byte fails when what comes before it has been read.
        """
        try:
            while len(self._head) < count and (more := self._more(max(count, _PEEKED_BYTES))):
                self._head += more
        except Exception as error:  # which whoever reads up to it gets
            if not self._head:
                raise
            self._failure = error
        return self._head

    def read(self, size: int) -> bytes:
        """Some bytes, none at the end."""
        if self._head:
            data, self._head = self._head[:size], self._head[size:]
            return data
        return self._more(size)

    @property
    def at(self) -> int:
        """How many bytes have been read."""
        return self.taken - len(self._head)

    def go_on(self, byte: int) -> None:
        """Take note that the file was gone to a byte."""
        self._head, self.taken = b"", byte

    def keep(self) -> None:
        """Remember what is still to be read, up to `KEPT_BYTES`, if it cannot be read again."""
        if not self.is_file:
            self._kept = bytearray(self._head)

    @property
    def is_file(self) -> bool:
        """Whether all is there that will be, so that nobody waits for it."""
        return self._again is not None

    @property
    def can_rewind(self) -> bool:
        """Whether `rewound` is likely to succeed."""
        return self.is_file or self._kept is not None

    def rewound(self) -> Tap | None:
        """The same bytes from the first on, if that can be; this tap is not to be read any more then."""
        if self._kept is not None:
            return Tap(io.BytesIO(self._kept).read)
        if self._again is not None:
            with suppress(OSError, ValueError):
                self._again()
                return Tap(self._some)
        return None

    def _more(self, size: int) -> bytes:
        if self._failure is not None:
            raise self._failure
        data = self._some(size) or b""
        self.taken += len(data)
        if self._kept is not None:
            self._kept += data
            if len(self._kept) > KEPT_BYTES:
                self._kept = None
        return data


class Unpacked:
    """What the compressed bytes of a tap unpack to. ``single``: what comes behind the first stream is not read."""

    def __init__(self, name: str, stored: Tap, kind: Format, single: bool = False) -> None:
        self.name, self._kind = name, kind
        self.position = 0
        """How many bytes have been unpacked."""
        self._stored, self._single = stored, single
        if kind.engine is not Inflate:  # of which nothing is lost
            stored.keep()
        self._streams = _unpacking(kind, stored, single)
        self._failure: SourceError | None = None

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes, as soon as there are any; none at the end. Raises `SourceError`."""
        pieces = [self._piece(size)]
        if self._stored.is_file:
            left = size - len(pieces[0])
            with suppress(SourceError):  # which is raised again when what comes before it is taken
                while left and pieces[-1]:
                    pieces.append(self._piece(left))
                    left -= len(pieces[-1])
        return b"".join(pieces) if len(pieces) > 1 else pieces[0]

    def _piece(self, size: int) -> bytes:
        """Some bytes. What fails once fails for ever: bytes may have been lost with it."""
        if self._failure is not None:
            raise self._failure
        try:
            with guarded(self.name, f"its {self._kind.name} data cannot be unpacked", byte=self.position):
                unpacked = self._unpacked(min(size, self._most))
        except SourceError as failure:
            self._failure = failure
            raise
        self.position += len(unpacked)
        return unpacked

    def _unpacked(self, size: int) -> bytes:
        try:
            return self._streams.read(size)
        except _Broken as broken:
            unpacked = self._before() if broken.before is None else broken.before
            byte = self.position + len(unpacked)
            reason = f"its {self._kind.name} data {broken.what} at byte {byte} of what it unpacks to"
            self._failure = SourceError(self.name, reason, None, byte)
            if not unpacked:
                raise self._failure from None
            return unpacked

    @property
    def _most(self) -> int:
        """How much to unpack at once: what is lost with an error where nothing comes again."""
        return PIECE_BYTES if self._stored.can_rewind or self._kind.engine is Inflate else _LIVE_BYTES

    def _before(self) -> bytes:
        """What comes before the byte that fails and was lost with it, as far as the stored bytes come again."""
        near = self._stored.at - _STORED_BYTES
        again = self._stored.rewound()
        if again is None:
            return b""
        # An engine that is given a byte at a time gives all that it can before it sees what is wrong.
        stored = Tap(lambda size: again.read(max(1, min(size, near - again.at))))
        streams, left, unpacked = _unpacking(self._kind, stored, self._single), self.position, bytearray()
        with suppress(_Broken):
            while left and (data := streams.read(min(left, PIECE_BYTES))):
                left -= len(data)
            while len(unpacked) < PIECE_BYTES and (data := streams.read(1)):
                unpacked += data
        return bytes(unpacked)


class _Broken(Exception):
    """The data is cut short or corrupt; ``before`` was still unpacked (None: what was is lost)."""

    def __init__(self, what: str, before: bytes | None = None) -> None:
        super().__init__(what)
        self.what, self.before = what, before


class _Streams(Protocol):
    def read(self, size: int) -> bytes: ...


def _unpacking(kind: Format, stored: Tap, single: bool) -> _Streams:
    return ByArrow(stored) if kind.engine is None else ByEngine(kind.engine, stored, single)


class ByEngine:
    """Streams one behind another, each unpacked by an engine of its own; zeros may stand between them."""

    def __init__(self, engine: Callable[[], Engine], stored: Tap, single: bool) -> None:
        self._make, self._stored, self._single = engine, stored, single
        self._engine: Engine | None = engine()
        self._rest = b""  # stored bytes that were read and not given to an engine
        self._hungry = True

    def read(self, size: int) -> bytes:
        while self._engine is not None or self._begins_another():
            engine, data = self._engine, b""
            assert engine is not None
            if self._hungry:
                data, self._rest = self._rest or self._stored.read(_STORED_BYTES), b""
                if not data:
                    raise _Broken("is cut short", b"")
            saved = engine.copy() if isinstance(engine, Inflate) else None
            try:
                unpacked = engine.decompress(data, size)
            except Exception as error:
                raise _Broken(f"is corrupt ({why(error)})", _singly(saved, data) if saved else None) from None
            self._hungry = len(unpacked) < size and engine.needs_input
            if engine.eof:
                self._rest, self._hungry = engine.unused_data, True
                self._engine = None
            if unpacked:
                return unpacked
        return b""

    def _begins_another(self) -> bool:
        """Whether another stream follows."""
        while not self._single:
            self._rest = self._rest.lstrip(b"\0")
            if self._rest:
                self._engine = self._make()
                return True
            self._rest = self._stored.read(_STORED_BYTES)
            if not self._rest:
                break
        return False


def _singly(engine: Inflate, data: bytes) -> bytes:
    """What comes before the byte at which ``data`` is known to fail."""
    unpacked = bytearray()
    with suppress(zlib.error):
        unpacked += engine.decompress(b"")
        for byte in data:
            unpacked += engine.decompress(bytes([byte]))
    return bytes(unpacked)


class ByArrow:
    """zstd, which Python itself cannot unpack everywhere."""

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
            what = "is cut short" if cut else f"is corrupt ({why(error).rpartition(': ')[2]})"
            raise _Broken(what) from None


class _ForArrow(io.RawIOBase):
    """A tap as a file that pyarrow reads."""

    def __init__(self, stored: Tap) -> None:
        self._stored = stored
        self.failure: Exception | None = None

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        try:
            return self._stored.read(size)
        except Exception as error:
            self.failure = error
            raise
