"""Members of zip and tar archives: each is a part of its own, in the order of names, like the files of a directory.

An archive must support random access, because its members are stored in another order. A tar may be compressed; to
read a member that is stored before the last one read, it is decompressed again from the start.

`zipfile` reads the directory of a zip, and `tarfile` the headers of a tar, both through a reader that limits the size
of one read. The bytes of members are read here, because the readers of the libraries lose the data of a damaged member
before the damage, and its position, do not count the stored bytes, and know neither xz nor zstd.
"""

from __future__ import annotations

import io
import posixpath
import struct
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import BinaryIO, NoReturn
from zlib import crc32

from xmlpunct.base.errors import SourceError, TransientError, reading, undoing
from xmlpunct.base.library_guard import guarded, library_reason
from xmlpunct.connectors.compression import FORMATS, Format, Inflate, Unpacked, unpacked
from xmlpunct.connectors.listing import in_order
from xmlpunct.connectors.utf8_stream import MOST_LAYERS, Tap

ZIP, TAR = "a zip archive", "a tar archive"
MOST_MEMBERS = 100_000
MOST_NAME = 4_096
_MOST_AT_ONCE = 2**25  # maximum read into memory at once, for example the directory of a zip
_BLOCK = 512  # of a tar
_SKIPPED = 2**18
_ENCRYPTED = 0x41  # flags of a zip member

Reopen = Callable[[], BinaryIO]
"""Opens the stored bytes at their beginning, as a seekable file that closes when it is garbage-collected."""


@dataclass(frozen=True)
class Member:
    """A member: its name for messages, its path in the archive, its stored size, and the function that opens it."""

    name: str
    path: str
    size: int
    open: Callable[[], BinaryIO]


def kind_of_archive(head: bytes) -> str | None:
    """The kind of archive with this head, of 512 bytes; None if it is no archive."""
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return ZIP
    with suppress(tarfile.TarError, ValueError):
        tarfile.TarInfo.frombuf(head[:_BLOCK], "utf-8", "surrogateescape")
        return TAR
    return None


def unpacked_document(name: str, stored: Tap) -> Tap | None:
    """The decompressed bytes of a tap; None if they are not compressed. Raises `SourceError` for an archive."""
    plain = unpacked(name, stored)
    if plain is None and (archive := kind_of_archive(stored.peek(_BLOCK))):
        raise SourceError(
            name,
            f"is {archive}, which can only be read from where it is stored: "
            "name the file, not a stream or a compressed copy of it",
        )
    return plain


def members(name: str, reopen: Reopen) -> list[Member] | None:
    """The members of an archive; None for a file that is no archive.

    Raises `SourceError` for an archive without members, or one that cannot be read, and OSError.
    """
    with closing(reopen()) as file:
        stream = _Stream(name, file)
        head = stream.head()
        kind = kind_of_archive(head)
        if kind is None:
            return None
        if kind == TAR:
            unordered, failure = _tar(name, stream, reopen)
        elif not stream.packed:
            unordered, failure = _zip(name, file, reopen), None
        else:
            raise SourceError(name, "is a compressed zip archive: decompress it first")
    ordered = in_order(unordered, lambda member: member.path)
    for first, second in pairwise(ordered):
        if first.path == second.path:
            raise SourceError(name, f"has two members named {first.path}")
    if failure is not None:
        return [*ordered, Member(name, "", 0, partial(_fail, failure))]
    if not ordered:
        raise SourceError(name, "the archive has no files to read")
    return ordered


def _fail(failure: SourceError) -> NoReturn:
    raise failure


class _Stream:
    """The bytes of a file, decompressed if necessary; of a compressed file, seeks go forward only."""

    def __init__(self, name: str, file: BinaryIO) -> None:
        self.name, self._file, self._tap = name, file, Tap.of(file)
        self.at, self.packed = 0, False
        self.last_read = b""
        """The bytes of the last `read`."""
        with suppress(SourceError):  # raised again by a read
            for _ in range(MOST_LAYERS):
                if (plain := unpacked(name, self._tap)) is None:
                    break
                self._tap, self.packed = plain, True

    def head(self) -> bytes:
        """The first bytes, without reading them; empty if they cannot be read: the reader reports that later."""
        try:
            return self._tap.peek(_BLOCK)
        except SourceError:
            return b""

    def read_some(self, size: int) -> bytes:
        with reading(self.name):
            data = self._tap.read(size)
        self.at += len(data)
        return data

    def read(self, size: int = -1) -> bytes:
        """Exactly ``size`` bytes; fewer only at the end."""
        if not 0 <= size <= _MOST_AT_ONCE:
            raise SourceError(self.name, f"the archive has a header that is too long at byte {self.at}")
        data = bytearray()
        while len(data) < size and (chunk := self.read_some(size - len(data))):
            data += chunk
        self.last_read = bytes(data)
        return self.last_read

    def seek(self, byte: int) -> None:
        """Go forward to a byte, or to the end if that comes first."""
        if not self.packed:
            self._file.seek(byte)
            self._tap, self.at = Tap(self._file.read), byte
        while self.at < byte and self.read_some(min(byte - self.at, _SKIPPED)):
            pass

    def tell(self) -> int:
        return self.at

    def close(self) -> None:
        self._file.close()


