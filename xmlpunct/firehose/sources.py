"""Where bytes come from: what a text names, and what can be read.

See `part_reader` for how the bytes of one part are read, `archives` for parts that are members of one file, `web`,
`remote` and `tcp` for what is not on this machine.
"""

from __future__ import annotations

import io
import os
import re
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, BinaryIO
from urllib.parse import urlsplit
from urllib.request import url2pathname

from xmlpunct.errors import SourceError, UsageError
from xmlpunct.firehose import remote, tcp
from xmlpunct.firehose.archives import Reopen, members
from xmlpunct.firehose.follow import GrowingFile
from xmlpunct.firehose.labels import Texts
from xmlpunct.firehose.listing import (
    columns_in,
    files_below,
    files_matching,
    is_passed_over,
    is_pattern,
    matches,
    texts_in,
    would_match,
)
from xmlpunct.firehose.part_reader import PartReader, why
from xmlpunct.firehose.steady import ChangedError, SteadyFile, stamp
from xmlpunct.firehose.tls import client_context
from xmlpunct.firehose.web import WebFile

__all__ = [
    "FOLLOW",
    "PartReader",
    "Source",
    "columns_named",
    "is_passed_over",
    "open_source",
    "paths_of",
    "senders_of",
    "would_be_read",
]

FOLLOW = "follow:"
"""Before the path of a file that is to be followed while it grows."""
_UNIX = "unix:"
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")

Opener = Callable[[int], tuple[BinaryIO, bool]]
"""Opens a part; the file is to be closed if the second says so."""


@dataclass(frozen=True)
class Source:
    """A source: ``parts`` are the names and sizes (None: unknown) of its files, in order.

    Each part holds documents of its own. Parts read from a stream can be opened once. ``senders`` are other
    sources that this one is the merge of: it has no bytes of its own, and each sender has an order of its own.
    ``files`` are the paths of the parts, None of those that are no files by themselves. ``texts`` are what the names of
    the parts carry, if any do: see `labels`. What can be read ``once`` only is refused to whoever opens it again.
    """

    name: str
    parts: tuple[tuple[str, int | None], ...]
    opener: Opener
    senders: tuple[Source, ...] = ()
    files: tuple[str | None, ...] = ()
    texts: tuple[Texts, ...] = ()
    once: bool = False

    @classmethod
    def of(cls, given: bytes | bytearray | memoryview | BinaryIO | Any, name: str | None = None) -> Source:
        """A source of bytes, or of a binary file object from where it stands (which is not closed)."""
        if isinstance(given, bytes | bytearray | memoryview):
            data = bytes(given)
            name = name or "<bytes>"
            plain = Piece(name, len(data), lambda: io.BytesIO(data))
            return _assembled(name, _pieces(plain, plain.open))
        if isinstance(given, io.TextIOBase) or not hasattr(given, "read"):
            raise UsageError(f"a source is a path, bytes or a binary file, not {type(given).__name__}")
        name = name or str(getattr(given, "name", "<file>"))
        return _of_file(name, name, given)

    @property
    def size(self) -> int | None:
        """The bytes of all parts as they are stored; None if unknown."""
        sizes = [size for _, size in self.parts if size is not None]
        return sum(sizes) if len(sizes) == len(self.parts) else None

    @property
    def labelled(self) -> tuple[tuple[str, Texts], ...]:
        """The names of the parts, with what they carry; none if they carry nothing."""
        return tuple((name, texts) for (name, _), texts in zip(self.parts, self.texts, strict=False))

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
            raise SourceError(name, f"cannot be opened: {why(error)}") from None


@dataclass(frozen=True)
class Piece:
    """A part to be: its name, its size as it is stored, and what opens it.

    ``path`` is its own, if it is a file by itself, and ``texts`` are what its name carries. ``once``: it can be read
    once only. ``owned``: what `open` gives is to be closed.
    """

    name: str
    size: int | None
    open: Callable[[], BinaryIO]
    path: str | None = None
    texts: Texts = ()
    once: bool = False
    owned: bool = True


