"""One part of a source, read from its beginning on: unpacked where it is compressed, and always as UTF-8.

UTF-8 (with or without a byte order mark) passes unchanged, so byte offsets are those of the file. Other encodings,
US-ASCII included, are converted to UTF-8, and offsets count bytes of the converted text. The message about a byte that
cannot be decoded gives its offset in the file. In a compressed part, offsets count unpacked bytes.

Exceptions of files, decompressors and codecs become `SourceError` here: see `foreign`.
"""

from __future__ import annotations

import codecs
import re
from contextlib import AbstractContextManager, suppress
from typing import Any, BinaryIO

from xmlpunct.base.errors import SourceError, XmlPunctError
from xmlpunct.base.library_guard import guarded
from xmlpunct.connectors.archives import kind_of_archive
from xmlpunct.connectors.compression import HEAD_BYTES, MOST_LAYERS, Tap, Unpacked, format_of

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
_BEGIN_XML = (b"", b"<", b" ", b"\t", b"\r", b"\n", b"\0", b"\xef", b"\xfe", b"\xff")
_UNENDED = re.compile(rb"<\?xml[ \t\r\n][^>]*")
_ENCODING = re.compile(rb"""<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z][A-Za-z0-9._-]*)["']""")


class Utf8Stream:
    """Reads one part of a source from its beginning on, as UTF-8. A context manager.

    Nothing is read, and nothing waited for, before `begin`.
    """

    ready, silent, at_end = True, 0.0, False
    """Nothing is known about waiting, and of the end only after it was read."""

    def __init__(self, name: str, file: BinaryIO, owned: bool) -> None:
        self.name, self._file, self._owned = name, file, owned
        self._stored = self._plain = Tap.of(file)
        self._decoder: codecs.IncrementalDecoder | None = None
        self._encoding = "utf-8"
        self._ready = b""
        self._line = 1
        self._failure: SourceError | None = None  # to be raised once what comes before it is taken

    def begin(self, offset: int = 0) -> None:
        """Find out how it is compressed and encoded, and go to a UTF-8 byte offset.

        Raises `SourceError` for an encoding that is not known and an offset that is not there.
        """
        with self._guarded():
            self._unpack()
            self._detect()
        if offset:
            self.skip(offset)

    @property
    def consumed(self) -> int:
        """How many bytes of the part, as it is stored, have been read."""
        stored: int | None = getattr(self._file, "consumed", None)
        return self._stored.taken if stored is None else stored

    @property
    def transcoded(self) -> bool:
        """Whether the part is stored otherwise than as UTF-8, so that offsets are not the file's."""
        return self._decoder is not None or self._plain is not self._stored

    @property
    def seekable(self) -> bool:
        """Whether one can go to any offset without reading what comes before, or read it again if need be."""
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
        """Whether `acknowledge` is waited for."""
        return bool(getattr(self._file, "wants_acknowledgement", False))

    @property
    def position(self) -> Any:
        """Up to where exactly all has been read, of what can go on from positions; else None."""
        is_exact = not (self.transcoded or self._stored.taken > self._stored.at)
        return getattr(self._file, "position", None) if is_exact else None

    def resume(self, position: Any) -> None:
        """Instead of `begin`: go on from a position that was in UTF-8, and not packed. Raises `SourceError`."""
        with guarded(self.name):
            self._file.resume(position)  # type: ignore[attr-defined]

    def keep(self) -> None:
        """Leave acknowledging what was read to the caller."""
        if hasattr(self._file, "keep"):
            self._file.keep()

    def acknowledge(self, position: Any) -> None:
        """What was read up to a position is durable. Raises `SourceError`."""
        with guarded(self.name, "cannot be acknowledged"):
            self._file.acknowledge(position)  # type: ignore[attr-defined]

    def read(self, size: int) -> bytes:
        """At most about ``size`` further bytes, as soon as there are any; none only at the end.

        Raises `SourceError` if they cannot be read, or are not in the encoding declared.
        """
        if self._ready:
            found, self._ready = self._ready[:size], self._ready[size:]
            return found
        while self._failure is None:
            raw = self._raw(size)
            if self._decoder is None:
                return raw
            with self._guarded():
                found = self._decode(self._decoder, raw)
            if found or not (raw or self._failure):
                self._ready = found[size:]
                return found[:size]
        raise self._failure

    def skip(self, count: int) -> None:
        """Go on ``count`` UTF-8 bytes further. Raises `SourceError` if there are not so many."""
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
        """Close the file, if it was opened here. All of it was read or reading it has failed: more cannot go wrong."""
        if self._owned:
            with suppress(OSError, XmlPunctError):
                self._file.close()

    def __enter__(self) -> Utf8Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _guarded(self) -> AbstractContextManager[None]:
        """What is done in it reads on from where the part has been read to."""
        return guarded(self.name, byte=self._plain.at)

    def _raw(self, size: int) -> bytes:
        with self._guarded():
            return self._plain.read(size)

    def _decode(self, decoder: codecs.IncrementalDecoder, raw: bytes) -> bytes:
        """The bytes last read (none: at the end) as UTF-8, up to where they cannot be decoded."""
        before = decoder.getstate()
        try:
            found = decoder.decode(raw, final=not raw).encode()
        except UnicodeError:
            decoder.setstate(before)
            found = self._decode_singly(decoder, raw)
        self._line += found.count(b"\n")
        return found

    def _decode_singly(self, decoder: codecs.IncrementalDecoder, raw: bytes) -> bytes:
        """`_decode` for what is known to fail: however much was read at once, it does so at the same byte."""
        found, at = bytearray(), self._plain.at - len(raw)
        try:
            for byte in raw:
                at += 1
                found += decoder.decode(bytes([byte])).encode()
            decoder.decode(b"", final=True)
        except UnicodeError as error:
            reason, place = "it has an invalid character", at
            if isinstance(error, UnicodeDecodeError):
                reason, place = error.reason, at - len(error.object) + error.start
            line = self._line + found.count(b"\n")
            self._failure = SourceError(self.name, f"is not {self._encoding}: {reason}", line, place)
        return bytes(found)

    def _unpack(self) -> None:
        """Look at the beginning for how the part is compressed."""
        for _ in range(MOST_LAYERS + 1):
            head = self._plain.peek(HEAD_BYTES)
            kind = format_of(head)
            if kind is None:
                if head[:1] not in _BEGIN_XML and (archive := kind_of_archive(self._plain.peek(512))):
                    raise SourceError(
                        self.name,
                        f"is {archive}, which can only be read from where it is stored: "
                        "name the file, not a stream or a compressed copy of it",
                    )
                return
            self._plain = Tap(Unpacked(self.name, self._plain, kind).read)
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
            what = f"has a UTF-8 byte order mark but declares {encoding}"
            raise SourceError(self.name, what, 1, 0)
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
