"""Connectors for this machine: files, directories and patterns, standard input, growing files, data URLs.

A file must not change while it is read: parts of two versions do not form a stream.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import BinaryIO
from urllib.parse import unquote_to_bytes, urlsplit

from xmlpunct.base.errors import SourceError, UsageError, read_error, reading
from xmlpunct.connectors.contract import DATA, FOLLOW, Connector
from xmlpunct.connectors.follow import GrowingFile
from xmlpunct.connectors.listing import columns_in, files_below, files_matching, is_pattern, matches, texts_in
from xmlpunct.connectors.source import (
    ChangedError,
    Source,
    UnopenedPart,
    assembled,
    binary,
    member_pieces,
    of_file,
)
from xmlpunct.connectors.utf8_stream import begins_xml

KEPT_BYTES = 2**16
"""Bytes compared of a file's head, and of the data read last: to compare all would be to read the file twice."""


class Files(Connector):
    """A path, or ``file://`` and a path: of a file, a directory, or a pattern; archives are read by their members."""

    def source(self, spec: str, name: str) -> Source:
        path = self._path(spec)
        try:
            files = _paths(path)
            if not files:
                reason = "the directory has no files to read" if os.path.isdir(path) else "no file matches it"
                raise SourceError(path, reason)
            parts = [piece for file in files for piece in _parts(file, path)]
        except OSError as error:
            raise read_error(str(error.filename or path), "cannot be opened", error) from None
        return assembled(_display_path(name) if name != spec else _display_path(path), parts)

    def paths(self, spec: str) -> list[str]:
        path = self._path(spec)
        return matches(path) if is_pattern(path) else [path]

    def is_endless(self, spec: str) -> bool:
        try:
            return stat.S_ISFIFO(os.stat(self._path(spec)).st_mode)
        except (OSError, ValueError):
            return False

    def columns(self, spec: str) -> tuple[str, ...]:
        path = self._path(spec)
        return columns_in(path) if "{" in path else ()

    @staticmethod
    def _path(spec: str) -> str:
        return os.fsdecode(unquote_to_bytes(urlsplit(spec).path)) if spec[:7].lower() == "file://" else spec


class GrowingFiles(Connector):
    """``follow:`` and the path of a file that is followed while it grows: see `follow`."""

    def source(self, spec: str, name: str) -> Source:
        path = spec.removeprefix(FOLLOW)
        with reading(path, "cannot be opened"):
            if _size(path) is None:
                raise UsageError(f"{path} cannot be followed: it is no file")
        shown = _display_path(path)
        part = UnopenedPart(shown, None, lambda: binary(GrowingFile(path)), path)
        return assembled(name if name != spec else shown, [part])

    def is_endless(self, spec: str) -> bool:
        return True

    def paths(self, spec: str) -> list[str]:
        path = spec.removeprefix(FOLLOW)
        return matches(path) if is_pattern(path) else [path]


class DataUrls(Connector):
    """``data:,`` and a percent-encoded document: ``data:,%3Cs%3E...``. The comma may follow a type of XML."""

    def source(self, spec: str, name: str) -> Source:
        head, comma, text = spec.removeprefix(DATA).partition(",")
        if not comma or head not in ("", "text/xml", "application/xml"):
            raise UsageError(f"{_short_url(spec)} is no source: write data:, and a percent-encoded document")
        return Source.of(unquote_to_bytes(text), _short_url(name))

    def is_endless(self, spec: str) -> bool:
        return False


class StandardInput(Connector):
    """``-``: standard input."""

    def source(self, spec: str, name: str) -> Source:
        if sys.stdin is None:
            raise SourceError(name, "cannot be read: standard input is closed")
        return of_file(name, "-", *_standard_input())

    def is_endless(self, spec: str) -> bool:
        return True

    def paths(self, spec: str) -> list[str]:
        return ["/dev/fd/0"]


def read_at(file: int, byte: int, count: int) -> bytes:
    """``count`` bytes of a file from an offset, or fewer at its end. Raises OSError."""
    data = bytearray()
    while len(data) < count and (chunk := os.pread(file, count - len(data), byte + len(data))):
        data += chunk
    return bytes(data)


def stamp(status: os.stat_result) -> tuple[int, int]:
    """Size and modification time: they change with a write, unless it keeps the size within the clock's resolution."""
    return status.st_size, status.st_mtime_ns


