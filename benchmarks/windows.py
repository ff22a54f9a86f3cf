"""What windows cost, on one core: against bytewax and polars, and as streams and windows grow.

    python benchmarks/windows.py [--only NAME ...] [--tuples N] [--length N] [--windows N N]

- ``tumble``: TUMBLE and COUNT by key from XML, against bytewax's window fed by lxml: at least 10 times as fast.
- ``range``: RANGE and SUM by 1,000 groups, against polars' ``rolling`` over all tuples at once, reading excluded: at
  least 0.3 times its speed, for each size of slices (``--slices``).
- ``join``: two RANGE windows that are joined on a key, longer and longer. In a stream of 100 times the length a tuple
  takes at most 1.1 times as long, and no more is retained than what is open.
- ``sliding``: CPU per slice of 100 tuples, with ``--windows`` tuples in the window: a window of 1,000,000 takes at most
  2.5 times as long as one of 10,000.

Prints JSON. Seconds of ``range``, ``join`` and ``sliding`` are those computed by the process, of data in memory.
"""

from __future__ import annotations

import os

os.environ["POLARS_MAX_THREADS"] = "1"  # polars reads it when it is imported

import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import common
import polars as pl

from xmlpunct.engine.run.build import build
from xmlpunct.engine.sql import plan
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.slice import Slice

if TYPE_CHECKING:
    from xmlpunct.operators import Pipeline

KEYS, GROUPS = 100, 1000
SIZE = 10_000
"""Instants of a tumbling window. One tuple is at each instant."""
RANGE = 10_000
"""Instants of the window that is compared with polars'."""
OPEN = 2000
"""Instants of the windows that are joined."""
STEP = 100
"""Tuples per slice, where windows grow."""
PART = 1000
"""Tuples per slice and punctuation, where streams grow or come from XML."""
SPREAD = 1_000_003
"""A stride that is prime to the numbers of keys, so that keys do not come in their order."""
TARGETS = {
    "tumble_times_bytewax": 10,
    "range_of_polars_speed": 0.3,
    "join_time_per_tuple": 1.1,
    "sliding_largest_against_smallest": 2.5,
}
DECLARED = (
    "CREATE STREAM {} (k INT NOT NULL, v INT NOT NULL, ts INT NOT NULL) WITH (source = '-', element = 't'{});"
)
TIMED = ", timestamp = 'ts'"
TUMBLE = (
    "SELECT k, window_start, COUNT(*) AS n FROM TUMBLE(TABLE s, DESCRIPTOR(ts), {}) GROUP BY k, window_start"
)

Point = dict[str, float]


def tuples(begin: int, end: int, keys: int) -> pl.DataFrame:
    """Tuples of the instants from ``begin`` to ``end``, one at each."""
    ts = pl.int_range(begin, end, eager=True)
    return pl.DataFrame({"k": ts * SPREAD % keys, "v": ts * 7 % 97 + 1, "ts": ts})


class Fed:
    """A query that gets its slices from memory."""

    def __init__(self, query: str, *streams: str, timed: bool = True) -> None:
        declared = [DECLARED.format(name, TIMED * timed) for name in streams]
        planned = plan(" ".join([*declared, query]))
        self.schemas = [stream.schema for stream in planned.streams]
        self.pipeline: Pipeline = build(planned.root, [stream.name for stream in planned.streams])
        self.pipeline.open()
        self.seconds = 0.0

    def slice(self, begin: int, end: int, keys: int) -> Slice:
        """The tuples of some instants, and that these are over."""
        return Slice(tuples(begin, end, keys), [Punctuation.of(self.schemas[0], ts=f"(,{end - 1}]")])

    def end(self) -> Slice:
        """That a stream is over."""
        schema = self.schemas[0]
        return Slice(schema.empty(), [Punctuation.everything(schema)])

    def push(self, part: Slice) -> list[pl.DataFrame]:
        """Give a slice to each stream; what comes out."""
        began = time.process_time()
        found = [self.pipeline.push(port, part).tuples for port in range(len(self.schemas))]
        self.seconds += time.process_time() - began
        return found

    @property
    def retained(self) -> int:
        """How many tuples and changes all operators retain."""
        return sum(counters.state_rows for counters in self.pipeline.counters)


