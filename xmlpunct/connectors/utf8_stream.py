"""One part of a source, read from its beginning on: unpacked where it is compressed, and always as UTF-8.

UTF-8 (with or without a byte order mark) passes unchanged, so byte offsets are those of the file. Other encodings,
US-ASCII included, are converted to UTF-8, and offsets count bytes of the converted text. The message about a byte that
cannot be decoded gives its offset in the file. In a compressed part, offsets count unpacked bytes.

Exceptions of files, decompressors and codecs become `SourceError` here: see `foreign`.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, BinaryIO

from xmlpunct.base.errors import SourceError, XmlPunctError
from xmlpunct.base.library_guard import guarded
from xmlpunct.connectors.chunk_sources import NoBytesYetError

MOST_BUFFERED_BYTES = 2**22
"""Maximum number of bytes buffered of an input that cannot be read again, to recover data before a corruption."""
_PEEKED_BYTES = 2**10
_BEGIN_XML = (b"", b"<", b" ", b"\t", b"\r", b"\n", b"\0", b"\xef", b"\xfe", b"\xff")
MOST_LAYERS = 4
"""Maximum number of nested compressions."""
HEAD_BYTES = 4
"""Number of bytes needed to detect a format."""
_HEAD = 1024  # by then a declaration must have ended
_SKIPPED = 1 << 20
_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (b"<\0\0\0", "utf-32-le"),
    (b"\0\0\0<", "utf-32-be"),
    (b"<\0?\0", "utf-16-le"),
    (b"\0<\0?", "utf-16-be"),
    (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
)
_UNENDED = re.compile(rb"<\?xml[ \t\r\n][^>]*")
_ENCODING = re.compile(rb"""<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z][A-Za-z0-9._-]*)["']""")


def begins_xml(head: bytes) -> bool:
    """True if data with this head can be XML in some encoding; a compressed file and a zip archive cannot."""
    return head[:1] in _BEGIN_XML


class Tap:
    """A byte stream with `peek`.

    ``rewind`` goes back to the first byte (None: impossible); without it, `keep` buffers the bytes up to a limit.
    """

    def __init__(
        self, read_some: Callable[[int], bytes | None], rewind: Callable[[], object] | None = None
    ) -> None:
        self._read_some, self._rewind = read_some, rewind
        self._head = b""
        self._failure: Exception | None = None
        self._buffer: bytearray | None = None
        self.bytes_read = 0
        """How many bytes have been fetched, peeked or read."""

    @classmethod
    def of(cls, file: BinaryIO) -> Tap:
        """The bytes of a file from its current position; a read returns available bytes rather than wait for all."""
        read_some: Callable[[int], bytes | None] = getattr(file, "read1", None) or file.read
        try:
            # A growing file is not rewound: its readers wait for no more bytes than are available.
            begin = file.tell() if file.seekable() and not hasattr(file, "stop") else None
        except (OSError, AttributeError):
            begin = None
        if begin is None:
            return cls(read_some)
        start = begin
        return cls(read_some, lambda: file.seek(start))

    def peek(self, count: int) -> bytes:
        """At least the next ``count`` bytes, or all that remain, without reading them.

        A failure after the first byte is raised when the bytes before it have been read.
        """
        try:
            while len(self._head) < count and (chunk := self._fetch(max(count, _PEEKED_BYTES))):
                self._head += chunk
        except NoBytesYetError:
            raise
        except Exception as error:  # raised by the read that reaches it
            if not self._head:
                raise
            self._failure = error
        return self._head

    def read(self, size: int) -> bytes:
        """Available bytes; empty at the end."""
        if self._head:
            data, self._head = self._head[:size], self._head[size:]
            return data
        return self._fetch(size)

    @property
    def at(self) -> int:
        """How many bytes have been read."""
        return self.bytes_read - len(self._head)

    def go_on(self, byte: int) -> None:
        """Continue at a byte to which the caller has moved the file."""
        self._head, self.bytes_read = b"", byte

    def keep(self) -> None:
        """Buffer the bytes that are read from now on, up to `MOST_BUFFERED_BYTES`, if they cannot be read again."""
        if not self.is_file:
            self._buffer = bytearray(self._head)

    @property
    def is_file(self) -> bool:
        """True if all data are available, so that reads do not wait."""
        return self._rewind is not None

    @property
    def can_rewind(self) -> bool:
        """True if `rewound` is likely to succeed."""
        return self.is_file or self._buffer is not None

    def rewound(self) -> Tap | None:
        """A tap of the same bytes from the first, if possible; this tap must not be read afterwards."""
        if self._buffer is not None:
            return Tap(io.BytesIO(self._buffer).read)
        if self._rewind is not None:
            with suppress(OSError, ValueError):
                self._rewind()
                return Tap(self._read_some)
        return None

    def _fetch(self, size: int) -> bytes:
        if self._failure is not None:
            raise self._failure
        data = self._read_some(size) or b""
        self.bytes_read += len(data)
        if self._buffer is not None:
            self._buffer += data
            if len(self._buffer) > MOST_BUFFERED_BYTES:
                self._buffer = None
        return data


