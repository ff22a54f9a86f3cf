"""Whether two workers are busy to the end: the warehouse query over many files, with a worker killed or not.

    python benchmarks/cluster.py [--files N] [--hours N] [--readings N] [--only steady | killed] [--plot FILE]

A standalone master and two workers of one core each are started on this machine. In the run ``killed`` a worker dies by
SIGKILL once half of the hours are answered, and another is started. Spark's event log says when which executor was at
work; ``busy`` is the share of the time from the first micro-batch's first task to the last's last that it was, of the
time that it lived. The answer has to be that of the local engine. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import common
from spark import folders

sys.path.insert(0, str(common.HERE.parent))

from tests.reliability.events import EventLog, submit_args
from tests.reliability.standalone import Cluster, standalone

QUERY = common.SAMPLES / "warehouse.sql"
TARGETS = {"busy": 0.9}
_GLANCE_SECONDS = 0.1

Spans = list[tuple[float, float]]


def run(sources: dict[str, Path], cluster: Cluster, half: int | None, folder: Path) -> float | None:
    """Run the query; when a worker was killed, in seconds since the epoch, if it is to be at ``half`` the answer."""
    out = folder / "out.jsonl"
    environment = os.environ | {
        "PYSPARK_SUBMIT_ARGS": submit_args(folder / "events", {}),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [sys.executable, "-m", "xmlpunct", "run", str(QUERY), "--master", cluster.url]
    command += ["--format", "jsonl", "-o", str(out)]
    command += [word for name, path in sources.items() for word in ("-s", f"{name}={path}")]
    killed = None
    with subprocess.Popen(command, env=environment) as running:
        while running.poll() is None:
            if half is not None and killed is None and len(answer(out)) >= half:
                cluster.workers[0].kill()
                killed = time.time()
                cluster.start_worker()
            time.sleep(_GLANCE_SECONDS)
    if running.returncode:
        sys.exit("the run failed")
    if half is not None and killed is None:
        sys.exit("the run was over before a worker could be killed: take more --hours")
    return killed


def answer(out: Path) -> list[tuple[Any, ...]]:
    """The tuples that were written so far, in order of their values."""
    lines = out.read_text().splitlines() if out.exists() else []
    return sorted(
        tuple(json.loads(line).values()) for line in lines if line.endswith("}") and "$punct" not in line
    )


def figures(folder: Path, killed: float | None) -> dict[str, Any]:
    """What a run comes to, with its times from the first micro-batch on."""
    log = EventLog.read(folder / "events")
    tasks = [task for task in log.tasks if task.batch is not None]
    began, ended = min(task.began for task in tasks), max(task.ended for task in tasks)
    executors = {}
    for name, added in sorted(log.added.items(), key=lambda pair: pair[1]):
        spans = sorted((task.began - began, task.ended - began) for task in tasks if task.executor == name)
        first, last = max(added, began) - began, min(log.removed.get(name, ended), ended) - began
        executors[name] = {
            "lived": [round(first, 3), round(last, 3)],
            "busy": round(sum(b - a for a, b in merged(spans)) / (last - first), 3),
            "tasks": [[round(a, 3), round(b, 3)] for a, b in spans],
        }
    found: dict[str, Any] = {"seconds": round(ended - began, 1), "executors": executors}
    if killed is not None:
        found["killed_at"] = round(killed - began, 3)
    return found


def merged(spans: Spans) -> Spans:
    """The same time, without overlaps."""
    found: Spans = []
    for a, b in sorted(spans):
        if found and a <= found[-1][1]:
            found[-1] = (found[-1][0], max(b, found[-1][1]))
        else:
            found.append((a, b))
    return found


def draw(axes: Any, runs: dict[str, Any]) -> None:
    for place, (name, found) in zip([axes] if len(runs) == 1 else axes, runs.items(), strict=True):
        for row, (executor, of_it) in enumerate(found["executors"].items()):
            place.broken_barh(
                [(a, b - a) for a, b in merged([tuple(t) for t in of_it["tasks"]])], (row - 0.3, 0.6)
            )
            place.plot(of_it["lived"], [row - 0.38] * 2, color="grey", linewidth=1)
            place.text(
                0, row + 0.33, f"executor {executor}: busy {of_it['busy']:.0%} of its life", fontsize=8
            )
        if "killed_at" in found:
            place.axvline(
                found["killed_at"], color="red", linestyle=":", label="a worker is killed, another starts"
            )
        place.set(
            title=name,
            xlabel="seconds since the first micro-batch",
            yticks=[],
            ylim=(-0.6, len(found["executors"]) - 0.2),
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = Path(tempfile.gettempdir()) / "xmlpunct-benchmarks"
    parser.add_argument("--data", type=Path, default=default, help="where test data is kept between runs")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the figures too (needs matplotlib)")
    parser.add_argument("--files", type=int, default=1000, help="files of each of the two streams")
    parser.add_argument("--hours", type=int, default=72)
    parser.add_argument("--readings", type=int, default=500, help="per minute and sensor")
    parser.add_argument("--only", choices=["steady", "killed"])
    given = parser.parse_args()
    sources = folders(given.data, given.hours, given.readings, given.files)
    right = common.engine(QUERY, sources, "--engine", "local", core=False).answer
    runs = {}
    for name in [given.only] if given.only else ["steady", "killed"]:
        with tempfile.TemporaryDirectory() as scratch, standalone(Path(scratch), 2) as cluster:
            killed = run(sources, cluster, given.hours // 2 if name == "killed" else None, Path(scratch))
            if answer(Path(scratch) / "out.jsonl") != right:
                sys.exit("the cluster and the local engine give different answers")
            runs[name] = figures(Path(scratch), killed)
    files = [path for source in sources.values() for path in source.iterdir()]
    size = round(sum(path.stat().st_size for path in files) / len(files) / 2**10)
    common.plot(given.plot, lambda axes: draw(axes, runs), columns=len(runs))
    for found in runs.values():
        for executor in found["executors"].values():
            executor["tasks"] = len(executor["tasks"])
    common.report({"files": len(files), "kib_each": size, "runs": runs, "targets": TARGETS})


if __name__ == "__main__":
    main()
