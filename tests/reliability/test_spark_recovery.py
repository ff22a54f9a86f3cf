"""Runs on Spark that are killed, and continue as if undisturbed.

The long form kills 100 times, each at a random moment between the first commit of a process and its end::

    pytest -m long tests/reliability/test_spark_recovery.py
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.checkpoints import committed
from tests.reliability.support import MOST_SECONDS, bag, ends_well, processes_below, start
from xmlpunct.firehose import generators

VICTIMS = {"command": None, "JVM": "SparkSubmit", "worker": "pyspark.daemon"}
"""The victims of kills, and a word in their command (None: the run itself)."""

FILE_LINES = 300
"""Less than a micro-batch."""

Run = subprocess.Popen[bytes]

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes by /proc"),
]


def as_directory(path: Path) -> Path:
    """The same stream as a directory of small files; a task reads each file in one piece."""
    head, *lines, tail = path.read_text().splitlines(keepends=True)
    folder = path.with_suffix("")
    folder.mkdir()
    for number in range(0, len(lines), FILE_LINES):
        text = "".join([head, *lines[number : number + FILE_LINES], tail])
        (folder / f"{number:06}.xml").write_text(text)
    return folder


class Trial:
    """The warehouse query over a directory and a file, run and killed until it has finished."""

    def __init__(self, folder: Path, seed: int, hours: int) -> None:
        lines = generators.warehouse(sensors=2, hours=hours, readings=10, punctuations=1, seed=seed)
        written = generators.write(lines, str(folder))
        written[0] = as_directory(written[0])
        self.feeds = [word for path in written for word in ("-s", f"{path.stem}={path}")]
        self.output, self.log = folder / "out.xml", folder / "checkpoint" / "log"
        self.committed = b""
        ends_well(start("--engine", "local", *self.feeds, "-o", str(folder / "alone.xml")))
        self.expected = bag(folder / "alone.xml")

    def live(self) -> Run:
        """Start the run, or continue it from its checkpoint."""
        options = ["--master", "local[2]", "--slice", "64KiB", "--checkpoint", str(self.log.parent)]
        return start(*options, *self.feeds, "-o", str(self.output))

    def commits(self, run: Run, before: int) -> bool:
        """Wait for a commit after micro-batch ``before``; False if the run ends first."""
        until = time.monotonic() + MOST_SECONDS
        while committed(self.log).batch <= before:
            assert time.monotonic() < until, "no commit"
            if run.poll() is not None:
                return False
            time.sleep(0.05)
        return run.poll() is None

    def check(self) -> None:
        """Committed output is complete and unchanged."""
        length = committed(self.log).outputs[0].length
        output = self.output.read_bytes()[:length]
        assert len(output) == length
        assert output.startswith(self.committed)
        self.committed = output


def kill(run: Run, victim: str, chance: random.Random) -> bool:
    """Kill ``victim``; False if no such process is running."""
    naming = VICTIMS[victim]
    processes = [run.pid] if naming is None else processes_below(run.pid, naming)
    java = processes_below(run.pid, "SparkSubmit")
    if not processes or run.poll() is not None:
        return False
    with suppress(ProcessLookupError):
        os.kill(chance.choice(processes), signal.SIGKILL)
    if victim != "worker":  # Spark may recover from the loss of a worker by itself
        _, errors = run.communicate(timeout=MOST_SECONDS)
        assert b"Traceback" not in errors, errors.decode()
        until = time.monotonic() + MOST_SECONDS
        while any(Path(f"/proc/{pid}/stat").exists() for pid in java):
            assert time.monotonic() < until, "the JVM outlives its run"
            time.sleep(0.05)
    return True


def survive(folder: Path, victims: list[str], seed: int, hours: int) -> None:
    """Run trials until every victim has been killed."""
    chance, trials = random.Random(seed), 0
    while victims:
        (folder / str(trials)).mkdir()
        trial = Trial(folder / str(trials), seed + trials, hours)
        trials += 1
        run, is_new_process, before = trial.live(), True, -1
        while True:
            if trial.commits(run, before):
                before = committed(trial.log).batch
                time.sleep(chance.uniform(0, 1))
                if victims and (is_new_process or chance.random() < 0.3) and kill(run, victims[-1], chance):
                    victims.pop()
                is_new_process = False
            if run.poll() is None:
                continue
            if run.stderr is not None and not run.stderr.closed:
                run.communicate()
            trial.check()
            if committed(trial.log).ended:
                break
            run, is_new_process, before = trial.live(), True, committed(trial.log).batch
        assert bag(trial.output) == trial.expected
        assert trial.output.read_text().rstrip().endswith("</stream>")
        final_output = trial.output.read_bytes()
        ends_well(trial.live())
        assert trial.output.read_bytes() == final_output, "a finished run must not run again"


def test_the_command_killed(tmp_path: Path) -> None:
    survive(tmp_path, ["command"], seed=1, hours=4)


@pytest.mark.long
@pytest.mark.parametrize("victim", VICTIMS)
def test_killed_once(tmp_path: Path, victim: str) -> None:
    survive(tmp_path, [victim], seed=1, hours=6)


@pytest.mark.long
def test_killed_a_hundred_times(tmp_path: Path) -> None:
    chance = random.Random(2)
    survive(tmp_path, [chance.choice(list(VICTIMS)) for _ in range(100)], seed=2, hours=30)
