"""Reading sources from beginning to end with `SliceReader`, `parse` and `slices`."""

from __future__ import annotations

import io
import logging
import os
import sys
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import xmlpunct
from tests.firehose.harness import ROOT, spec
from xmlpunct import parse, slices
from xmlpunct.base.errors import Reject, SourceError, TransientError, UsageError
from xmlpunct.connectors.contract import open_source
from xmlpunct.connectors.source import Source
from xmlpunct.firehose import SliceReader, native
from xmlpunct.firehose.slice_reader import MOST_PIECES
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.types import NAN

A = Schema.parse("a INT")


def drain(reader: SliceReader, size: int = 64) -> list[object]:
    values: list[object] = []
    while (parsed := reader.read(size)) is not None:
        values += [row[0] for row in parsed.slices[0].tuples.rows()]
    return values


class Failing(io.RawIOBase):
    """A file that fails after its data."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not (count := self._data.readinto(buffer)):
            raise OSError(5, "Input/output error")
        return count


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"<t><b>x", "cannot be read: Input/output error"),
        (b"<t><b>\0", "line 1, byte 24: Invalid character: Char 0x0 out of allowed range"),
        (b"<t b='\xff", "line 1, byte 24: Invalid bytes in character encoding"),
    ],
)
@pytest.mark.parametrize("size", [3, 65536])
def test_a_forbidden_construct_is_reported_before_a_failure(text: bytes, error: str, size: int) -> None:
    file = Failing(b"<r><t><a>1</a></t>" + text + b" and more")
    reader = SliceReader(Source.of(file, "doc"), [spec("a INT")])
    tuples, failure = list[int](), None
    try:
        while (parsed := reader.read(size)) is not None:
            tuples += parsed.slices[0].tuples["a"].to_list()
    except TransientError as fault:  # the failure of the disk, after the data before it is read
        failure = fault
    assert tuples == [1]
    assert error in str(reader.error or failure)


def test_a_directory_is_one_sender(tmp_path: Path) -> None:
    for n in range(3):
        (tmp_path / f"{n}.xml").write_text(f"<r><t><a>{n}</a></t></r>\n<r><t><a>{n}{n}</a></t></r>")
    reader = SliceReader(open_source(tmp_path), [spec("a INT")])
    assert reader.bytes_total == reader.remaining
    assert drain(reader) == [0, 0, 1, 11, 2, 22]
    assert (reader.ended, reader.error, reader.remaining) == (True, None, 0)
    assert reader.bytes_read == reader.bytes_total


def test_a_file_that_is_cut_short_is_named(tmp_path: Path) -> None:
    for n, end in enumerate(["</r>", "", "</r>"]):
        (tmp_path / f"{n}.xml").write_text(f"<r><t><a>{n}</a></t>{end}")
    reader = SliceReader(open_source(tmp_path), [spec("a INT")])
    assert drain(reader) == [0, 1]
    assert not reader.ended
    assert reader.error is not None
    assert (reader.error.source, reader.error.byte) == (str(tmp_path / "1.xml"), 18)
    assert reader.read(10) is None


def test_an_empty_file_in_a_directory(tmp_path: Path) -> None:
    (tmp_path / "0.xml").write_text("")
    reader = SliceReader(open_source(tmp_path), [spec("a INT")])
    assert drain(reader) == []
    assert reader.error is not None
    assert "no XML document" in reader.error.reason


def test_a_file_that_vanishes(tmp_path: Path) -> None:
    path = tmp_path / "0.xml"
    path.write_text("<r/>")
    reader = SliceReader(open_source(path), [spec("a INT")])
    path.unlink()
    with pytest.raises(TransientError, match="cannot be opened"):
        drain(reader)


def test_a_source_in_the_wrong_encoding() -> None:
    data = "<r><t><a>1</a></t></r>".encode("utf-16") + b"\0\xd8x"
    reader = SliceReader(Source.of(data), [spec("a INT")])
    drain(reader)
    assert reader.error is not None
    assert "is not utf-16" in str(reader.error)


def test_a_pipe_is_not_waited_for_longer_than_needed() -> None:
    out, into = os.pipe()
    with open(out, "rb") as file, open(into, "wb", buffering=0) as end:
        reader = SliceReader(Source.of(file), [spec("a INT")])
        end.write(f"{ROOT}<t><a>1</a></t><t>".encode())
        parsed = reader.read(1 << 20)
        assert parsed is not None
        assert parsed.slices[0].tuples.rows() == [(1,)]
        end.write(b"<a>2")
        parsed = reader.read(1 << 20)
        assert parsed is not None
        assert not parsed.slices[0]
        end.write(b"</a></t></r>")
        end.close()
        assert drain(reader) == [2]
        assert (reader.ended, reader.bytes_total, reader.remaining) == (True, None, None)


def test_parse_keeps_document_order() -> None:
    document = f"{ROOT}<t><a>1</a></t><p:t><a>1</a></p:t><p:t><a>0</a></p:t><t><a>2</a></t></r>".encode()
    closed_one, closed_zero = Punctuation.of(A, a=1), Punctuation.of(A, a=0)
    for source in (document, io.BytesIO(document)):
        assert list(parse(source, A, element="t")) == [(1,), closed_one, closed_zero, (2,)]


def test_parse_a_path(tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    path.write_text("<r><t><a>1</a></t></r>")
    assert list(parse(path, A, element="t")) == [(1,)]
    assert list(parse(str(path), A, element="t")) == [(1,)]


def test_parse_gives_python_values() -> None:
    schema = Schema.parse("x DOUBLE, w TIMESTAMP")
    (row,) = parse(b"<r><t><x>NaN</x><w>2026-01-01T00:00:00Z</w></t></r>", schema, element="t")
    assert isinstance(row, tuple)
    x, w = row
    assert x is NAN
    assert w == datetime(2026, 1, 1, tzinfo=UTC)
    assert w.utcoffset().total_seconds() == 0


def test_parse_raises_after_everything_before() -> None:
    tuples = parse(b"<r><t><a>1</a></t><t><a>2</a></x>", A, element="t")
    assert next(tuples) == (1,)
    with pytest.raises(SourceError) as caught:
        next(tuples)
    assert caught.value.byte == 29


def test_rejects_are_passed_on_or_logged(caplog: pytest.LogCaptureFixture) -> None:
    document = b"<r><t><a>x</a></t><t><a>1</a></t></r>"
    rejects: list[Reject] = []
    assert list(parse(document, A, element="t", on_reject=rejects.append)) == [(1,)]
    assert [r.text for r in rejects] == ["<t><a>x</a></t>"]
    with caplog.at_level(logging.WARNING, "xmlpunct"):
        assert list(parse(document, A, element="t")) == [(1,)]
    assert caplog.messages == ["<bytes>, line 1, byte 3: attribute a: 'x' is not of type INT"]


@pytest.mark.parametrize("character", ["y", "é", "€", "😀"])
@pytest.mark.parametrize("inner", ["{}", "<u>{}</u>", "<!-- -->{}"])
def test_a_reject_keeps_its_record(character: str, inner: str) -> None:
    for count in (3_000, 65_536):
        record = f"<t><a>x{inner.format(character * count)}</a></t>"
        rejects: list[Reject] = []
        assert not list(parse(f"<r>{record}</r>".encode(), A, element="t", on_reject=rejects.append))
        (text,) = (reject.text for reject in rejects)
        if len(record.encode()) <= 65_536:
            assert text == record
        else:
            prefix = text.removesuffix("...")
            assert record.startswith(prefix)
            assert 65_536 - 4 < len(prefix.encode()) <= 65_536


def test_slices_have_about_the_size_asked_for() -> None:
    document = f"<r>{''.join(f'<t><a>{n}</a></t>' for n in range(1000))}</r>".encode()
    parts = list(slices(document, A, element="t", size=1600))
    assert 8 <= len(parts) <= 12
    assert [a for s in parts for (a,) in s.tuples.rows()] == list(range(1000))


def test_unreadable_sources() -> None:
    with pytest.raises(UsageError):
        list(parse(io.StringIO("<r/>"), A, element="t"))  # type: ignore[arg-type]
    with pytest.raises(SourceError):
        list(parse("no such file", A, element="t"))


@pytest.mark.parametrize("encoding", ["utf-16", "iso-8859-1", "utf-8-sig"])
def test_encodings_and_where_offsets_count(encoding: str) -> None:
    declared = encoding.removesuffix("-sig")
    document = f'<?xml version="1.0" encoding="{declared}"?>\n<r><t><b>é</b></t><t><a>é</a></t></r>'
    rejects: list[Reject] = []
    tuples = parse(document.encode(encoding), spec().schema, element="t", on_reject=rejects.append)
    assert list(tuples) == [(None, "é")]
    mark = 3 if encoding == "utf-8-sig" else 0  # a byte order mark counts in UTF-8, but not after transcoding
    assert rejects[0].byte == document.encode().index(b"<t><a>") + mark


def test_tiny_documents_are_cut_in_groups() -> None:
    """Each document is a piece of its own, and the parsed pieces of a cut are in memory together."""
    numbers = range(3 * MOST_PIECES + 1)
    source = Source.of(b"".join(b"<r><t><a>%d</a></t></r>\n" % n for n in numbers))
    reader = SliceReader(source, [spec()])
    groups = [parsed.slices[0].tuples["a"].to_list() for parsed in iter(lambda: reader.read(2**20), None)]
    assert [*chain(*groups)] == [*numbers]
    assert max(map(len, groups)) == MOST_PIECES
    assert reader.ended


@pytest.mark.skipif(not native.COMPILED, reason="without compiled code libxml2 reads")
def test_few_modules_read_a_plain_file(tmp_path: Path) -> None:
    """Reading enters one cutter, one splitter and one stream: no second way, and no layer around it.

    A module for archives, compressed files, patterns, punctuations or errors is entered only where there are some.
    """
    (tmp_path / "a.xml").write_bytes(b"<r>" + b"<t><a>1</a></t>" * 1000 + b"</r>")

    def read() -> list[int]:
        return [part.tuples.height for part in slices(str(tmp_path / "a.xml"), A, element="t")]

    package, entered = Path(xmlpunct.__file__).parent, set[str]()
    expected = read()  # with all imports and caches
    sys.setprofile(lambda frame, *_: entered.add(frame.f_code.co_filename))
    try:
        assert read() == expected
    finally:
        sys.setprofile(None)
    parts = [Path(name).relative_to(package) for name in entered if name.startswith(f"{package}/")]
    modules = sorted(
        map(str, (part for part in parts if part.parts[0] in ("connectors", "engine", "firehose")))
    )
    assert len(modules) <= 12, modules
    assert "connectors/utf8_stream.py" in modules