class _Directory(_Stream):
    """A zip as a file for zipfile, which reads the directory at once."""

    def read(self, size: int = -1) -> bytes:
        if size > _MOST_AT_ONCE:
            raise SourceError(
                self.name, f"the directory of the archive has more than {_MOST_AT_ONCE:,} bytes"
            )
        return super().read(_MOST_AT_ONCE if size < 0 else size)

    def seek(self, byte: int, whence: int = io.SEEK_SET) -> None:
        super().seek(byte if whence == io.SEEK_SET else self._file.seek(byte, whence))


def _zip(name: str, file: BinaryIO, reopen: Reopen) -> list[Member]:
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    with guarded(name, f"the directory of the zip archive, which should end at byte {size}, cannot be read"):
        infos = zipfile.ZipFile(_Directory(name, file)).infolist()  # type: ignore[call-overload] # of a file
    if len(infos) > MOST_MEMBERS:
        _too_many(name)
    files = [(_path(name, info.filename), info) for info in infos if not info.filename.endswith("/")]
    return [
        _member(name, path, info.compress_size, partial(_ZipMember, f"{name}/{path}", reopen, info))
        for path, info in files
    ]


class _ZipMember(io.RawIOBase):
    """The decompressed bytes of a zip's member; the checksum is verified at its end."""

    def __init__(self, name: str, reopen: Reopen, info: zipfile.ZipInfo) -> None:
        self._name, self._file, self._info = name, reopen(), info
        self._sum = self._count = 0
        self.consumed = 0
        """How many stored bytes have been read."""
        self._left = info.compress_size
        self._read_some = self._open_member()

    def read(self, size: int = -1) -> bytes:
        data = self._read_some(size)
        self._sum, self._count = crc32(data, self._sum), self._count + len(data)
        if not data and (self._sum, self._count) != (self._info.CRC, self._info.file_size):
            self._fail(
                f"is corrupt at byte {self._count}: its size or checksum differs from the archive's directory"
            )
        return data

    def close(self) -> None:
        self._file.close()
        super().close()

    def _open_member(self) -> Callable[[int], bytes]:
        info, method = self._info, self._info.compress_type
        if info.flag_bits & _ENCRYPTED:
            self._fail("is encrypted: decrypt the archive first")
        header = b""
        if info.header_offset >= 0:
            self._file.seek(info.header_offset)
            while len(header) < 30 and (chunk := self._file.read(30 - len(header))):
                header += chunk
        if len(header) < 30 or not header.startswith(b"PK\x03\x04"):
            self._fail(f"is not at byte {info.header_offset}")
        begin = info.header_offset + 30 + sum(struct.unpack("<HH", header[26:]))
        self._file.seek(begin)
        if method == zipfile.ZIP_STORED:
            return self._stored
        stored = Tap(self._stored, lambda: self._restart(begin))
        match method:
            case zipfile.ZIP_DEFLATED:
                kind = Format("deflate", b"", lambda: Inflate(-15))
            case zipfile.ZIP_BZIP2 | 93 | 95:
                kind = next(f for f in FORMATS if f.name == {12: "bzip2", 93: "zstd", 95: "xz"}[method])
            case _:
                self._fail(
                    f"is compressed by method {method}, which is not supported: use deflate, bzip2, xz or zstd"
                )
        return Unpacked(self._name, stored, kind, single=True).read

    def _restart(self, begin: int) -> None:
        self._file.seek(begin)
        self._left, self.consumed = self._info.compress_size, 0

    def _stored(self, size: int) -> bytes:
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        self.consumed += len(data)
        return data

    def _fail(self, reason: str) -> NoReturn:
        self._file.close()
        raise SourceError(self._name, reason, None, self._count)


def _tar(name: str, stream: _Stream, reopen: Reopen) -> tuple[list[Member], SourceError | None]:
    """The members of a tar, and the error after them if it is truncated or corrupt."""
    tar, failure = _Tar(name, reopen), None
    extents: dict[str, tuple[int, int]] = {}
    links: dict[str, str] = {}
    try:
        for info in _infos(name, stream):
            path = _path(name, info.name)
            if info.isdir():
                continue
            if path in extents or path in links:
                raise SourceError(name, f"has two members named {path}")
            if info.issparse() or not (info.isreg() or info.islnk() or info.issym()):
                raise SourceError(
                    name, f"its member {path} is no plain file: unpack it into a directory first"
                )
            if info.isreg():
                extents[path] = info.offset_data, info.size
            else:
                above = posixpath.dirname(info.name) if info.issym() else ""
                links[path] = _path(name, posixpath.join(above, info.linkname))
    except _Cut as cut:
        failure = cut.error
    for link, target in links.items():
        if target in extents:
            extents[link] = extents[target]
        elif failure is None:
            raise SourceError(name, f"its member {link} is a link to {target}, which is no file in it")
    tar_members = [
        _member(name, path, size, partial(_TarMember, f"{name}/{path}", tar, offset, size))
        for path, (offset, size) in extents.items()
    ]
    return tar_members, failure


