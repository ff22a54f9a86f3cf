"""What starting costs: the warehouse query over 72 tuples on Spark, against a streaming query of Spark's over a line.

    python benchmarks/start.py [--rounds N] [--master URL]

Spark's own is a session, ``readStream.text`` over a file of one line, ``availableNow``, and the session's end, in a
process of its own, as is ``xmlpunct run samples/warehouse.sql``. Both then run again with several micro-batches that
bring next to nothing: a file of one line, or 256 bytes. Seconds are from the start of the process to the end of its
last child. Prints JSON; ``times`` says how many times as much xmlpunct took.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import common

PROGRAMS = common.HERE / "starts.py"
TARGETS = {"wall": 1.6}
NAMES = ("spark", "xmlpunct")
MORE_BATCHES = 8


def program(name: str, master: str, batches: int) -> common.Run:
    """Run one of the programs in ``starts.py``, with at least so many micro-batches."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-W", "ignore", str(PROGRAMS), name, master, folder, str(batches)]
        wall, cpu, peak = common.execute(command, core=False)
        details = json.loads(Path(folder, "said.json").read_text())
    return common.Run(wall, wall, cpu, peak, details)


def of_it(runs: list[common.Run], longer: list[common.Run]) -> dict[str, Any]:
    """What the runs of a contender come to; ``longer`` are those with more micro-batches."""
    stages = runs[0].details["stages"]
    return {
        "wall_seconds": round(statistics.median(run.wall for run in runs), 3),
        "cpu_seconds": round(statistics.median(run.cpu for run in runs), 3),
        "stages": {
            name: round(statistics.median(run.details["stages"][name] for run in runs), 3) for name in stages
        },
        "later_micro_batch": round(
            statistics.median(seconds for run in longer for seconds in run.details["later"]), 3
        ),
    }


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--master", default="local[2]")
    given = parser.parse_args()
    contenders: dict[str, common.Contender] = {
        f"{name}{batches}": lambda name=name, batches=batches: program(name, given.master, batches)
        for batches in (1, MORE_BATCHES)
        for name in NAMES
    }
    runs = common.in_turn(contenders, given.rounds)
    times = {cost: common.ratio(runs["xmlpunct1"], runs["spark1"], cost) for cost in ("wall", "cpu")}
    found = {name: of_it(runs[f"{name}1"], runs[f"{name}{MORE_BATCHES}"]) for name in NAMES}
    common.report({"contenders": found, "times": times, "targets": TARGETS})
    common.plot(given.plot, lambda axes: draw(axes, found))


def draw(axes: Any, found: dict[str, Any]) -> None:
    stages = list(dict.fromkeys(stage for of_it in found.values() for stage in of_it["stages"]))
    left = dict.fromkeys(found, 0.0)
    for stage in stages:
        for name, of_it in found.items():
            seconds = of_it["stages"].get(stage, 0.0)
            bar = axes.barh(name, seconds, left=left[name], color=f"C{stages.index(stage)}")
            bar.set_label(stage if name == "xmlpunct" else "_")
            left[name] += seconds
    axes.set_xlabel("seconds")


if __name__ == "__main__":
    main()
