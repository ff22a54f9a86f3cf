"""Damaged, outdated, copied or lost checkpoints: the results are right, or the run is refused."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.reliability.bench import Bench, feed
from tests.reliability.faults import Death
from tests.reliability.support import LONG
from xmlpunct.base.errors import UsageError, XmlPunctError
from xmlpunct.connectors.databases import PROGRESS
from xmlpunct.engine.run.checkpoint.checkpoint import Checkpoint
from xmlpunct.engine.run.checkpoint.log import DamagedError, WriteAheadLog
from xmlpunct.engine.run.datasets import dataset
from xmlpunct.engine.run.inputs import segments
from xmlpunct.engine.run.inputs.spool import Spool
from xmlpunct.engine.run.local import ledger

SQL = "SELECT x, hour FROM a UNION ALL SELECT x, hour FROM b"


@pytest.fixture(autouse=True)
def every_slice_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit every slice, copy spools at once, and skip slow syncs."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(ledger, "GROUP_SECONDS", 0.0)
    monkeypatch.setattr(ledger, "SAVE_SHARE", 1e9)
    monkeypatch.setattr(ledger, "SAVE_SECONDS", 1e9)
    monkeypatch.setattr(Spool, "start", Spool.run)


class Target:
    """A run into a file, a table, or a directory of files."""

    def __init__(self, folder: Path, kind: str, **options: Any) -> None:
        self.kind, self.bench = kind, Bench(folder, SQL, **{"slice_bytes": 250} | options)
        for path in self.bench.sources.values():
            path.write_text(feed(7, 3), encoding=options.get("encoding", "utf-8"))
        self.file = folder / "x.db"
        outputs = {
            "file": str(self.bench.out),
            "table": f"sqlite:///{self.file}?table=t",
            "directory": f"{folder / 'out'}/",
        }
        self.out = self.file if kind == "table" else Path(outputs[kind])
        form = {"format": "parquet" if kind == "directory" else "xml"}
        self.bench.options = replace(self.bench.options, output=outputs[kind], rejects=None, **form)

    def rows(self) -> list[Any]:
        """The rows of the output, sorted."""
        if self.kind == "table":
            with closing(sqlite3.connect(self.file)) as database:
                return sorted(database.execute("SELECT x, hour FROM t").fetchall())
        if self.kind == "directory":
            return sorted(row for path in self.out.glob("part-*") for row in pl.read_parquet(path).rows())
        return sorted(self.out.read_bytes().splitlines())

    def remove(self) -> None:
        """Remove the output."""
        shutil.rmtree(self.out) if self.out.is_dir() else self.out.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove the output and the checkpoint."""
        self.remove()
        shutil.rmtree(self.bench.checkpoint, ignore_errors=True)

    def hold(self, folder: Path) -> None:
        """Copy the checkpoint and the output to a folder."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.bench.checkpoint, folder / "checkpoint")
        copy = shutil.copytree if self.out.is_dir() else shutil.copy
        copy(self.out, folder / "out")

    def bring_back(self, folder: Path) -> None:
        """Replace the checkpoint and the output by their copies."""
        self.clear()
        shutil.copytree(folder / "checkpoint", self.bench.checkpoint)
        copy = shutil.copytree if (folder / "out").is_dir() else shutil.copy
        copy(folder / "out", self.out)


KINDS = ("file", "table", "directory")


@pytest.fixture(params=KINDS)
def target(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    monkeypatch.setattr(dataset, "FILE_BYTES", 150)
    return Target(tmp_path, request.param)


def killed(target: Target, calls: int) -> None:
    with (death := Death(calls)).awaited():
        target.bench.run()
    assert death.came


def flips(data: bytes, step: int) -> Iterator[tuple[int, bytes]]:
    """Copies of the bytes with one flipped bit each, and the position of its byte."""
    for position in range(0, len(data), step):
        yield position, data[:position] + bytes([data[position] ^ (1 << position % 8)]) + data[position + 1 :]


def test_every_flipped_byte_of_a_log(tmp_path: Path) -> None:
    """Damage is an error. Missing bytes at the end are a torn write."""
    path, log = tmp_path / "log", WriteAheadLog(tmp_path / "log")
    records = [{"a": b"one"}, {"b": b"\0" * 40}, {"c": b"three" * 9}, {"d": b""}]
    log.replace(*records[:2])
    saved = path.stat().st_size
    sizes = []
    for record in records[2:]:
        log.append(record)
        sizes.append(path.stat().st_size)
    log.close()
    data = path.read_bytes()
    for _, broken in flips(data, 1):
        path.write_bytes(broken)
        with pytest.raises(DamagedError, match="log is damaged"):
            WriteAheadLog(path).read()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        if size in (0, *range(saved, len(data))):
            assert WriteAheadLog(path).read() == records[: 0 if not size else 2 + (size >= sizes[0])]
        elif size >= saved // 2 + 20:
            with pytest.raises(DamagedError, match="log is damaged"):
                WriteAheadLog(path).read()
    path.write_bytes(data[:saved] + data[sizes[0] :])
    with pytest.raises(DamagedError):  # a record is missing
        WriteAheadLog(path).read()


def test_record_numbers_continue_after_a_replacement(tmp_path: Path) -> None:
    """A record of an earlier log after the records of its replacement is damage."""
    log = WriteAheadLog(tmp_path / "log")
    log.replace({"a": b"1"})
    log.append({"b": b"2"})
    old = log.path.read_bytes()
    WriteAheadLog(tmp_path / "log").replace({"a": b"3"})
    new = log.path.read_bytes()
    log.path.write_bytes(new + old[len(new) :])
    with pytest.raises(DamagedError):
        WriteAheadLog(log.path).read()
    log.close()


def test_a_record_that_could_not_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = WriteAheadLog(tmp_path / "log")
    log.append({"a": b"1"})
    with monkeypatch.context() as patch:

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        patch.setattr(os, "fsync", full)
        with pytest.raises(XmlPunctError, match="No space"):
            log.append({"b": b"2" * 99})
    log.append({"c": b"3"})
    log.close()
    assert WriteAheadLog(log.path).read() == [{"a": b"1"}, {"c": b"3"}]


@pytest.mark.parametrize("save", [0.0, 1e9], ids=["saving each slice", "by the log alone"])
def test_a_flipped_byte_of_a_run(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: float
) -> None:
    """With any byte of its log flipped, a killed run is refused."""
    target.bench.run()
    expected = target.rows()
    target.clear()
    monkeypatch.setattr(ledger, "SAVE_SECONDS", save)
    killed(target, {"file": 50, "table": 30, "directory": 70}[target.kind])
    copies, log = tmp_path / "held", target.bench.checkpoint / "log"
    target.hold(copies)
    refusals = 0
    data = log.read_bytes()
    for position, broken in flips(data, 1 if LONG else max(len(data) // 60, 1)):
        target.bring_back(copies)
        log.write_bytes(broken)
        with pytest.raises(DamagedError, match="log is damaged"):
            target.bench.run()
        assert log.read_bytes() == broken, position
        refusals += 1
    assert refusals > 20
    target.bring_back(copies)
    target.bench.run()
    assert target.rows() == expected


def test_every_older_checkpoint(target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore a checkpoint of every commit next to a newer output; slices are then cut differently."""
    target.bench.run()
    expected = target.rows()
    target.clear()
    checkpoints = list[Path]()
    for name in ("commit", "put_down"):
        real = getattr(Checkpoint, name)

        def call(self: Checkpoint, *arguments: Any, real: Any = real) -> None:
            real(self, *arguments)
            copy = tmp_path / f"copy{len(checkpoints)}"
            shutil.rmtree(copy, ignore_errors=True)  # a copy that a death interrupted
            shutil.copytree(self.path, copy)
            checkpoints.append(copy)

        monkeypatch.setattr(Checkpoint, name, call)
    deaths = (60, 90) if target.kind == "directory" else (45, 70)
    for calls in deaths:
        with Death(calls).awaited():
            target.bench.run()
    monkeypatch.undo()
    backup = tmp_path / "held"
    target.hold(backup)
    monkeypatch.setattr(ledger, "GROUP_SECONDS", 1e9)  # so groups have other limits
    monkeypatch.setattr(dataset, "FILE_BYTES", 200)
    reasons = list[str]()
    for checkpoint in checkpoints:
        target.bring_back(backup)
        shutil.rmtree(target.bench.checkpoint)
        shutil.copytree(checkpoint, target.bench.checkpoint)
        try:
            target.bench.run()
        except XmlPunctError as error:
            reasons.append(str(error))
        else:
            assert target.rows() == expected, checkpoint
    assert len(checkpoints) > 5
    assert (len(reasons) > 3) == (target.kind != "file")
    assert all("older" in reason or "committed" in reason for reason in reasons), reasons


