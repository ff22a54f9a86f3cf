"""A disk that fails once, or until it is repaired: the run ends, and the same command continues as if undisturbed."""

from __future__ import annotations

import builtins
import errno
import io
import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import Cli
from tests.reliability.bench import DECLARED, UNION, Bench
from tests.reliability.support import LONG
from xmlpunct.base.errors import TransientError, XmlPunctError
from xmlpunct.connectors.local_files import SteadyFile
from xmlpunct.connectors.source import Source, UnopenedPart, assembled
from xmlpunct.engine.run.inputs import parse_ranges, segments
from xmlpunct.engine.run.inputs.parts import Input, Part
from xmlpunct.engine.run.inputs.ranges import advance
from xmlpunct.engine.run.inputs.segments import end_of
from xmlpunct.engine.run.inputs.spool import Spool
from xmlpunct.engine.run.inputs.uncut import Uncut
from xmlpunct.engine.run.local import ledger
from xmlpunct.firehose import Parser, StreamSpec
from xmlpunct.firehose.position import Cursor
from xmlpunct.schema import Schema

CALLS = (
    "open",
    "write",
    "pread",
    "lseek",
    "ftruncate",
    "truncate",
    "fsync",
    "replace",
    "unlink",
    "stat",
    "fstat",
    "listdir",
)
"""The functions of `os` that fail; `open` and reads of files fail, too."""
ERRORS = (errno.ESTALE, errno.EIO, errno.ENOSPC, errno.EROFS, errno.EMFILE)


class Faults:
    """Makes ``count`` calls on files below ``folder`` fail, from call number ``first`` on."""

    def __init__(self, folder: Path, first: int, count: float, code: int) -> None:
        self._folder, self._first, self._count, self._code = str(folder), first, count, code
        self.calls, self.at = 0, list[str]()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"{errno.errorcode[self._code]} from call {self._first} on: {self.at[:3]}"

    def happen(self, name: str) -> None:
        with self._lock:
            number = self.calls
            self.calls += 1
            if self._first <= number < self._first + self._count:
                self.at.append(name)
                raise OSError(self._code, os.strerror(self._code))

    def _concerns(self, file: Any) -> bool:
        if isinstance(file, int):
            try:
                file = os.readlink(f"/proc/self/fd/{file}")
            except OSError:
                return False
        return isinstance(file, str | os.PathLike) and os.fspath(file).startswith(self._folder)

    @contextmanager
    def happening(self) -> Iterator[None]:
        """Make calls of the block fail."""
        with pytest.MonkeyPatch.context() as patch:
            for name in CALLS:
                patch.setattr(os, name, self._failing(name, getattr(os, name)))
            patch.setattr(io, "FileIO", self._file())
            patch.setattr(builtins, "open", self._open(builtins.open))
            patch.setattr(SteadyFile, "read", self._reading(SteadyFile.read))
            yield

    def _failing(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if arguments and self._concerns(arguments[0]):
                self.happen(name)
            return real(*arguments, **options)

        return call

    def _reading(self, real: Callable[..., bytes]) -> Callable[..., bytes]:
        def read(file: SteadyFile, size: int | None = -1) -> bytes:
            self.happen("read")
            return real(file, size)

        return read

    def _file(self) -> type[io.FileIO]:
        faults = self

        class Failing(io.FileIO):
            def readinto(self, buffer: Any) -> int:
                if faults._concerns(self.fileno()):
                    faults.happen("read")
                return super().readinto(buffer) or 0

            def readall(self) -> bytes:
                if faults._concerns(self.fileno()):
                    faults.happen("read")
                return super().readall()

        return Failing

    def _open(self, real: Callable[..., Any]) -> Callable[..., Any]:
        files = self._file()

        def call(file: Any, mode: str = "r", buffering: int = -1, *arguments: Any, **options: Any) -> Any:
            if not self._concerns(file) or mode != "rb":
                return real(file, mode, buffering, *arguments, **options)
            self.happen("open")
            raw = files(file, "rb")
            return raw if buffering == 0 else io.BufferedReader(raw)

        return call


@pytest.fixture(autouse=True)
def every_slice_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit every slice, and skip slow syncs."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(ledger, "GROUP_SECONDS", 0.0)
    monkeypatch.setattr(ledger, "SAVE_SHARE", 1e9)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"], ids=["read in place", "spooled"])
@pytest.mark.parametrize("count", [1, float("inf")], ids=["once", "until it is repaired"])
@pytest.mark.parametrize("save", [0.0, 1e9], ids=["saving each slice", "by the log alone"])
def test_every_call_that_can_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, count: float, save: float
) -> None:
    """The run ends with an XmlPunctError; after a restart the output is as in an undisturbed run."""
    monkeypatch.setattr(ledger, "SAVE_SECONDS", save)
    monkeypatch.setattr(Spool, "start", Spool.run)  # so that slices are cut in the same way each time
    rng = random.Random(f"{encoding} {count} {save}")
    bench = Bench(tmp_path, f"{UNION} HAVING MAX(x) > 0", encoding=encoding, slice_bytes=600)
    bench.run()
    expected = bench.seen()
    failed, first = 0, 0
    while True:
        bench.clear()
        code = rng.choice(ERRORS)
        faults = Faults(tmp_path, first, count, code)
        try:
            with faults.happening():
                bench.run()
        except XmlPunctError as error:
            failed += 1
            texts = [os.strerror(code), *(["taken over"] if code == errno.ESTALE else [])]
            if not any(text in str(error) for text in texts):
                pytest.fail(f"{faults}: {error}")
        if not faults.at:
            break
        for expected_bytes, written in zip(expected, bench.seen(), strict=True):
            assert expected_bytes.startswith(written), faults
        bench.run()
        assert bench.seen() == expected, faults
        first += 1 if LONG else rng.randrange(1, 30)
    assert failed > 5


