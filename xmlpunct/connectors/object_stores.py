"""Files in object stores and on other machines, with fsspec: ``s3://``, ``gs://``, ``abfs://``, ``sftp://``...

The extra ``remote`` installs fsspec, which takes credentials from its own files and the environment.
"""

from __future__ import annotations

import glob
import io
import posixpath
from typing import Any

from xmlpunct.base.errors import SourceError, TransientError, UsageError
from xmlpunct.base.lazy_imports import import_extra
from xmlpunct.base.library_guard import guarded
from xmlpunct.base.suggestions import did_you_mean
from xmlpunct.connectors.contract import OWN, Connector
from xmlpunct.connectors.listing import in_order
from xmlpunct.connectors.source import (
    Source,
    UnopenedPart,
    assembled,
    binary,
    member_pieces,
    without_password,
)

GLANCE_BYTES = 2**16
"""Block size for a file of which only the beginning, or an archive's directory, is read."""

_STORES = {"s3", "gs", "gcs", "az", "abfs", "abfss", "ftp", "sftp", "hdfs", "webhdfs", "smb", "github", "hf"}
"""The best known schemes of fsspec, for the message if it is not installed."""

StoredFile = tuple[Any, str]
"""A file system of fsspec, and a path in it."""


class Stores(Connector):
    """Any URL that fsspec supports: a file, a directory or a pattern; archives are read by their members."""

    quotes = False

    def source(self, spec: str, name: str) -> Source:
        parts = [
            part for file_url, file in listed_files(spec) for part in _parts(without_password(file_url), file)
        ]
        return assembled(without_password(name), parts)

    def is_endless(self, spec: str) -> bool:
        return False


def _parts(name: str, file: StoredFile) -> list[UnopenedPart]:
    """The parts of a file that fsspec opens: its members if it is an archive."""
    unused = [RemoteFile(name, file, GLANCE_BYTES)]
    plain = UnopenedPart(name, None, lambda: binary(RemoteFile(name, file)))
    return member_pieces(plain, lambda: binary(unused.pop()) if unused else plain.open())


def listed_files(url: str) -> list[tuple[str, StoredFile]]:
    """The files of a URL, in order of their names: (URL, `StoredFile`).

    As with paths, that is one file, the files in a directory, or the files that match a pattern. Raises `SourceError`,
    also if there are no files, and `UsageError` if fsspec, or a package that it needs for the URL, is not installed.
    """
    scheme = url.partition("://")[0]
    own = [name for name in OWN if name[:1].isalpha() and name != "then"]  # written as A THEN B
    if hint := did_you_mean(scheme, own):
        raise UsageError(f"{url}: there is no scheme {scheme}://{hint}")
    needed = f"{url} needs fsspec"
    if scheme not in _STORES:
        needed = f"{url}: the schemes are {', '.join(own)}; fsspec has more"
    url_to_fs = import_extra("fsspec.core", needed, "remote").url_to_fs
    with guarded(url, "cannot be opened"):
        try:
            files, path = url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise UsageError(f"{url} cannot be read: {error}; pip install 'xmlpunct[remote]'") from None
        if glob.has_magic(path) and not files.exists(path):
            names = sorted(in_order(files.glob(path), posixpath.basename))
        elif files.isdir(path):
            names = in_order(files.find(path), lambda name: name.removeprefix(path).strip("/"))
        else:
            return [(url, (files, path))]
    if not names:
        raise SourceError(url, "there are no files to read")
    return [(f"{scheme}://{name}", (files, name)) for name in names]


class RemoteFile(io.RawIOBase):
    """A file that fsspec opens. Each failure is transient: the file can be read again."""

    def __init__(self, name: str, file: StoredFile, block_size: int | None = None) -> None:
        files, path = file
        self._name = name
        with guarded(name, "cannot be opened", passing=(ImportError,), raising=TransientError):
            self._file = files.open(path, "rb", block_size=block_size)

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
