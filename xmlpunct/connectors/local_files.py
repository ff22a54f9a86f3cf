"""Connectors for this machine: files, directories and patterns, standard input, growing files, data URLs."""

from __future__ import annotations

import io
import os
import stat
import sys
from dataclasses import replace
from functools import partial
from typing import BinaryIO
from urllib.parse import unquote_to_bytes, urlsplit

from xmlpunct.base.errors import SourceError, UsageError, read_error, reading
from xmlpunct.connectors.contract import DATA, FOLLOW, Connector
from xmlpunct.connectors.follow import GrowingFile
from xmlpunct.connectors.listing import columns_in, files_below, files_matching, is_pattern, matches, texts_in
from xmlpunct.connectors.source import Source, UnopenedPart, assembled, binary, member_pieces, of_file
from xmlpunct.connectors.stored_bytes import ChangedError, SteadyFile, stamp


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
    return member_pieces(plain, partial(_unchanged_archive, path, shown, stamp(os.stat(path))))


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