# Against others


def readings(count: int) -> Iterator[tuple[str, str]]:
    """A stream of tuples, one at each instant, a promise after each thousand."""
    for begin in range(0, count, PART):
        for k, v, ts in tuples(begin, min(begin + PART, count), KEYS).iter_rows():
            yield "s.xml", f"<t><k>{k}</k><v>{v}</v><ts>{ts}</ts></t>\n"
        yield "s.xml", f"<punct:t><ts>(,{min(begin + PART, count) - 1}]</ts></punct:t>\n"


def tumble(given: Any) -> dict[str, Any]:
    """Counts of windows from XML."""
    source = common.generated(given.data, f"windows-{given.tuples}", readings(given.tuples)) / "s.xml"
    query = DECLARED.format("s", "") + TUMBLE.format(SIZE)
    contenders: dict[str, common.Contender] = {
        "xmlpunct": lambda: common.engine(query, {"s": Path(source)}, "--engine", "local")
    }
    if common.installed("bytewax"):
        contenders["bytewax"] = lambda: common.rival("bytewax-tumble", source, SIZE)
    runs = common.in_turn(contenders, given.rounds)
    figures = {name: common.summary(found, given.tuples) for name, found in runs.items()}
    return {"contenders": figures, **common.ratios(runs)}


def in_polars(frame: pl.DataFrame) -> pl.DataFrame:
    """The sum of each tuple's group at its instant."""
    return frame.rolling("ts", period=f"{RANGE + 1}i", group_by="k").agg(pl.col("v").sum().alias("total"))


def compare(mine: pl.DataFrame, theirs: pl.DataFrame) -> None:
    """The changes of the groups' sums must say what polars says of each tuple's instant."""
    latest = mine.filter(pl.col("diff") > 0).rename({"at": "ts"}).sort("ts")
    both = theirs.sort("ts").join_asof(latest, on="ts", by="k", check_sortedness=False)
    if not both["total"].equals(both["total_right"]):
        sys.exit("range: polars gives another answer")


def summing(size: int, end: int) -> tuple[Fed, Iterator[pl.DataFrame]]:
    """The query over slices of a size; what comes out of each."""
    fed = Fed(f"SELECT k, SUM(v) AS total FROM s [RANGE {RANGE}] GROUP BY k", "s")
    parts = [fed.slice(at, min(at + size, end), GROUPS) for at in range(0, end, size)]
    return fed, (out for part in [*parts, fed.end()] for out in fed.push(part))


def ranges(given: Any) -> dict[str, Any]:
    """Sums of groups over the latest instants."""
    frame = tuples(0, given.range, GROUPS)
    seconds: dict[str, list[float]] = {"polars": [], **{str(size): [] for size in given.slices}}
    for size in given.slices:
        compare(pl.concat(summing(size, given.range)[1]), in_polars(frame))
    for _ in range(given.rounds):
        began = time.process_time()
        in_polars(frame)
        seconds["polars"].append(time.process_time() - began)
        for size in given.slices:
            fed, outputs = summing(size, given.range)
            for _ in outputs:  # nothing of it is kept
                pass
            seconds[str(size)].append(fed.seconds)
    polars = seconds.pop("polars")
    return {
        "polars": {"cpu": round(statistics.median(polars), 3)},
        "slices": {
            size: {
                "cpu": round(statistics.median(mine), 3),
                "of_polars_speed": round(
                    statistics.median(p / m for p, m in zip(polars, mine, strict=True)), 3
                ),
            }
            for size, mine in seconds.items()
        },
    }


# As they grow


