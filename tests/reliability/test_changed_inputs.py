"""Inputs that change while a run reads them, or between its lives: found out, or read as they were; never mixed."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.reliability.bench import Bench, feed
from tests.reliability.faults import Death
from xmlpunct.base.errors import SourceError
from xmlpunct.connectors import unchanged
from xmlpunct.connectors.open_source import open_source
from xmlpunct.engine.run.inputs import held, segments
from xmlpunct.engine.run.inputs.spool import Spool
from xmlpunct.engine.run.local import ledger
from xmlpunct.engine.run.local import local_run as local
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.sql import plan

SQL = "SELECT x, hour FROM a"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every slice counts, and little is looked at, so that small files have a head, a middle and an end.

    Each part that is looked at holds a value: a punctuation and what is between two values take 65 bytes.
    """
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(ledger, "GROUP_SECONDS", 0.0)
    monkeypatch.setattr(ledger, "SAVE_SHARE", 1e9)
    monkeypatch.setattr(ledger, "SAVE_SECONDS", 0.0)
    for module in (unchanged, segments, held):
        monkeypatch.setattr(module, "KEPT_BYTES", 80)


def bench_of(folder: Path) -> Bench:
    """A run that takes more slices than are read ahead."""
    found = Bench(folder, SQL)
    found.sources["a"].write_text(feed(5, hours=40))
    return found


def other(text: str) -> str:
    """As long, and cut at the same places, but with other values all over."""
    return re.sub("<x>(.)</x>", lambda found: f"<x>{3 - int(found[1])}</x>", text)


def beside(path: Path, text: str) -> Path:
    found = path.with_suffix(".new")
    found.write_text(text)
    return found


def renamed(path: Path, text: str) -> None:
    os.replace(beside(path, other(text)), path)


def renamed_to_the_same(path: Path, text: str) -> None:
    os.replace(beside(path, text), path)


def made_anew(path: Path, text: str) -> None:
    path.unlink()
    path.write_text(other(text))


def written_over(path: Path, text: str) -> None:
    path.write_text(other(text))


def written_over_by_more(path: Path, text: str) -> None:
    path.write_text(other(text) + "<s/>")


def cut(path: Path, text: str) -> None:
    os.truncate(path, len(text) // 2)


def removed(path: Path, _: str) -> None:
    path.unlink()


def added_to(path: Path, _: str) -> None:
    with path.open("a") as file:
        file.write("<s><t><x>9</x><hour>9</hour></t></s>")


def touched(path: Path, _: str) -> None:
    os.utime(path, (1, 1))


Change = Callable[[Path, str], None]


def run(bench: Bench, when: int, change: Callable[[], None]) -> None:
    """A run during which something changes after so many slices."""

    def on_progress(stats: RunStats) -> None:
        if stats.slices == when:
            change()

    query = plan(bench.sql, {n: str(p) for n, p in bench.sources.items()})
    # Other threads may have read the whole input before the change.
    options = replace(bench.options, threads=1)
    local.run(query, options, RunStats("local"), on_progress)


@pytest.mark.parametrize("slices", [1, 2, 5])
@pytest.mark.parametrize(
    "change", [renamed, renamed_to_the_same, made_anew, written_over, written_over_by_more, cut, removed]
)
def test_changed_while_a_run_lives(tmp_path: Path, change: Change, slices: int) -> None:
    """It is an error that says so; what came before is there; with the file as it was, the run goes on."""
    bench = bench_of(tmp_path)
    bench.run()
    expected = bench.seen()
    bench.clear()
    path = bench.sources["a"]
    text = path.read_text()
    with pytest.raises(SourceError, match="an input has changed") as found:
        run(bench, slices, lambda: change(path, text))
    assert found.value.exit_code == 1
    assert str(path) in str(found.value)
    out, _ = bench.seen()
    assert b"<result>" in out
    assert expected[0].startswith(out)
    path.write_text(text)
    bench.run()
    assert bench.seen() == expected


@pytest.mark.parametrize("change", [added_to, touched])
def test_what_changes_nothing_that_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: Change
) -> None:
    """What is added is not read, as a file that is added to a directory is not, but told."""
    bench = bench_of(tmp_path)
    text = bench.sources["a"].read_text()
    for checkpoint in (str(bench.checkpoint), None):
        bench.options = replace(bench.options, checkpoint=checkpoint)
        bench.run()
        expected = bench.seen()
        bench.clear()
        caplog.clear()
        run(bench, 1, lambda: change(bench.sources["a"], text))
        assert bench.seen() == expected
        assert ("has grown by 36 bytes" in caplog.text) == (change is added_to)
        bench.sources["a"].write_text(text)


