"""What punctuations cost and what they save: the two figures of the paper's Section 5, from runs of ours.

Figure 2a is the state of the warehouse query's union over the tuples that have come, with and without
punctuations. Figure 2b is the time to the first result and to the last, for 0 to 30 punctuations an hour, both from
the start of the process; ``total_seconds`` leave out what loading the program takes.

    python benchmarks/punctuations.py [--hours N] [--scale N] [--slice SIZE]

The paper's data are 60 hours of a report a minute from each of two sensors; ``--scale`` makes it that many reports.
Prints JSON. The target is 30 punctuations an hour against 0: at most 1.02 times the total time.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import common

PER_HOUR = (0, 1, 2, 5, 10, 15, 20, 30)
TARGET = 1.02
POINTS = 60


def state_of_union(sources: dict[str, Path], slice_bytes: int) -> list[tuple[int, int]]:
    """How many tuples union retains after so many have come, slice by slice, in this process."""
    from xmlpunct.engine.local.run import run
    from xmlpunct.engine.options import RunOptions
    from xmlpunct.engine.sql import plan
    from xmlpunct.engine.stats import RunStats

    found: list[tuple[int, int]] = []

    def look(stats: RunStats) -> None:
        union = next((o for o in stats.operators if o.operator == "union"), None)
        if union is not None and (not found or union.tuples_in > found[-1][0]):
            found.append((union.tuples_in, union.state_rows))

    query = (common.SAMPLES / "warehouse.sql").read_text()
    planned = plan(query, {name: str(path) for name, path in sources.items()})
    run(planned, RunOptions(output="/dev/null", slice_bytes=slice_bytes), RunStats("local"), look)
    return found


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--hours", type=int, default=60)
    parser.add_argument("--scale", type=int, default=100, help="reports a minute and sensor")
    parser.add_argument("--per-hour", type=int, nargs="+", default=PER_HOUR, help="numbers of punctuations")
    parser.add_argument("--slice", default="64KiB", help="input bytes per slice")
    given = parser.parse_args()
    from xmlpunct.engine.options import parse_size

    numbers = sorted({0, *given.per_hour})
    sources = {n: common.warehouse(given.data, given.hours, given.scale, n) for n in {1, *numbers}}
    # Figure 2a: slices small enough that an hour takes several.
    size = max(2**10, min(parse_size(given.slice), sum(map(file_size, sources[0].values())) // 240))
    states = {name: state_of_union(sources[n], size) for name, n in (("punctuated", 1), ("plain", 0))}

    query = common.SAMPLES / "warehouse.sql"
    contenders: dict[str, common.Contender] = {
        str(n): lambda n=n: common.engine(query, sources[n], "--engine", "local", "--slice", given.slice)
        for n in numbers
    }
    runs = common.in_turn(contenders, given.rounds)
    times = {
        n: {
            "first_result_seconds": statistics.median(r.details["first_result_seconds"] for r in found),
            "last_result_seconds": statistics.median(r.wall for r in found),
            "total_seconds": statistics.median(r.seconds for r in found),
            "total_cpu_seconds": round(statistics.median(r.cpu for r in found), 3),
        }
        for n, found in runs.items()
    }
    most = str(numbers[-1])
    common.report(
        {
            "tuples": 2 * given.hours * 60 * given.scale,
            "slice": given.slice,
            "state_of_union": {
                name: {"peak": max(rows for _, rows in points), "points": thin(points)}
                for name, points in states.items()
            },
            "by_punctuations_per_hour": times,
            "most_against_none": {
                cost: common.ratio(runs[most], runs["0"], cost) for cost in ("seconds", "cpu")
            },
            "target": TARGET,
        }
    )
    common.plot(given.plot, lambda axes: draw(axes, states, times), columns=2)


def file_size(path: Path) -> int:
    return path.stat().st_size


def thin(points: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Few enough points to read: the highest of each stretch, and the last."""
    step = max(1, len(points) // POINTS)
    peaks = [max(points[i : i + step], key=lambda point: point[1]) for i in range(0, len(points), step)]
    return list(dict.fromkeys([*peaks, points[-1]]))


def draw(axes: Any, states: dict[str, list[tuple[int, int]]], times: dict[str, dict[str, float]]) -> None:
    state, time = axes
    for name, points in states.items():
        state.plot(*zip(*points, strict=True), label=name, linestyle=":" if name == "punctuated" else "-")
    state.set(xlabel="tuples", ylabel="tuples retained by union")
    numbers = [int(n) for n in times]
    for name, style in (("first_result_seconds", "--"), ("last_result_seconds", "-")):
        time.plot(numbers, [found[name] for found in times.values()], style, label=name.replace("_", " "))
    time.set(xlabel="punctuations per hour", ylabel="seconds")
    time.set_ylim(bottom=0)
    for one in axes:
        common.legend(one)


if __name__ == "__main__":
    main()