def open_source(spec: str | os.PathLike[str], name: str | None = None) -> Source:
    """The source that a text names.

    It is a path: of a file, of a directory (its files, listed now), or with ``*``, ``?``, ``[`` or ``{column}`` (the
    files that match, listed now; their names carry values of the columns); ``-``, standard input;
    ``tcp://host:port``, ``tls://host:port``, ``tcp-listen://host:port`` or ``unix:PATH`` (see `tcp`); ``follow:`` and
    the path of a file that grows (see `follow`); ``http://`` and ``https://`` (see `web`); or any other URL that
    fsspec knows (see `remote`). Members of an archive are listed now, too. In a directory or an archive, at any
    depth, names beginning with ``_`` or ``.`` and ending in ``.crc`` are passed over; the others come in the order of
    their names. Raises `SourceError` for what is missing, empty (a directory, an archive, what matches) or unreadable
    and `UsageError` for what is no file, or no address.
    """
    path = os.fspath(spec)
    if not path or "\0" in path:
        raise UsageError(f"{path!r} names no source")
    if path == "-":
        if sys.stdin is None:
            raise SourceError(name or path, "cannot be read: standard input is closed")
        return _of_file(name or "-", "-", *_standard_input())
    if isinstance(spec, str):
        scheme = _scheme(path)
        if scheme in ("tcp", "tcp-listen", "tls"):
            return _socket(path, name or path)
        if path.startswith(_UNIX):
            there = path.removeprefix(_UNIX)
            peer = Piece(path, None, lambda: _binary(tcp.connect_unix(there, path)), once=True)
            return _assembled(name or path, [peer])
        if path.startswith(FOLLOW):
            return _followed(path.removeprefix(FOLLOW), name)
        if scheme in ("http", "https"):
            return _assembled(name or _bare(path), _on_the_web(path))
        if scheme == "file":
            path = url2pathname(urlsplit(path).path)
        elif scheme is not None:
            found = [(_bare(called), place) for called, place in remote.listed(path)]
            pieces = [piece for called, place in found for piece in _kept_elsewhere(called, place)]
            return _assembled(name or _bare(path), pieces)
    try:
        files = _paths(path)
        if not files:
            what = "the directory has no files to read" if os.path.isdir(path) else "no file matches it"
            raise SourceError(path, what)
        pieces = [
            replace(piece, texts=texts_in(path, file)) for file in files for piece in _stored_here(file)
        ]
    except OSError as error:
        raise SourceError(str(error.filename or path), f"cannot be opened: {why(error)}") from None
    return _assembled(name or _shown(path), pieces)


def paths_of(spec: str) -> list[str]:
    """The files and directories that a source is read from; none if it is no path."""
    if "\0" in spec or spec.startswith(_UNIX):
        return []
    if spec == "-":
        return ["/dev/fd/0"]
    scheme = _scheme(spec)
    if scheme == "file":
        spec = url2pathname(urlsplit(spec).path)
    elif scheme is not None:
        return []
    path = spec.removeprefix(FOLLOW)
    return matches(path) if is_pattern(path) else [path]


def columns_named(spec: str | None) -> tuple[str, ...]:
    """The columns whose values the names of a source's files carry.

    >>> columns_named("feed/{sid}/hour={hour}.xml"), columns_named("feed/"), columns_named("tcp://{host}:1")
    (('sid', 'hour'), (), ())
    """
    path = spec or "-"
    if _scheme(path) == "file":
        path = url2pathname(urlsplit(path).path)
    if path == "-" or "\0" in path or path.startswith((FOLLOW, _UNIX)) or _scheme(path) is not None:
        return ()
    return columns_in(path)


def would_be_read(spec: str, path: str) -> bool:
    """Whether a file at a path, if there were one, would be read for a source that is a pattern."""
    return _scheme(spec) is None and is_pattern(spec) and would_match(spec, path)


def is_endless(spec: str) -> bool:
    """Whether a source may never end: a pipe, a connection, a file that grows."""
    return spec == "-" or spec.startswith((FOLLOW, _UNIX)) or _scheme(spec) in ("tcp", "tcp-listen", "tls")


def senders_of(spec: str | None) -> int:
    """How many senders the source that a text names has: more than one where several peers can connect."""
    is_listener = spec is not None and spec.startswith("tcp-listen://")
    return tcp.Address.parse(str(spec)).connections if is_listener else 1


def _socket(spec: str, name: str) -> Source:
    address = tcp.Address.parse(spec)
    if address.tls:
        client_context(address.ca)  # whatever is wrong with it is told now
    if not address.listen:
        return _assembled(name, [Piece(name, None, lambda: _binary(tcp.connect(address, name)), once=True)])
    listener = tcp.Listener(address, name)

    def peer(called: str) -> Source:
        return _assembled(called, [Piece(called, None, lambda: _binary(listener.peer()), once=True)])

    if address.connections == 1:
        return peer(name)

    def refuse(_: int) -> tuple[BinaryIO, bool]:
        raise UsageError(f"{name} has several senders, which only a query can merge")

    senders = tuple(peer(f"{name}#{number}") for number in range(1, address.connections + 1))
    return Source(name, ((name, None),), refuse, senders, once=True)


def _scheme(spec: str) -> str | None:
    """The scheme of a URL, None for what is none."""
    found = _URL.match(spec)
    return found[1].lower() if found else None


def _bare(url: str) -> str:
    """A URL as it can be told to anybody, without a name and password."""
    return re.sub(r"(?<=://)[^/@]*@", "", url)