def join(given: Any) -> dict[str, Any]:
    """Two windows joined on a key: what a tuple costs, and what is retained, as both streams grow."""
    query = f"SELECT a.k, a.v, b.v AS w FROM a [RANGE {OPEN}] AS a JOIN b [RANGE {OPEN}] AS b ON a.k = b.k"
    keys = OPEN
    lengths = [given.length * growth for growth in (1, 10, 100)]
    rounds: list[list[float]] = []
    for _ in range(given.rounds):
        fed, costs = Fed(query, "a", "b"), []
        peaks = []
        for at in range(0, lengths[-1], PART):
            fed.push(fed.slice(at, at + PART, keys))
            if at + PART in lengths:
                costs.append(fed.seconds)
                peaks.append(max(c.state_rows_peak for c in fed.pipeline.counters))
        rounds.append(costs)
    points = [
        {"n": 2 * n, "cpu": round(statistics.median(costs[i] for costs in rounds), 3), "rows_peak": peaks[i]}
        for i, n in enumerate(lengths)
    ]
    later = [(c[2] - c[1]) / (c[1] - c[0]) / 10 for c in rounds]
    return {"points": points, "time_per_tuple": round(statistics.median(later), 3)}


def queries(length: int) -> dict[str, tuple[str, bool]]:
    """Queries over windows of so many tuples; whether the stream has a timestamp."""
    over = f"OVER (PARTITION BY k ORDER BY ts RANGE {length} PRECEDING)"
    session = f"SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), {2 * KEYS})"
    return {
        "SUM, RANGE": (f"SELECT k, SUM(v) AS x FROM s [RANGE {length}] GROUP BY k", True),
        "MIN, RANGE": (f"SELECT k, MIN(v) AS x FROM s [RANGE {length}] GROUP BY k", True),
        "ROWS": (f"SELECT k, v FROM s [ROWS {length}]", True),
        "SUM, OVER": (f"SELECT k, ts, SUM(v) {over} AS x FROM s", False),
        "SESSION": (f"SELECT k, window_start, COUNT(*) AS x FROM {session} GROUP BY k, window_start", False),
    }


def sliding(given: Any) -> dict[str, Any]:
    """What a slice costs, as the window grows."""
    found: dict[str, Any] = {}
    for name in given.queries or queries(0):
        points: list[Point] = []
        for length in given.windows:
            query, timed = queries(length)[name]
            fed, now = Fed(query, "s", timed=timed), 0
            for at in range(0, length, 50_000):
                now = min(at + 50_000, length)
                fed.push(fed.slice(at, now, KEYS))
            times = []
            for begin in range(now, now + given.steps * STEP, STEP):
                fed.seconds = 0.0
                fed.push(fed.slice(begin, begin + STEP, KEYS))
                times.append(fed.seconds)
            cpu = round(1000 * statistics.median(times), 3)
            points.append({"n": length, "cpu_ms": cpu, "rows": fed.retained})
        growth = round(points[-1]["cpu_ms"] / points[0]["cpu_ms"], 2)
        found[name] = {"points": points, "largest_against_smallest": growth}
    return found


def main() -> None:
    parser = common.parser(__doc__)
    benchmarks: dict[str, Callable[[Any], dict[str, Any]]] = {
        "tumble": tumble,
        "range": ranges,
        "join": join,
        "sliding": sliding,
    }
    parser.add_argument("--only", nargs="+", choices=benchmarks, metavar="NAME", help="measure these alone")
    parser.add_argument("--tuples", type=int, default=200_000, help="tuples from XML")
    parser.add_argument("--range", type=int, default=1_000_000, help="tuples to compare with polars")
    sizes: Iterable[int] = (65_536, 10_000)
    parser.add_argument("--slices", type=int, nargs="+", default=sizes, help="tuples of a slice of these")
    parser.add_argument("--length", type=int, default=10_000, help="tuples of the shortest streams to join")
    windows: Iterable[int] = (10_000, 1_000_000)
    parser.add_argument("--windows", type=int, nargs="+", default=windows, help="tuples in a window")
    parser.add_argument("--queries", nargs="+", choices=queries(0), metavar="NAME", help="slide these alone")
    parser.add_argument("--steps", type=int, default=100, help="slices to measure with each window")
    given = parser.parse_args()
    found = {name: benchmarks[name](given) for name in given.only or benchmarks}
    common.report({**found, "targets": TARGETS})


if __name__ == "__main__":
    main()
