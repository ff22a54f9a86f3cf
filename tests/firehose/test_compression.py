"""Compressed sources: recognized by their first bytes; truncated, corrupt, or fed a few bytes at a time."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import resource
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.firehose.harness import spec
from xmlpunct import parse
from xmlpunct.base.errors import SourceError
from xmlpunct.connectors.compression import PIECE_BYTES
from xmlpunct.connectors.contract import open_source
from xmlpunct.connectors.source import Source
from xmlpunct.connectors.utf8_stream import MOST_LAYERS
from xmlpunct.firehose import SliceReader
from xmlpunct.firehose.stream_check import check
from xmlpunct.python.inferred_stream import stream_of
from xmlpunct.schema import Schema

A = Schema.parse("a INT")


def zstd(data: bytes) -> bytes:
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, "zstd") as packed:
        packed.write(data)
    return bytes(out.getvalue())


Pack = Callable[[bytes], bytes]
PACKS: dict[str, Pack] = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress, "zstd": zstd}
EVERY = pytest.mark.parametrize("pack", PACKS.values(), ids=PACKS)
DOCUMENT = "".join(["<r>", *(f"<t><a>{n * n}</a></t>\n" for n in range(40)), "</r>"]).encode()


class Drops(io.RawIOBase):
    """A pipe: returns up to ``step`` bytes at a time, and cannot seek."""

    def __init__(self, data: bytes, step: int) -> None:
        self._data, self._step = io.BytesIO(data), step

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._data.read(min(size, self._step))


def read_part(source: Source, size: int = 1 << 20, part: int = 0) -> tuple[bytes, SourceError | None]:
    """The readable data of a part, and the error that ended it, if any."""
    data = bytearray()
    try:
        with source.open(part) as reader:
            while chunk := reader.read(size):
                data += chunk
    except SourceError as error:
        return bytes(data), error
    return bytes(data), None


def parse_until_error(parsing: Callable[[], Iterator[Any]]) -> tuple[list[Any], SourceError | None]:
    """The tuples and punctuations before an error, and the error, if any."""
    tuples: list[Any] = []
    try:
        for tuple_ in parsing():
            tuples.append(tuple_)
    except SourceError as error:
        return tuples, error
    return tuples, None


@EVERY
@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_unpacked_by_the_first_bytes(tmp_path: Path, pack: Pack, size: int) -> None:
    data = pack(DOCUMENT)
    path = tmp_path / "whatever.txt"
    path.write_bytes(data)
    sources = [open_source(path), Source.of(data), Source.of(io.BytesIO(data))]
    sources += [Source.of(Drops(data, step)) for step in (1, 7, 1 << 20)]  # type: ignore[arg-type]
    for source in sources:
        assert read_part(source, size) == (DOCUMENT, None)
    with sources[0].open(byte=50) as reader:
        assert reader.read(20) == DOCUMENT[50:70]
        assert reader.transcoded
    with sources[0].open() as reader:
        while reader.read(size):
            pass
        assert reader.consumed == sources[0].size == len(data)


@EVERY
def test_concatenated_streams_are_one(pack: Pack) -> None:
    data = pack(DOCUMENT[:100]) + pack(b"") + pack(DOCUMENT[100:])
    assert read_part(Source.of(data)) == (DOCUMENT, None)
    assert read_part(Source.of(Drops(data, 3))) == (DOCUMENT, None)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_zeros_may_follow(pack: Pack) -> None:
    assert read_part(Source.of(pack(DOCUMENT) + bytes(512))) == (DOCUMENT, None)


@EVERY
def test_trailing_garbage_is_an_error(pack: Pack) -> None:
    data, error = read_part(Source.of(pack(DOCUMENT) + b"<r><t>lost</t></r>"))
    assert data == DOCUMENT
    assert error is not None
    assert error.byte == len(DOCUMENT)
    assert f"at byte {len(DOCUMENT)} of what it unpacks to" in str(error)


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_another_encoding_inside(encoding: str) -> None:
    text = f'<?xml version="1.0" encoding="{encoding}"?><r>é</r>'
    assert read_part(Source.of(gzip.compress(text.encode(encoding))))[0] == text.encode()


def test_a_decoding_error_counts_unpacked_bytes() -> None:
    text = b'<?xml version="1.0" encoding="ascii"?><r>' + b"x" * 5000
    wrong = text.replace(b"ascii", b"cp1252") + b"\x81"
    _, error = read_part(Source.of(gzip.compress(wrong)))
    assert error is not None
    assert error.byte == len(wrong) - 1


@EVERY
def test_cut_at_every_byte(pack: Pack) -> None:
    """A truncated file gives a prefix of the document, then an error at its end; a pipe gives the same."""
    packed = pack(DOCUMENT)
    for length in range(1, len(packed)):
        cut = packed[:length]
        data, error = read_part(Source.of(cut), size=64)
        assert error is not None, length
        assert DOCUMENT.startswith(data)
        assert error.byte == len(data)
        assert "cut short" in str(error)
        piped, failure = read_part(Source.of(Drops(cut, 7)))
        assert (piped, str(failure)) == (data, str(error).replace("<bytes>", "<file>"))
    if pack is gzip.compress:
        assert read_part(Source.of(packed[:-1]))[0] == DOCUMENT


@EVERY
def test_tuples_before_a_cut_count(pack: Pack) -> None:
    document = b"<r>" + b"".join(b"<t><a>%d</a></t>" % n for n in range(100_000)) + b"</r>"
    packed = pack(document)
    tuples, error = parse_until_error(lambda: parse(packed[: len(packed) * 2 // 3], A, element="t"))
    assert error is not None
    assert "cut short at byte" in str(error)
    assert error.byte is not None
    assert tuples == [(n,) for n in range(len(tuples))]
    assert len(tuples) == document[: error.byte].count(b"</t>") > 0


@EVERY
@given(st.data())
def test_corrupt_data_from_a_file_and_from_a_pipe(pack: Pack, data: st.DataObject) -> None:
    raw = data.draw(st.binary(min_size=1, max_size=300))
    packed = bytearray(pack(DOCUMENT + raw))
    at = data.draw(st.integers(10, len(packed) - 1))
    packed[at] ^= data.draw(st.integers(1, 255))
    expected = read_part(Source.of(bytes(packed)))
    for step in (1, 7):
        dropped = read_part(Source.of(Drops(bytes(packed), step)))
        assert dropped[0] == expected[0]
        assert str(dropped[1]).replace("<file>", "<bytes>") == str(expected[1])
    if pack is gzip.compress:
        assert expected[1] is not None


@EVERY
@pytest.mark.parametrize("kept_bytes", [1000, 1 << 22])
def test_little_is_lost_before_corrupt_data(
    monkeypatch: pytest.MonkeyPatch, pack: Pack, kept_bytes: int
) -> None:
    """From a pipe, nearly all data before the corrupt bytes is read, even if it exceeds the buffer."""
    monkeypatch.setattr("xmlpunct.connectors.utf8_stream.MOST_BUFFERED_BYTES", kept_bytes)
    text = b"<r>" + b"".join(b"<t>%d</t>" % (n * n) for n in range(30_000))
    packed = bytearray(bz2.compress(text, 1) if pack is bz2.compress else pack(text))
    at = len(packed) * 3 // 4
    packed[at : at + 40] = Random(7).randbytes(40)
    of_file, error = read_part(Source.of(bytes(packed)))
    assert error is not None
    assert "corrupt" in str(error)
    assert len(of_file) > 100_000
    piped, failure = read_part(Source.of(Drops(bytes(packed), 1 << 20)))
    assert failure is not None
    assert failure.byte == len(piped)
    assert of_file.startswith(piped)
    assert len(piped) >= len(of_file) - (4096 if kept_bytes < at else 0)


@EVERY
def test_a_checksum_that_is_wrong(pack: Pack) -> None:
    """A wrong checksum at the end of the data is an error."""
    packed = bytearray(pack(DOCUMENT))
    if pack is zstd:
        packed = bytearray(subprocess.run(["zstd", "-qc"], input=DOCUMENT, capture_output=True).stdout)
    packed[{gzip.compress: -5, bz2.compress: -1, lzma.compress: -14}.get(pack, -1)] ^= 0x55
    if pack is bz2.compress:
        packed[10] ^= 0x55  # the checksum of the block
    _, error = read_part(Source.of(bytes(packed)))
    assert error is not None
    assert "corrupt" in str(error)


def test_data_before_a_corrupt_stream_is_unpacked_again() -> None:
    """If the second of two streams is corrupt, all data of the first is read."""
    second = bytearray(lzma.compress(os.urandom(1000)))
    second[-20:-14] = b"wrong!"
    for pack in (bz2.compress, lzma.compress):
        data, error = read_part(Source.of(pack(DOCUMENT) + bytes(second)))
        assert error is not None
        assert data[: len(DOCUMENT)] == DOCUMENT


def test_too_many_layers() -> None:
    packed = DOCUMENT
    for _ in range(MOST_LAYERS):
        packed = gzip.compress(packed)
    assert read_part(Source.of(packed)) == (DOCUMENT, None)
    _, error = read_part(Source.of(gzip.compress(packed)))
    assert error is not None
    assert "compressed more than 4 times over" in str(error)


def test_inferred_and_checked() -> None:
    for source in (Source.of(gzip.compress(DOCUMENT)), Source.of(Drops(gzip.compress(DOCUMENT), 50))):
        spec, rewound = stream_of(source, None, "t")
        schema = spec.schema
        assert schema.names == ("a",)
        report = check(rewound, schema, "t")
        assert (report.tuples, report.fine) == (40, True)


def test_progress_counts_compressed_bytes() -> None:
    packed = gzip.compress(DOCUMENT * 1)
    reader = SliceReader(Source.of(packed), [spec("a INT")])
    assert reader.remaining == len(packed)
    while reader.read(1 << 16) is not None:
        pass
    assert (reader.bytes_read, reader.remaining) == (len(packed), 0)


BOMB = """
import re, sys
from xmlpunct import parse
from xmlpunct.schema import Schema
for path in sys.argv[1:]:
    try:
        list(parse(path, Schema.parse("a INT"), element="t"))
    except Exception as error:
        print(error)
