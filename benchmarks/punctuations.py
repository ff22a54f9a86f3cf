"""What punctuations cost and what they save: the paper's figures, and the trade-offs it describes, from runs of ours.

    python benchmarks/punctuations.py [--only NAME ...] [--plot FOLDER]

- ``warehouse`` (Section 7.3): Figure 2a is the state of the warehouse query's union over the tuples that have come,
  with and without punctuations. Figure 2b is the time to the first result and to the last, for 0 to 30 punctuations an
  hour, both from the start of the process; ``total_seconds`` leave out what loading the program takes. The paper's
  data are ``--hours`` 60 of a report a minute from each of two sensors; ``--scale`` makes it that many reports. The
  target is 30 punctuations an hour against 0: at most 1.02 times the total time.
- ``union`` (Section 6.3): its state against the bytes that punctuations take, by the minutes between two of them; which
  attribute they constrain; and 2 to 64 inputs.
- ``join`` (Sections 1.3 and 6.3): the same of the auction: which stream promises which attribute, and for how many
  items at a time.
- ``windows`` (Section 6.1): the auction over windows, longer and longer: which items get their sum, and what is
  retained. And sensors out of step: the order of a sequence database against groups that punctuations close.
- ``live`` (Section 7.3): two senders over sockets, so many tuples a second: state and results over time, with and
  without punctuations, and with one sender at half the rate.

Prints JSON. ``half_out`` is the share of the input that had come when half of the results were out. All but the times
of ``warehouse`` and ``live`` repeat exactly.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import common
import experiments
import pictures
from experiments import Watched, watch

PER_HOUR = (0, 1, 2, 5, 10, 15, 20, 30)
EVERY = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600)
INPUTS = (2, 4, 8, 16, 32, 64)
GROUPS = (1, 2, 4, 8, 16, 32, 64, 128)
WINDOWS = (25, 50, 100, 200, 400, 800, 1600)
LAGS = (0, 30, 60, 120, 240)
TARGET = 1.02
SLICE = 2**11
"""Bytes per slice where runs are watched: fewer than a minute's or an item's worth would tell no more."""
READINGS = 4
"""Reports a minute of each sensor of `union`."""
OPEN, BIDS = 50, 10
"""Items open at a time, and bids on each."""
SHORTEST = 20
"""The least time that an item of `windows` is open."""
SENSORS = 8
"""The sensors behind one gateway."""
SENSOR = (
    "CREATE STREAM sensor{} (sid STRING{sid}, hour INT NOT NULL, min INT{min}, currtmp INT) "
    "WITH (source = '-', element = 'tempdata'); "
)
AUCTION = (
    "CREATE STREAM items (itemid INT NOT NULL, seller STRING{at}) WITH (source = '-', element = 'item'{timed}; "
    "CREATE STREAM bids (itemid INT NOT NULL, increase INT{at}) WITH (source = '-', element = 'bid'{timed}; "
)
SUMS = (
    "SELECT items.itemid, SUM(increase) AS increases FROM items JOIN bids ON items.itemid = bids.itemid "
    "GROUP BY items.itemid"
)
IN_WINDOWS = (
    "SELECT itemid, SUM(increase) AS increases FROM RSTREAM(SELECT b.itemid, b.increase "
    "FROM items [RANGE {}] AS i JOIN bids [NOW] AS b ON i.itemid = b.itemid) AS q GROUP BY itemid"
)
PLAIN = AUCTION.format(at="", timed=")")
TIMED = AUCTION.format(at=", at INT NOT NULL", timed=", timestamp = 'at') PUNCTUATE ORDER BY at")

Figures = dict[str, Any]


def agree(runs: dict[str, Watched]) -> None:
    """Punctuations must not change the answer."""
    first = next(iter(runs.values()))
    for name, run in runs.items():
        if run.answer != first.answer:
            sys.exit(f"{name}: another answer")


# The warehouse


def warehouse(given: Any) -> Figures:
    """The two figures of the paper."""
    from xmlpunct.engine.run.run_options import parse_size

    numbers = sorted({0, *given.per_hour})
    sources = {n: common.warehouse(given.data, given.hours, given.scale, n) for n in {1, *numbers}}
    query = common.SAMPLES / "warehouse.sql"
    # Figure 2a: slices small enough that an hour takes several.
    total = sum(path.stat().st_size for path in sources[0].values())
    size = max(2**10, min(parse_size(given.slice), total // 240))
    states = {
        name: watch(query.read_text(), sources[n], size) for name, n in (("punctuated", 1), ("plain", 0))
    }
    agree(states)

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
    return {
        "tuples": 2 * given.hours * 60 * given.scale,
        "slice": given.slice,
        "state_of_union": {
            name: {"peak": run.peak("union"), "points": run.state("union")} for name, run in states.items()
        },
        "by_punctuations_per_hour": times,
        "most_against_none": {cost: common.ratio(runs[most], runs["0"], cost) for cost in ("seconds", "cpu")},
        "target": TARGET,
    }


def sensors(count: int, columns: str, sid: str = "", min: str = "") -> str:
    """The highest temperature by ``columns``, of so many sensors. ``sid`` and ``min`` are what is declared of these."""
    declared = "".join(SENSOR.format(n, sid=sid.format(n), min=min) for n in range(1, count + 1))
    each = " UNION ".join(f"SELECT currtmp, {columns} FROM sensor{n}" for n in range(1, count + 1))
    return f"{declared}SELECT MAX(currtmp) AS maxtemp, {columns} FROM ({each}) GROUP BY {columns}"


def reports(given: Any, name: str, count: int, readings: int, said: experiments.Said) -> dict[str, Path]:
    """Reports of so many sensors, by stream."""
    minutes = given.hours * experiments.HOUR
    lines = experiments.warehouse(count, minutes, readings, said)
    folder = common.generated(given.data, f"reports-{name}-{count}-{readings}-{given.hours}", lines)
    return {f"sensor{n}": folder / f"sensor{n}.xml" for n in range(1, count + 1)}


def of_union(run: Watched, sources: dict[str, Path]) -> Figures:
    return {
        **experiments.promised(sources.values()),
        "union_rows": run.peak("union"),
        "held_punctuations": run.held,
        "half_out": run.half_out,
    }


def union(given: Any) -> Figures:
    """What union retains: by how often something is promised, by what is promised, and by the number of inputs."""
    often, by_attribute, by_inputs = {}, {}, {}
    runs: dict[str, Watched] = {}
    for minutes in (0, *given.every):
        sources = reports(given, f"every-{minutes}", 2, READINGS, experiments.every(minutes))
        run = runs[str(minutes)] = watch(sensors(2, "hour, min"), sources, SLICE)
        often[str(minutes)] = of_union(run, sources)
    agree(runs)

    said: dict[str, tuple[str, experiments.Said, dict[str, str]]] = {
        "nothing": ("every-0", experiments.every(0), {}),
        "hour": ("every-60", experiments.every(60), {}),
        "hour of a sensor": ("sensor", experiments.of_sensor, {}),
        "the same, sid declared": ("sensor", experiments.of_sensor, {"sid": " CHECK (sid IN ('S{:02}'))"}),
        "minute of an hour": ("every-1", experiments.every(1), {}),
        "the same, min declared": ("every-1", experiments.every(1), {"min": " CHECK (min BETWEEN 0 AND 59)"}),
        "temperature": ("temperature", experiments.of_temperature, {}),
    }
    runs = {}
    for name, (data, promise, declared) in said.items():
        sources = reports(given, data, 2, READINGS, promise)
        run = runs[name] = watch(sensors(2, "hour", **declared), sources, SLICE)
        by_attribute[name] = of_union(run, sources)
    agree(runs)

    for count in given.inputs:  # as many tuples each time
        readings = max(given.inputs) // count
        sources = reports(given, "every-60", count, readings, experiments.every(60))
        by_inputs[str(count)] = of_union(watch(sensors(count, "hour, min"), sources, SLICE), sources)
    return {"by_minutes_between": often, "by_attribute": by_attribute, "by_inputs": by_inputs}


# The auction


def join(given: Any) -> Figures:
    """What join retains: by what the two streams promise, and by how many items a punctuation closes."""

    def measured(on_items: str | None, on_bids: str | None, group: int) -> tuple[Watched, Figures]:
        lines = experiments.auction(given.items, BIDS, OPEN, on_items, on_bids, group)
        folder = common.generated(given.data, f"join-{given.items}-{on_items}-{on_bids}-{group}", lines)
        source = folder / "auction.xml"  # one file: what comes before what is no choice of the engine
        run = watch(PLAIN + SUMS, {"items": source, "bids": source}, SLICE)
        figures = {
            **experiments.promised([source]),
            "join_rows": run.peak("join"),
            "group_by_rows": run.peak("group-by"),
            "held_punctuations": run.held,
            "half_out": run.half_out,
        }
        return run, figures

    runs: dict[str, Watched] = {}
    by_attribute, by_group = {}, {}
    for name, on_items, on_bids in (
        ("nothing", None, None),
        ("items: itemid", "itemid", None),
        ("bids: itemid", None, "itemid"),
        ("items: seller, bids: itemid", "seller", "itemid"),
        ("both: itemid", "itemid", "itemid"),
    ):
        runs[name], figures = measured(on_items, on_bids, 1)
        by_attribute[name] = {**figures, "points": runs[name].state("join")}
    for group in given.groups:
        runs[str(group)], by_group[str(group)] = measured("itemid", "itemid", group)
    agree(runs)
    return {"by_attribute": by_attribute, "by_items_at_a_time": by_group}


def windows(given: Any) -> Figures:
    """Windows against punctuations: sums of the auction, and sensors out of step."""

    def timed(query: str, punctuated: bool) -> Watched:
        lines = experiments.timed_auction(given.items, BIDS, SHORTEST, punctuated)
        folder = common.generated(given.data, f"timed-{given.items}-{punctuated}", lines)
        source = folder / "auction.xml"
        return watch(query, {"items": source, "bids": source}, SLICE)

    def figures(run: Watched) -> Figures:
        right = sum(a == b for a, b in ((sums.get(item), total) for item, total in run.answer))
        groups = run.peak("group-by")
        rows = max(sum(m.rows.values()) - m.rows.get("group-by", 0) for m in run.moments)
        return {
            "exact": round(right / len(sums), 3),
            "rows": rows,
            "group_by_rows": groups,
            "half_out": run.half_out,
        }

    punctuated = timed(PLAIN + SUMS, True)
    sums = dict(punctuated.answer)
    auction = {"punctuations": figures(punctuated)}
    for length in given.windows:
        auction[str(length)] = figures(timed(TIMED + IN_WINDOWS.format(length), False))

    names = ", ".join(f"'S{n:02}'" for n in range(1, SENSORS + 1))
    declared = (
        f"CREATE STREAM gateway (sid STRING CHECK (sid IN ({names})), hour INT CHECK (hour BETWEEN 0 AND "
        f"{given.hours - 1}), min INT, currtmp INT) WITH (source = '-', element = 'tempdata'); "
    )
    out_of_step: dict[str, dict[str, int]] = {}
    for lag in given.lags:
        lines = experiments.gateway(SENSORS, given.hours, 1, lag)
        source = common.generated(given.data, f"gateway-{given.hours}-{lag}", lines) / "gateway.xml"
        out_of_step[str(lag)] = {
            name: watch(declared + query, {"gateway": source}, SLICE).peak()
            for name, query in (
                ("in_order", "SELECT hour, currtmp FROM gateway ORDER BY hour"),
                ("groups", "SELECT hour, MAX(currtmp) AS maxtemp FROM gateway GROUP BY hour"),
            )
        }
    return {"auction": auction, "out_of_step": out_of_step}


# Live


def live(given: Any) -> Figures:
    """Two live senders: state and results over time."""
    query = (common.SAMPLES / "warehouse.sql").read_text()
    found = {}
    runs: dict[str, Watched] = {}
    for name, minutes, slower in (
        ("plain", 0, 1),
        ("punctuated", 60, 1),
        ("sensor2 at half the rate", 60, 2),
    ):
        sources = reports(given, f"every-{minutes}", 2, READINGS, experiments.every(minutes))
        rates = {"sensor1": given.rate, "sensor2": given.rate / slower}
        run = runs[name] = experiments.watch_live(query, sources, rates)
        state, results = run.state("union", live=True), run.results(live=True)
        found[name] = {
            "union_rows": run.peak("union"),
            "first_result_seconds": next(m.seconds for m in run.moments if m.results),
            "last_result_seconds": next(m.seconds for m in run.moments if m.results == results[-1][1]),
            "state": state,
            "results": results,
        }
    agree(runs)
    return found


SECTIONS: dict[str, tuple[Callable[[Any], Figures], Callable[[Any, Figures], None], int]] = {
    "warehouse": (warehouse, pictures.warehouse, 2),
    "union": (union, pictures.union, 3),
    "join": (join, pictures.join, 2),
    "windows": (windows, pictures.windows, 2),
    "live": (live, pictures.live, 2),
}
"""What measures a section, what draws it, and into how many pictures."""


def main() -> None:
    parser = common.parser(__doc__, plot="FOLDER")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, metavar="NAME", help="measure these alone")
    parser.add_argument("--hours", type=int, default=60, help="hours of the warehouse's streams")
    parser.add_argument("--scale", type=int, default=100, help="reports a minute and sensor of warehouse")
    parser.add_argument("--per-hour", type=int, nargs="+", default=PER_HOUR, help="numbers of punctuations")
    parser.add_argument("--slice", default="64KiB", help="input bytes per slice of warehouse")
    parser.add_argument(
        "--every", type=int, nargs="+", default=EVERY, help="minutes between punctuations of union"
    )
    parser.add_argument("--inputs", type=int, nargs="+", default=INPUTS, help="numbers of inputs of union")
    parser.add_argument("--items", type=int, default=2000, help="items of join and windows")
    parser.add_argument(
        "--groups", type=int, nargs="+", default=GROUPS, help="items that a punctuation of join closes"
    )
    parser.add_argument("--windows", type=int, nargs="+", default=WINDOWS, help="instants of a window")
    parser.add_argument("--lags", type=int, nargs="+", default=LAGS, help="minutes that one sensor is late")
    parser.add_argument("--rate", type=float, default=1440, help="tuples a second of each live sender")
    given = parser.parse_args()
    found = {}
    for name in given.only or SECTIONS:
        measure, draw, columns = SECTIONS[name]
        found[name] = measure(given)
        picture = given.plot and given.plot / f"{name}.svg"
        common.plot(picture, lambda axes, of=found[name], draw=draw: draw(axes, of), columns)
    common.report(found)


if __name__ == "__main__":
    main()
