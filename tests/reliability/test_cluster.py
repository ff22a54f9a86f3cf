"""A real cluster: executors that are processes of their own, one of which is killed in mid-run.

The long form (``pytest -m long tests/reliability/test_cluster.py``) does so with a standalone master and workers.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reliability.standalone import SPARK_HOME, can_hide, standalone
from tests.reliability.support import (
    bag,
    ends_well,
    processes_below,
    start,
    wait_for_a_batch,
    wait_for_results,
)
from xmlpunct.firehose import generators


@pytest.fixture
def feeds(tmp_path: Path) -> list[str]:
    """Options of a run over streams that take a number of slices."""
    lines = generators.warehouse(sensors=2, hours=8, readings=10, punctuations=1, seed=7)
    written = generators.write(lines, str(tmp_path))
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
def test_an_executor_killed_in_the_middle_of_a_micro_batch(
    tmp_path: Path, feeds: list[str], work_folder: None
) -> None:
    alone, output, checkpoint = tmp_path / "alone.xml", tmp_path / "out.xml", tmp_path / "checkpoint"
    ends_well(start("--engine", "local", *feeds, "-o", str(alone)))
    master = ["--master", "local-cluster[2,1,1024]", "--slice", "128KiB", "--checkpoint", str(checkpoint)]
    with start(*master, *feeds, "-o", str(output)) as run:
        wait_for_results(output, run)
        executors = processes_below(run.pid, "CoarseGrainedExecutorBackend")
        assert len(executors) >= 2
        wait_for_a_batch(checkpoint, run)
        os.kill(executors[0], signal.SIGKILL)
        ends_well(run)
    assert bag(output) == bag(alone)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_worker_killed_in_mid_run(tmp_path: Path, feeds: list[str], checkpointed: bool) -> None:
    alone, output = tmp_path / "alone.xml", tmp_path / "out.xml"
    ends_well(start("--engine", "local", *feeds, "-o", str(alone)))
    kept = ["--checkpoint", str(tmp_path / "checkpoint")] if checkpointed else []
    with standalone(tmp_path, 2) as cluster:
        options = ["--master", cluster.url, "--slice", "128KiB", *kept]
        with start(*options, *feeds, "-o", str(output)) as run:
            wait_for_results(output, run)
            cluster.workers[0].kill()
            ends_well(run)
        assert bag(output) == bag(alone)
        before = output.read_bytes()
        if checkpointed:
            ends_well(start(*options, *feeds, "-o", str(output)))
            assert output.read_bytes() == before


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.skipif(not can_hide(), reason="hides a directory from some processes, by unshare")
def test_workers_on_other_machines(tmp_path: Path, feeds: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """They see the inputs and the checkpoint, and no other directory of who starts the run."""
    alone, output, own = tmp_path / "alone.xml", tmp_path / "out.xml", tmp_path / "own"
    ends_well(start("--engine", "local", *feeds, "-o", str(alone)))
    own.mkdir()
    monkeypatch.setenv("TMPDIR", str(own))
    with standalone(tmp_path, 2, hidden=own) as cluster:
        options = ["--master", cluster.url, "--slice", "128KiB", "--checkpoint", str(tmp_path / "checkpoint")]
        ends_well(start(*options, *feeds, "-o", str(output)))
    assert bag(output) == bag(alone)
