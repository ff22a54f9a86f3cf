"""``xmlpunct checkpoint``, and checkpoints that are moved or copied, alone or together with their files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from tests.cli.harness import SAMPLES, Cli
from tests.reliability.bench import Bench
from tests.reliability.faults import Death
from xmlpunct.base.errors import UsageError, XmlPunctError
from xmlpunct.engine.run.checkpoint.inspection import copy_checkpoint, verify_checkpoint
from xmlpunct.engine.run.checkpoint.log import DamagedError
from xmlpunct.engine.run.inputs import segments
from xmlpunct.engine.run.inputs.spool import Spool
from xmlpunct.engine.run.local import ledger
from xmlpunct.engine.run.local import local_run as local
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.sql import plan


@pytest.fixture(autouse=True)
def every_slice_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(ledger, "GROUP_SECONDS", 0.0)
    monkeypatch.setattr(ledger, "SAVE_SHARE", 1e9)
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 512)
    monkeypatch.setattr(Spool, "start", Spool.run)


@pytest.fixture(params=["utf-8", "utf-16"], ids=["read in place", "spooled"])
def stopped(tmp_path: Path, request: pytest.FixtureRequest) -> Bench:
    """A run that was killed in the middle."""
    (tmp_path / "project").mkdir()
    bench = Bench(tmp_path / "project", encoding=request.param)
    with (death := Death({"utf-8": 40, "utf-16": 105}[request.param])).awaited():
        bench.run()
    assert death.came
    return bench


def files(folder: Path) -> Iterator[Path]:
    yield from (path for path in sorted(folder.rglob("*")) if path.is_file())


def test_show(cli: Cli, stopped: Bench) -> None:
    shown = cli("checkpoint", "show", str(stopped.checkpoint))
    assert shown.code == 0
    for line in (
        "query: CREATE STREAM a (x INT, hour INT NOT NULL) WITH (source = 'unset', element = 't');",
        "version: 13, local engine, shards: 1",
        "state: the same command continues the run",
    ):
        assert line in shown.out.splitlines()
    assert "\nsource of a: ../a.xml: read to byte " in shown.out
    assert "\nlast commit: " in shown.out
    assert "\nsize: lock 0 bytes, log " in shown.out
    stopped.run()
    shown = cli("checkpoint", "show", str(stopped.checkpoint))
    size = len(stopped.seen()[0])
    assert "source of b: ../b.xml: read to the end" in shown.out
    assert f"output: {size:,} bytes in " in shown.out
    assert shown.out.endswith("state: the run is complete\n")


def test_verify_finds_every_flipped_byte(cli: Cli, stopped: Bench) -> None:
    folder = stopped.checkpoint
    found = cli("checkpoint", "verify", str(folder))
    assert (found.code, f"{folder} is intact: " in found.out) == (0, True)
    flipped = 0
    for path in files(folder):
        data = path.read_bytes()
        filled = len(data) if path.suffix != ".xml" and ".xml." not in path.name else segments.extent(path)[0]
        for at in range(0, len(data), 7):
            if (
                filled <= at < segments.SEGMENT_BYTES
                and path.parent.name == "spool"
                and path.suffix != ".log"
            ):
                continue  # the unused end of a segment
            path.write_bytes(data[:at] + bytes([data[at] ^ 0x21]) + data[at + 1 :])
            with pytest.raises(DamagedError, match=f"{path.name} is damaged: start again with"):
                verify_checkpoint(folder)
            flipped += 1
        path.write_bytes(data)
    assert flipped > 200
    damaged = folder / "log"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    found = cli("checkpoint", "verify", str(folder))
    assert (found.code, found.out) == (1, "")
    assert f"{damaged} is damaged" in found.err


def test_a_copy_is_independent(cli: Cli, stopped: Bench, tmp_path: Path) -> None:
    original, copied = stopped.checkpoint, tmp_path / "copied"
    assert cli("checkpoint", "copy", str(original), str(copied)).code == 0
    before = {path: path.read_bytes() for path in files(original)}
    out = stopped.out.read_bytes()
    stopped.options = replace(stopped.options, checkpoint=str(copied))
    stopped.run()
    first_result = stopped.seen()
    assert {path: path.read_bytes() for path in files(original)} == before
    shutil.rmtree(copied)
    stopped.out.write_bytes(out)
    stopped.options = replace(stopped.options, checkpoint=str(original))
    stopped.run()
    assert stopped.seen() == first_result
    again = cli("checkpoint", "copy", str(original), str(tmp_path))
    assert again.code == 2
    assert "exists: name a new directory" in again.err


@pytest.mark.parametrize("save", [0.0, 1e9], ids=["saving each slice", "by the log alone"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_copy_of_a_running_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, save: float
) -> None:
    """A copy that is made at any slice continues to the same results."""
    monkeypatch.setattr(ledger, "SAVE_SECONDS", save)
    bench, copies = Bench(tmp_path, encoding=encoding), list[Path]()

    def copy(_: RunStats) -> None:
        copies.append(tmp_path / f"copy{len(copies)}")
        copy_checkpoint(bench.checkpoint, copies[-1])
        shutil.copy(bench.out, tmp_path / f"out{len(copies) - 1}")

    planned = plan(bench.sql, {n: str(p) for n, p in bench.sources.items()})
    local.run(planned, bench.options, RunStats("local"), copy)
    expected = bench.seen()[0]
    assert len(copies) > 5
    for number, copied in enumerate(copies):
        shutil.copy(tmp_path / f"out{number}", bench.out)
        bench.options = replace(bench.options, checkpoint=str(copied))
        bench.run()
        assert sorted(bench.seen()[0].splitlines()) == sorted(expected.splitlines()), number


def test_no_absolute_path_is_stored(stopped: Bench, tmp_path: Path) -> None:
    for _ in range(2):
        for path in files(stopped.checkpoint):
            assert str(tmp_path).encode() not in path.read_bytes(), path
        stopped.run()


@pytest.mark.parametrize("names", ["absolute", "relative"])
@pytest.mark.parametrize("moved", ["project", "checkpoint"])
def test_a_moved_checkpoint_continues(
    stopped: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: str, names: str
) -> None:
    """Alone, or with the sources and the output in the same folder."""
    project, folder = tmp_path / "project", tmp_path / "elsewhere"
    shutil.copytree(project, folder)
    stopped.run()
    expected = stopped.seen()
    shutil.rmtree(project)
    checkpoint = folder / "checkpoint"
    if moved == "checkpoint":
        checkpoint = checkpoint.rename(tmp_path / "moved")
        folder = folder.rename(project)
    monkeypatch.chdir(folder)
    base = folder if names == "absolute" else Path()
    stopped.sources = {name: base / f"{name}.xml" for name in "ab"}
    stopped.out, stopped.rejects = base / "out.xml", base / "rejects"
    stopped.options = replace(
        stopped.options,
        output=str(base / "out.xml"),
        rejects=str(base / "rejects"),
        checkpoint=str(checkpoint),
    )
    stopped.run()
    assert stopped.seen() == expected


def test_another_output_is_refused(stopped: Bench, tmp_path: Path) -> None:
    stopped.options = replace(stopped.options, output=str(tmp_path / "other.xml"))
    with pytest.raises(UsageError, match="belongs to a run with another output"):
        stopped.run()


def test_the_example_of_the_page(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/operations.md"""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "samples").symlink_to(SAMPLES)
    command = [
        "run",
        "samples/warehouse.sql",
        "--engine",
        "local",
        "--checkpoint",
        "progress",
        "-o",
        "out.xml",
    ]
    assert cli(*command).code == 0
    assert cli("checkpoint", "copy", "progress", "backup").code == 0
    assert cli("checkpoint", "verify", "backup").out == "backup is intact: 1 file\n"
    assert cli(*command).code == 0


