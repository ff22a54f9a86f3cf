"""What the benchmarks share: test data made once, runs in turn, ratios, fitted exponents, reports.

All figures that are compared come from runs that took turns, each round one of every contender, so that what
else the machine was doing did it to all of them. A ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SAMPLES = HERE.parent / "samples"
PACKAGES = ("xmlpunct", "lxml", "polars", "pyarrow", "numpy", "bytewax", "xml2arrow", "pygixml", "pyspark")


@dataclass(frozen=True)
class Run:
    """One run of one contender, in a process of its own.

    ``seconds`` are those of the work, from when the program is loaded. ``wall`` are those of the process, ``cpu``
    those it computed, start included; ``peak_mib`` is the most memory it had resident. ``details`` is what it says
    about itself, ``answer`` what it found.
    """

    seconds: float
    wall: float
    cpu: float
    peak_mib: float
    details: dict[str, Any] = field(default_factory=dict)
    answer: Any = None


Contender = Callable[[], Run]


def options(doc: str | None, plot: str = "FILE") -> argparse.ArgumentParser:
    """The option that all benchmarks have; ``plot`` is what they draw into."""
    found = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    found.add_argument("--plot", type=Path, metavar=plot, help="draw the figures too (needs matplotlib)")
    return found


def parser(doc: str | None, plot: str = "FILE") -> argparse.ArgumentParser:
    """The options of a benchmark that runs several contenders over test data."""
    found = options(doc, plot)
    default = Path(tempfile.gettempdir()) / "xmlpunct-benchmarks"
    found.add_argument("--data", type=Path, default=default, help="where test data is kept between runs")
    found.add_argument("--rounds", type=int, default=3, help="how often every contender runs")
    return found


def generated(data: Path, name: str, lines: Iterable[tuple[str, str]]) -> Path:
    """The directory of a data set, made of the lines of a generator if it is not there yet."""
    from xmlpunct.firehose.generators import write

    folder = data / name
    if not folder.is_dir():
        data.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=data) as half:
            write(lines, f"{half}/{name}")
            Path(half, name).rename(folder)
    return folder


def warehouse(data: Path, hours: int, readings: int, punctuations: int = 1) -> dict[str, Path]:
    """Two sensors' temperature reports, so many a minute, with so many punctuations an hour."""
    from xmlpunct.firehose import generators

    name = f"warehouse-{hours}-{readings}-{punctuations}"
    folder = generated(data, name, generators.warehouse(2, hours, readings, punctuations, 1))
    return {sensor: folder / f"{sensor}.xml" for sensor in ("sensor1", "sensor2")}


def auction(data: Path, items: int, bids: int, open_items: int) -> dict[str, Path]:
    """Items and bids on them, so many open at a time, with a punctuation each."""
    from xmlpunct.firehose import generators

    name = f"auction-{items}-{bids}-{open_items}"
    folder = generated(data, name, generators.auction(items, bids, open_items, True, 1))
    return {stream: folder / f"{stream}.xml" for stream in ("items", "bids")}


def execute(command: Sequence[str], core: bool = True) -> tuple[float, float, float]:
    """Run a program, on one core if so asked: its seconds, those computed, its peak of resident memory in MiB."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []

    def pin() -> None:
        os.sched_setaffinity(0, cores[-1:])

    settings = {**os.environ, **({"POLARS_MAX_THREADS": "1"} if core else {})}
    began = time.monotonic()
    process = subprocess.Popen(command, env=settings, preexec_fn=pin if core and cores else None)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"failed: {' '.join(command)}")
    scale = 2**20 if sys.platform == "darwin" else 2**10
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / scale


def engine(query: Path | str, sources: Mapping[str, Path], *options: str, core: bool = True) -> Run:
    """Run ``xmlpunct run`` over files. The query is a file or SQL; the answer is the sorted result."""
    with tempfile.TemporaryDirectory() as scratch:
        out, stats = Path(scratch) / "out.jsonl", Path(scratch) / "stats.json"
        command = [sys.executable, "-m", "xmlpunct", "run"]
        command += [str(query)] if isinstance(query, Path) else ["-q", query]
        for name, path in sources.items():
            command += ["-s", f"{name}={path}"]
        command += ["--format", "jsonl", "-o", str(out), "--stats", str(stats), *options]
        costs = execute(command, core=core)
        details = json.loads(stats.read_text())
        lines = map(json.loads, out.read_text().splitlines())
        answer = sorted(tuple(line.values()) for line in lines if "$punct" not in line)
    return Run(details["seconds"], *costs, details, answer)


def rival(name: str, *arguments: object, core: bool = True) -> Run:
    """Run one of the programs in ``rivals.py``."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "said.json"
        command = [
            sys.executable,
            "-W",
            "ignore",
            str(HERE / "rivals.py"),
            name,
            str(out),
            *map(str, arguments),
        ]
        costs = execute(command, core=core)
        said = json.loads(out.read_text())
    answer = sorted(map(tuple, said.pop("answer"))) if "answer" in said else None
    return Run(said.pop("seconds"), *costs, said, answer)


