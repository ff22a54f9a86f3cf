"""Zip and tar archives as sources; each member is a part."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.firehose.test_compression import BOMB, Drops, parse_until_error, read_part, zstd
from xmlpunct import parse
from xmlpunct.base.errors import SourceError
from xmlpunct.connectors import archives
from xmlpunct.connectors.contract import open_source
from xmlpunct.connectors.source import ChangedError, Source
from xmlpunct.schema import Schema

A = Schema.parse("a INT")
MEMBERS = {
    "b.xml": b"<r><t><a>4</a></t></r>",
    "a/2.xml": b"<r><t><a>2</a></t></r>",
    "a/1.xml": gzip.compress(b"<r><t><a>1</a></t></r>"),
    "B.xml": b"<r><t><a>0</a></t></r>",
    "a.xml": b"<r><t><a>3</a></t></r>",
    "_SUCCESS": b"",
    ".hidden/1.xml": b"<r>",
    "__MACOSX/a.xml": b"\0",
    "x.crc": b"\0",
}
ORDERED = ["B.xml", "a/1.xml", "a/2.xml", "a.xml", "b.xml"]


def zipped(members: dict[str, bytes] = MEMBERS, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        file.mkdir("folder")
        for name, data in members.items():
            file.writestr(name, data)
    return out.getvalue()


def tarred(members: dict[str, bytes] = MEMBERS, form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as file:
        folder = tarfile.TarInfo("a")
        folder.type = tarfile.DIRTYPE
        file.addfile(folder)
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    return out.getvalue()


Make = Callable[[], bytes]
KINDS: dict[str, Make] = {
    "zip": zipped,
    "zip, stored": lambda: zipped(method=zipfile.ZIP_STORED),
    "zip, bzip2": lambda: zipped(method=zipfile.ZIP_BZIP2),
    "tar": tarred,
    "tar, GNU": lambda: tarred(form=tarfile.GNU_FORMAT),
    "tar, ustar": lambda: tarred(form=tarfile.USTAR_FORMAT),
    "tar, gzip": lambda: gzip.compress(tarred()),
    "tar, bzip2": lambda: bz2.compress(tarred()),
    "tar, xz": lambda: lzma.compress(tarred()),
    "tar, zstd": lambda: zstd(tarred()),
}


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_members_come_in_order_of_name(tmp_path: Path, make: Make) -> None:
    path = tmp_path / "feeds"
    path.write_bytes(make())
    wrapped = io.BytesIO(b"before" + make())
    wrapped.seek(6)
    with path.open("rb") as file:
        for source in (open_source(path), Source.of(make()), Source.of(file), Source.of(wrapped)):
            assert [name for name, _ in source.parts] == [f"{source.name}/{name}" for name in ORDERED]
            for _ in range(2):
                assert list(parse(source, A, element="t")) == [(n,) for n in range(5)]
    assert read_part(Source.of(make()), part=2, size=3) == (MEMBERS["a/2.xml"], None)


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_an_archive_from_a_pipe_is_refused(make: Make) -> None:
    _, error = read_part(Source.of(Drops(make(), 7)))  # type: ignore[arg-type]
    assert error is not None
    assert "archive, which can only be read from where it is stored" in str(error)


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_a_truncated_archive_gives_its_first_tuples_and_an_error(tmp_path: Path, make: Make) -> None:
    """An archive cut at any byte gives a prefix of its tuples, in order, and then an error."""
    archive, max_tuples = make(), 0
    if not archive.startswith((b"PK", b"\x1f", b"BZ", b"\xfd", b"\x28")):
        archive = archive[
            : archive.rindex(b"\0" * 512 + b"\0" * 512)
        ]  # the end is two empty blocks, but one is enough
        archive = archive.rstrip(b"\0") + bytes(10)
    chance = random.Random(1)
    for length in sorted({*chance.sample(range(1, len(archive)), 60), len(archive) // 2}):
        path = tmp_path / "cut"
        path.write_bytes(archive[:length])
        tuples, error = parse_until_error(lambda path=path: parse(path, A, element="t"))  # type: ignore[misc]
        assert error is not None
        assert tuples == sorted(tuples)
        max_tuples = max(max_tuples, len(tuples))
    assert max_tuples > 0 or archive.startswith(
        (b"PK", b"BZ", b"\x28")
    )  # a zip has its directory at its end; bzip2 and zstd have a single block


def test_the_error_of_a_truncated_tar_has_the_byte() -> None:
    archive = tarred({"a.xml": b"<r>" + b"<t><a>1</a></t>" * 100 + b"</r>"})
    source = Source.of(archive[:1500], "x.tar")
    data, error = read_part(source)
    assert len(data) == 1500 - 512 * archive[:1500].count(b"ustar")
    assert str(error) == f"x.tar/a.xml: ends at byte {len(data)} of 1507: the archive is cut short"
    assert read_part(source, part=1)[1] is not None


@pytest.mark.parametrize("make", [zipped, tarred])
def test_an_archive_without_files(make: Callable[[dict[str, bytes]], bytes]) -> None:
    for members in ({}, {"_SUCCESS": b"", ".x": b""}):
        with pytest.raises(SourceError, match="the archive has no files to read"):
            Source.of(make(members))


def test_a_corrupt_member_of_a_zip() -> None:
    data = bytearray(zipped({"a.xml": b"<r><t><a>1</a></t></r>", "b.xml": b"<r/>"}, zipfile.ZIP_STORED))
    data[data.index(b"<a>1") + 3] = ord("7")
    source = Source.of(bytes(data), "x.zip")
    read, error = read_part(source)
    assert read == b"<r><t><a>7</a></t></r>"
    assert str(error) == (
        "x.zip/a.xml: is corrupt at byte 22: its size or checksum differs from the archive's directory"
    )


def test_an_encrypted_member_of_a_zip() -> None:
    data = bytearray(zipped({"a.xml": b"<r><t><a>1</a></t></r>", "b.xml": b"<r/>"}))
    for mark, flags_offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.rindex(mark)
        data[at + flags_offset] |= 1
    tuples = parse(bytes(data), A, element="t")
    assert next(tuples) == (1,)
    with pytest.raises(SourceError, match=r"b\.xml: is encrypted: decrypt the archive first"):
        next(tuples)


def test_a_method_that_is_not_known() -> None:
    data = bytearray(zipped({"a.xml": b"<r/>"}))
    data[data.rindex(b"PK\x01\x02") + 10] = 97
    _, error = read_part(Source.of(bytes(data)))
    assert "compressed by method 97, which is not supported" in str(error)


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA])
def test_lzma_in_a_zip_is_read_or_named(method: int) -> None:
    _, error = read_part(Source.of(zipped({"a.xml": b"<r/>"}, method)))
    assert error is None or "method 14" in str(error)


def test_two_members_of_one_name() -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as file:
        for data in (b"<r/>", b"<x/>"):
            info = tarfile.TarInfo("a.xml")
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    with pytest.raises(SourceError, match=r"has two members named a\.xml"):
        Source.of(out.getvalue())
    duplicated = zipped({"a.xml": b"<r/>", "b.xml": b"<r/>"}).replace(b"b.xml", b"a.xml")
    with pytest.raises(SourceError, match=r"has two members named a\.xml"):
        Source.of(duplicated)


def test_links_in_a_tar(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "b.xml").write_bytes(b"<r><t><a>1</a></t></r>")
    os.link(tmp_path / "in" / "b.xml", tmp_path / "in" / "c.xml")
    (tmp_path / "in" / "a.xml").symlink_to("b.xml")
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as file:
        file.add(tmp_path / "in", "in")
    assert list(parse(path, A, element="t")) == [(1,)] * 3
    (tmp_path / "in" / "a.xml").unlink()
    (tmp_path / "in" / "a.xml").symlink_to("../elsewhere.xml")
    with tarfile.open(path, "w") as file:
        file.add(tmp_path / "in", "in")
    with pytest.raises(SourceError, match=r"a\.xml is a link to elsewhere\.xml, which is no file in it"):
        open_source(path)


@pytest.mark.parametrize("make", [zipped, tarred])
def test_limits(monkeypatch: pytest.MonkeyPatch, make: Callable[[dict[str, bytes]], bytes]) -> None:
    monkeypatch.setattr(archives, "MOST_MEMBERS", 3)
    for members in ({f"{n}.xml": b"<r/>" for n in range(5)}, {"x" * 5000: b""}):
        with pytest.raises(SourceError, match=r"more than 3 members|longer than 4,096 characters"):
            list(parse(make(members), A, element="t"))


def test_a_header_with_a_huge_name_is_refused() -> None:
    """No memory is allocated for a header that declares a name of 4 GiB."""
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1 << 32
    with pytest.raises(SourceError, match="a header that is too long"):
        list(parse(info.tobuf(tarfile.GNU_FORMAT) + bytes(5000), A, element="t"))


def test_bombs_take_no_memory(tmp_path: Path) -> None:
    """Small archives and members that unpack to far more than the limit are refused in bounded memory."""
    bomb = b"<r><t><a>" + b" " * (5 << 23)
    packed = gzip.compress(bomb)
    bombs = {
        "deflate.zip": zipped({"a.xml": bomb}),
        "bzip2.zip": zipped({"a.xml": bomb}, zipfile.ZIP_BZIP2),
        "gzip.tar": tarred({"a.xml.gz": packed}),
        "tar.xz": lzma.compress(tarred({"a.xml.gz": gzip.compress(packed)})),
        "gz.gz": gzip.compress(gzip.compress(packed)),
    }
    for name, data in bombs.items():
        assert len(data) < 1 << 17
        (tmp_path / name).write_bytes(data)
    paths = [str(tmp_path / name) for name in bombs]
    run = subprocess.run([sys.executable, "-c", BOMB, *paths], capture_output=True, text=True, check=True)
    *reasons, peak = run.stdout.splitlines()
    assert len(reasons) == len(bombs)
    assert all("too large: an element longer than" in reason for reason in reasons)
    assert int(peak) < 450_000


def test_an_archive_written_since_it_was_listed(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(zipped())
    source = open_source(path)
    path.write_bytes(zipped() + b"more")
    with pytest.raises(SourceError, match="was written since its members were listed"):
        source.open()


def test_an_archive_written_over_while_it_is_read(tmp_path: Path) -> None:
    """The error is a `ChangedError`: with the original file, the run can continue."""
    path = tmp_path / "x.tar"
    data = tarred({"a.xml": b"<r>" + b" " * 100_000 + b"</r>"})
    path.write_bytes(data)
    with open_source(path).open() as reader:
        reader.read(10)
        path.write_bytes(bytes(len(data)))
        with pytest.raises(ChangedError, match="it was overwritten while it was read"):
            _ = [*iter(lambda: reader.read(1000), b"")]


def test_a_compressed_tar_is_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, opened = tmp_path / "x.tar.gz", []
    path.write_bytes(gzip.compress(tarred({f"{n}.xml": b"<r/>" for n in range(9)})))
    real = archives._Stream.__init__

    def counted(self: archives._Stream, *arguments: object) -> None:
        opened.append(arguments)
        real(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(archives._Stream, "__init__", counted)
    source = open_source(path)
    for part in range(9):
        assert read_part(source, part=part) == (b"<r/>", None)
    assert len(opened) == 2
    assert read_part(source, part=3) == (b"<r/>", None)


def test_a_directory_of_all_kinds(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_bytes(b"<r><t><a>9</a></t></r>")
    (tmp_path / "b.tgz").write_bytes(gzip.compress(tarred()))
    (tmp_path / "c.gz").write_bytes(gzip.compress(b"<r><t><a>9</a></t></r>"))
    (tmp_path / "d.zip").write_bytes(zipped())
    source = open_source(tmp_path)
    five = [(n,) for n in range(5)]
    assert list(parse(source, A, element="t")) == [(9,), *five, (9,), *five]
    assert [os.path.basename(path) if path else None for path in source.files] == [
        "a.xml",
        *[None] * 5,
        "c.gz",
        *[None] * 5,
    ]


def test_patterns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("in/b.xml.gz", "in/a.xml.gz", "in/_c.xml.gz", "in/c.xml", "in/deep/x.xml.gz", "a[1].xml"):
        Path(name).parent.mkdir(exist_ok=True, parents=True)
        Path(name).write_bytes(gzip.compress(b"<r/>"))

    def named(pattern: str) -> list[str]:
        return [name for name, _ in open_source(pattern).parts]

    assert named("in/*.xml.gz") == ["in/a.xml.gz", "in/b.xml.gz"]
    assert named("in/*") == ["in/a.xml.gz", "in/b.xml.gz", "in/c.xml", "in/deep/x.xml.gz"]
    assert named("in/**/*.gz") == ["in/a.xml.gz", "in/b.xml.gz", "in/deep/x.xml.gz"]
    assert named("in/_*.gz") == ["in/_c.xml.gz"]
    assert named("in/[ab].xml.gz") == ["in/a.xml.gz", "in/b.xml.gz"]
    assert named("a[1].xml") == ["a[1].xml"]
    for pattern in ("in/*.xyz", "none/*", "in/?"):
        with pytest.raises(SourceError, match="no file matches it"):
            open_source(pattern)


def test_data_after_the_end_of_a_tar() -> None:
    tuples, error = parse_until_error(lambda: parse(tarred() + tarred(), A, element="t"))
    assert tuples == [(n,) for n in range(5)]
    assert "data follows the end of the archive" in str(error)


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_a_damaged_archive_raises_source_error_or_nothing(make: Make) -> None:
    chance, archive = random.Random(7), make()
    for _ in range(60):
        data = bytearray(archive)
        at = chance.randrange(len(data))
        match chance.randrange(3):
            case 0:
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                del data[at : at + chance.randrange(1, 40)]
            case 2:
                data[at:at] = chance.randbytes(chance.randrange(20))
        parse_until_error(lambda data=bytes(data): parse(data, A, element="t"))  # type: ignore[misc]


def test_a_zip_with_impossible_offsets() -> None:
    data = bytearray(zipped({"a.xml": b"<r/>"}))
    directory = data.rindex(b"PK\x01\x02")
    for offset in (0xFFFFFFF0, 10**6):
        data[directory + 42 : directory + 46] = offset.to_bytes(4, "little")
        _, error = read_part(Source.of(bytes(data)))
        assert "is not at byte" in str(error)
    data = bytearray(zipped({"a.xml": b"<r/>"}))
    end = data.rindex(b"PK\x05\x06")
    data[end + 12 : end + 16] = (2**31).to_bytes(4, "little")  # a directory of 2 GiB, larger than the file
    with pytest.raises(SourceError, match="the directory of the"):
        Source.of(bytes(data))