def test_a_flipped_byte_of_a_spool(tmp_path: Path) -> None:
    """A flipped byte of the open segment is refused."""
    target = Target(tmp_path, "file", encoding="utf-16")
    target.bench.run()
    expected = target.rows()
    target.clear()
    killed(target, 75)
    backup = tmp_path / "held"
    target.hold(backup)
    reasons = list[str]()
    for path in sorted((target.bench.checkpoint / "spool").glob("?-0.xml")):
        data = path.read_bytes()
        text_bytes = len(feed(7, 3))
        positions = [*range(0, text_bytes, 17), *range(segments.SEGMENT_BYTES, len(data), 3)]
        for position in positions:
            target.bring_back(backup)
            with open(path, "r+b") as file:
                file.seek(position)
                file.write(bytes([data[position] ^ 1]))
            with pytest.raises(XmlPunctError, match="damaged") as refusal:
                target.bench.run()
            reasons.append(str(refusal.value))
    assert len(reasons) > 20
    assert any("spool" in reason for reason in reasons)
    target.bring_back(backup)
    target.bench.run()
    assert target.rows() == expected


@pytest.mark.parametrize("tail", [b"\0" * 64, b"\0\0\0\x40\0\0\0\0", b"\xff" * 13], ids=str)
def test_the_unsynced_end_of_a_spool_is_cut(tmp_path: Path, tail: bytes) -> None:
    """After a power failure a file may end with arbitrary bytes that were never synced."""
    target = Target(tmp_path, "file", encoding="utf-16")
    target.bench.run()
    expected = target.rows()
    target.clear()
    for calls in range(40, 90, 5):
        with Death(calls).awaited():
            target.bench.run()
        for path in (target.bench.checkpoint / "spool").glob("?-0.xml"):
            if segments.end_of(path) is None and segments.extent(path)[0]:
                with open(path, "ab") as file:
                    file.write(tail)
        target.bench.run()
        assert target.rows() == expected
        target.clear()