class SteadyFile(io.FileIO):
    """A file at its size when it is opened: data appended later is not read. Pipes and devices are read to their end.

    If another file takes over its path, this one is still read to its end. Reading raises `ChangedError` if the file
    becomes shorter, or if the compared bytes have changed.
    """

    def __init__(self, path: str, name: str) -> None:
        super().__init__(path, "rb")
        try:
            status = os.fstat(self.fileno())
        except OSError:
            self.close()
            raise
        self._name, self._plain = name, stat.S_ISREG(status.st_mode) and status.st_size > 0
        self._size, self._stamp = status.st_size, stamp(status)
        self._first: tuple[int, bytes] | None = None  # the first and the last bytes read, with their offsets
        self._last = (0, b"")

    def read(self, size: int | None = -1) -> bytes:
        """Some bytes, none at the end."""
        if not self._plain:
            return super().read(size) or b""
        at = self.tell()
        left = max(self._size - at, 0)
        data = super().read(left if size is None or size < 0 else min(size, left)) or b""
        self._check()
        if data:
            self._first = self._first or (at, data[:KEPT_BYTES])
            last = data[-KEPT_BYTES:]
            self._last = (at + len(data) - len(last), last)
        return data

    def _check(self) -> None:
        status = os.fstat(self.fileno())
        if stamp(status) == self._stamp:
            return
        if status.st_size < self._size:
            raise ChangedError.of(self._name, f"it has {status.st_size:,} bytes, and had {self._size:,}")
        read = (self._first or self._last, self._last)
        if any(read_at(self.fileno(), at, len(data)) != data for at, data in read):
            raise ChangedError.of(self._name, "it was overwritten while it was read")
        self._stamp = stamp(status)  # data was appended, or only the time changed


class _CollectedFile(SteadyFile):
    """A file that is closed when it is garbage-collected, because a reader may continue in it."""

    def __del__(self) -> None:
        self.close()


def _short_url(spec: str) -> str:
    """A URL for messages, shortened if it is long."""
    return spec if len(spec) <= 60 else f"{spec[:57]}..."


def _paths(path: str) -> list[str]:
    if os.path.isdir(path):
        return list(files_below(path))
    return files_matching(path) if not os.path.lexists(path) and is_pattern(path) else [path]


def _parts(path: str, pattern: str) -> list[UnopenedPart]:
    """The parts of a file, which may match a pattern: its members if it is an archive."""
    shown, size = _display_path(path), _size(path)
    texts = texts_in(pattern, path) if path != pattern else ()
    plain = UnopenedPart(shown, size, lambda: binary(SteadyFile(path, shown)), path, texts)
    if size is None:
        return [replace(plain, once=True)]  # for example a pipe, which is not read before the run
    reopen = partial(_unchanged_archive, path, shown, stamp(os.stat(path)))
    with reading(shown, "cannot be opened"), closing(reopen()) as file:
        head = file.read(512)
    # No compressed file and no zip begins as XML does, and the header of a tar contains NUL.
    return [plain] if begins_xml(head) and b"\0" not in head else member_pieces(plain, reopen)


def _unchanged_archive(path: str, name: str, listed_stamp: tuple[int, int]) -> BinaryIO:
    """Open an archive again, which must be unchanged since its members were listed."""
    file = _CollectedFile(path, name)
    if stamp(os.fstat(file.fileno())) != listed_stamp:
        file.close()
        raise ChangedError.of(name, "it was written since its members were listed")
    return binary(file)


def _display_path(path: str) -> str:
    """A path for messages, even if its bytes are not UTF-8."""
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _standard_input() -> tuple[BinaryIO, bool]:
    """Standard input without Python's buffer, whose lock a waiting thread would hold when Python ends."""
    try:
        return binary(io.FileIO(sys.stdin.fileno(), "rb", closefd=False)), False
    except (OSError, AttributeError, ValueError):  # it was replaced by another object
        return sys.stdin.buffer, False


def _size(file: str) -> int | None:
    if not os.access(file, os.R_OK) and os.path.exists(file):
        raise PermissionError(13, "Permission denied", file)
    return os.stat(file).st_size if os.path.isfile(file) or not os.path.exists(file) else None
