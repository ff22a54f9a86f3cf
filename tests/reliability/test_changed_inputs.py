"""Inputs that change while a run reads them, or between its lives: found out, or read as they were; never mixed."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.reliability.bench import Bench, feed
from tests.reliability.faults import Death
from xmlpunct.engine import local
from xmlpunct.engine.durable import ledger, segments
from xmlpunct.engine.durable.inputs import Spool
from xmlpunct.engine.sql import plan
from xmlpunct.engine.stats import RunStats
from xmlpunct.errors import SourceError
from xmlpunct.firehose import steady

SQL = "SELECT x, hour FROM a"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every slice counts, and little is looked at, so that small files have a head, a middle and an end."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(ledger, "GROUP_SECONDS", 0.0)
    monkeypatch.setattr(ledger, "SAVE_SHARE", 1e9)
    monkeypatch.setattr(ledger, "SAVE_SECONDS", 0.0)
    for module in (steady, segments):
        monkeypatch.setattr(module, "KEPT_BYTES", 64)


def bench_of(folder: Path) -> Bench:
    """A run that takes some ten slices."""
    found = Bench(folder, SQL)
    found.sources["a"].write_text(feed(5, hours=12))
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
    local.run(query, bench.options, RunStats("local"), on_progress)


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
def test_what_changes_nothing_that_is_read(tmp_path: Path, change: Change) -> None:
    """What is added is not read, as a file that is added to a directory is not: it had a size when it began."""
    bench = bench_of(tmp_path)
    text = bench.sources["a"].read_text()
    for checkpoint in (str(bench.checkpoint), None):
        bench.options = replace(bench.options, checkpoint=checkpoint)
        bench.run()
        expected = bench.seen()
        bench.clear()
        run(bench, 1, lambda: change(bench.sources["a"], text))
        assert bench.seen() == expected
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
    monkeypatch.setattr(steady, "KEPT_BYTES", 200)
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
        with Death(25).awaited():
            bench.run()
    assert not segments.end_marker(bench.checkpoint / "spool" / "0-0.xml").exists()
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
