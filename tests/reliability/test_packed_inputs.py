"""Compressed files as inputs of runs with a checkpoint: spooled one after another, under a bound, and given again."""

from __future__ import annotations

import gzip
import io
import os
import threading
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from tests.firehose.test_archives import tarred
from tests.reliability.bench import Bench
from xmlpunct.base.errors import SourceError
from xmlpunct.connectors.open_source import open_source
from xmlpunct.connectors.unchanged import ChangedError
from xmlpunct.engine.run.inputs import segments
from xmlpunct.engine.run.inputs.segments import SpoolWriter
from xmlpunct.engine.run.inputs.spool import Spool
from xmlpunct.engine.run.local import ledger
from xmlpunct.engine.run.local import local_run as local
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.sql import plan

SQL = "SELECT x, hour FROM a"


@pytest.fixture(autouse=True)
def every_slice_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "GROUP_SECONDS", 0.0)
    monkeypatch.setattr(ledger, "SAVE_SECONDS", 0.0)


def run(bench: Bench, source: str) -> RunStats:
    stats = RunStats("local")
    local.run(plan(bench.sql, {"a": source, "b": "unused"}), bench.options, stats)
    return stats


def tuples(bench: Bench) -> list[bytes]:
    return sorted(line for line in bench.seen()[0].splitlines() if b"<result>" in line)


def document(begin: int, hours: int) -> bytes:
    """A document without punctuations: whatever follows it is in time."""
    lines = [
        f"<t><x>{n % 7}</x><hour>{hour}</hour></t>" for hour in range(begin, begin + hours) for n in range(3)
    ]
    return "\n".join(["<s>", *lines, "</s>"]).encode()


def of_kind(kind: str, bench: Bench) -> str:
    """Some documents, one after another, in something that is spooled."""
    texts = {f"{n}.xml": document(4 * n, 4) for n in range(3)}
    path = bench.out.with_name("packed")
    match kind:
        case "gzip":
            path.write_bytes(b"".join(gzip.compress(text) for text in texts.values()))
        case "zip":
            with zipfile.ZipFile(path, "w") as file:
                for name, text in texts.items():
                    file.writestr(name, text)
        case "tar":
            path.write_bytes(gzip.compress(tarred(texts)))
        case "pattern":
            path.mkdir()
            for name, text in texts.items():
                (path / name).write_bytes(gzip.compress(text))
            return f"{path}/?.xml"
    return str(path)


KINDS = pytest.mark.parametrize("kind", ["gzip", "zip", "tar", "pattern"])


def run_until(bench: Bench, source: str, slices: int) -> bool:
    """Start, or go on, and be interrupted after so many slices; whether it was."""

    def stop(stats: RunStats) -> None:
        nonlocal slices
        slices -= 1
        if not slices:
            raise KeyboardInterrupt

    planned = plan(bench.sql, {"a": source, "b": "unused"})
    with suppress(KeyboardInterrupt):
        local.run(planned, bench.options, RunStats("local"), stop)
        return False
    return True


@KINDS
def test_the_same_however_often_it_is_interrupted(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    bench = Bench(tmp_path, SQL)
    source = of_kind(kind, bench)
    run(bench, source)
    expected = tuples(bench)
    assert len(expected) == 36
    for slices in (1, 2, 3):
        bench.clear()
        lives = 1
        while run_until(bench, source, slices):
            lives += 1
        assert lives > 1
        assert tuples(bench) == expected


@KINDS
def test_a_spool_goes_on_only_with_the_same(tmp_path: Path, kind: str) -> None:
    source = of_kind(kind, Bench(tmp_path, SQL))
    spool = tmp_path / "0-0.xml"
    with open_source(source).open() as reader:
        whole = reader.read(100)
        while more := reader.read(1000):
            whole += more
    with SpoolWriter(spool, threading.Event()) as out:
        out.append(whole[:50])
    paths = [Path(source)] if kind != "pattern" else sorted((tmp_path / "packed").iterdir())
    kept = paths[0].read_bytes()
    paths[0].write_bytes(other_of(kind))
    going_on = Spool(open_source(source), 0, spool)
    going_on.run()
    with pytest.raises(ChangedError, match="an input has changed"):
        going_on.check()
    paths[0].write_bytes(kept)
    going_on = Spool(open_source(source), 0, spool)
    going_on.run()
    going_on.check()
    with segments.open_at(spool, 0) as file:
        assert file.read() == whole


def other_of(kind: str) -> bytes:
    """Of the same kind, with another document at its beginning."""
    text = document(100, 40)
    out = io.BytesIO()
    match kind:
        case "zip":
            with zipfile.ZipFile(out, "w") as file:
                file.writestr("0.xml", text)
            return out.getvalue()
        case "tar":
            return gzip.compress(tarred({"0.xml": text}))
    return gzip.compress(text)


def test_truncated(tmp_path: Path) -> None:
    """What came before is there, and the failure names the byte."""
    bench = Bench(tmp_path, SQL)
    source = of_kind("gzip", bench)
    whole = Path(source).read_bytes()
    Path(source).write_bytes(whole[: len(whole) - 40])
    with pytest.raises(SourceError, match=r"its gzip data is cut short at byte [0-9]+ of what it unpacks to"):
        run(bench, source)
    assert 24 <= len(tuples(bench)) < 36
    with pytest.raises(SourceError, match="cut short at byte"):
        run(bench, source)


def test_many_files_take_one_thread_and_little_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(segments, "MOST_BYTES", 2**16)
    monkeypatch.setattr(ledger, "RELEASE_BYTES", 2**14)
    folder = tmp_path / "in"
    folder.mkdir()
    for n in range(60):
        (folder / f"{n:02d}").write_bytes(gzip.compress(document(n, 200)))
    bench = Bench(tmp_path, SQL, slice_bytes=20_000)
    most_threads = most_held = 0

    def look(stats: RunStats) -> None:
        nonlocal most_threads, most_held
        most_threads = max(most_threads, sum(isinstance(t, Spool) for t in threading.enumerate()))
        parts = (segments.held_bytes(path) for path in bench.checkpoint.rglob("0-*.xml"))
        most_held = max(most_held, sum(parts))

    planned = plan(bench.sql, {"a": str(folder), "b": "unused"})
    local.run(planned, bench.options, RunStats("local"), look)
    assert len(tuples(bench)) == 60 * 200 * 3
    assert most_threads == 1
    assert 0 < most_held < 2**17
