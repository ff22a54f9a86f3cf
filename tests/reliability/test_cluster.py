"""A Spark cluster with separate executor processes, one of which is killed during the run.

The long form (``pytest -m long tests/reliability/test_cluster.py``) uses a standalone master and workers.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.connectors.servers import free_port
from tests.reliability.standalone import SPARK_HOME, can_hide, standalone
from tests.reliability.support import (
    bag,
    ends_well,
    processes_below,
    start,
    wait_for_a_batch,
    wait_for_results,
)
from tests.test_readme import ROOT, blocks
from xmlpunct.firehose import generators


@pytest.fixture
def feeds(tmp_path: Path) -> list[str]:
    """Options of a run over streams of several slices."""
    lines = generators.warehouse(sensors=2, hours=8, readings=10, punctuations=1, seed=7)
    written = generators.write(lines, str(tmp_path))
    return [word for path in written for word in ("-s", f"{path.stem}={path}")]


@pytest.fixture
def work_folder() -> Iterator[None]:
    """Remove the folders that local-cluster's workers leave in Spark's home; no setting prevents them."""
    work = SPARK_HOME / "work"
    before = set(work.glob("*"))
    yield
    for left in set(work.glob("*")) - before:
        shutil.rmtree(left)
    if not before and work.exists():
        work.rmdir()


@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes by /proc")
def test_an_executor_killed_in_the_middle_of_a_micro_batch(
    tmp_path: Path, feeds: list[str], work_folder: None
) -> None:
    local_output, output, checkpoint = tmp_path / "alone.xml", tmp_path / "out.xml", tmp_path / "checkpoint"
    ends_well(start("--engine", "local", *feeds, "-o", str(local_output)))
    master = ["--master", "local-cluster[2,1,1024]", "--slice", "128KiB", "--checkpoint", str(checkpoint)]
    with start(*master, *feeds, "-o", str(output)) as run:
        wait_for_results(output, run)
        executors = processes_below(run.pid, "CoarseGrainedExecutorBackend")
        assert len(executors) >= 2
        wait_for_a_batch(checkpoint, run)
        os.kill(executors[0], signal.SIGKILL)
        ends_well(run)
    assert bag(output) == bag(local_output)


@pytest.mark.spark
def test_the_commands_of_the_page_start_a_master_and_a_worker(tmp_path: Path, work_folder: None) -> None:
    page = (ROOT / "docs" / "cluster.md").read_text()
    master, worker = (block for block in blocks("sh", page) if "spark-class" in block)
    changes = {"/opt/xmlpunct/bin/python": sys.executable, "host": "127.0.0.1", "7077": str(free_port())}
    changes |= {"-c 4 -m 8g": "-c 1 -m 1g"}
    with ExitStack() as ending:
        for command, message in (
            (master, "New state: ALIVE"),
            (worker, "Successfully registered with master"),
        ):
            for written, run in changes.items():
                command = command.replace(written, run)
            process = subprocess.Popen(
                ["sh", "-c", command],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            ending.callback(process.wait, 30)
            ending.callback(os.killpg, process.pid, signal.SIGTERM)
            assert process.stderr is not None
            assert any(message in line for line in process.stderr), f"{command} has ended"
            ending.callback(process.stderr.close)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_worker_killed_in_mid_run(tmp_path: Path, feeds: list[str], checkpointed: bool) -> None:
    local_output, output = tmp_path / "alone.xml", tmp_path / "out.xml"
    ends_well(start("--engine", "local", *feeds, "-o", str(local_output)))
    checkpointing = ["--checkpoint", str(tmp_path / "checkpoint")] if checkpointed else []
    with standalone(tmp_path, 2) as cluster:
        options = ["--master", cluster.url, "--slice", "128KiB", *checkpointing]
        with start(*options, *feeds, "-o", str(output)) as run:
            wait_for_results(output, run)
            cluster.workers[0].kill()
            ends_well(run)
        assert bag(output) == bag(local_output)
        before = output.read_bytes()
        if checkpointed:
            ends_well(start(*options, *feeds, "-o", str(output)))
            assert output.read_bytes() == before


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.skipif(not can_hide(), reason="hides a directory from some processes, by unshare")
def test_workers_on_other_machines(tmp_path: Path, feeds: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers see the inputs and the checkpoint, but not the driver's temporary directory."""
    local_output, output, hidden_folder = tmp_path / "alone.xml", tmp_path / "out.xml", tmp_path / "own"
    ends_well(start("--engine", "local", *feeds, "-o", str(local_output)))
    hidden_folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(hidden_folder))
    with standalone(tmp_path, 2, hidden=hidden_folder) as cluster:
        options = ["--master", cluster.url, "--slice", "128KiB", "--checkpoint", str(tmp_path / "checkpoint")]
        ends_well(start(*options, *feeds, "-o", str(output)))
    assert bag(output) == bag(local_output)
