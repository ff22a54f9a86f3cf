"""A real cluster: executors that are processes of their own, one of which is killed in mid-run.

The long form (``pytest -m long tests/reliability/test_cluster.py``) does so with a standalone master and workers.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from tests.reliability.support import bag, ends_well, processes_below, start, wait_for_results
from xmlpunct.firehose import generate

SPARK_HOME = Path(pyspark.__file__).parent


@pytest.fixture
def feeds(tmp_path: Path) -> list[str]:
    """Options of a run over streams that take a number of slices."""
    lines = generate.warehouse(sensors=2, hours=8, readings=10, punctuations=1, seed=7)
    written = generate.write(lines, str(tmp_path))
    return [word for path in written for word in ("-s", f"{path.stem}={path}")]


@pytest.fixture
def work_folder() -> Iterator[None]:
    """local-cluster's workers leave their folders in Spark's home, and nobody can tell them not to."""
    work = SPARK_HOME / "work"
    before = set(work.glob("*"))
    yield
    for left in set(work.glob("*")) - before:
        shutil.rmtree(left)
    if not before and work.exists():
        work.rmdir()


@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes by /proc")
def test_an_executor_killed_in_mid_run(tmp_path: Path, feeds: list[str], work_folder: None) -> None:
    alone, output = tmp_path / "alone.xml", tmp_path / "out.xml"
    ends_well(start("--engine", "local", *feeds, "-o", str(alone)))
    master = ["--master", "local-cluster[2,1,1024]", "--slice", "128KiB"]
    with start(*master, *feeds, "-o", str(output)) as run:
        wait_for_results(output, run)
        executors = processes_below(run.pid, "CoarseGrainedExecutorBackend")
        assert len(executors) >= 2
        os.kill(executors[0], signal.SIGKILL)
        ends_well(run)
    assert bag(output) == bag(alone)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def standalone(folder: Path, workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A standalone cluster on loopback: its URL and its workers."""
    here, port = "127.0.0.1", free_port()
    deploy = "org.apache.spark.deploy"
    environment = os.environ | {"SPARK_LOCAL_IP": here, "PYSPARK_PYTHON": sys.executable}

    def daemon(name: str, *words: str) -> subprocess.Popen[bytes]:
        command = [str(SPARK_HOME / "bin" / "spark-class"), *words]
        with open(folder / f"{name}.log", "wb") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def until(name: str, said: str) -> None:
        for _ in range(600):
            if said in (folder / f"{name}.log").read_text():
                return
            time.sleep(0.1)
        raise AssertionError(f"{name} did not start")

    with ExitStack() as stack:
        ui = ("--webui-port", "0")
        master = daemon("master", f"{deploy}.master.Master", "-h", here, "-p", str(port), *ui)
        stack.callback(_end, master)
        until("master", "New state: ALIVE")
        started = []
        for n in range(workers):
            words = ("-h", here, "-c", "1", "-m", "1g", *ui, "-d", str(folder / f"work{n}"))
            started.append(daemon(f"worker{n}", f"{deploy}.worker.Worker", *words, f"spark://{here}:{port}"))
            stack.callback(_end, started[-1])
            until(f"worker{n}", "Successfully registered")
        yield f"spark://{here}:{port}", started


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(30)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_worker_killed_in_mid_run(tmp_path: Path, feeds: list[str], checkpointed: bool) -> None:
    alone, output = tmp_path / "alone.xml", tmp_path / "out.xml"
    ends_well(start("--engine", "local", *feeds, "-o", str(alone)))
    kept = ["--checkpoint", str(tmp_path / "checkpoint")] if checkpointed else []
    with standalone(tmp_path, 2) as (master, workers):
        options = ["--master", master, "--slice", "128KiB", *kept]
        with start(*options, *feeds, "-o", str(output)) as run:
            wait_for_results(output, run)
            workers[0].kill()
            ends_well(run)
        assert bag(output) == bag(alone)
        before = output.read_bytes()
        if checkpointed:
            ends_well(start(*options, *feeds, "-o", str(output)))
            assert output.read_bytes() == before
