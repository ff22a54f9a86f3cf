"""Checkpoints that are damaged, older than their output, copied or lost: a run goes on right, or is refused."""

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
    """Nothing is grouped; spools are copied at once; syncing is not for these tests to find out."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(ledger, "GROUP_SECONDS", 0.0)
    monkeypatch.setattr(ledger, "SAVE_SHARE", 1e9)
    monkeypatch.setattr(ledger, "SAVE_SECONDS", 1e9)
    monkeypatch.setattr(Spool, "start", Spool.run)


class Place:
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
        """What it holds, sorted."""
        if self.kind == "table":
            with closing(sqlite3.connect(self.file)) as database:
                return sorted(database.execute("SELECT x, hour FROM t").fetchall())
        if self.kind == "directory":
            return sorted(row for path in self.out.glob("part-*") for row in pl.read_parquet(path).rows())
        return sorted(self.out.read_bytes().splitlines())

    def remove(self) -> None:
        """Forget the output."""
        shutil.rmtree(self.out) if self.out.is_dir() else self.out.unlink(missing_ok=True)

    def clear(self) -> None:
        """Forget all of it."""
        self.remove()
        shutil.rmtree(self.bench.checkpoint, ignore_errors=True)

    def hold(self, folder: Path) -> None:
        """Copy the checkpoint and the output."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.bench.checkpoint, folder / "checkpoint")
        copy = shutil.copytree if self.out.is_dir() else shutil.copy
        copy(self.out, folder / "out")

    def bring_back(self, folder: Path) -> None:
        """Put the copies where the originals were."""
        self.clear()
        shutil.copytree(folder / "checkpoint", self.bench.checkpoint)
        copy = shutil.copytree if (folder / "out").is_dir() else shutil.copy
        copy(folder / "out", self.out)


KINDS = ("file", "table", "directory")


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(dataset, "FILE_BYTES", 150)
    return Place(tmp_path, request.param)


def killed(place: Place, calls: int) -> None:
    with (death := Death(calls)).awaited():
        place.bench.run()
    assert death.came


def flips(data: bytes, step: int) -> Iterator[tuple[int, bytes]]:
    """The same bytes, but for a bit of one of them."""
    for at in range(0, len(data), step):
        yield at, data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :]


def test_every_flipped_byte_of_a_log(tmp_path: Path) -> None:
    """Only the last record that was appended can be taken for one that was never written as a whole."""
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
    for at, broken in flips(data, 1):
        path.write_bytes(broken)
        if at >= sizes[-2]:
            assert WriteAheadLog(path).read() == records[:-1]
        else:
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


