"""A query as a data frame whose process is killed: its sink holds the rows of an undisturbed run."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest

import xmlpunct.spark
from tests.cli.harness import SAMPLES
from tests.spark.support import NAMESPACE

HOURS, READINGS, WORDS = 12, 30, "abc"
DECLARED = "CREATE STREAM feed (hour INT NOT NULL, v INT, s STRING) WITH (element = 't'); "
SQL = """
SELECT hour, COUNT(*) AS n, ROUND(STDDEV(v), 6) AS spread, STRING_AGG(s, ',' ORDER BY s) AS words,
       ARRAY_AGG(v ORDER BY v) AS readings
FROM feed JOIN (VALUES ('a'), ('c')) AS kept(word) ON s = word
WHERE v > (SELECT MIN(x) FROM (VALUES (3), (5)) AS least(x))
GROUP BY ROLLUP (hour)
"""
MOST_SECONDS = 600
LIFE = """
import sys
from pathlib import Path
import xmlpunct.spark
from tests.spark.test_restart import start_query
start_query(xmlpunct.spark.start("local[2]"), Path(sys.argv[1])).awaitTermination()
"""


def start_query(spark: Any, folder: Path) -> Any:
    """Start the query over the feed in ``folder``, with Parquet in ``rows``, or continue it from its checkpoint."""
    frame = xmlpunct.spark.query(
        spark, DECLARED + SQL, feed=str(folder / "feed.xml"), shards=2, maxBytesPerTrigger="1536"
    )
    writer = frame.writeStream.format("parquet").option("path", str(folder / "rows"))
    return writer.option("checkpointLocation", str(folder / "ck")).trigger(availableNow=True).start()


def write_feed(path: Path) -> list[tuple[int, int, str]]:
    """A feed in which an hour is closed in the middle of the next one; its tuples."""
    chance = random.Random(5)
    tuples: list[tuple[int, int, str]] = []
    lines = [f'<f xmlns:p="{NAMESPACE}">']
    for hour in range(HOURS):
        for reading in range(READINGS):
            tuples.append((hour, chance.randrange(20), chance.choice(WORDS)))
            lines.append("<t><hour>{}</hour><v>{}</v><s>{}</s></t>".format(*tuples[-1]))
            if reading == READINGS // 2 and hour:
                lines.append(f"<p:t><hour>{hour - 1}</hour></p:t>")
    path.write_text("\n".join([*lines, "</f>"]))
    return tuples


def expected(tuples: list[tuple[int, int, str]]) -> Counter[Any]:
    """DuckDB's answer."""
    with duckdb.connect() as database:
        database.execute("CREATE TABLE feed (hour INT, v INT, s TEXT)")
        database.executemany("INSERT INTO feed VALUES (?, ?, ?)", tuples)
        return Counter(comparable(row) for row in database.execute(SQL).fetchall())


def comparable(row: Any) -> tuple[Any, ...]:
    """A hashable row. Items of arrays are structs of one value on Spark; here they are values."""
    *values, readings = row
    return (*values, tuple(v["value"] if hasattr(v, "asDict") else v for v in readings))


@pytest.mark.spark
def test_a_query_continues_after_its_process_was_killed(spark: Any, tmp_path: Path) -> None:
    tuples = write_feed(tmp_path / "feed.xml")
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": str(SAMPLES.parent)}
    log = (tmp_path / "log").open("wb")
    process = subprocess.Popen(
        [sys.executable, "-c", LIFE, str(tmp_path)],
        env=environment,
        start_new_session=True,
        stdout=log,
        stderr=log,
    )
    try:
        deadline = time.monotonic() + MOST_SECONDS
        while not (tmp_path / "ck" / "commits" / "2").exists():
            assert process.poll() is None, (tmp_path / "log").read_text()[-2000:]
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()[-2000:]
            time.sleep(0.05)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        log.close()
    batches = len([*(tmp_path / "ck" / "commits").glob("[0-9]*")])
    stream = start_query(spark, tmp_path)
    assert stream.awaitTermination(MOST_SECONDS)
    assert stream.lastProgress["batchId"] >= batches, "it was killed in the middle"
    rows = spark.read.parquet(str(tmp_path / "rows")).collect()
    assert Counter(map(comparable, rows)) == expected(tuples)
