"""Archives with wrong headers: members are read, or the members before it and then a `SourceError`."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.firehose.test_archives import tarred, zipped
from tests.firehose.test_compression import read_part
from xmlpunct import parse
from xmlpunct.base.errors import SourceError
from xmlpunct.connectors.contract import open_source
from xmlpunct.connectors.source import Source
from xmlpunct.schema import Schema

A = Schema.parse("a INT")
FIRST = b"<r><t><a>1</a></t></r>"


def header(name: bytes, kind: bytes, size: bytes, sparse: bytes = b"") -> bytes:
    """The header of a tar's member; ``size`` is written verbatim."""
    block = bytearray(512)
    block[0 : len(name)] = name
    block[100:124] = b"0000644\x000000000\x000000000\x00"
    block[124:136] = size
    block[136:148] = b"00000000000\x00"
    block[156:157] = kind
    block[257:265] = b"ustar  \x00" if kind in (b"L", b"K", b"S") else b"ustar\x0000"
    block[386 : 386 + len(sparse)] = sparse
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\x00 " % sum(block)
    return bytes(block)


def octal(size: int) -> bytes:
    return b"%011o\x00" % size


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 512)


def pax(**values: object) -> bytes:
    """A pax header of the member that follows."""
    records = b""
    for key, value in values.items():
        record = f" {key.replace('__', '.')}={value}\n".encode()
        length = next(n for n in range(len(record), len(record) + 9) if n == len(record) + len(str(n)))
        records += str(length).encode() + record
    return header(b"pax", b"x", octal(len(records))) + padded(records)


GOOD = header(b"1.xml", b"0", octal(len(FIRST))) + padded(FIRST)
LAST = header(b"2.xml", b"0", octal(len(FIRST))) + padded(FIRST)
TARS = {
    "3,000 long names": (header(b"././@LongLink", b"L", octal(2)) + padded(b"x\0")) * 3000 + LAST,
    "3,000 pax headers": pax(comment="x") * 3000 + LAST,
    "a size of 2**63": header(b"2.xml", b"0", b"\x80" + (2**63).to_bytes(11, "big")) + padded(FIRST) + LAST,
    "a size of 2**80": header(b"2.xml", b"0", b"\x80" + (2**80).to_bytes(11, "big")) + padded(FIRST) + LAST,
    "a size below 0": header(b"2.xml", b"0", b"\xff" * 12) + padded(FIRST) + LAST,
    "a size that leads back to the beginning": header(
        b"2.xml", b"0", b"\xff" * 4 + (2**64 - 2 * 1024).to_bytes(8, "big")
    ),
    "a pax size of 5,000 digits": pax(size="9" * 5000) + LAST + LAST,
    "a pax size of 30 digits": pax(size="9" * 30) + LAST + LAST,
    "a pax size below 0": pax(size="-512") + LAST + LAST,
    "a pax header of 2**60 bytes": header(b"pax", b"x", b"\x80" + (2**60).to_bytes(11, "big")) + LAST,
    "a sparse map that is none": pax(GNU__sparse__map="1,x") + LAST,
    "a sparse map of 5,000 digits": pax(GNU__sparse__major=1, GNU__sparse__minor=0) + LAST,
    "a sparse member that is cut": header(b"2.xml", b"S", octal(9), b"\0" * 96 + b"\x01"),
    "a name that is no UTF-8": header(b"\xff\xfe.xml", b"0", octal(len(FIRST))) + padded(FIRST),
}


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["tar", "tar.gz"])
@pytest.mark.parametrize("name", TARS)
def test_wrong_headers_of_a_tar(name: str, pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    """Members before a wrong header are read; then an error names the byte, except for sparse and non-UTF-8 ones."""
    path = tmp_path / "odd.tar"
    path.write_bytes(pack(GOOD + TARS[name] + bytes(1024)))
    rows, error = [], None
    try:
        for row in parse(str(path), A, element="t"):
            rows.append(row)
    except SourceError as failure:
        error = failure
    if name == "a name that is no UTF-8":
        assert (rows, error) == ([(1,), (1,)], None)
    elif error is not None and "unpack it into a directory" in str(error):
        assert "sparse" in name
    else:
        assert rows[:1] == [(1,)]
        assert str(error).startswith(str(path))
        assert "byte " in str(error)


def test_a_tar_may_nest_some_headers() -> None:
    names = (header(b"././@LongLink", b"L", octal(6)) + padded(b"2.xml\0")) * 20
    assert list(parse(GOOD + names + LAST + bytes(1024), A, element="t")) == [(1,), (1,)]


def zip64(offset: int, size: int, stored: int) -> bytes:
    """A zip whose directory has the offset and size of its member as 64-bit numbers."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("1.xml", FIRST)
    data = bytearray(out.getvalue())
    at = data.index(b"PK\x01\x02")
    extra = struct.pack("<HHQQQ", 1, 24, size, stored, offset)
    entry = bytearray(data[at : at + 46 + 5])
    entry[20:28] = b"\xff" * 8
    entry[30:32] = struct.pack("<H", len(extra))
    entry[42:46] = b"\xff" * 4
    end = bytearray(data[data.index(b"PK\x05\x06") :])
    end[12:16] = struct.pack("<I", len(entry) + len(extra))
    return bytes(data[:at]) + bytes(entry) + extra + bytes(end)


@pytest.mark.parametrize("offset", [0, 1, 2**31, 2**62, 2**63 - 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("size", [len(FIRST), 0, 2**63, 2**64 - 1])
def test_a_zip64_with_a_wrong_directory(offset: int, size: int) -> None:
    data = zip64(offset, size, size)
    if (offset, size) == (0, len(FIRST)):
        assert read_part(Source.of(data)) == (FIRST, None)
        return
    with pytest.raises(SourceError):
        list(parse(data, A, element="t"))


@pytest.mark.parametrize("seed", range(60))
def test_archives_with_changed_bytes(seed: int, tmp_path: Path) -> None:
    """Recompressed, truncated and damaged archives raise only `SourceError`."""
    random = Random(seed)
    data = bytearray(random.choice([zipped, tarred])())
    for _ in range(random.randrange(4)):
        data[random.randrange(len(data))] = random.randrange(256)
    if random.random() < 0.3:
        del data[random.randrange(len(data)) :]
    packed = bytes(data)
    for _ in range(random.randrange(3)):
        packed = gzip.compress(packed)
    path = tmp_path / "odd"
    path.write_bytes(packed)
    try:
        source = open_source(str(path))
        rows = []
        for row in parse(source, A, element="t"):
            rows.append(row)
    except SourceError as error:
        assert str(error).startswith(str(path))  # noqa: PT017 - either is right
    else:
        assert len(rows) <= 5


def test_formats_of_a_tar() -> None:
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        assert len(list(parse(tarred(form=form), A, element="t"))) == 5
