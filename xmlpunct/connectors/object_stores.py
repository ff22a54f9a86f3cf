"""What is kept in object stores and on other machines, by fsspec: ``s3://``, ``gs://``, ``abfs://``, ``sftp://``...

fsspec comes with the extra ``remote``; how to log in is for it to know, from its own files and the environment.
"""

from __future__ import annotations

import glob
import io
import posixpath
from typing import Any

from xmlpunct.base.errors import SourceError, TransientError, UsageError
from xmlpunct.base.library_guard import guarded
from xmlpunct.connectors.contract import Connector
from xmlpunct.connectors.listing import in_order
from xmlpunct.connectors.source import Piece, Source, assembled, bare, binary, pieces

GLANCE_BYTES = 2**16
"""How much to fetch at once of what is only looked at."""

Place = tuple[Any, str]
"""A file system of fsspec's, and a path in it."""


class Stores(Connector):
    """Any URL that fsspec knows: a file, a directory or a pattern, and the archives among them."""

    quotes = False

    def source(self, spec: str, name: str) -> Source:
        parts = [part for called, place in listed(spec) for part in _parts(bare(called), place)]
        return assembled(bare(name), parts)

    def is_endless(self, spec: str) -> bool:
        return False


def _parts(name: str, place: Place) -> list[Piece]:
    """The parts in a file that fsspec opens."""
    looking = [RemoteFile(name, place, GLANCE_BYTES)]
    plain = Piece(name, None, lambda: binary(RemoteFile(name, place)))
    return pieces(plain, lambda: binary(looking.pop()) if looking else plain.open())


def listed(url: str) -> list[tuple[str, Place]]:
    """The files that a URL stands for, in order of their names, each with its place.

    As with paths, that is a file, the files in a directory, or those that match a pattern. Raises `SourceError`,
    also where there are none, and `UsageError` where fsspec, or what it needs for such URLs, is not installed.
    """
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise UsageError(f"{url} needs fsspec: pip install 'xmlpunct[remote]'") from None
    with guarded(url, "cannot be opened"):
        try:
            files, path = url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise UsageError(f"{url} cannot be read: {error}; pip install 'xmlpunct[remote]'") from None
        if glob.has_magic(path) and not files.exists(path):
            found = sorted(in_order(files.glob(path), posixpath.basename))
        elif files.isdir(path):
            found = in_order(files.find(path), lambda name: name.removeprefix(path).strip("/"))
        else:
            return [(url, (files, path))]
    if not found:
        raise SourceError(url, "there are no files to read")
    scheme = url.partition("://")[0]
    return [(f"{scheme}://{name}", (files, name)) for name in found]


class RemoteFile(io.RawIOBase):
    """A file that fsspec opens. Each failure is transient: the file can be read again."""

    def __init__(self, name: str, place: Place, at_once: int | None = None) -> None:
        files, path = place
        self._name = name
        with guarded(name, "cannot be opened", passing=(ImportError,), raising=TransientError):
            self._file = files.open(path, "rb", block_size=at_once)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        with guarded(self._name, raising=TransientError):
            return bytes(self._file.read(size))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with guarded(self._name, raising=TransientError):
            return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        if not self.closed and hasattr(self, "_file"):
            self._file.close()
        super().close()