def test_only_the_unsynced_tail_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "s"
    segments.create(path)
    with segments.SpoolWriter(path, None) as out:  # type: ignore[arg-type] - there is room
        for piece in (b"one", b"two", b"three"):
            out.append(piece)
    content = path.read_bytes()
    for lost, left in ((b"three", b"onetwo"), (b"two", None), (b"one", None)):
        path.write_bytes(content.replace(lost, b"\0" * len(lost)))
        if left is None:
            with pytest.raises(DamagedError):
                segments.recover(path)
            with segments.open_at(path, 0) as file, pytest.raises(DamagedError):
                file.read()
        else:
            segments.recover(path)
            with segments.open_at(path, 1) as file:
                assert file.read() == left[1:]
            assert segments.extent(path)[0] == len(left)


def test_a_checkpoint_is_moved_and_copied(tmp_path: Path) -> None:
    """A run that uses a copy leaves the original as it is; a moved checkpoint continues its run."""
    target = Target(tmp_path, "file", encoding="utf-16")
    target.bench.run()
    expected = target.rows()
    target.clear()
    killed(target, 70)
    first, copied = target.bench.checkpoint, tmp_path / "elsewhere" / "copy"
    shutil.copytree(first, copied)
    contents = {path: path.read_bytes() for path in first.rglob("*") if path.is_file()}
    assert any("spool" in path.parts for path in contents)
    target.bench.options = replace(target.bench.options, checkpoint=str(copied))
    target.bench.run()
    assert target.rows() == expected
    assert {path: path.read_bytes() for path in first.rglob("*") if path.is_file()} == contents
    first.rename(tmp_path / "moved")
    target.bench.options = replace(target.bench.options, checkpoint=str(tmp_path / "moved"))
    target.bench.run()
    assert target.rows() == expected