@pytest.mark.parametrize("change", [renamed, renamed_to_the_same, made_anew, removed])
def test_without_a_checkpoint_a_file_is_read_to_its_end(tmp_path: Path, change: Change) -> None:
    """Whatever its name is given to: it was opened once."""
    bench = bench_of(tmp_path)
    bench.options = replace(bench.options, checkpoint=None)
    bench.run()
    expected, text = bench.seen(), bench.sources["a"].read_text()
    run(bench, 1, lambda: change(bench.sources["a"], text))
    assert bench.seen() == expected


@pytest.mark.parametrize("change", [written_over, written_over_by_more, cut])
def test_without_a_checkpoint_what_is_written_over_is_found_out(tmp_path: Path, change: Change) -> None:
    bench = bench_of(tmp_path)
    bench.options = replace(bench.options, checkpoint=None)
    bench.run()
    expected, text = bench.seen(), bench.sources["a"].read_text()
    with pytest.raises(SourceError, match="an input has changed"):
        run(bench, 2, lambda: change(bench.sources["a"], text))
    out, _ = bench.seen()
    assert b"<result>" in out
    assert expected[0].startswith(out)


def copied(path: Path, _: str) -> None:
    """Another inode, another time, the same bytes."""
    shutil.copyfile(path, path.with_suffix(".copy"))
    path.unlink()
    os.replace(path.with_suffix(".copy"), path)
    os.utime(path, (1, 1))


def with_another_head(path: Path, text: str) -> None:
    path.write_text(text.replace("<s ", "<S ", 1).replace("</s>", "</S>"))


def with_the_same_head(path: Path, text: str) -> None:
    path.write_text(text[:300] + other(text[300:]))


def died(bench: Bench) -> None:
    """A life that ended about in the middle of its input."""
    size = bench.sources["a"].stat().st_size

    class Enough(BaseException):
        pass

    def enough() -> None:
        raise Enough

    with pytest.raises(Enough):
        run(bench, max(size // 2 // 200, 1), enough)


@pytest.mark.parametrize("save", [0.0, 1e9], ids=["saving each slice", "by the log alone"])
@pytest.mark.parametrize(
    ("change", "goes_on"),
    [
        (copied, True),
        (touched, True),
        (renamed_to_the_same, True),
        (renamed, False),
        (written_over_by_more, False),
        (added_to, False),
        (cut, False),
        (with_another_head, False),
        (with_the_same_head, False),
        (removed, False),
    ],
)
def test_changed_between_two_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Change, goes_on: bool, save: float
) -> None:
    """No restart is refused because a file was copied; any is where size, head or what was read last differs."""
    monkeypatch.setattr(ledger, "SAVE_SECONDS", save)
    monkeypatch.setattr(held, "KEPT_BYTES", 200)
    bench = bench_of(tmp_path)
    bench.run()
    expected, text = bench.seen(), bench.sources["a"].read_text()
    bench.clear()
    died(bench)
    seen = bench.seen()
    change(bench.sources["a"], text)
    if not goes_on:
        says = "cannot read|No such file" if change is removed else "an input has changed"
        with pytest.raises(SourceError, match=says):
            bench.run()
        assert bench.seen()[0].startswith(seen[0])
        if change is removed:
            return
        bench.sources["a"].write_text(text)
    bench.run()
    assert bench.seen() == expected


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
@pytest.mark.parametrize(
    ("change", "goes_on"),
    [(copied, True), (added_to, False), (cut, False), (renamed, False), (with_another_head, False)],
)
def test_a_spooled_file_that_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Change, goes_on: bool, encoding: str
) -> None:
    """Such a one is copied; the copy goes on with the same file only. Letters take more bytes in UTF-8."""
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 256)
    bench = bench_of(tmp_path)
    path = bench.sources["a"]
    text = f"<?xml version='1.0' encoding='{encoding}'?>" + path.read_text().replace("\n", "<!-- éé -->\n")
    path.write_text(text, encoding=encoding)
    bench.run()
    expected = sorted(bench.seen()[0].splitlines())
    bench.clear()
    with monkeypatch.context() as patch:
        patch.setattr(Spool, "start", Spool.run)
        with Death(40).awaited():
            bench.run()
    assert segments.end_of(bench.checkpoint / "spool" / "0-0.xml") is None
    assert segments.extent(bench.checkpoint / "spool" / "0-0.xml")[0] > 0
    if change is not copied:
        path.write_text(text)
    change(path, text)
    if change is not copied:
        path.write_text(path.read_text(), encoding=encoding)
    if not goes_on:
        with pytest.raises(SourceError, match="an input has changed"):
            bench.run()
        path.write_text(text, encoding=encoding)
    bench.run()
    assert sorted(bench.seen()[0].splitlines()) == expected


