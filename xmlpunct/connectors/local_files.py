"""The connectors of what is on this machine: files, directories and patterns, standard input, files that grow."""

from __future__ import annotations

import io
import os
import sys
from dataclasses import replace
from functools import partial
from typing import BinaryIO
from urllib.parse import unquote_to_bytes, urlsplit

from xmlpunct.base.errors import SourceError, UsageError, read_error, reading
from xmlpunct.connectors.contract import DATA, FOLLOW, Connector
from xmlpunct.connectors.follow import GrowingFile
from xmlpunct.connectors.listing import columns_in, files_below, files_matching, is_pattern, matches, texts_in
from xmlpunct.connectors.source import Piece, Source, assembled, binary, of_file, pieces
from xmlpunct.connectors.unchanged import ChangedError, SteadyFile, stamp


class Files(Connector):
    """A path, or ``file://`` and one: a file, a directory, or a pattern, and the archives among them."""

    def source(self, spec: str, name: str) -> Source:
        path = self._path(spec)
        try:
            files = _paths(path)
            if not files:
                what = "the directory has no files to read" if os.path.isdir(path) else "no file matches it"
                raise SourceError(path, what)
            parts = [replace(piece, texts=texts_in(path, file)) for file in files for piece in _parts(file)]
        except OSError as error:
            raise read_error(str(error.filename or path), "cannot be opened", error) from None
        return assembled(_shown(name) if name != spec else _shown(path), parts)

    def paths(self, spec: str) -> list[str]:
        path = self._path(spec)
        return matches(path) if is_pattern(path) else [path]

    def is_endless(self, spec: str) -> bool:
        return False

    def columns(self, spec: str) -> tuple[str, ...]:
        return columns_in(self._path(spec))

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
        shown = _shown(path)
        part = Piece(shown, None, lambda: binary(GrowingFile(path)), path)
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
            raise UsageError(f"{_cut(spec)} is no source: write data:, and a percent-encoded document")
        return Source.of(unquote_to_bytes(text), _cut(name))

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


class _Kept(SteadyFile):
    """A file that is kept open for who may read on in it: closing it is left to who collects it."""

    def __del__(self) -> None:
        self.close()


def _cut(spec: str) -> str:
    """A long URL as people want to read it."""
    return spec if len(spec) <= 60 else f"{spec[:57]}..."


def _paths(path: str) -> list[str]:
    if os.path.isdir(path):
        return list(files_below(path))
    return files_matching(path) if is_pattern(path) else [path]


def _parts(path: str) -> list[Piece]:
    """The parts in a file."""
    shown, size = _shown(path), _size(path)
    plain = Piece(shown, size, lambda: binary(SteadyFile(path, shown)), path)
    if size is None:
        return [replace(plain, once=True)]  # a pipe, say, of which nothing is read before its time
    return pieces(plain, partial(_same, path, shown, stamp(os.stat(path))))


def _same(path: str, name: str, known: tuple[int, int]) -> BinaryIO:
    """An archive, which has to be the one of which the members were listed."""
    file = _Kept(path, name)
    if stamp(os.fstat(file.fileno())) != known:
        file.close()
        raise ChangedError.of(name, "it was written since its members were listed")
    return binary(file)


def _shown(path: str) -> str:
    """A path as it can be told to anybody, even if its bytes are not UTF-8."""
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _standard_input() -> tuple[BinaryIO, bool]:
    """Standard input without Python's buffer, whose lock a waiting thread would hold when Python ends."""
    try:
        return binary(io.FileIO(sys.stdin.fileno(), "rb", closefd=False)), False
    except (OSError, AttributeError, ValueError):  # something else has been put in its place
        return sys.stdin.buffer, False


def _size(file: str) -> int | None:
    if not os.access(file, os.R_OK) and os.path.exists(file):
        raise PermissionError(13, "Permission denied", file)
    return os.stat(file).st_size if os.path.isfile(file) or not os.path.exists(file) else None