def test_a_checkpoint_is_lost(target: Target) -> None:
    """A new run is refused over another run's results, unless --replace is set or the output is removed."""
    target.bench.run()
    expected = target.rows()
    shutil.rmtree(target.bench.checkpoint)
    for _ in range(2):
        with pytest.raises(UsageError, match="--replace"):
            target.bench.run()
        assert target.rows() == expected
    options = target.bench.options
    target.bench.options = replace(options, replaces=True)
    target.bench.run()
    assert target.rows() == expected
    target.bench.run()  # the run has finished
    assert target.rows() == expected
    target.remove()
    shutil.rmtree(target.bench.checkpoint)
    target.bench.options = options
    target.bench.run()
    assert target.rows() == expected


def test_replacing_is_done_once(target: Target) -> None:
    """A killed run with --replace continues by the same command."""
    target.bench.run()
    expected = target.rows()
    shutil.rmtree(target.bench.checkpoint)
    target.bench.options = replace(target.bench.options, replaces=True)
    for calls in (15, 25, 40, 55, 70, 85):
        with Death(calls).awaited(), suppress(OSError):
            target.bench.run()
        target.bench.run()
        assert target.rows() == expected
        shutil.rmtree(target.bench.checkpoint)


def test_without_a_checkpoint_nothing_is_refused(tmp_path: Path) -> None:
    for kind, times in (("file", 1), ("table", 2)):
        target = Target(tmp_path, kind)
        target.bench.options = replace(target.bench.options, checkpoint=None)
        target.bench.run()
        rows = target.rows()
        target.bench.run()
        assert target.rows() == sorted(rows * times)
        target.bench.options = replace(target.bench.options, replaces=True)
        target.bench.run()
        assert target.rows() == rows


def test_a_directory_keeps_foreign_files(tmp_path: Path) -> None:
    target = Target(tmp_path, "directory")
    target.bench.run()
    shutil.rmtree(target.bench.checkpoint)
    (target.out / "notes.txt").write_text("mine")
    target.bench.options = replace(target.bench.options, replaces=True)
    with pytest.raises(UsageError, match=r"holds notes\.txt"):
        target.bench.run()
    assert (target.out / "notes.txt").exists()


@pytest.mark.parametrize("lost", ["file", "table"])
@pytest.mark.parametrize("is_over", [True, False])
def test_a_database_is_lost(tmp_path: Path, lost: str, is_over: bool) -> None:
    target = Target(tmp_path, "table")
    if is_over:
        target.bench.run()
    else:
        killed(target, 30)
    if lost == "file":
        target.remove()
    else:
        with closing(sqlite3.connect(target.file)) as database:
            database.execute("DROP TABLE t")
    # Without a commit only the log holds the results, and all are written again.
    if lost == "file" and not is_over:
        target.bench.run()
        assert target.rows()
        return
    for _ in range(2):
        with pytest.raises(XmlPunctError, match="does not contain the committed"):
            target.bench.run()
    assert target.file.exists() == (lost == "table")


def test_an_older_database_is_written_to(tmp_path: Path) -> None:
    """A progress table of an older version has no digests; its rows of other runs still count."""
    target = Target(tmp_path, "table")
    with closing(sqlite3.connect(target.file)) as database:
        database.execute(
            f"CREATE TABLE {PROGRESS} (run TEXT, target TEXT, number INTEGER, PRIMARY KEY (run, target))"
        )
        database.execute("CREATE TABLE t (x INTEGER, hour INTEGER)")
        database.execute(f"INSERT INTO {PROGRESS} VALUES ('old', 'u', 3)")
        database.commit()
    killed(target, 30)
    target.bench.run()
    rows = target.rows()
    assert len(rows) == 18
    shutil.rmtree(target.bench.checkpoint)
    with closing(sqlite3.connect(target.file)) as database:
        database.execute(f"UPDATE {PROGRESS} SET digest = NULL, run = 'older' WHERE target = 't'")
        database.commit()
    with pytest.raises(UsageError, match="results of another run"):
        target.bench.run()


def test_sqlite_commits_durably(tmp_path: Path) -> None:
    from xmlpunct.connectors.database_dialects import Sqlite

    dialect = Sqlite(str(tmp_path / "x.db"))
    dialect.connect()
    assert dialect.rows("PRAGMA synchronous") == [(3,)]
    dialect.close()