class _Cut(Exception):
    """The archive is truncated or corrupt where another member should begin."""

    def __init__(self, error: SourceError) -> None:
        super().__init__(str(error))
        self.error = error


def _infos(name: str, stream: _Stream) -> Iterator[tarfile.TarInfo]:
    """The members of a tar, in stored order. Raises `_Cut` after the last readable member."""
    count = 0
    try:
        with tarfile.TarFile(fileobj=stream, mode="r", encoding="utf-8") as tar:  # type: ignore[arg-type]
            while (info := tar.next()) is not None:
                count += 1
                tar.members.clear()  # type: ignore[attr-defined] # else it retains all of them
                if info.size < 0:
                    raise tarfile.ReadError(f"a member of {info.size} bytes")
                yield info
                if count > MOST_MEMBERS:
                    _too_many(name)
    except TransientError:
        raise
    except SourceError as error:
        raise _Cut(error) from None
    except Exception as error:
        reason = f"the archive is cut short or corrupt at byte {stream.at}: {library_reason(error)}"
        raise _Cut(SourceError(name, reason)) from None
    if stream.last_read != bytes(_BLOCK):
        reason = "cut short" if len(stream.last_read) < _BLOCK else "corrupt"
        raise _Cut(SourceError(name, f"the archive is {reason} at byte {stream.at - len(stream.last_read)}"))
    try:
        while trailer := stream.read_some(_SKIPPED):
            if trailer.strip(b"\0"):
                reason = f"data follows the end of the archive before byte {stream.at}: are there several in one file?"
                raise SourceError(name, reason)
    except TransientError:
        raise
    except SourceError as error:
        raise _Cut(error) from None


class _Tar:
    """A tar with its last stream, so that members read in stored order are decompressed once."""

    def __init__(self, name: str, reopen: Reopen) -> None:
        self._name, self._reopen = name, reopen
        self._parked: _Stream | None = None
        self._lock = threading.Lock()

    def stream(self, byte: int) -> _Stream:
        """The decompressed bytes from an offset."""
        with self._lock:
            stream, self._parked = self._parked, None
        if stream is not None and stream.at > byte:
            stream.close()
            stream = None
        if stream is None:
            stream = _Stream(self._name, self._reopen())
        with undoing(stream.close):
            stream.seek(byte)
        return stream

    def park(self, stream: _Stream) -> None:
        """Store a stream for the reader of a later member."""
        with self._lock:
            # An uncompressed file is seekable, so its stream need not be stored.
            before, self._parked = (self._parked, stream) if stream.packed else (stream, self._parked)
        if before is not None:
            before.close()


class _TarMember(io.RawIOBase):
    """The bytes of a member of a tar."""

    def __init__(self, name: str, tar: _Tar, offset: int, size: int) -> None:
        self._name, self._tar, self._offset, self._left, self._size = name, tar, offset, size, size
        self._stream: _Stream | None = None

    def read(self, size: int = -1) -> bytes:
        if not self._left:
            return b""
        try:
            if self._stream is None:
                self._stream = self._tar.stream(self._offset)
            data = self._stream.read_some(min(size, self._left))
        except TransientError:
            raise
        except SourceError as error:
            self._fail(error.reason)
        if not data:
            self._fail("the archive is cut short")
        self._left -= len(data)
        return data

    def close(self) -> None:
        if self._stream is not None:
            self._tar.park(self._stream)
            self._stream = None
        super().close()

    def _fail(self, reason: str) -> NoReturn:
        byte = self._size - self._left
        raise SourceError(self._name, f"ends at byte {byte} of {self._size}: {reason}", None, byte)


def _member(archive: str, path: str, size: int, open_member: Callable[[], io.RawIOBase]) -> Member:
    return Member(f"{archive}/{path}", path, size, open_member)  # type: ignore[arg-type] # one call a read


def _path(archive: str, name: str) -> str:
    """The path of a member in an archive, for messages."""
    if len(name) > MOST_NAME:
        raise SourceError(archive, f"has a member with a name longer than {MOST_NAME:,} characters")
    return posixpath.normpath(name.encode(errors="surrogateescape").decode(errors="backslashreplace"))


def _too_many(name: str) -> NoReturn:
    raise SourceError(name, f"has more than {MOST_MEMBERS:,} members: unpack it into a directory first")
