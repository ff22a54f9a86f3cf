"""Runs of the local engine that lose power between any two system calls, and with it all unsynced changes.

Everything that a synced log record refers to must survive: names in directories as well as bytes of files.
"""

from __future__ import annotations

import random
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.reliability.bench import DECLARED, Bench, feed
from tests.reliability.disk import Disk
from tests.reliability.faults import Death
from tests.reliability.support import LONG
from xmlpunct.engine.run.datasets import dataset
from xmlpunct.engine.run.inputs import segments
from xmlpunct.engine.run.inputs import spool as inputs
from xmlpunct.engine.run.inputs.spool import Spool, find_inputs
from xmlpunct.engine.run.local import ledger
from xmlpunct.engine.sql import plan

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="finds files by /proc")


@pytest.fixture(autouse=True)
def every_slice_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit every slice; the thread that dies copies spools at once, in small segments."""
    monkeypatch.setattr(ledger, "GROUP_SECONDS", 0.0)
    monkeypatch.setattr(ledger, "SAVE_SHARE", 1e9)
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 256)
    monkeypatch.setattr(Spool, "start", Spool.run)


def bench(folder: Path, encoding: str) -> Bench:
    """A run whose checkpoint is two missing directories deep."""
    deep_bench = Bench(
        folder, "SELECT hour, 60 / x AS y FROM a UNION SELECT hour, x FROM b", encoding, slice_bytes=400
    )
    deep_bench.checkpoint = folder / "deep" / "er" / "checkpoint"
    deep_bench.options = replace(deep_bench.options, checkpoint=str(deep_bench.checkpoint))
    return deep_bench


@pytest.mark.parametrize("save", [0.0, 1e9], ids=["saving each slice", "by the log alone"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"], ids=["read in place", "spooled"])
@pytest.mark.parametrize("luck", [0.0, 0.5], ids=["all is lost", "some is lost"])
def test_every_moment_to_lose_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: float, encoding: str, luck: float
) -> None:
    monkeypatch.setattr(ledger, "SAVE_SECONDS", save)
    run, rng = bench(tmp_path, encoding), random.Random(3)
    with Disk().watched():
        run.run()
    expected = [sorted(part.splitlines()) for part in run.seen()]
    step = 1 if LONG else 23
    number, has_died = 0, True
    while has_died:
        run.clear()
        shutil.rmtree(tmp_path / "deep", ignore_errors=True)
        disk, death = Disk(), Death(number, torn=bool(number % 2))
        disk.forgets = lambda: rng.random() >= luck
        with disk.watched(), death.awaited():
            run.run()
        has_died = death.came
        log = run.checkpoint / "log"
        promised = disk.synced(log)
        disk.crash()
        survived = log.read_bytes() if log.exists() else b""
        assert luck or survived.startswith(promised), death
        with disk.watched():
            run.run()
        disk.crash()  # all results of a finished run are synced
        assert [sorted(part.splitlines()) for part in run.seen()] == expected, death
        number += step
    assert number > 60


@pytest.mark.parametrize("partition_by", [("hour",), ()], ids=["by hour", "as files fill"])
@pytest.mark.parametrize("save", [0.0, 1e9], ids=["saving each slice", "by the log alone"])
@pytest.mark.parametrize("luck", [0.0, 0.5], ids=["all is lost", "some is lost"])
def test_every_moment_to_lose_power_for_a_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: float, partition_by: tuple[str, ...], luck: float
) -> None:
    """Visible files are complete; the next run completes the dataset, each row once."""
    monkeypatch.setattr(ledger, "SAVE_SECONDS", save)
    monkeypatch.setattr(dataset, "FILE_BYTES", 200)
    sql = "SELECT hour, 60 / x AS y FROM a UNION ALL SELECT hour, x FROM b"
    run, rng = (
        Bench(tmp_path, sql, slice_bytes=300, format="parquet", partition_by=partition_by),
        random.Random(4),
    )
    run.options = replace(run.options, output=f"{run.out}/", rejects=f"{run.rejects}/")

    def visible_rows() -> dict[str, list[tuple[Any, ...]]]:
        """The rows of each file that readers see."""
        paths = [
            p for out in (run.out, run.rejects) for p in out.rglob("part-*") if "_xmlpunct" not in p.parts
        ]
        return {str(p): pl.read_parquet(p, hive_partitioning=False).rows() for p in paths}

    with Disk().watched():
        run.run()
    expected = visible_rows()
    assert len(expected) > 2
    number, has_died = 0, True
    while has_died:
        for folder in (run.checkpoint, run.out, run.rejects):
            shutil.rmtree(folder, ignore_errors=True)
        disk, death = Disk(), Death(number, torn=bool(number % 2))
        disk.forgets = lambda: rng.random() >= luck
        with disk.watched(), death.awaited(), suppress(OSError):
            run.run()
        has_died = death.came
        disk.crash()
        assert visible_rows().items() <= expected.items(), death
        with disk.watched():
            run.run()
        disk.crash()
        assert visible_rows() == expected, death
        number += 1 if LONG else 37
    assert number > 100


@pytest.mark.parametrize("hours", [0, 1, 4])
def test_spooled_bytes_that_count_as_read_are_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """A log record may refer to a spool of an unfinished source, which may not send its bytes again."""
    monkeypatch.setattr(inputs, "finish", lambda *_: None)
    (tmp_path / "a.xml").write_text(feed(1, hours), encoding="utf-16")
    query = plan(DECLARED + "SELECT x FROM a", {"a": str(tmp_path / "a.xml")})
    disk = Disk()
    with disk.watched():
        (input_,), (spool,) = find_inputs(query, tmp_path / "checkpoint" / "spool")
        spool.run()
        path = input_.parts[0].path
        count = segments.durable_extent(path)
    content = segments.open_at(path, 0).read()
    assert count == len(content) > 0
    disk.crash()
    assert segments.extent(path)[0] == count
    with segments.open_at(path, 0) as file:
        assert file.read() == content