def test_numbers_go_on_where_records_are_replaced(tmp_path: Path) -> None:
    """A record of before, put behind the new ones, is not taken for one of them."""
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
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: float
) -> None:
    """A run that was killed goes on to the right results, or is refused; with any byte of its log flipped."""
    place.bench.run()
    expected = place.rows()
    place.clear()
    monkeypatch.setattr(ledger, "SAVE_SECONDS", save)
    killed(place, {"file": 50, "table": 30, "directory": 70}[place.kind])
    held, log = tmp_path / "held", place.bench.checkpoint / "log"
    place.hold(held)
    refused = 0
    data = log.read_bytes()
    for at, broken in flips(data, 1 if LONG else max(len(data) // 60, 1)):
        place.bring_back(held)
        log.write_bytes(broken)
        try:
            place.bench.run()
        except (XmlPunctError, UsageError):
            refused += 1
        else:
            assert place.rows() == expected, at
    assert refused > 20


def test_every_older_checkpoint(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was copied at any moment, put back beside an output that has gone on; slices are cut otherwise then."""
    place.bench.run()
    expected = place.rows()
    place.clear()
    copies = list[Path]()
    for name in ("commit", "put_down"):
        real = getattr(Checkpoint, name)

        def call(self: Checkpoint, *given: Any, real: Any = real) -> None:
            real(self, *given)
            copies.append(tmp_path / f"copy{len(copies)}")
            shutil.copytree(self.path, copies[-1])

        monkeypatch.setattr(Checkpoint, name, call)
    deaths = (60, 90) if place.kind == "directory" else (45, 70)
    for calls in deaths:
        with Death(calls).awaited():
            place.bench.run()
    monkeypatch.undo()
    held = tmp_path / "held"
    place.hold(held)
    monkeypatch.setattr(ledger, "GROUP_SECONDS", 1e9)  # so groups are cut otherwise
    monkeypatch.setattr(dataset, "FILE_BYTES", 200)
    reasons = list[str]()
    for copy in copies:
        place.bring_back(held)
        shutil.rmtree(place.bench.checkpoint)
        shutil.copytree(copy, place.bench.checkpoint)
        try:
            place.bench.run()
        except XmlPunctError as error:
            reasons.append(str(error))
        else:
            assert place.rows() == expected, copy
    assert len(copies) > 5
    assert (len(reasons) > 3) == (place.kind != "file")
    assert all("older" in reason or "committed" in reason for reason in reasons), reasons


def test_a_flipped_byte_of_a_spool(tmp_path: Path) -> None:
    """No tuple is another one, whichever byte of the open segment is flipped."""
    place = Place(tmp_path, "file", encoding="utf-16")
    place.bench.run()
    expected = place.rows()
    place.clear()
    killed(place, 75)
    held = tmp_path / "held"
    place.hold(held)
    reasons = list[str]()
    for path in sorted((place.bench.checkpoint / "spool").glob("?-0.xml")):
        data = path.read_bytes()
        text = len(feed(7, 3))
        places = [*range(0, text, 17), *range(segments.SEGMENT_BYTES, len(data), 3)]
        for at in places:
            place.bring_back(held)
            with open(path, "r+b") as file:
                file.seek(at)
                file.write(bytes([data[at] ^ 1]))
            try:
                place.bench.run()
            except XmlPunctError as error:
                reasons.append(str(error))
            else:
                assert place.rows() == expected, at
    assert len(reasons) > 20
    assert all("damaged" in reason for reason in reasons), reasons


@pytest.mark.parametrize("tail", [b"\0" * 64, b"\0\0\0\x40\0\0\0\0", b"\xff" * 13], ids=str)
def test_what_was_not_synced_of_a_spool_is_cut(tmp_path: Path, tail: bytes) -> None:
    """After a power failure a file may be longer than it was when it was synced, and hold anything there."""
    place = Place(tmp_path, "file", encoding="utf-16")
    place.bench.run()
    expected = place.rows()
    place.clear()
    for calls in range(40, 90, 5):
        with Death(calls).awaited():
            place.bench.run()
        for path in (place.bench.checkpoint / "spool").glob("?-0.xml"):
            if segments.end_of(path) is None and segments.extent(path)[0]:
                with open(path, "ab") as file:
                    file.write(tail)
        place.bench.run()
        assert place.rows() == expected
        place.clear()


def test_the_tail_that_is_cut_is_what_was_not_synced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    segments.create(path)
    with segments.SpoolWriter(path, None) as out:  # type: ignore[arg-type] - there is room
        for piece in (b"one", b"two", b"three"):
            out.append(piece)
    whole = path.read_bytes()
    for lost, left in ((b"three", b"onetwo"), (b"two", None), (b"one", None)):
        path.write_bytes(whole.replace(lost, b"\0" * len(lost)))
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
    """What a copy reads and writes is its own, and a run goes on from where its checkpoint is now."""
    place = Place(tmp_path, "file", encoding="utf-16")
    place.bench.run()
    expected = place.rows()
    place.clear()
    killed(place, 70)
    first, copy = place.bench.checkpoint, tmp_path / "elsewhere" / "copy"
    shutil.copytree(first, copy)
    held = {path: path.read_bytes() for path in first.rglob("*") if path.is_file()}
    assert any("spool" in path.parts for path in held)
    place.bench.options = replace(place.bench.options, checkpoint=str(copy))
    place.bench.run()
    assert place.rows() == expected
    assert {path: path.read_bytes() for path in first.rglob("*") if path.is_file()} == held
    first.rename(tmp_path / "moved")
    place.bench.options = replace(place.bench.options, checkpoint=str(tmp_path / "moved"))
    place.bench.run()
    assert place.rows() == expected


def test_a_checkpoint_is_lost(place: Place) -> None:
    """A new run is refused over results of another, and replaces them where it is asked to; without one it may."""
    place.bench.run()
    expected = place.rows()
    shutil.rmtree(place.bench.checkpoint)
    for _ in range(2):
        with pytest.raises(UsageError, match="--replace"):
            place.bench.run()
        assert place.rows() == expected
    given = place.bench.options
    place.bench.options = replace(given, replaces=True)
    place.bench.run()
    assert place.rows() == expected
    place.bench.run()  # which is over
    assert place.rows() == expected
    place.remove()
    shutil.rmtree(place.bench.checkpoint)
    place.bench.options = given
    place.bench.run()
    assert place.rows() == expected


def test_replacing_is_done_once(place: Place) -> None:
    """The command that was killed goes on, with its --replace."""
    place.bench.run()
    expected = place.rows()
    shutil.rmtree(place.bench.checkpoint)
    place.bench.options = replace(place.bench.options, replaces=True)
    for calls in (15, 25, 40, 55, 70, 85):
        with Death(calls).awaited(), suppress(OSError):
            place.bench.run()
        place.bench.run()
        assert place.rows() == expected
        shutil.rmtree(place.bench.checkpoint)


def test_without_a_checkpoint_nothing_is_refused(tmp_path: Path) -> None:
    for kind, times in (("file", 1), ("table", 2)):
        place = Place(tmp_path, kind)
        place.bench.options = replace(place.bench.options, checkpoint=None)
        place.bench.run()
        rows = place.rows()
        place.bench.run()
        assert place.rows() == sorted(rows * times)
        place.bench.options = replace(place.bench.options, replaces=True)
        place.bench.run()
        assert place.rows() == rows


def test_a_directory_keeps_what_no_run_wrote(tmp_path: Path) -> None:
    place = Place(tmp_path, "directory")
    place.bench.run()
    shutil.rmtree(place.bench.checkpoint)
    (place.out / "notes.txt").write_text("mine")
    place.bench.options = replace(place.bench.options, replaces=True)
    with pytest.raises(UsageError, match=r"holds notes\.txt"):
        place.bench.run()
    assert (place.out / "notes.txt").exists()


@pytest.mark.parametrize("lost", ["file", "table"])
@pytest.mark.parametrize("is_over", [True, False])
def test_a_database_is_lost(tmp_path: Path, lost: str, is_over: bool) -> None:
    place = Place(tmp_path, "table")
    if is_over:
        place.bench.run()
    else:
        killed(place, 30)
    if lost == "file":
        place.remove()
    else:
        with closing(sqlite3.connect(place.file)) as database:
            database.execute("DROP TABLE t")
    # Without a commit the log alone holds what was written: all of it is written again.
    if lost == "file" and not is_over:
        place.bench.run()
        assert place.rows()
        return
    for _ in range(2):
        with pytest.raises(XmlPunctError, match="does not contain the committed"):
            place.bench.run()
    assert place.file.exists() == (lost == "table")


def test_an_older_database_is_written_to(tmp_path: Path) -> None:
    """Its table of progress had no digests. What it holds of other runs counts."""
    place = Place(tmp_path, "table")
    with closing(sqlite3.connect(place.file)) as database:
        database.execute(
            f"CREATE TABLE {PROGRESS} (run TEXT, target TEXT, number INTEGER, PRIMARY KEY (run, target))"
        )
        database.execute("CREATE TABLE t (x INTEGER, hour INTEGER)")
        database.execute(f"INSERT INTO {PROGRESS} VALUES ('old', 'u', 3)")
        database.commit()
    killed(place, 30)
    place.bench.run()
    rows = place.rows()
    assert len(rows) == 18
    shutil.rmtree(place.bench.checkpoint)
    with closing(sqlite3.connect(place.file)) as database:
        database.execute(f"UPDATE {PROGRESS} SET digest = NULL, run = 'older' WHERE target = 't'")
        database.commit()
    with pytest.raises(UsageError, match="results of another run"):
        place.bench.run()


def test_sqlite_commits_durably(tmp_path: Path) -> None:
    from xmlpunct.connectors.database_dialects import Sqlite

    dialect = Sqlite(str(tmp_path / "x.db"))
    dialect.connect()
    assert dialect.rows("PRAGMA synchronous") == [(3,)]
    dialect.close()
