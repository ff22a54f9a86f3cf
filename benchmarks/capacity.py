"""The figures that a plan for many cores starts from, measured on one machine, and what follows from them.

    python benchmarks/capacity.py [--spark] [--markdown] [--cores N] [--hours N] [--items N] [--plot FILE]

Everything is measured in this process, in seconds that it computed, but for memory and ``--spark``, which start
processes. Prints JSON, or the tables of docs/capacity.md as Markdown; what each name means stands in
``planning.py``, which also reckons the plans.
"""

from __future__ import annotations

import os
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import common
import planning
from stages import FEW_SHARDS, SLICE, dataset, edges, job_of, local, sink
from stages import planning as seconds_of_planning

FILES = 2000
"""How many files are planned."""
GROWTH = 5
"""How many times as large the larger of two runs is."""
Lines = Iterable[tuple[str, str]]

KINDS: dict[str, tuple[int, Callable[[list[str]], list[str]]]] = {
    "constants": (1, lambda n: n),
    "ranges": (2, lambda n: [f"[{n[0]},{n[-1]}]"]),
    "fewer": (2000, lambda n: [f"[{n[0]},{n[-1]}]"]),
}
"""The ways to close the auction's items: after how many, and by which patterns."""


def closed(lines: Lines, kind: str) -> Iterator[tuple[str, str]]:
    """The lines of the auction, their items closed in another way: tuples and results stay the same."""
    size, say = KINDS[kind]
    waiting: dict[str, list[str]] = {}
    last: dict[str, str] = {}

    def said(file: str) -> Iterator[tuple[str, str]]:
        for pattern in say(waiting.pop(file)):
            yield file, re.sub("<itemid>.*</itemid>", f"<itemid>{pattern}</itemid>", last[file])

    for file, line in lines:
        if "<punct:" not in line:
            yield file, line
            continue
        last[file] = line
        waiting.setdefault(file, []).append(re.findall("<itemid>(.*)</itemid>", line)[0])
        if len(waiting[file]) == size:
            yield from said(file)
    for file in list(waiting):
        yield from said(file)


def auction(given: Any, kind: str) -> dict[str, Path]:
    """The auction with its items closed in one of the ways."""
    from xmlpunct.firehose import generators

    lines = closed(generators.auction(given.items, 10 * given.items, 50, True, 1), kind)
    folder = common.generated(given.data, f"closed-{given.items}-{kind}-{KINDS[kind][0]}", lines)
    return {stream: folder / f"{stream}.xml" for stream in ("items", "bids")}


class Ran(NamedTuple):
    """A sample query's figures, and what they come from. ``spent`` are all core seconds but those of the sink."""

    figures: dict[str, float]
    spent: float
    punctuations: int
    job: Any
    result: Any


def of_query(name: str, sources: Mapping[str, Path], rounds: int) -> Ran:
    """What a sample query comes to per tuple."""
    from xmlpunct.engine.sql import plan

    sql = (common.SAMPLES / f"{name}.sql").read_text()
    planned = plan(sql, {stream: str(path) for stream, path in sources.items()})
    runs = [local(planned) for _ in range(rounds + 1)][1:]
    inputs = runs[0].stats.inputs.values()
    tuples, said = sum(i.tuples for i in inputs), sum(i.punctuations for i in inputs)
    job = job_of(planned, sources, FEW_SHARDS)
    figures = {
        "x": sum(path.stat().st_size for path in sources.values()) / tuples,
        "q": said / tuples,
        **edges(job, rounds),
        "ct": min(run.operators for run in runs) / tuples,
        "o": retained(runs[0].stats.as_dict()),
        "y": runs[0].result.tuples.height / tuples,
    }
    spent = min(run.reading + run.operators for run in runs) + figures["ce"] * tuples
    return Ran(figures, spent, said, job, runs[0].result)


def per_punctuation(more: Ran, fewer: Ran) -> float:
    """Core seconds of a punctuation, from two runs over the same tuples."""
    return max(0.0, (more.spent - fewer.spent) / (more.punctuations - fewer.punctuations))


