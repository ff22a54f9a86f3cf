"""Runs of the local engine whose machine loses power between any two calls: what was not synced is gone.

What a synced record refers to must then be there: a directory's name, as well as a file's bytes.
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
    """Nothing is grouped; spools are copied at once, in small segments, by the thread that dies."""
    monkeypatch.setattr(ledger, "GROUP_SECONDS", 0.0)
    monkeypatch.setattr(ledger, "SAVE_SHARE", 1e9)
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 256)
    monkeypatch.setattr(Spool, "start", Spool.run)


def bench(folder: Path, encoding: str) -> Bench:
    """A run into directories of which only the first is there."""
    found = Bench(
        folder, "SELECT hour, 60 / x AS y FROM a UNION SELECT hour, x FROM b", encoding, slice_bytes=400
    )
    found.checkpoint = folder / "deep" / "er" / "checkpoint"
    found.options = replace(found.options, checkpoint=str(found.checkpoint))
    return found


@pytest.mark.parametrize("save", [0.0, 1e9], ids=["saving each slice", "by the log alone"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"], ids=["read in place", "spooled"])
@pytest.mark.parametrize("luck", [0.0, 0.5], ids=["all is lost", "some is lost"])
def test_every_moment_to_lose_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: float, encoding: str, luck: float
) -> None:
    monkeypatch.setattr(ledger, "SAVE_SECONDS", save)
    run, chance = bench(tmp_path, encoding), random.Random(3)
    with Disk().watched():
        run.run()
    expected = [sorted(part.splitlines()) for part in run.seen()]
    step = 1 if LONG else 23
    number, came = 0, True
    while came:
        run.clear()
        shutil.rmtree(tmp_path / "deep", ignore_errors=True)
        disk, death = Disk(), Death(number, torn=bool(number % 2))
        disk.forgets = lambda: chance.random() >= luck
        with disk.watched(), death.awaited():
            run.run()
        came = death.came
        log = run.checkpoint / "log"
        promised = disk.kept(log)
        disk.crash()
        survived = log.read_bytes() if log.exists() else b""
        assert luck or survived.startswith(promised), death
        with disk.watched():
            run.run()
        disk.crash()  # and what it said was done is done
        assert [sorted(part.splitlines()) for part in run.seen()] == expected, death
        number += step
    assert number > 60


@pytest.mark.parametrize("by", [("hour",), ()], ids=["by hour", "as files fill"])
@pytest.mark.parametrize("save", [0.0, 1e9], ids=["saving each slice", "by the log alone"])
@pytest.mark.parametrize("luck", [0.0, 0.5], ids=["all is lost", "some is lost"])
def test_every_moment_to_lose_power_for_a_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: float, by: tuple[str, ...], luck: float
) -> None:
    """What is there afterwards is whole, and whoever goes on has all of it once."""
    monkeypatch.setattr(ledger, "SAVE_SECONDS", save)
    monkeypatch.setattr(dataset, "FILE_BYTES", 200)
    sql = "SELECT hour, 60 / x AS y FROM a UNION ALL SELECT hour, x FROM b"
    run, chance = Bench(tmp_path, sql, slice_bytes=300, format="parquet", partition_by=by), random.Random(4)
    run.options = replace(run.options, output=f"{run.out}/", rejects=f"{run.rejects}/")

    def found() -> dict[str, list[tuple[Any, ...]]]:
        """The rows of each file that readers see."""
        seen = [
            p for out in (run.out, run.rejects) for p in out.rglob("part-*") if "_xmlpunct" not in p.parts
        ]
        return {str(p): pl.read_parquet(p, hive_partitioning=False).rows() for p in seen}

    with Disk().watched():
        run.run()
    expected = found()
    assert len(expected) > 2
    number, came = 0, True
    while came:
        for folder in (run.checkpoint, run.out, run.rejects):
            shutil.rmtree(folder, ignore_errors=True)
        disk, death = Disk(), Death(number, torn=bool(number % 2))
        disk.forgets = lambda: chance.random() >= luck
        with disk.watched(), death.awaited(), suppress(OSError):
            run.run()
        came = death.came
        disk.crash()
        assert found().items() <= expected.items(), death
        with disk.watched():
            run.run()
        disk.crash()
        assert found() == expected, death
        number += 1 if LONG else 37
    assert number > 100


@pytest.mark.parametrize("hours", [0, 1, 4])
def test_what_counts_as_read_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    """A log record may refer to it before the source has ended, and the source may not say it again."""
    monkeypatch.setattr(inputs, "finish", lambda *_: None)
    (tmp_path / "a.xml").write_text(feed(1, hours), encoding="utf-16")
    query = plan(DECLARED + "SELECT x FROM a", {"a": str(tmp_path / "a.xml")})
    disk = Disk()
    with disk.watched():
        (given,), (spool,) = find_inputs(query, tmp_path / "checkpoint" / "spool")
        spool.run()
        path = given.parts[0].path
        count = segments.durable_extent(path)
    held = segments.open_at(path, 0).read()
    assert count == len(held) > 0
    disk.crash()
    assert segments.extent(path)[0] == count
    with segments.open_at(path, 0) as file:
        assert file.read() == held
