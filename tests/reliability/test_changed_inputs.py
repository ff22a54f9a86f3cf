"""Inputs that change during a run, or between a run and its restart: detected, or read as they were; never mixed."""

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
from xmlpunct.connectors import local_files
from xmlpunct.connectors.contract import open_source
from xmlpunct.engine.run.inputs import open_file, segments
from xmlpunct.engine.run.inputs.spool import Spool
from xmlpunct.engine.run.local import ledger
from xmlpunct.engine.run.local import local_run as local
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.sql import plan

SQL = "SELECT x, hour FROM a"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit every slice, and compare few bytes, so that small files have a head, a middle and an end.

    Each compared part holds a value: a punctuation and the text between two values take 65 bytes.
    """
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(ledger, "GROUP_SECONDS", 0.0)
    monkeypatch.setattr(ledger, "SAVE_SHARE", 1e9)
    monkeypatch.setattr(ledger, "SAVE_SECONDS", 0.0)
    for module in (local_files, segments, open_file):
        monkeypatch.setattr(module, "KEPT_BYTES", 80)


def bench_of(folder: Path) -> Bench:
    """A run that takes more slices than the engine reads ahead."""
    bench = Bench(folder, SQL)
    bench.sources["a"].write_text(feed(5, hours=40))
    return bench


def with_other_values(text: str) -> str:
    """A text of the same length and cut at the same places, with other values throughout."""
    return re.sub("<x>(.)</x>", lambda match: f"<x>{3 - int(match[1])}</x>", text)


def written_next_to(path: Path, text: str) -> Path:
    new_path = path.with_suffix(".new")
    new_path.write_text(text)
    return new_path


def renamed(path: Path, text: str) -> None:
    os.replace(written_next_to(path, with_other_values(text)), path)


def renamed_to_the_same(path: Path, text: str) -> None:
    os.replace(written_next_to(path, text), path)


def recreated(path: Path, text: str) -> None:
    path.unlink()
    path.write_text(with_other_values(text))


def written_over(path: Path, text: str) -> None:
    path.write_text(with_other_values(text))


def written_over_by_more(path: Path, text: str) -> None:
    path.write_text(with_other_values(text) + "<s/>")


def cut(path: Path, text: str) -> None:
    os.truncate(path, len(text) // 2)


def removed(path: Path, _: str) -> None:
    path.unlink()


def appended_to(path: Path, _: str) -> None:
    with path.open("a") as file:
        file.write("<s><t><x>9</x><hour>9</hour></t></s>")


def touched(path: Path, _: str) -> None:
    os.utime(path, (1, 1))


Change = Callable[[Path, str], None]


def run(bench: Bench, when: int, change: Callable[[], None]) -> None:
    """A run during which ``change`` is called once after slice number ``when``."""

    def on_progress(stats: RunStats) -> None:
        if stats.slices == when:
            change()

    query = plan(bench.sql, {n: str(p) for n, p in bench.sources.items()})
    # Other threads may have read the whole input before the change.
    options = replace(bench.options, threads=1)
    local.run(query, options, RunStats("local"), on_progress)


@pytest.mark.parametrize("slices", [1, 2, 5])
@pytest.mark.parametrize(
    "change", [renamed, renamed_to_the_same, recreated, written_over, written_over_by_more, cut, removed]
)
def test_changed_while_a_run_lives(tmp_path: Path, change: Change, slices: int) -> None:
    """A change is an error, after the earlier results; with the original file the run continues."""
    bench = bench_of(tmp_path)
    bench.run()
    expected = bench.seen()
    bench.clear()
    path = bench.sources["a"]
    text = path.read_text()
    with pytest.raises(SourceError, match="an input has changed") as caught:
        run(bench, slices, lambda: change(path, text))
    assert caught.value.exit_code == 1
    assert str(path) in str(caught.value)
    out, _ = bench.seen()
    assert b"<result>" in out
    assert expected[0].startswith(out)
    path.write_text(text)
    bench.run()
    assert bench.seen() == expected


@pytest.mark.parametrize("change", [appended_to, touched])
def test_changes_that_do_not_affect_the_results(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: Change
) -> None:
    """Appended bytes are not read; a warning reports them."""
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
        assert ("has grown by 36 bytes" in caplog.text) == (change is appended_to)
        bench.sources["a"].write_text(text)


@pytest.mark.parametrize("change", [renamed, renamed_to_the_same, recreated, removed])
def test_without_a_checkpoint_a_file_is_read_to_its_end(tmp_path: Path, change: Change) -> None:
    """The file stays open, so a change of its name has no effect."""
    bench = bench_of(tmp_path)
    bench.options = replace(bench.options, checkpoint=None)
    bench.run()
    expected, text = bench.seen(), bench.sources["a"].read_text()
    run(bench, 1, lambda: change(bench.sources["a"], text))
    assert bench.seen() == expected


@pytest.mark.parametrize("change", [written_over, written_over_by_more, cut])
def test_without_a_checkpoint_an_overwritten_file_is_detected(tmp_path: Path, change: Change) -> None:
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
    """Replace a file by its copy: another inode and time, the same bytes."""
    shutil.copyfile(path, path.with_suffix(".copy"))
    path.unlink()
    os.replace(path.with_suffix(".copy"), path)
    os.utime(path, (1, 1))


def with_another_head(path: Path, text: str) -> None:
    path.write_text(text.replace("<s ", "<S ", 1).replace("</s>", "</S>"))


def with_the_same_head(path: Path, text: str) -> None:
    path.write_text(text[:300] + with_other_values(text[300:]))


def died(bench: Bench) -> None:
    """A run that is interrupted about in the middle of its input."""
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
        (appended_to, False),
        (cut, False),
        (with_another_head, False),
        (with_the_same_head, False),
        (removed, False),
    ],
)
def test_changed_between_two_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Change, goes_on: bool, save: float
) -> None:
    """A copied file is accepted; another size, head, or last part that was read is refused."""
    monkeypatch.setattr(ledger, "SAVE_SECONDS", save)
    monkeypatch.setattr(open_file, "KEPT_BYTES", 200)
    bench = bench_of(tmp_path)
    bench.run()
    expected, text = bench.seen(), bench.sources["a"].read_text()
    bench.clear()
    died(bench)
    contents = bench.seen()
    change(bench.sources["a"], text)
    if not goes_on:
        message = "cannot read|No such file" if change is removed else "an input has changed"
        with pytest.raises(SourceError, match=message):
            bench.run()
        assert bench.seen()[0].startswith(contents[0])
        if change is removed:
            return
        bench.sources["a"].write_text(text)
    bench.run()
    assert bench.seen() == expected


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
@pytest.mark.parametrize(
    ("change", "goes_on"),
    [(copied, True), (appended_to, False), (cut, False), (renamed, False), (with_another_head, False)],
)
def test_a_spooled_file_that_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Change, goes_on: bool, encoding: str
) -> None:
    """The spool continues with the same file only. Its letters take more bytes in UTF-8."""
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
    """Spool a growing file until the spool has ``until`` bytes. Raises the error that ended the spool."""
    spooling = Spool(open_source(f"follow:{path}"), 0, spool)
    spooling.start()
    deadline = time.monotonic() + 20
    while spooling.is_alive() and segments.extent(spool)[0] < until:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    spooling.stop()
    spooling.join()
    spooling.check()


@pytest.mark.parametrize("size", [40, 100, 1000, 1024])
@pytest.mark.parametrize(
    ("change", "goes_on"),
    [
        (copied, True),
        (appended_to, True),
        (touched, True),
        (renamed, False),
        (written_over_by_more, False),
        (cut, False),
    ],
)
def test_a_file_that_grows_between_two_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Change, goes_on: bool, size: int
) -> None:
    """A file may grow, but not change; released bytes are compared by checksum."""
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
    content = path.read_bytes()
    follow(path, spool, len(content))
    begin = segments.segments(spool)[0] * 128
    with segments.open_at(spool, begin) as copy:
        assert copy.read() == content[begin:]


def test_a_file_that_is_written_over_while_it_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "in.xml"
    path.write_text("<s><x>1</x>")
    with open_source(f"follow:{path}").open() as reader:
        assert reader.read(100) == b"<s><x>1</x>"
        path.write_text("<s><y>1</y><y>2</y></s>")
        with pytest.raises(SourceError, match="overwritten"):
            reader.read(100)


def test_a_directory_of_spooled_files_that_gains_one(tmp_path: Path) -> None:
    """The input consists of the files that existed when the run began."""
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
        with Death(26).awaited():  # the run has begun, but its first file is not spooled yet
            bench.run()
    assert any(segments.end_of(s) is None for s in (bench.checkpoint / "spool").glob("0-?.xml"))
    (folder / "a.xml").write_text(with_other_values(text), encoding="utf-16")
    bench.run()
    assert sorted(bench.seen()[0].splitlines()) == expected


def test_a_file_that_was_cut_short_and_is_completed_later(tmp_path: Path) -> None:
    """The failed run stays finished; its error explains how to read the completed file."""
    bench = bench_of(tmp_path)
    path = bench.sources["a"]
    text = path.read_text()
    path.write_text(text[: len(text) // 2])
    messages = []
    for content in (path.read_text(), path.read_text(), text):
        path.write_text(content)
        with pytest.raises(SourceError, match="it is cut short") as caught:
            bench.run()
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    suffix = "; it has grown since, but that run has ended: read it again with another --checkpoint"
    assert messages[2] == messages[0] + suffix
    bench.clear()
    bench.run()
    assert b"</stream>" in bench.seen()[0]