def in_turn(contenders: Mapping[str, Contender], rounds: int) -> dict[str, list[Run]]:
    """Run all contenders, a round after the other. They must agree on the answer."""
    found: dict[str, list[Run]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            found[name].append(run())
    answers = {name: runs[0].answer for name, runs in found.items() if runs[0].answer is not None}
    first = next(iter(answers), None)
    for name, answer in answers.items():
        if answer != answers[first]:
            sys.exit(f"{name} and {first} give different answers")
    return found


def without_answer(run: Run) -> Run:
    """A run whose answer is not to be compared with others'."""
    return replace(run, answer=None)


def ratio(slow: Sequence[Run], fast: Sequence[Run], cost: str = "seconds") -> float:
    """How many times as much the one took as the other: the median over rounds."""
    pairs = zip(slow, fast, strict=True)
    return round(statistics.median(getattr(a, cost) / getattr(b, cost) for a, b in pairs), 3)


def ratios(runs: Mapping[str, Sequence[Run]], subject: str = "xmlpunct") -> dict[str, dict[str, float]]:
    """How many times as much each of the others took: seconds of work, and seconds computed by the whole process."""
    return {
        f"times_the_{cost}": {
            name: ratio(found, runs[subject], cost) for name, found in runs.items() if name != subject
        }
        for cost in ("seconds", "cpu")
    }


def summary(runs: Sequence[Run], tuples: int) -> dict[str, float]:
    """What a contender's runs come to."""
    seconds = statistics.median(run.seconds for run in runs)
    return {
        "seconds": round(seconds, 3),
        "wall_seconds": round(statistics.median(run.wall for run in runs), 3),
        "cpu_seconds": round(statistics.median(run.cpu for run in runs), 3),
        "tuples_per_second": round(tuples / seconds),
        "peak_mib": round(max(run.peak_mib for run in runs), 1),
    }


def exponent(xs: Sequence[float], ys: Sequence[float]) -> float:
    """The exponent e of the power law y = c * x**e that fits best: the slope in log-log."""
    a, b = [math.log(x) for x in xs], [math.log(y) for y in ys]
    return round(statistics.linear_regression(a, b).slope, 3)


def installed(package: str) -> bool:
    """Whether a package is there."""
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def machine() -> dict[str, object]:
    """Where the figures come from."""
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "machine": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load_average": round(os.getloadavg()[0], 1),
        "packages": {name: version(name) for name in PACKAGES if installed(name)},
    }


def report(figures: Mapping[str, object]) -> None:
    """Print the figures as JSON."""
    print(json.dumps({**figures, "measured_on": machine()}, indent=2))


def plot(path: Path | None, draw: Callable[[Any], None], columns: int = 1) -> None:
    """Draw into a file if there is one to draw into: ``draw`` gets matplotlib's axes (a list, if several)."""
    if path is None:
        return
    try:
        import matplotlib
    except ModuleNotFoundError:
        sys.exit("--plot needs matplotlib: pip install 'xmlpunct[plot]'")
    matplotlib.use("agg")
    from matplotlib import pyplot

    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "xmlpunct"})  # the same each time
    figure, axes = pyplot.subplots(1, columns, figsize=(6 * columns, 4), layout="constrained")
    draw(axes)
    for one in figure.axes:
        if one.get_legend_handles_labels()[1]:
            legend(one)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def bars(axes: Any, figures: Mapping[str, Mapping[str, float]]) -> None:
    """Draw how many tuples a second each contender took."""
    axes.barh(list(figures), [found["tuples_per_second"] for found in figures.values()])
    axes.invert_yaxis()
    axes.set_xlabel("tuples a second")


def legend(axes: Any) -> None:
    """Say above the axes what is what, where it hides nothing."""
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, frameon=False)
