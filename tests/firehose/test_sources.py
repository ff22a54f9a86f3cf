"""Sources: their files, their bytes and their encodings."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path

import pytest

from xmlpunct.base.errors import SourceError, UsageError
from xmlpunct.connectors.contract import open_source
from xmlpunct.connectors.source import Source

DOCUMENT = '<?xml version="1.0" encoding="{}"?>\n<r>é€😀</r>'


def read_all(source: Source, part: int = 0, offset: int = 0, size: int = 5) -> bytes:
    with source.open(part, offset) as reader:
        return b"".join(iter(lambda: reader.read(size), b""))


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_bytes(b"<r>1</r>")
    source = open_source(path)
    assert (source.name, source.parts, source.size) == (str(path), ((str(path), 8),), 8)
    assert read_all(source) == b"<r>1</r>"
    assert read_all(source, offset=3) == b"1</r>"


def test_a_directory_is_listed_in_name_order(tmp_path: Path) -> None:
    for name in (
        "b.xml",
        "a/2.xml",
        "a/1.xml",
        "_SUCCESS",
        ".x.crc",
        "c.crc",
        "_tmp/1.xml",
        ".hidden/2.xml",
        "B.xml",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"<r/>")
    source = open_source(tmp_path)
    names = [str(Path(name).relative_to(tmp_path)) for name, _ in source.parts]
    assert names == ["B.xml", "a/1.xml", "a/2.xml", "b.xml"]
    assert source.size == 16


@pytest.mark.parametrize("make", [lambda p: p / "missing", lambda p: p])
def test_missing_or_empty(tmp_path: Path, make: object) -> None:
    with pytest.raises(SourceError):
        open_source(make(tmp_path)).open()  # type: ignore[operator]


def test_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_bytes(b"<r/>")
    source = open_source(path)
    path.unlink()
    with pytest.raises(SourceError, match="No such file"):
        source.open()


@pytest.mark.parametrize("wrong", [io.StringIO("<r/>"), 5, None])
def test_invalid_sources(wrong: object) -> None:
    with pytest.raises(UsageError):
        Source.of(wrong)


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be", "gb18030"]
)
def test_encodings(encoding: str) -> None:
    declared = "utf-8" if encoding.startswith("utf-8") else encoding
    text = DOCUMENT.format(declared)
    expected = text.encode("utf-8-sig" if encoding == "utf-8-sig" else "utf-8")
    source = Source.of(text.encode(encoding))
    for size in (1, 7, 4096):
        assert read_all(source, size=size) == expected
    assert read_all(source, offset=40) == expected[40:]
    with source.open() as reader:
        while reader.read(3):
            pass
        assert reader.consumed == source.size


def test_latin_1() -> None:
    text = '<?xml version="1.0" encoding="ISO-8859-1"?><r>é</r>'
    assert read_all(Source.of(text.encode("latin-1"))) == text.encode()


def test_utf_16_without_mark_or_declaration() -> None:
    assert read_all(Source.of("<r>é</r>".encode("utf-16-be"))) == "<r>é</r>".encode()


@pytest.mark.parametrize("encoding", ["klingon", "hex", "utf-16"])
def test_unsupported_encodings(encoding: str) -> None:
    with pytest.raises(SourceError, match=encoding):
        Source.of(DOCUMENT.format(encoding).encode()).open()


def test_bytes_that_are_not_in_the_encoding() -> None:
    with pytest.raises(SourceError, match="is not utf-16"):
        read_all(Source.of("<r/>".encode("utf-16") + b"\0\xd8x"))


def test_an_offset_after_the_end() -> None:
    with pytest.raises(SourceError, match="shorter than it was"):
        Source.of("<r/>".encode("utf-16")).open(0, 100)


def test_a_pipe_returns_available_bytes() -> None:
    out, into = os.pipe()
    with open(out, "rb") as file, open(into, "wb", buffering=0) as end:
        end.write(b"<r><t>1</t>")
        reader = Source.of(file).open()
        assert reader.read(1 << 20) == b"<r><t>1</t>"
        timer = threading.Timer(0.05, lambda: end.write(b"<t>2</t>"))
        timer.start()
        assert reader.read(1 << 20) == b"<t>2</t>"
        timer.join()


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"<r/>")))
    source = open_source("-")
    assert (source.size, read_all(source)) == (None, b"<r/>")


def test_a_file_is_left_where_it_stood(tmp_path: Path) -> None:
    """Recognizing the format does not move the file's position."""
    path = tmp_path / "a.xml"
    path.write_bytes(b"before<r/>")
    with path.open("rb") as file:
        file.seek(6)
        source = Source.of(file)
        assert file.tell() == 6
        assert read_all(source) == b"<r/>"
        assert not file.closed
    with path.open("ab") as file, pytest.raises(SourceError, match="cannot be read"):
        Source.of(file)