def memory(given: Any) -> dict[str, float]:
    """Resident memory of a small run, and what a tuple adds that is never forgotten: of auctions never closed."""
    from xmlpunct.firehose import generators

    options = ("--engine", "local", "--slice", str(SLICE))

    def run(items: int) -> common.Run:
        lines = generators.auction(items, 10 * items, 50, False, 1)
        folder = common.generated(given.data, f"never-closed-{items}", lines)
        sources = {name: folder / f"{name}.xml" for name in ("items", "bids")}
        return common.without_answer(common.engine(common.SAMPLES / "auction.sql", sources, *options))

    small = common.engine(common.SAMPLES / "warehouse.sql", common.warehouse(given.data, 1, 1), *options)
    sizes = given.items, given.items * GROWTH
    runs = common.in_turn({str(n): lambda n=n: run(n) for n in sizes}, given.rounds)
    few, many = (
        (statistics.median(r.peak_mib for r in found), retained(found[0].details)) for found in runs.values()
    )
    return {"M0": small.peak_mib * 2**20, "m": (many[0] - few[0]) * 2**20 / (many[1] - few[1])}


def retained(stats: Mapping[str, Any]) -> int:
    """How many tuples all operators retained, at most."""
    return sum(o["state_rows_peak"] for o in stats["operators"])


def spark(given: Any) -> dict[str, float]:
    """Seconds of a micro-batch that holds next to nothing, and what a further shard adds to it."""

    def batch(shards: int) -> float:
        runs = []
        for hours in (4, 24):
            sources = common.warehouse(given.data, hours, 1)
            options = ("--engine", "spark", "--master", f"local[{shards}]", "--slice", "4KiB")
            runs.append(common.engine(common.SAMPLES / "warehouse.sql", sources, *options, core=False))
        small, large = runs
        return (large.seconds - small.seconds) / (large.details["slices"] - small.details["slices"])

    few, many = batch(FEW_SHARDS), batch(4 * FEW_SHARDS)
    return {"b": few, "bs": max(0.0, many - few) / (3 * FEW_SHARDS)}


def measure(given: Any) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """The figures of the machine, and those of each query."""
    import parse

    shape = parse.measure("flat", given.mib * 2**20, given.rounds)
    auctions = {kind: of_query("auction", auction(given, kind), given.rounds) for kind in KINDS}
    warehouse = of_query("warehouse", common.warehouse(given.data, given.hours, 300), given.rounds)
    constants, fewer = auctions["constants"], auctions["fewer"]
    machine = {
        "P": shape["xmlpunct"]["mb_per_second"] * 1e6,
        "Pc": shape["conforming"]["mb_per_second"] * 1e6,
        "cp": per_punctuation(constants, fewer),
        "cr": per_punctuation(auctions["ranges"], fewer),
        **memory(given),
        "t": seconds_of_planning(warehouse.job, FILES, given.rounds),
        **sink(constants.job, constants.result, given.cores, given.rounds),
        **dataset(constants.job, constants.result, given.rounds),
        **(spark(given) if given.spark else {}),
    }
    # What punctuations cost is in ``cp``, so what tuples cost is taken from where there are next to none.
    apart = {name: fewer.figures[name] for name in ("ce", "ct")}
    return machine, {"warehouse": warehouse.figures, "auction": {**constants.figures, **apart}}


def draw(axes: Any, plans: Mapping[str, planning.Plan]) -> None:
    """Where the core seconds go."""
    left = [0.0] * len(plans)
    for part in next(iter(plans.values())).seconds_per_million_tuples:
        widths = [plan.seconds_per_million_tuples[part] for plan in plans.values()]
        axes.barh(list(plans), widths, left=left, label=part)
        left = [a + b for a, b in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    axes.set_xlabel("core seconds per million tuples")
    common.legend(axes)


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--cores", type=int, default=1000, help="how many to plan for")
    parser.add_argument("--hours", type=int, default=12, help="hours of the warehouse's data")
    parser.add_argument("--items", type=int, default=10_000, help="items of the auction, each with 10 bids")
    parser.add_argument("--mib", type=int, default=8, help="how large the document is that is only read")
    parser.add_argument("--spark", action="store_true", help="measure micro-batches too")
    parser.add_argument("--markdown", action="store_true", help="print tables instead of JSON")
    given = parser.parse_args()
    machine, queries = measure(given)
    plans = planning.plans(machine, queries, given.cores)
    if given.markdown:
        print("\n".join(planning.markdown(machine, queries, given.cores)))
    else:
        reckoned = {name: asdict(plan) for name, plan in plans.items()}
        common.report({"machine": machine, "queries": queries, "plans": reckoned})
    common.plot(given.plot, lambda axes: draw(axes, plans))


if __name__ == "__main__":
    os.environ["POLARS_MAX_THREADS"] = "1"
    main()