@pytest.mark.parametrize("kind", ["log", "spool"])
def test_a_run_that_verifies_refuses_a_flipped_byte(cli: Cli, stopped: Bench, kind: str) -> None:
    """The run is refused before it writes anything, even if the byte was read already."""
    stopped.options = replace(stopped.options, verifies=True)
    path = next(stopped.checkpoint.glob("spool/?-0.xml" if kind == "spool" else "log"), None)
    if path is None:
        pytest.skip("no source is spooled")
    data, before = path.read_bytes(), stopped.seen()
    path.write_bytes(data[:30] + bytes([data[30] ^ 4]) + data[31:])
    with pytest.raises(DamagedError, match=f"{path.name} is damaged: start again with"):
        stopped.run()
    assert stopped.seen() == before
    path.write_bytes(data)
    stopped.run()
    without = cli("run", "samples/warehouse.sql", "--engine", "local", "--verify")
    assert without.code == 2
    assert "--verify compares a checkpoint: name it with --checkpoint DIR" in without.err


@pytest.mark.parametrize(
    ("target", "kinds"),
    [
        ("out/", {"state", "aside"}),
        ("out.parquet", {"_out.parquet.rows"}),
        ("out.arrow", {"_out.arrow.rows"}),
    ],
)
def test_a_flipped_byte_of_staged_results_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, kinds: set[str]
) -> None:
    """The checkpoint has the digest of the state of a directory, and that has the digests of the staged rows."""
    monkeypatch.setattr(ledger, "SAVE_SECONDS", 0.0)
    folder, backup = tmp_path / "project", tmp_path / "backup"
    folder.mkdir()
    format_ = "parquet" if target == "out/" else target.partition(".")[2]
    bench = Bench(folder, "SELECT x, hour FROM a UNION ALL SELECT x, hour FROM b", format=format_)
    options = replace(bench.options, output=f"{folder}/{target}", rejects=None)
    bench.options = replace(options, verifies=True)
    with (death := Death(90)).awaited():
        bench.run()
    assert death.came
    shutil.copytree(folder, backup)
    refused = set[str]()
    for path in [*folder.glob("out/_xmlpunct/*-*"), *folder.glob("_out.*.rows")]:
        data = (backup / path.relative_to(folder)).read_bytes()
        for at in range(0, len(data), max(len(data) // 10, 1)):
            shutil.rmtree(folder)
            shutil.copytree(backup, folder)
            path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
            try:
                bench.run()
            except DamagedError as error:
                refused |= (
                    {path.name.split("-")[0]} if f"{path} is damaged: start again" in str(error) else set()
                )
            else:
                break  # the checkpoint does not refer to it
    assert refused == kinds
    shutil.rmtree(folder)
    backup.rename(folder)
    bench.run()
    paths = [*folder.glob("out/part-*")] or [folder / target]
    rows = pl.concat(pl.read_ipc(p) if format_ == "arrow" else pl.read_parquet(p) for p in paths).rows()
    assert len(rows) == 24


def test_a_changed_output_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint has the digest of the last group that it committed to a file."""
    monkeypatch.setattr(ledger, "SAVE_SECONDS", 0.0)
    bench = Bench(tmp_path)
    with Death(90).awaited():
        bench.run()
    data = bench.out.read_bytes()
    changed = data.replace(b"<hour>", b"<hoar>")
    bench.out.write_bytes(changed)
    with pytest.raises(XmlPunctError, match=r"out\.xml does not contain the committed results"):
        bench.run()
    assert bench.out.read_bytes() == changed
    bench.out.write_bytes(data)
    bench.run()
