"""Object stores read with fsspec, replaced here by a stand-in."""

from __future__ import annotations

import gzip
import io
import sys
import types
from fnmatch import fnmatch

import pytest

from tests.firehose.test_archives import tarred, zipped
from tests.firehose.test_compression import read_part
from xmlpunct import parse
from xmlpunct.base.errors import SourceError, UsageError
from xmlpunct.connectors.contract import open_source
from xmlpunct.schema import Schema

A = Schema.parse("a INT")
DOCUMENT = b"<r><t><a>1</a></t></r>"


class Store:
    """A file system in memory with the methods of fsspec that xmlpunct calls."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files

    def exists(self, path: str) -> bool:
        return path in self.files or self.isdir(path)

    def isdir(self, path: str) -> bool:
        return any(name.startswith(path.rstrip("/") + "/") for name in self.files)

    def find(self, path: str) -> list[str]:
        return [name for name in self.files if name.startswith(path.rstrip("/") + "/")]

    def glob(self, pattern: str) -> list[str]:
        return [name for name in self.files if fnmatch(name, pattern)]

    def open(self, path: str, mode: str, block_size: int | None) -> io.BytesIO:
        if path.endswith("forbidden"):
            raise RuntimeError("AccessDenied")
        if path not in self.files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return io.BytesIO(self.files[path])


@pytest.fixture(autouse=True)
def fsspec(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("b.xml", "a.xml.gz", "_SUCCESS", "deep/c.xml", ".tmp/d.xml", "e.txt")
    files = {f"bucket/in/{name}": DOCUMENT for name in names}
    files |= {"bucket/in/a.xml.gz": gzip.compress(DOCUMENT), "bucket/forbidden": b""}
    files |= {"bucket/x.zip": zipped(), "bucket/x.tgz": gzip.compress(tarred())}

    def url_to_fs(url: str) -> tuple[Store, str]:
        scheme, _, path = url.partition("://")
        if scheme == "gs":
            raise ImportError("Please install gcsfs to access Google Storage")
        if scheme != "s3":
            raise ValueError(f"Protocol not known: {scheme}")
        return Store(files), path

    core = types.ModuleType("fsspec.core")
    core.url_to_fs = url_to_fs  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fsspec", types.ModuleType("fsspec"))
    monkeypatch.setitem(sys.modules, "fsspec.core", core)
    return


def named(url: str) -> list[str]:
    return [name for name, _ in open_source(url).parts]


def test_files_directories_and_patterns() -> None:
    assert named("s3://bucket/in/b.xml") == ["s3://bucket/in/b.xml"]
    inside = ["a.xml.gz", "b.xml", "deep/c.xml", "e.txt"]
    for folder in ("s3://bucket/in", "s3://bucket/in/"):
        assert named(folder) == [f"s3://bucket/in/{name}" for name in inside]
    assert named("s3://bucket/in/?.xml*") == [f"s3://bucket/in/{name}" for name in inside[:2]]
    assert list(parse("s3://bucket/in/", A, element="t")) == [(1,)] * 4
    assert read_part(open_source("s3://bucket/in/a.xml.gz"), size=3) == (DOCUMENT, None)
    with pytest.raises(SourceError, match="there are no files to read"):
        open_source("s3://bucket/*.none")


@pytest.mark.parametrize("name", ["x.zip", "x.tgz"])
def test_archives(name: str) -> None:
    assert list(parse(f"s3://bucket/{name}", A, element="t")) == [(n,) for n in range(5)]


def test_files_that_cannot_be_opened() -> None:
    with pytest.raises(SourceError, match="s3://bucket/none: cannot be opened: No such file"):
        open_source("s3://bucket/none")
    with pytest.raises(SourceError, match="s3://bucket/forbidden: cannot be opened: AccessDenied"):
        open_source("s3://bucket/forbidden")


def test_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"install gcsfs .*; pip install 'xmlpunct\[remote\]'"):
        open_source("gs://bucket/x")
    with pytest.raises(UsageError, match="Protocol not known: klingon"):
        open_source("klingon://x")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(UsageError, match=r"needs fsspec: pip install 'xmlpunct\[remote\]'"):
        open_source("sftp://host/x")


def test_a_name_and_password_are_not_in_errors() -> None:
    """Errors do not contain a URL's name and password."""
    with pytest.raises(SourceError) as caught:
        open_source("s3://me:secret@bucket/none")
    assert "secret" not in str(caught.value)
