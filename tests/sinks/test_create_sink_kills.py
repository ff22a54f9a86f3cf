"""A run with sinks of three kinds, killed at random: each result is in its output once."""

from __future__ import annotations

import random
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.reliability.support import LONG, MOST_SECONDS, ends_well, launch
from xmlpunct.firehose import generators

QUERY = """CREATE STREAM sensor1 (sid STRING, hour INT NOT NULL, min INT, currtmp INT)
  WITH (source = '{folder}/sensor1.xml', element = 'tempdata');
CREATE STREAM sensor2 (sid STRING, hour INT NOT NULL, min INT, currtmp INT)
  WITH (source = '{folder}/sensor2.xml', element = 'tempdata');
CREATE VIEW reports AS
  SELECT sid, hour, min, currtmp FROM sensor1 UNION ALL SELECT sid, hour, min, currtmp FROM sensor2;
CREATE SINK hours WITH (output = '{out}/hours/', format = 'parquet', partition_by = 'hour') AS
  SELECT * FROM reports;
CREATE SINK minutes WITH (output = 'sqlite:///{out}/minutes.db?table=minutes') AS
  SELECT hour, min, COUNT(*) AS n, SUM(currtmp) AS heat FROM reports GROUP BY hour, min;
CREATE SINK first WITH (output = '{out}/first.xml') AS SELECT hour, min, currtmp FROM reports LIMIT 100;
SELECT hour, MAX(currtmp) AS most FROM reports GROUP BY hour"""

LOCAL = ["--engine", "local", "--slice", "8KiB"]


def command(folder: Path, out: Path, *options: str) -> list[str]:
    sql = QUERY.format(folder=folder, out=out)
    words = [
        "run",
        "-q",
        sql,
        "-o",
        f"{out}/most.jsonl",
        "--format",
        "jsonl",
        "--checkpoint",
        f"{out}/checkpoint",
    ]
    return [*words, *options]


def results(out: Path) -> dict[str, Any]:
    """The content of each output. Rows whose order depends on two inputs are sorted."""
    with closing(sqlite3.connect(out / "minutes.db")) as database:
        minute_rows = database.execute("SELECT * FROM minutes").fetchall()
    paths = sorted((out / "hours").glob("hour=*/*.parquet"))
    hour_rows = pl.concat([pl.read_parquet(p, hive_partitioning=True) for p in paths]).rows()
    return {
        "minutes": sorted(minute_rows),
        "hours": sorted(hour_rows),
        "first": (out / "first.xml").read_bytes(),
        "most": (out / "most.jsonl").read_bytes(),
    }


@pytest.mark.parametrize(
    "options",
    [
        LOCAL,
        pytest.param(
            ["--master", "local[2]", "--slice", "64KiB"], marks=[pytest.mark.spark, pytest.mark.long]
        ),
    ],
    ids=["local", "spark"],
)
def test_killed_at_random(tmp_path: Path, options: list[str]) -> None:
    rng, kills = random.Random(7), 0
    lines = generators.warehouse(sensors=2, hours=12, readings=3, punctuations=4, seed=3)
    generators.write(lines, str(tmp_path))
    undisturbed, out = tmp_path / "whole", tmp_path / "out"
    for folder in (undisturbed, out):
        folder.mkdir()
    ends_well(launch(*command(tmp_path, undisturbed, *LOCAL)))
    expected, size = results(undisturbed), (undisturbed / "most.jsonl").stat().st_size
    for _ in range(20 if LONG else 2):
        process = launch(*command(tmp_path, out, *options))
        maxima, target = out / "most.jsonl", rng.randrange(1, size // 2)
        target += maxima.stat().st_size if maxima.exists() else 0
        until = time.monotonic() + MOST_SECONDS
        while process.poll() is None and time.monotonic() < until:
            if maxima.exists() and maxima.stat().st_size >= target:
                break
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += process.returncode == -signal.SIGKILL
    ends_well(launch(*command(tmp_path, out, *options)))
    assert kills
    contents = results(out)
    for name in expected if options is LOCAL else ("minutes", "hours"):
        assert contents[name] == expected[name], name
    tuples = [
        [line for line in outputs["most"].splitlines() if b"$punct" not in line]
        for outputs in (contents, expected)
    ]
    assert sorted(tuples[0]) == sorted(tuples[1])
    assert contents["first"].count(b"<result>") == 100