@pytest.mark.parametrize("code", ERRORS, ids=errno.errorcode.get)
def test_a_file_that_cannot_be_read_for_a_while(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Earlier results are written, the exit code is 1, the message has the reason; the same command continues."""
    monkeypatch.setattr(ledger, "SAVE_SECONDS", 1e9)
    lines = "".join(f"<t><x>{n}</x><hour>{n}</hour></t>\n" for n in range(200))
    source, out = tmp_path / "a.xml", tmp_path / "out.csv"
    source.write_text(f"<s>{lines}</s>")
    command = ("run", "--engine", "local", "--slice", "1KiB", "--threads", "1", "--format", "csv")
    command += ("-q", f"{DECLARED} SELECT x FROM a", "-s", f"a={source}", "-o", str(out))
    command += ("--checkpoint", str(tmp_path / "checkpoint"))
    reads = 0

    def fails(file: int, count: int, at: int) -> bytes:
        nonlocal reads
        reads += 1
        if reads > 12:
            raise OSError(code, os.strerror(code))
        return real(file, count, at)

    real = os.pread
    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", fails)
        ended = cli(*command)
    assert ended.code == 1
    assert f"{source}: cannot be read: {os.strerror(code)}" in ended.err
    assert "the same command continues" in ended.err
    assert 1 < len(out.read_text().splitlines()) < 201
    assert cli(*command).code == 0
    assert out.read_text().split() == ["x", *map(str, range(200))]


def test_a_part_that_cannot_be_read_while_micro_batches_are_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark plans ranges in one place and reads them in another; neither records the fault."""
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        path.write_text("<s><t><x>1</x></t></s>")
    input_ = Input("s", (0,), tuple(Part(str(path), str(path), path.stat().st_size) for path in paths))
    spec = StreamSpec("s", Schema.parse("x INT"), "t")
    elements = Parser([spec]).elements
    paths[1].rename(tmp_path / "away")
    ranges, cursor = advance(input_, elements, Cursor(), 10**6, 10**6)
    assert [r.part for r in ranges] == [0]
    assert cursor == Cursor(1)
    with pytest.raises(TransientError, match="No such file"):
        advance(input_, elements, cursor, 10**6, 10**6)
    (tmp_path / "away").rename(paths[1])
    ranges, end = advance(input_, elements, cursor, 10**6, 10**6)
    assert end.done
    assert end.failure is None

    def fails(part: Part, byte: int) -> Any:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    uncut = Uncut(input_, 10**6, {}).following(Cursor())
    assert uncut is not None
    monkeypatch.setattr(parse_ranges, "open_at", fails)
    for read in ([ranges[0]], [uncut[0]]):
        with pytest.raises(TransientError, match="Stale file handle"):
            parse_ranges.parse_ranges(input_, read, Parser([spec]))


class Failing(io.RawIOBase):
    """A file object that fails after its last byte."""

    def __init__(self, data: bytes, error: OSError, can_seek: bool) -> None:
        self._file, self._error, self._can_seek = io.BytesIO(data), error, can_seek

    def seekable(self) -> bool:
        return self._can_seek

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(min(size, 64) if size >= 0 else 64)
        if not data:
            raise self._error
        return data


@pytest.mark.parametrize(
    ("error", "is_final"),
    [
        (OSError(errno.EIO, "Input/output error"), False),
        (OSError(errno.ETIMEDOUT, "Connection timed out"), False),
        (OSError(errno.EMFILE, "Too many open files"), False),
        (ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"), True),
        (OSError("the bytes are wrong"), True),
    ],
    ids=str,
)
def test_only_some_errors_end_a_spool(tmp_path: Path, error: OSError, is_final: bool) -> None:
    """A failure of the peer ends the spool; a failure of the disk does not."""
    path = tmp_path / "spool"
    source = assembled("s", [UnopenedPart("s", None, lambda: Failing(b"<s><t/>", error, False))])  # type: ignore[arg-type,return-value]
    spool = Spool(source, 0, path)
    spool.run()
    if is_final:
        spool.check()
        end = end_of(path)
        assert end is not None
        assert (error.strerror or str(error)) in str(end.failure)
    else:
        with pytest.raises(TransientError, match=str(error.strerror)):
            spool.check()
        assert end_of(path) is None


def content(source: Source) -> bytes:
    with source.open() as reader:
        return b"".join(iter(lambda: reader.read(1000), b""))


def test_an_archive_on_a_disk_that_fails_is_not_corrupt(tmp_path: Path) -> None:
    """An I/O error is reported as such, wherever it comes; it never hides a member."""
    for kind in ("tar", "zip"):
        (tmp_path / "x.xml").write_text("<s><t><x>1</x></t></s>" * 100)
        name = shutil.make_archive(str(tmp_path / "packed"), kind, tmp_path, "x.xml")
        data = Path(name).read_bytes()
        for count in range(512, len(data), 1024):
            file = Failing(data[:count], OSError(errno.EIO, "Input/output error"), True)
            with pytest.raises(TransientError, match="Input/output error"):
                content(Source.of(file, name))


def test_the_failure_of_a_spool_is_an_error_for_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of the thread must not look like an input without data."""
    parts = [UnopenedPart(name, None, lambda: io.BytesIO(b"<s/>")) for name in "ab"]
    source = assembled("s", parts)
    first = Spool(source, 0, tmp_path / "0")
    second = Spool(source, 1, tmp_path / "1", first)
    monkeypatch.setattr(segments, "held_bytes", lambda spool: os.stat("/nowhere/at/all").st_size)
    first.run()
    with pytest.raises(TransientError, match=r"its spool .* no longer exists"):
        second.check()
