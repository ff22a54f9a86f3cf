"""Tasks that run twice on a cluster: two concurrent attempts may both write, but only one counts.

Spark starts a second attempt at a slow task (speculation), or at a task of an executor that seems dead but may come
back. All tests here are long::

    pytest -m long tests/reliability/test_speculation.py
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.reliability.events import EventLog, submit_args
from tests.reliability.standalone import Cluster, standalone
from tests.reliability.support import (
    MOST_SECONDS,
    bag,
    ends_well,
    launch,
    processes_below,
    wait_for_results,
)
from xmlpunct.firehose import generators

pytestmark = [
    pytest.mark.long,
    pytest.mark.spark,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes by /proc"),
]

HOURS = 40
SQL = """
CREATE STREAM sensor1 (sid STRING, hour INT NOT NULL, min INT, currtmp INT) WITH (element = 'tempdata');
CREATE STREAM sensor2 (sid STRING, hour INT NOT NULL, min INT, currtmp INT) WITH (element = 'tempdata');
CREATE VIEW both AS SELECT sid, currtmp, hour FROM sensor1 UNION SELECT sid, currtmp, hour FROM sensor2;
CREATE VIEW hottest AS SELECT MAX(currtmp) AS maxtemp, hour FROM both GROUP BY hour;
CREATE SINK hours WITH (output = '{folder}/out/hours.xml') AS SELECT maxtemp, hour FROM hottest;
CREATE SINK apart WITH (output = '{folder}/out/apart/', format = 'parquet', partition_by = 'hour') AS
  SELECT sid, currtmp, hour FROM both;
SELECT maxtemp, COUNT(*) AS hours FROM hottest GROUP BY maxtemp
"""
_HALF = ".*.changelog.*.tmp"
"""A state file that Spark is still writing, before it is renamed."""
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "50ms",
    "spark.speculation.efficiency.enabled": "false",
}
IMPATIENCE = {
    "spark.executor.heartbeatInterval": "1s",
    "spark.network.timeout": "4s",
    "spark.network.timeoutInterval": "1s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "4s",
}


class Trial:
    """A query with several fragments and outputs. The local engine gives the expected results."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.checkpoint, self.events = folder, folder / "checkpoint", folder / "events"
        lines = generators.warehouse(sensors=2, hours=HOURS, readings=10, punctuations=1, seed=7)
        self._feeds = [
            word for path in generators.write(lines, str(folder)) for word in ("-s", f"{path.stem}={path}")
        ]
        self.out = folder / "out"
        self.out.mkdir()
        ends_well(self.start("--engine", "local"))
        self.expected = self.outcome()
        shutil.rmtree(self.out)
        self.out.mkdir()

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        """A run in a child process."""
        query = SQL.format(folder=self.folder)
        stats = str(self.folder / "stats.json")
        return launch(
            "run", "-q", query, *self._feeds, "-o", str(self.out / "temps.xml"), "--stats", stats, *options
        )

    def on(self, cluster: Cluster) -> subprocess.Popen[bytes]:
        """A run on a cluster, or its continuation."""
        return self.start("--master", cluster.url, "--slice", "128KiB", "--checkpoint", str(self.checkpoint))

    def files(self) -> dict[Path, bytes]:
        """The content of all output files."""
        return {path: path.read_bytes() for path in self.out.rglob("*") if path.is_file()}

    def outcome(self) -> tuple[Any, ...]:
        """The tuples of each output, and the statistics of each input."""
        apart = pl.read_parquet(f"{self.out}/apart/**/*.parquet", hive_partitioning=True)
        read = json.loads((self.folder / "stats.json").read_text())["inputs"]
        return *(bag(self.out / name) for name in ("temps.xml", "hours.xml")), sorted(apart.rows()), read

    def check(self, run: subprocess.Popen[bytes], cluster: Cluster) -> None:
        """The run ends with the expected results; a second run changes nothing."""
        ends_well(run)
        assert self.outcome() == self.expected
        before = self.files()
        ends_well(self.on(cluster))
        assert self.files() == before


@contextmanager
def stopped(*pids: int) -> Iterator[None]:
    """Suspend processes during the block."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


class Trouble(threading.Thread):
    """Repeatedly suspends the executor or the Python process of a random worker."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True)
        self._cluster, self._over, self._chance = cluster, threading.Event(), random.Random(5)

    def run(self) -> None:
        while not self._over.wait(self._chance.uniform(0, 0.5)):
            worker = self._chance.choice(self._cluster.workers)
            naming = self._chance.choice(["CoarseGrainedExecutorBackend", "pyspark.daemon"])
            with stopped(*processes_below(worker.pid, naming)):
                self._over.wait(self._chance.choice([0.2, 0.5, 2]))

    def end(self) -> None:
        """Stop suspending processes."""
        self._over.set()
        self.join(MOST_SECONDS)


def test_speculation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some second attempts at tasks with state succeed, and some do not."""
    trial = Trial(tmp_path)
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", submit_args(trial.events, SPECULATION))
    with standalone(tmp_path, 2) as cluster:
        run = trial.on(cluster)
        wait_for_results(trial.out / "hours.xml", run)
        trouble = Trouble(cluster)
        trouble.start()
        try:
            run.wait(2 * MOST_SECONDS)
        finally:
            trouble.end()
        log = EventLog.read(trial.events)
        monkeypatch.delenv("PYSPARK_SUBMIT_ARGS")
        trial.check(run, cluster)
    second = [task for task in log.tasks if task.stateful and task.speculative]
    assert {task.succeeded for task in second} == {True, False}
    assert not log.removed


def test_an_executor_that_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An executor is suspended while it writes state, until Spark removes it; then it continues."""
    trial = Trial(tmp_path)
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", submit_args(trial.events, IMPATIENCE))
    with standalone(tmp_path, 2) as cluster:
        run = trial.on(cluster)
        wait_for_results(trial.out / "hours.xml", run)
        while not came_back(trial, run, cluster.workers[0]):
            pass
        monkeypatch.delenv("PYSPARK_SUBMIT_ARGS")
        trial.check(run, cluster)


def came_back(trial: Trial, run: subprocess.Popen[bytes], worker: subprocess.Popen[bytes]) -> bool:
    """Suspend a worker and its executor while state is written; False if another executor was writing.

    Otherwise the executor continues after Spark has removed it and repeated its task elsewhere.
    """
    state, log = trial.checkpoint / "spark" / "state", EventLog.read(trial.events)
    earlier_files = {*state.rglob(_HALF)}

    def begun() -> set[Path]:
        return {*state.rglob(_HALF)} - earlier_files

    until(begun, run)
    with stopped(worker.pid):  # a running worker would end its executor
        with stopped(*processes_below(worker.pid, "CoarseGrainedExecutorBackend")):
            before = begun()
            time.sleep(1)
            if not before & begun():
                return False
            until(lambda: {*EventLog.read(trial.events).removed} - {*log.removed}, run)
            time.sleep(3)
        time.sleep(3)
    return True


def until(condition: Callable[[], object], run: subprocess.Popen[bytes]) -> None:
    """Wait for a condition."""
    end = time.monotonic() + MOST_SECONDS
    while not condition():
        assert run.poll() is None, "it ended too soon"
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)
