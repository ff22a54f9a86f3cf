"""Where bytes come from: files, directories, standard input, sockets, and what can be read. Always as UTF-8.

UTF-8 (with or without a byte order mark) and US-ASCII pass as they are, so that byte offsets are those of the
file. Other encodings are turned into UTF-8 on the way, and offsets then count bytes of that; only where a byte
cannot be decoded, it is the file's own that is told.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from xmlpunct.errors import SourceError, UsageError
from xmlpunct.firehose import tcp
from xmlpunct.firehose.follow import GrowingFile
from xmlpunct.firehose.steady import SteadyFile

FOLLOW = "follow:"
"""Before the path of a file that is to be followed while it grows."""

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
_ENCODING = re.compile(rb"""<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z][A-Za-z0-9._-]*)["']""")


class PartReader:
    """Reads one part of a source from its beginning on, as UTF-8. A context manager.

    Nothing is read, and nothing waited for, before `begin`.
    """

    ready, silent = True, 0.0
    """Whether `read` need not wait, as far as anybody knows, and the seconds since anything came."""

    def __init__(self, name: str, file: BinaryIO, owned: bool) -> None:
        self.name, self._file, self._owned = name, file, owned
        # Whatever is there already, rather than waiting for as much as was asked for.
        self._some: Callable[[int], bytes | None] = getattr(file, "read1", None) or file.read
        self._decoder: codecs.IncrementalDecoder | None = None
        self._encoding = "utf-8"
        self._ready = b""
        self._line = 1
        self._failure: SourceError | None = None  # to be raised once what comes before it is taken
        self.consumed = 0
        """How many bytes of the part, as it is stored, have been read."""

    def begin(self, offset: int = 0) -> None:
        """Find out about the encoding, and go to a UTF-8 byte offset.

        Raises `SourceError` for an encoding that is not known and an offset that is not there.
        """
        self._detect()
        if offset:
            self.skip(offset)

    @property
    def transcoded(self) -> bool:
        """Whether the part is stored in another encoding than UTF-8, so that offsets are not the file's."""
        return self._decoder is not None

    @property
    def seekable(self) -> bool:
        """Whether one can go to any offset without reading what comes before, or read it again if need be."""
        try:
            return self._owned and self._file.seekable()
        except (OSError, AttributeError):
            return False

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
            found = self._decode(self._decoder, raw)
            if found or not (raw or self._failure):
                self._ready = found[size:]
                return found[:size]
        raise self._failure

    def skip(self, count: int) -> None:
        """Go on ``count`` UTF-8 bytes further. Raises `SourceError` if there are not so many."""
        if self._decoder is None and self._owned:
            with suppress(OSError):  # a pipe cannot seek
                self._file.seek(count)
                self._ready, self.consumed = b"", count
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
        """Close the file, if it was opened here."""
        if self._owned:
            self._file.close()

    def __enter__(self) -> PartReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _raw(self, size: int) -> bytes:
        try:
            data = self._some(size) or b""
        except (OSError, ValueError) as error:
            raise SourceError(self.name, f"cannot be read: {_why(error)}") from None
        self.consumed += len(data)
        return data

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
        found, at = bytearray(), self.consumed - len(raw)
        try:
            for byte in raw:
                at += 1
                found += decoder.decode(bytes([byte])).encode()
            decoder.decode(b"", final=True)
        except UnicodeError as error:
            reason, place = "it has a character that cannot be", at
            if isinstance(error, UnicodeDecodeError):
                reason, place = error.reason, at - len(error.object) + error.start
            line = self._line + found.count(b"\n")
            self._failure = SourceError(self.name, f"is not {self._encoding}: {reason}", line, place)
        return bytes(found)

    def _detect(self) -> None:
        """Look at the beginning for the encoding."""
        head = b""
        while len(head) < 4 or (_may_be_declaration(head) and b"?>" not in head and len(head) < _HEAD):
            more = self._raw(_HEAD)
            if not more:
                break
            head += more
        encoding = next((name for mark, name in _BOMS if head.startswith(mark)), None)
        if encoding is None:
            declared = _ENCODING.match(head.removeprefix(codecs.BOM_UTF8))
            encoding = declared[1].decode() if declared else "utf-8"
        try:
            codec = codecs.lookup(encoding)
            if not codec._is_text_encoding or codec.incrementaldecoder is None:
                raise LookupError
        except LookupError:
            raise SourceError(self.name, f"the encoding {encoding} is not known", 1, 0) from None
        self._encoding = codec.name
        if codec.name in ("utf-8", "ascii"):
            self._ready = head
        elif head[:5] == b"<?xml" and codec.name.startswith(("utf-16", "utf-32")):
            raise SourceError(self.name, f"declares {encoding} but is not in it", 1, 0)
        else:
            self._decoder = codec.incrementaldecoder("strict")
            self._ready = self._decode(self._decoder, head) if head else b""