class Utf8Stream:
    """Reads one part of a source from its beginning on, as UTF-8. A context manager.

    It does not read or wait before `begin`. ``unpacked`` removes a layer of compression; None if there is none.
    """

    ready, silent, at_end = True, 0.0, False
    """It does not know whether a read would wait, and finds the end only by a read."""

    def __init__(
        self, name: str, file: BinaryIO, owned: bool, unpacked: Callable[[str, Tap], Tap | None]
    ) -> None:
        self.name, self._file, self._owned, self._unpacked = name, file, owned, unpacked
        self._stored = self._plain = Tap.of(file)
        self._decoder: codecs.IncrementalDecoder | None = None
        self._encoding = "utf-8"
        self._ready = b""
        self._line = 1
        self._failure: SourceError | None = None  # to raise after the bytes before it

    def begin(self, offset: int = 0) -> None:
        """Detect the compression and the encoding, and go to a UTF-8 byte offset.

        Raises `SourceError` for an unknown encoding, and for an offset after the end.
        """
        with self._guarded():
            self._unpack()
            self._detect()
        if offset:
            self.skip(offset)

    @property
    def consumed(self) -> int:
        """The number of stored bytes of the part that have been read."""
        stored: int | None = getattr(self._file, "consumed", None)
        return self._stored.bytes_read if stored is None else stored

    @property
    def transcoded(self) -> bool:
        """Whether the part is compressed or in another encoding, so that offsets differ from offsets in the file."""
        return self._decoder is not None or self._plain is not self._stored

    @property
    def seekable(self) -> bool:
        """Whether it can go to any offset of the file without reading the bytes before it."""
        try:
            return self._owned and self._file.seekable()
        except (OSError, AttributeError):
            return False

    @property
    def can_resume(self) -> bool:
        """Whether `resume` can go on from a position: see `xmlpunct.connectors.inlet.Inlet`."""
        return bool(getattr(self._file, "can_seek", False))

    @property
    def wants_acknowledgement(self) -> bool:
        """Whether the sender waits for `acknowledge`."""
        return bool(getattr(self._file, "wants_acknowledgement", False))

    @property
    def position(self) -> Any:
        """The position up to which all bytes have been read, for `resume`; None if it is not exact."""
        is_exact = not (self.transcoded or self._stored.bytes_read > self._stored.at)
        return getattr(self._file, "position", None) if is_exact else None

    def resume(self, position: Any) -> None:
        """Instead of `begin`: continue at a position of plain UTF-8. Raises `SourceError`."""
        with guarded(self.name):
            self._file.resume(position)  # type: ignore[attr-defined]

    def keep(self) -> None:
        """Leave acknowledgements to the caller, by `acknowledge`."""
        if hasattr(self._file, "keep"):
            self._file.keep()

    def acknowledge(self, position: Any) -> None:
        """Tell the sender that the bytes up to a position are durable. Raises `SourceError`."""
        with guarded(self.name, "cannot be acknowledged"):
            self._file.acknowledge(position)  # type: ignore[attr-defined]

    def read(self, size: int) -> bytes:
        """At most about ``size`` further bytes, as soon as there are any; none only at the end.

        Raises `SourceError` if they cannot be read, or are not in the encoding declared.
        """
        if self._ready:
            text, self._ready = self._ready[:size], self._ready[size:]
            return text
        while self._failure is None:
            raw = self._raw(size)
            if self._decoder is None:
                return raw
            with self._guarded():
                text = self._decode(self._decoder, raw)
            if text or not (raw or self._failure):
                self._ready = text[size:]
                return text[:size]
        raise self._failure

    def skip(self, count: int) -> None:
        """Skip ``count`` bytes of UTF-8. Raises `SourceError` if there are fewer."""
        if not self.transcoded and self._owned:
            with suppress(Exception):  # a pipe cannot seek; it is read instead
                self._file.seek(count)
                self._stored.go_on(count)
                return
        while count:
            data = self.read(min(count, _SKIPPED))
            if not data:
                raise SourceError(self.name, f"shorter than it was: {count:,} bytes are missing")
            count -= len(data)

    def stop(self) -> bool:
        """Let a read that waits in another thread come back, with nothing; whether that can be done."""
        stop = getattr(self._file, "stop", None)
        if stop is not None:
            stop()
        return stop is not None

    def close(self) -> None:
        """Close the file, if it was opened here. An error of the close does not matter: no more bytes are wanted."""
        if self._owned:
            with suppress(OSError, XmlPunctError):
                self._file.close()

    def __enter__(self) -> Utf8Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _guarded(self) -> AbstractContextManager[None]:
        """Gives errors inside it the byte up to which the part has been read."""
        return guarded(self.name, byte=self._plain.at)

    def _raw(self, size: int) -> bytes:
        with self._guarded():
            return self._plain.read(size)

    def _decode(self, decoder: codecs.IncrementalDecoder, raw: bytes) -> bytes:
        """The bytes last read (none: at the end) as UTF-8, up to where they cannot be decoded."""
        before = decoder.getstate()
        try:
            text = decoder.decode(raw, final=not raw).encode()
        except UnicodeError:
            decoder.setstate(before)
            text = self._decode_singly(decoder, raw)
        self._line += text.count(b"\n")
        return text

    def _decode_singly(self, decoder: codecs.IncrementalDecoder, raw: bytes) -> bytes:
        """`_decode` byte by byte, so that the error is at the same byte for any size of reads."""
        text, at = bytearray(), self._plain.at - len(raw)
        try:
            for byte in raw:
                at += 1
                text += decoder.decode(bytes([byte])).encode()
            decoder.decode(b"", final=True)
        except UnicodeError as error:
            reason, error_byte = "it has an invalid character", at
            if isinstance(error, UnicodeDecodeError):
                reason, error_byte = error.reason, at - len(error.object) + error.start
            line = self._line + text.count(b"\n")
            self._failure = SourceError(self.name, f"is not {self._encoding}: {reason}", line, error_byte)
        return bytes(text)

    def _unpack(self) -> None:
        """Look at the beginning for how the part is compressed."""
        for _ in range(MOST_LAYERS + 1):
            if begins_xml(self._plain.peek(HEAD_BYTES)):
                return
            if (plain := self._unpacked(self.name, self._plain)) is None:
                return
            self._plain = plain
        raise SourceError(self.name, f"is compressed more than {MOST_LAYERS} times over")

    def _detect(self) -> None:
        """Look at the beginning for the encoding."""
        count = HEAD_BYTES
        head = self._plain.peek(count)
        while len(head) >= count and _may_be_declaration(head) and b"?>" not in head and len(head) < _HEAD:
            count = len(head) + 1
            head = self._plain.peek(count)
        marked = head.startswith(codecs.BOM_UTF8)
        if len(head) >= _HEAD and _UNENDED.fullmatch(head.removeprefix(codecs.BOM_UTF8)[:_HEAD]):
            raise SourceError(self.name, f"its XML declaration is longer than {_HEAD:,} bytes", 1, 0)
        encoding = encoding_of(head)
        try:
            codec = codecs.lookup(encoding)
            if not codec._is_text_encoding or codec.incrementaldecoder is None:
                raise LookupError
        except LookupError:
            raise SourceError(self.name, f"the encoding {encoding} is not known", 1, 0) from None
        self._encoding = codec.name
        if codec.name in ("utf-8", "utf-8-sig"):
            return
        if marked:
            reason = f"has a UTF-8 byte order mark but declares {encoding}"
            raise SourceError(self.name, reason, 1, 0)
        if head[:5] == b"<?xml" and codec.name.startswith(("utf-16", "utf-32")):
            raise SourceError(self.name, f"declares {encoding} but is not encoded in it", 1, 0)
        self._decoder = codec.incrementaldecoder("strict")


def encoding_of(head: bytes) -> str:
    """The encoding that bytes begin by saying they are in: by a mark, or by their XML declaration, or else UTF-8.

    >>> encoding_of(b"<?xml version='1.0' encoding='ISO-8859-1'?><s>"), encoding_of(b"<s>")
    ('ISO-8859-1', 'utf-8')
    """
    if (encoding := next((name for mark, name in _BOMS if head.startswith(mark)), None)) is not None:
        return encoding
    declared = _ENCODING.match(head.removeprefix(codecs.BOM_UTF8))
    return declared[1].decode() if declared else "utf-8"


def _may_be_declaration(head: bytes) -> bool:
    head = head.removeprefix(codecs.BOM_UTF8)
    return b"<?xml".startswith(head[:5]) and b">" not in head