print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])
"""


@EVERY
def test_a_bomb_takes_no_memory(tmp_path: Path, pack: Pack) -> None:
    """A small file that unpacks to far more than the limit is refused in bounded memory."""
    path = tmp_path / "bomb"
    path.write_bytes(pack(b"<r><t><a>" + b" " * (1 << 26)))
    assert path.stat().st_size < 1 << 17
    run = subprocess.run([sys.executable, "-c", BOMB, str(path)], capture_output=True, text=True, check=True)
    reason, peak = run.stdout.splitlines()
    assert "too large: an element longer than" in reason
    assert int(peak) < 450_000


def test_xz_may_not_ask_for_much_memory() -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 29}]
    greedy = lzma.LZMACompressor(lzma.FORMAT_XZ, filters=filters)
    del greedy  # making one takes gigabytes; a header that asks for as much is enough
    header = bytearray(lzma.compress(b""))
    packed = bytearray(lzma.compress(DOCUMENT))
    dictionary_offset = packed.index(b"\x21\x01", 12) + 2
    packed[dictionary_offset] = 39  # a dictionary of 3 GiB
    end = 12 + (packed[12] + 1) * 4
    packed[end - 4 : end] = zlib.crc32(packed[12 : end - 4]).to_bytes(4, "little")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    _, error = read_part(Source.of(bytes(packed)))
    assert error is not None
    assert "Memory usage limit exceeded" in str(error)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
    assert len(header) + (1 << 20) > PIECE_BYTES