def _may_be_declaration(head: bytes) -> bool:
    head = head.removeprefix(codecs.BOM_UTF8)
    return b"<?xml".startswith(head[:5]) and b">" not in head


def _why(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error)


Opener = Callable[[int], tuple[BinaryIO, bool]]
"""Opens a part; the file is to be closed if the second says so."""


@dataclass(frozen=True)
class Source:
    """A source: ``parts`` are the names and sizes (None: unknown) of its files, in order.

    Each part holds documents of its own. Parts read from a stream can be opened once. ``senders`` are other
    sources that this one is the merge of: it has no bytes of its own, and each sender has an order of its own.
    ``files`` are the paths of the parts, where those are files.
    """

    name: str
    parts: tuple[tuple[str, int | None], ...]
    opener: Opener
    senders: tuple[Source, ...] = ()
    files: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: bytes | bytearray | memoryview | BinaryIO | Any, name: str | None = None) -> Source:
        """A source of bytes, or of a binary file object from where it stands (which is not closed)."""
        if isinstance(given, bytes | bytearray | memoryview):
            data = bytes(given)
            name = name or "<bytes>"
            return cls(name, ((name, len(data)),), lambda _: (io.BytesIO(data), True))
        if isinstance(given, io.TextIOBase) or not hasattr(given, "read"):
            raise UsageError(f"a source is a path, bytes or a binary file, not {type(given).__name__}")
        name = name or str(getattr(given, "name", "<file>"))
        return cls(name, ((name, None),), lambda _: (given, False))

    @property
    def size(self) -> int | None:
        """The bytes of all parts as they are stored; None if unknown."""
        sizes = [size for _, size in self.parts if size is not None]
        return sum(sizes) if len(sizes) == len(self.parts) else None

    def sender(self, number: int) -> Source:
        """One of `senders`, counted from 1; by 0, the whole source."""
        return self.senders[number - 1] if number else self

    def open(self, part: int = 0, offset: int = 0) -> PartReader:
        """Read a part from a UTF-8 byte offset on. Raises `SourceError` if it cannot be."""
        reader = self.reader(part)
        try:
            reader.begin(offset)
        except BaseException:
            reader.close()
            raise
        return reader

    def reader(self, part: int = 0) -> PartReader:
        """The reader of a part, which is yet to begin. Raises `SourceError` if there can be none."""
        name = self.parts[part][0]
        try:
            return PartReader(name, *self.opener(part))
        except OSError as error:
            raise SourceError(name, f"cannot be opened: {_why(error)}") from None


