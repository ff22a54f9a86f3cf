"""Compressed inputs of runs with a checkpoint: spooled one after another within a bound, and repeated after a stop."""

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
from xmlpunct.connectors.contract import open_source
from xmlpunct.connectors.source import ChangedError
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
    """A document without punctuations, so that no tuple after it is late."""
    lines = [
        f"<t><x>{n % 7}</x><hour>{hour}</hour></t>" for hour in range(begin, begin + hours) for n in range(3)
    ]
    return "\n".join(["<s>", *lines, "</s>"]).encode()


def of_kind(kind: str, bench: Bench) -> str:
    """Three documents in an input that is spooled."""
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
    """Start or continue a run, and interrupt it after ``slices`` slices. True if it was interrupted."""

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
def test_a_spool_continues_only_with_the_same_input(tmp_path: Path, kind: str) -> None:
    source = of_kind(kind, Bench(tmp_path, SQL))
    spool = tmp_path / "0-0.xml"
    with open_source(source).open() as reader:
        content = reader.read(100)
        while data := reader.read(1000):
            content += data
    with SpoolWriter(spool, threading.Event()) as out:
        out.append(content[:50])
    paths = [Path(source)] if kind != "pattern" else sorted((tmp_path / "packed").iterdir())
    original = paths[0].read_bytes()
    paths[0].write_bytes(other_of(kind))
    spooling = Spool(open_source(source), 0, spool)
    spooling.run()
    with pytest.raises(ChangedError, match="an input has changed"):
        spooling.check()
    paths[0].write_bytes(original)
    spooling = Spool(open_source(source), 0, spool)
    spooling.run()
    spooling.check()
    with segments.open_at(spool, 0) as file:
        assert file.read() == content


def other_of(kind: str) -> bytes:
    """An input of the same kind, with another first document."""
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
    """Earlier results are written, and the error names the byte."""
    bench = Bench(tmp_path, SQL)
    source = of_kind("gzip", bench)
    content = Path(source).read_bytes()
    Path(source).write_bytes(content[: len(content) - 40])
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
    max_threads = max_bytes = 0

    def measure(stats: RunStats) -> None:
        nonlocal max_threads, max_bytes
        max_threads = max(max_threads, sum(isinstance(t, Spool) for t in threading.enumerate()))
        parts = (segments.held_bytes(path) for path in bench.checkpoint.rglob("0-*.xml"))
        max_bytes = max(max_bytes, sum(parts))

    planned = plan(bench.sql, {"a": str(folder), "b": "unused"})
    local.run(planned, bench.options, RunStats("local"), measure)
    assert len(tuples(bench)) == 60 * 200 * 3
    assert max_threads == 1
    assert 0 < max_bytes < 2**17