def _assembled(name: str, pieces: Sequence[Piece]) -> Source:
    parts = tuple((piece.name, piece.size) for piece in pieces)
    files = tuple(piece.path for piece in pieces)
    texts = tuple(piece.texts for piece in pieces) if any(piece.texts for piece in pieces) else ()
    once, opened = any(piece.once for piece in pieces), set[int]()

    def open_part(part: int) -> tuple[BinaryIO, bool]:
        if part in opened and pieces[part].once:
            raise UsageError(f"{pieces[part].name} can be read once only, and it was: keep what came of it")
        opened.add(part)
        return pieces[part].open(), pieces[part].owned

    return Source(name, parts, open_part, files=files, texts=texts, once=once)


def _pieces(plain: Piece, reopen: Reopen) -> list[Piece]:
    """The members of an archive as parts, or what is none as one. What may be waited for has no size."""
    found = members(plain.name, reopen)
    if found is None:
        return [plain]
    return [Piece(m.name, None if plain.size is None else m.size, m.open) for m in found]


def _paths(path: str) -> list[str]:
    if os.path.isdir(path):
        return list(files_below(path))
    return files_matching(path) if is_pattern(path) else [path]


def _stored_here(path: str) -> list[Piece]:
    """The parts in a file."""
    shown, size = _shown(path), _size(path)
    plain = Piece(shown, size, lambda: _binary(SteadyFile(path, shown)), path)
    if size is None:
        return [replace(plain, once=True)]  # a pipe, say, of which nothing is read before its time
    return _pieces(plain, partial(_same, path, shown, stamp(os.stat(path))))


def _same(path: str, name: str, known: tuple[int, int]) -> BinaryIO:
    """An archive, which has to be the one of which the members were listed."""
    file = _Kept(path, name)
    if stamp(os.fstat(file.fileno())) != known:
        file.close()
        raise ChangedError.of(name, "it was written since its members were listed")
    return _binary(file)


class _Kept(SteadyFile):
    """A file that is kept open for who may read on in it: closing it is left to who collects it."""

    def __del__(self) -> None:
        self.close()


def _of_file(name: str, part: str, given: BinaryIO, owned: bool = False) -> Source:
    """What is read of a binary file, from where it stands. Of an archive, that is its members."""
    try:
        begin = given.tell() if given.seekable() else None
    except (OSError, AttributeError, ValueError):
        begin = None
    if begin is None:
        return _assembled(name, [Piece(part, None, lambda: given, once=True, owned=owned)])
    turn = threading.Lock()
    plain = Piece(part, None, lambda: _binary(_Window(given, begin, turn)))
    try:
        found = members(part, plain.open)
        given.seek(begin)
    except OSError as error:
        raise SourceError(part, f"cannot be read: {why(error)}") from None
    pieces = [plain] if found is None else [Piece(m.name, m.size, m.open) for m in found]
    return _assembled(name, pieces)


class _Window(io.RawIOBase):
    """A file from some byte on, with a place of its own in it. Closing it leaves the file open.

    Others read the same file, so each read has a ``turn`` of its own.
    """

    def __init__(self, file: BinaryIO, begin: int, turn: threading.Lock | None = None) -> None:
        self._file, self._begin, self._at = file, begin, 0
        self._turn = turn or threading.Lock()

    def read(self, size: int = -1) -> bytes:
        with self._turn:
            self._file.seek(self._begin + self._at)
            data = self._file.read(size) or b""
        self._at += len(data)
        return data

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        length = self._file.seek(0, io.SEEK_END) - self._begin if whence == io.SEEK_END else 0
        self._at = max({io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: length}[whence] + offset, 0)
        return self._at

    def tell(self) -> int:
        return self._at


def _on_the_web(url: str) -> list[Piece]:
    """The document at a URL, which is connected to now, or its members."""
    first = WebFile(url)
    waiting, looking = [first], [_Window(_binary(first), 0)]

    def again() -> WebFile:
        return WebFile(url, first.entity)

    plain = Piece(first.name, None, lambda: _binary(waiting.pop() if waiting else again()))
    try:
        entity = first.start()
        if entity is None or entity.length is None:
            return [plain]  # it may be live, so that it is not waited for here
        pieces = _pieces(plain, lambda: _binary(looking.pop() if looking else again()))
        first.seek(0)
    except BaseException:
        first.close()
        raise
    if pieces[0] is not plain:
        first.close()
    return pieces


def _kept_elsewhere(name: str, place: remote.Place) -> list[Piece]:
    """The parts in a file that fsspec opens."""
    looking = [remote.RemoteFile(name, place, remote.GLANCE_BYTES)]
    plain = Piece(name, None, lambda: _binary(remote.RemoteFile(name, place)))
    return _pieces(plain, lambda: _binary(looking.pop()) if looking else plain.open())


def _followed(path: str, name: str | None) -> Source:
    try:
        if _size(path) is None:
            raise UsageError(f"{path} cannot be followed: it is no file")
    except OSError as error:
        raise SourceError(path, f"cannot be opened: {why(error)}") from None
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