def open_source(spec: str | os.PathLike[str], name: str | None = None) -> Source:
    """The source that a text names.

    It is a path, of a file or a directory (its files, listed now); ``-``, standard input; ``tcp://host:port``
    or ``tcp-listen://host:port`` (see `tcp`); or ``follow:`` and the path of a file that grows (see `follow`).
    In a directory, at any depth, names beginning with ``_`` or ``.`` and ending in ``.crc`` are passed over;
    the others come in the order of their names. Raises `SourceError` for what is missing, empty (a directory)
    or unreadable and `UsageError` for what is no file, or no address.
    """
    path = os.fspath(spec)
    if not path or "\0" in path:
        raise UsageError(f"{path!r} names no source")
    if path.startswith(("tcp://", "tcp-listen://")):
        return _socket(path, name or path)
    if path == "-":
        if sys.stdin is None:
            raise SourceError(name or path, "cannot be read: standard input is closed")
        return Source(name or "-", (("-", None),), lambda _: _standard_input())
    if isinstance(spec, str) and path.startswith(FOLLOW):
        return _followed(path.removeprefix(FOLLOW), name)
    try:
        if os.path.isdir(path):
            files = list(_files(path))
            if not files:
                raise SourceError(path, "the directory has no files to read")
        else:
            files = [path]
        parts = tuple((_shown(file), _size(file)) for file in files)
    except OSError as error:
        raise SourceError(str(error.filename or path), f"cannot be opened: {_why(error)}") from None
    shown = name or _shown(path)
    return Source(
        shown, parts, lambda i: (_binary(SteadyFile(files[i], parts[i][0])), True), files=tuple(files)
    )


def senders_of(spec: str | None) -> int:
    """How many senders the source that a text names has: more than one where several peers can connect."""
    is_listener = spec is not None and spec.startswith("tcp-listen://")
    return tcp.Address.parse(str(spec)).connections if is_listener else 1


def _socket(spec: str, name: str) -> Source:
    address = tcp.Address.parse(spec)
    if not address.listen:
        return Source(name, ((name, None),), lambda _: (_binary(tcp.connect(address, name)), True))
    listener = tcp.Listener(address, name)

    def peer(called: str) -> Source:
        return Source(called, ((called, None),), lambda _: (_binary(listener.peer()), True))

    if address.connections == 1:
        return peer(name)

    def refuse(_: int) -> tuple[BinaryIO, bool]:
        raise UsageError(f"{name} has several senders, which only a query can merge")

    senders = tuple(peer(f"{name}#{number}") for number in range(1, address.connections + 1))
    return Source(name, ((name, None),), refuse, senders)


def _followed(path: str, name: str | None) -> Source:
    try:
        if _size(path) is None:
            raise UsageError(f"{path} cannot be followed: it is no file")
    except OSError as error:
        raise SourceError(path, f"cannot be opened: {_why(error)}") from None
    shown = _shown(path)
    parts = ((shown, None),)
    return Source(name or shown, parts, lambda _: (_binary(GrowingFile(path)), True), files=(path,))


def _shown(path: str) -> str:
    """A path as it can be told to anybody, even if its bytes are not UTF-8."""
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _binary(file: io.RawIOBase) -> BinaryIO:
    return file  # type: ignore[return-value] # what is read here are raw files, one call a read


def _standard_input() -> tuple[BinaryIO, bool]:
    """Standard input without Python's buffer, whose lock a waiting thread would hold when Python ends."""
    try:
        return _binary(io.FileIO(sys.stdin.fileno(), "rb", closefd=False)), False
    except (OSError, AttributeError, ValueError):  # something else has been put in its place
        return sys.stdin.buffer, False


def _size(file: str) -> int | None:
    if not os.access(file, os.R_OK) and os.path.exists(file):
        raise PermissionError(13, "Permission denied", file)
    return os.stat(file).st_size if os.path.isfile(file) or not os.path.exists(file) else None


def is_passed_over(name: str) -> bool:
    """Whether what has this name in a directory is none of what is read there."""
    return name.startswith(("_", ".")) or name.endswith(".crc")


def _files(folder: str) -> Iterator[str]:
    for entry in sorted(Path(folder).iterdir(), key=lambda e: e.name):
        if is_passed_over(entry.name):
            continue
        if entry.is_dir():
            yield from _files(str(entry))
        else:
            yield str(entry)
