"""A dataset that is watched while its run is killed at random: visible files are complete and never change."""

from __future__ import annotations

import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import polars as pl

from tests.reliability.support import LONG, ends_well, launch
from xmlpunct import Schema, parse
from xmlpunct.firehose import generators

QUERY = """CREATE STREAM sensor1 (sid STRING, hour INT NOT NULL, min INT, currtmp INT)
  WITH (source = '{}', element = 'tempdata');
CREATE STREAM sensor2 (sid STRING, hour INT NOT NULL, min INT, currtmp INT)
  WITH (source = '{}', element = 'tempdata');
SELECT sid, hour, min, currtmp FROM sensor1 UNION ALL SELECT sid, hour, min, currtmp FROM sensor2"""


class Watcher(threading.Thread):
    """Reads each partition as soon as it is visible, and compares it on every later look."""

    def __init__(self, path: Path, expected: dict[int, list[tuple[Any, ...]]]) -> None:
        super().__init__()
        self.path, self.expected, self.over = path, expected, threading.Event()
        self.files: dict[Path, tuple[int, int, bytes]] = {}
        self.wrong: list[str] = []

    def run(self) -> None:
        while not self.over.wait(0.02):
            self.look()

    def look(self) -> None:
        for folder in self.path.glob("hour=*"):
            paths = sorted(folder.iterdir())
            current = {p: (p.stat().st_ino, p.stat().st_mtime_ns, p.read_bytes()) for p in paths}
            changed = {p for p in current if self.files.get(p, current[p]) != current[p]}
            before = {p for p in self.files if p.parent == folder}
            if changed or (before and before != current.keys()):
                self.wrong.append(f"{folder} has changed")
            if before:
                continue
            self.files |= current
            rows = pl.concat(pl.read_parquet(p, hive_partitioning=False) for p in paths).rows()
            if sorted(rows) != self.expected[int(folder.name.removeprefix("hour="))]:
                self.wrong.append(f"{folder} is not complete: {len(rows)} rows")


def test_killed_at_random(tmp_path: Path) -> None:
    rng, kills = random.Random(2), 0
    schema = Schema.parse("sid STRING, hour INT NOT NULL, min INT, currtmp INT")
    for number in range(20 if LONG else 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        lines = generators.warehouse(sensors=2, hours=24, readings=3, punctuations=4, seed=number)
        sources = generators.write(lines, str(folder))
        expected: dict[int, list[tuple[Any, ...]]] = {}
        for source in sources:
            for row in parse(source, schema, element="tempdata"):
                if isinstance(row, tuple):
                    expected.setdefault(row[1], []).append((row[0], *row[2:]))
        expected = {hour: sorted(rows) for hour, rows in expected.items()}
        out = folder / "out"
        command = [
            "run",
            "--engine",
            "local",
            "--slice",
            "8KiB",
            "-q",
            QUERY.format(*sources),
            "-o",
            f"{out}/",
        ]
        command += ["--format", "parquet", "--partition-by", "hour", "--checkpoint", str(folder / "c")]
        watcher = Watcher(out, expected)
        watcher.start()
        try:
            for _ in range(8 if LONG else 3):
                file_count = len(watcher.files)
                process = launch(*command)
                until, target = time.monotonic() + 60, file_count + rng.randrange(1, 8)
                while process.poll() is None and len(watcher.files) < target and time.monotonic() < until:
                    time.sleep(0.002)
                process.send_signal(signal.SIGKILL)
                process.communicate()
                kills += process.returncode == -signal.SIGKILL
            ends_well(launch(*command))
        finally:
            watcher.over.set()
            watcher.join()
        watcher.look()
        assert watcher.wrong == []
        assert {int(p.parent.name.removeprefix("hour=")) for p in watcher.files} == set(expected)
    assert kills
    print(f"{kills} kills")