def follow(path: Path, spool: Path, until: int) -> None:
    """Copy a file that grows until so much of it is there. Raises what keeps it from being copied."""
    running = Spool(open_source(f"follow:{path}"), 0, spool)
    running.start()
    deadline = time.monotonic() + 20
    while running.is_alive() and segments.extent(spool)[0] < until:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    running.stop()
    running.join()
    running.check()


@pytest.mark.parametrize("size", [40, 100, 1000, 1024])
@pytest.mark.parametrize(
    ("change", "goes_on"),
    [
        (copied, True),
        (added_to, True),
        (touched, True),
        (renamed, False),
        (written_over_by_more, False),
        (cut, False),
    ],
)
def test_a_file_that_grows_between_two_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Change, goes_on: bool, size: int
) -> None:
    """It may have grown, but not become another; what was released is known by its checksums."""
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 128)
    path, spool = tmp_path / "in.xml", tmp_path / "0-0.xml"
    text = ("<s><x>1</x><x>2</x>" + "<x>0</x>" * 200)[:size]
    path.write_text(text)
    follow(path, spool, len(text))
    segments.release(spool, len(text))
    change(path, text)
    if not goes_on:
        with pytest.raises(SourceError, match="an input has changed"):
            follow(path, spool, len(text) + 1)
        assert segments.end_of(spool) is None
        path.write_text(text)
    with path.open("a") as file:
        file.write("<x>7</x>")
    whole = path.read_bytes()
    follow(path, spool, len(whole))
    begin = segments.segments(spool)[0] * 128
    with segments.open_at(spool, begin) as copy:
        assert copy.read() == whole[begin:]


def test_a_file_that_is_written_over_while_it_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "in.xml"
    path.write_text("<s><x>1</x>")
    with open_source(f"follow:{path}").open() as reader:
        assert reader.read(100) == b"<s><x>1</x>"
        path.write_text("<s><y>1</y><y>2</y></s>")
        with pytest.raises(SourceError, match="overwritten"):
            reader.read(100)


def test_a_directory_of_spooled_files_that_gains_one(tmp_path: Path) -> None:
    """The files are those that were there when the run began."""
    bench = bench_of(tmp_path)
    folder, text = tmp_path / "in", bench.sources["a"].read_text()
    folder.mkdir()
    for name in ("b.xml", "c.xml"):
        (folder / name).write_text(text, encoding="utf-16")
    bench.sources["a"] = folder
    bench.run()
    expected = sorted(bench.seen()[0].splitlines())
    bench.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Spool, "start", Spool.run)
        with Death(26).awaited():  # the run has begun, and its first file is not copied
            bench.run()
    assert any(segments.end_of(s) is None for s in (bench.checkpoint / "spool").glob("0-?.xml"))
    (folder / "a.xml").write_text(other(text), encoding="utf-16")
    bench.run()
    assert sorted(bench.seen()[0].splitlines()) == expected


def test_a_file_that_was_cut_short_and_is_completed_later(tmp_path: Path) -> None:
    """The failed run stays over, since its end was seen; it says how to read the rest."""
    bench = bench_of(tmp_path)
    path = bench.sources["a"]
    text = path.read_text()
    path.write_text(text[: len(text) // 2])
    told = []
    for content in (path.read_text(), path.read_text(), text):
        path.write_text(content)
        with pytest.raises(SourceError, match="it is cut short") as found:
            bench.run()
        told.append(str(found.value))
    assert told[0] == told[1]
    grown = "; it has grown since, but that run has ended: read it again with another --checkpoint"
    assert told[2] == told[0] + grown
    bench.clear()
    bench.run()
    assert b"</stream>" in bench.seen()[0]
