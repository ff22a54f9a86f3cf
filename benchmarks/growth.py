"""Queries over more and more punctuations, and larger and larger queries: `scaling.py --only growth` runs this.

Twice the work takes at most 2.5 times the CPU. `tests/engine/test_growth.py` runs the same cases and counts lines.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import polars as pl

SLICE = 20
"""Punctuations per slice, where a join is measured by itself."""
Action = Callable[[], object]


def document(path: Path, patterns: Iterable[str]) -> Path:
    """A document of punctuations over k, and no tuple."""
    lines = (f"<punct:t><k>{pattern}</k></punct:t>\n" for pattern in patterns)
    head = '<s xmlns:punct="http://www.cse.ogi.edu/dot/niagara/punct">'
    path.write_text(f"{head}{''.join(lines)}</s>")
    return path


def shuffled(n: int, seed: int = 1) -> list[int]:
    """The numbers up to n in a random order."""
    return Random(seed).sample(range(n), n)


def over_two(left: Callable[[int], str], right: Callable[[int], str] | None, query: str) -> Any:
    """A case of two streams: patterns by their number, in different orders; None for no punctuation."""

    def case(folder: Path, n: int) -> Action:
        import xmlpunct

        sources = {
            "s": document(folder / f"s{n}.xml", map(left, shuffled(n))),
            "r": document(folder / f"r{n}.xml", map(right, shuffled(n, 2)) if right else ()),
        }
        type_ = "STRING" if "K" in left(0) else "INT"
        streams = (
            f"CREATE STREAM {name} (k {type_}, v INT) WITH (source = '{path}', element = 't');"
            for name, path in sources.items()
        )
        sql = "".join(streams) + query
        return lambda: sum(1 for _ in xmlpunct.query(sql))

    return case


def in_order(left: Callable[[int], str], query: str) -> Any:
    """A case of two streams with the same patterns, in ascending order."""

    def case(folder: Path, n: int) -> Action:
        import xmlpunct

        path = document(folder / f"o{n}.xml", map(left, range(n)))
        with_ = f"(k INT, v INT) WITH (source = '{path}', element = 't');"
        sql = f"CREATE STREAM s {with_} CREATE STREAM r {with_} {query}"
        return lambda: sum(1 for _ in xmlpunct.query(sql))

    return case


def join_in_slices(folder: Path, n: int) -> Action:
    """A LEFT JOIN that receives disjoint ranges in different orders, a few in each slice."""
    from xmlpunct.operators import Join
    from xmlpunct.operators.driver import run
    from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
    from xmlpunct.schema import Schema
    from xmlpunct.slice import Slice

    inputs = Schema.parse("k INT NOT NULL, v INT"), Schema.parse("of INT NOT NULL, w INT")
    numbers = [10 * pl.Series(shuffled(n, seed)) for seed in (1, 2)]
    slices = [
        (port, Slice(schema.empty(), PunctuationBatch.of_ranges(schema, 0, lows, lows + 7)))
        for at in range(0, n, SLICE)
        for port, schema in enumerate(inputs)
        for lows in [numbers[port][at : at + SLICE]]
    ]
    join = Join(*inputs, [("k", "of")], "left")
    return lambda: [run(join, port, part) for port, part in slices]


def planned(statements: Callable[[int], Sequence[str]], separator: str, explained: bool = False) -> Any:
    """A case of a query of many statements, or of many queries that ``separator`` joins."""

    def case(folder: Path, n: int) -> Action:
        from xmlpunct.engine.sql import plan
        from xmlpunct.engine.why.plan_text import explain

        streams = "CREATE STREAM s (k INT, v INT) WITH (source = 's.xml');"
        sql = streams + separator.join(statements(n))
        return lambda: explain(plan(sql)) if explained else plan(sql)

    return case


def sinks(n: int) -> list[str]:
    """CREATE SINK statements."""
    return [
        f"CREATE SINK o{i} WITH (output = '{i}.xml') AS SELECT DISTINCT k FROM s WHERE v > {i}"
        for i in range(n)
    ]


def sinks_of_views(n: int) -> list[str]:
    """As many CREATE VIEW statements, and a CREATE SINK for each."""
    views = [f"CREATE VIEW w{i} AS SELECT k FROM s WHERE v > {i}" for i in range(n)]
    return [
        *views,
        *(f"CREATE SINK o{i} WITH (output = '{i}.xml') AS SELECT k FROM w{i}" for i in range(n)),
    ]


def _range(i: int) -> str:
    return f"[{10 * i},{10 * i + 7}]"


def _strings(i: int) -> str:
    return f"[K{i:08},K{i + 3:08}]"


_JOINED = "SELECT s.k AS k, s.v AS v, r.v AS w FROM s {} JOIN r ON s.k = r.k"
CASES: dict[str, Callable[[Path, int], Action]] = {
    "union": over_two(lambda i: str(2 * i), None, "SELECT * FROM s UNION SELECT * FROM r"),
    "union all": over_two(lambda i: str(2 * i), None, "SELECT * FROM s UNION ALL SELECT * FROM r"),
    "except": in_order(lambda i: f"(,{i}]", "SELECT * FROM s EXCEPT SELECT * FROM r WHERE v > 500"),
    "inner join": over_two(_range, _range, _JOINED.format("INNER")),
    "left join": over_two(_range, _range, _JOINED.format("LEFT")),
    "left join in slices": join_in_slices,
    "strings": over_two(_strings, None, "SELECT * FROM s UNION SELECT * FROM r"),
    "left join of strings": over_two(_strings, _strings, _JOINED.format("LEFT")),
}
"""Makers of what is measured, of a folder for its documents and a number of punctuations."""
PLANNED: dict[str, Callable[[Path, int], Action]] = {
    "inputs of a union": planned(lambda n: [f"SELECT k FROM s WHERE v = {i}" for i in range(n)], " UNION "),
    "sinks": planned(sinks, ";"),
    "sinks, explained": planned(sinks, ";", explained=True),
    "sinks of views": planned(sinks_of_views, ";"),
}
"""The same, of a number of statements, or of inputs."""


def growth(given: Any) -> dict[str, Any]:
    """CPU seconds of each case at a size, twice and four times that, and the greatest ratio of two in a row."""
    folder, figures = given.data / "growth", dict[str, Any]()
    folder.mkdir(parents=True, exist_ok=True)
    for cases, fewest in ((CASES, given.doubled), (PLANNED, given.statements)):
        for name, case in cases.items():
            case(folder, 5)()  # what is done once, and what is imported
            points = []
            for n in (fewest, 2 * fewest, 4 * fewest):
                times = []
                for _ in range(given.rounds):
                    action = case(folder, n)
                    began = time.process_time()
                    action()
                    times.append(time.process_time() - began)
                points.append({"n": n, "cpu": round(min(times), 3)})
            ratios = [after["cpu"] / before["cpu"] for before, after in pairwise(points)]
            figures[name] = {"points": points, "twice_the_work": round(max(ratios), 2)}
    return figures
