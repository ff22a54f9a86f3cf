"""What follows from the figures that ``capacity.py`` measures: how far a query scales, what saturates first, its cost.

The formulas are those of docs/capacity.md, and so are the names.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from stages import FILE_BYTES

Figures = Mapping[str, float]

CORES_PER_MACHINE = 32
LINK = 100e9 / 8
"""Bytes a second between a machine and the others. These three are assumptions."""
PRICE = 0.04
"""Of a core hour."""

MACHINE = {
    "P": ("XML bytes a core reads into columns, flat records", "B/s"),
    "Pc": ("the same on the conforming path, for XML that is of no common shape", "B/s"),
    "cp": ("core seconds per punctuation of one constant, from text to the last operator", "s"),
    "cr": ("the same per punctuation of a range", "s"),
    "m": ("resident memory per retained tuple", "B"),
    "M0": ("resident memory that a process has to begin with", "B"),
    "t": ("seconds of planning per file of 8 MiB, or piece of a larger one", "s"),
    "r": ("seconds of the sink per result and its punctuation", "s"),
    "u": ("seconds of the sink per shard and micro-batch", "s"),
    "v": ("seconds of the sink for what a shard of a fragment reports of itself in a micro-batch", "s"),
    "g": ("seconds of the sink per punctuation that every shard has to say, of {shards:,} shards", "s"),
    "W": ("bytes a second of XML results sorted and written, without punctuations", "B/s"),
    "rp": ("seconds of the sink per punctuation of a dataset, whose tuples do not come to it", "s"),
    "rt": ("seconds of the sink per tuple of a dataset", "s"),
    "wt": ("core seconds of tasks per tuple of a dataset, which they put aside and make a file of", "s"),
    "b": ("seconds of a micro-batch with next to nothing in it, 2 shards (`--spark`)", "s"),
    "bs": ("what each further shard adds to that where it gets no further core (`--spark`)", "s"),
}
"""What is measured once: its meaning and its unit."""

QUERY = {
    "x": ("XML bytes per tuple", "B"),
    "q": ("punctuations per tuple", ""),
    "d": ("tuples that the reader sends to shards, of one that it reads", ""),
    "a": ("bytes per tuple sent, as Arrow with punctuations", "B"),
    "ce": ("core seconds per tuple read: edge work and the exchange", "s"),
    "ct": ("core seconds per tuple in the operators of shards", "s"),
    "o": ("tuples retained at a time, at most", ""),
    "y": ("results per tuple", ""),
    "C": ("bytes a second in which a core finds where what comes from a socket can be cut", "B/s"),
    "Cf": ("bytes a second in which a core finds where a large file can be cut", "B/s"),
}
"""What is measured of each query."""


def seconds_per_tuple(machine: Figures, query: Figures, read: str) -> dict[str, float]:
    """Where a tuple's core seconds go, if reading runs at ``P`` or ``Pc``."""
    return {
        "reading": query["x"] / machine[read],
        "edge": query["ce"],
        "operators": query["d"] * query["ct"],
        "punctuations": query["q"] * machine["cp"],
    }


def limits(machine: Figures, query: Figures, cores: int) -> dict[str, float]:
    """Tuples a second at which what does not grow with the cores of a run is saturated, and the network."""
    return {
        "planning": FILE_BYTES / machine["t"] / query["x"],
        "sink": 1 / (query["y"] * machine["r"]),
        "sink of a dataset": 1 / (query["y"] * (machine["rp"] + machine["rt"])),
        "network": cores / CORES_PER_MACHINE * LINK / query["x"],
    }


@dataclass(frozen=True)
class Plan:
    """What so many cores do with a query.

    ``tuples_per_second`` is what all cores could do, ``of_one_run`` what one run of the query does before the
    first of the ``limits`` holds it up, and ``busy`` how many cores that takes.
    """

    seconds_per_million_tuples: dict[str, float]
    tuples_per_second: float
    limits: dict[str, float]
    saturates_first: str
    of_one_run: float
    busy: float
    core_hours_per_terabyte: float


def plan(machine: Figures, query: Figures, read: str, cores: int) -> Plan:
    """The plan of a query, if reading runs at ``P`` or ``Pc``."""
    parts = seconds_per_tuple(machine, query, read)
    each = sum(parts.values())
    bounds = {"cores": cores / each, **limits(machine, query, cores)}
    first = min(bounds, key=lambda name: bounds[name])
    return Plan(
        {name: 1e6 * seconds for name, seconds in parts.items()},
        bounds.pop("cores"),
        bounds,
        first,
        bounds.get(first, cores / each),
        bounds.get(first, cores / each) * each,
        1e12 / query["x"] * each / 3600,
    )


def plans(machine: Figures, queries: Mapping[str, Figures], cores: int) -> dict[str, Plan]:
    """The plans of the page."""
    return {
        "warehouse": plan(machine, queries["warehouse"], "P", cores),
        "warehouse, conforming path": plan(machine, queries["warehouse"], "Pc", cores),
        "auction": plan(machine, queries["auction"], "P", cores),
    }


def shown(value: float, unit: str = "") -> str:
    """A number with two digits and a prefix.

    >>> shown(312_456_789, "B/s"), shown(0.0000021, "s"), shown(0.18)
    ('310 MB/s', '2.1 us', '0.18')
    """
    if not value:
        return f"0 {unit}".strip()
    power, prefix = 0, ""
    if unit or value >= 1000:
        power = min(max(math.floor(math.log10(abs(value)) / 3), -3), 4)
        power = power if unit != "B" or power > 0 else 0
        prefix = {-3: "n", -2: "u", -1: "m", 0: "", 1: "k", 2: "M", 3: "G", 4: "T"}[power]
    scaled = value / 1000**power
    digits = max(0, 1 - math.floor(math.log10(abs(scaled))))
    return f"{round(scaled, 1 - math.floor(math.log10(abs(scaled)))):.{digits}f} {prefix}{unit}".strip()


def table(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    """The lines of a table."""
    yield from (f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))
    yield ""


def markdown(machine: Figures, queries: Mapping[str, Figures], cores: int) -> Iterator[str]:
    """The tables of docs/capacity.md."""
    found = plans(machine, queries, cores)
    one = found["warehouse"]
    measured = [
        [f"`{name}`", meaning.format(shards=cores), shown(machine[name], unit)]
        for name, (meaning, unit) in MACHINE.items()
        if name in machine
    ]
    yield from table(["name", "what", "value"], measured)
    of_queries = [
        [f"`{name}`", meaning, *(shown(queries[query][name], unit) for query in queries)]
        for name, (meaning, unit) in QUERY.items()
    ]
    yield from table(["name", "what", *queries], of_queries)
    parts, bounds = ([*of] for of in (one.seconds_per_million_tuples, one.limits))
    yield from table(
        ["seconds per million tuples", *parts, f"tuples a second on {cores:,} cores"],
        [
            [name, *map(shown, p.seconds_per_million_tuples.values()), shown(p.tuples_per_second)]
            for name, p in found.items()
        ],
    )
    yield from table(
        ["tuples a second, at most", *bounds, "saturated first", "cores that one run keeps busy"],
        [
            [name, *map(shown, p.limits.values()), p.saturates_first, shown(p.busy)]
            for name, p in found.items()
        ],
    )
    yield from table(
        ["a terabyte of XML", "core hours", f"cost at {PRICE} per core hour"],
        [
            [name, shown(p.core_hours_per_terabyte), shown(PRICE * p.core_hours_per_terabyte)]
            for name, p in found.items()
        ],
    )
