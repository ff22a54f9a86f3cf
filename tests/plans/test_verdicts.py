"""Verdicts agree with runs of random plans over streams that emit punctuations of random schemes.

After ten times the input, a bounded operator retains no more tuples than before, and an unbounded one ten times more.
An operator withholds only the results of the last few steps, unless it blocks; then it withholds ever more results.
No rule is copied here: in the feeds, each declared scheme closes every conceivable tuple some steps later, and no other
scheme does.

The long form, with deeper plans and more seeds: ``XMLPUNCT_LONG=1 pytest tests/plans/test_verdicts.py``.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

import pytest

from tests.strategies import slice_of
from xmlpunct.engine.plan import Join, Node, Query, Stream
from xmlpunct.engine.plan.outlooks import outlooks
from xmlpunct.engine.plan.schemes import Fate, Outlook
from xmlpunct.engine.run.build import build
from xmlpunct.engine.sql import plan
from xmlpunct.operators import Pipeline
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.slice import Slice
from xmlpunct.types.pattern import WILDCARD

LONG = bool(os.environ.get("XMLPUNCT_LONG"))
SLOW = {0, 36}
"""Seeds of set operations with so different punctuations that nearly every combination is new."""
SEEDS = range(1_000) if LONG else sorted({*range(60)} - SLOW)
STEPS, TIMES, AHEAD = 8, 10, 4
"""The steps of a slice and of a short run, the length of a long run in short runs, and the lead of values."""
SCHEMES = ("", "a", "b", "c", "a b", "a b c", "a|b", "a|b", "a|b", "a|b c", "a|b|c")
ORDERS = ("a", "b")
"""Attributes of PUNCTUATE ORDER BY, with slack `AHEAD`, in streams without punctuations."""
COLUMNS = "a INT NOT NULL, b INT NOT NULL, c INT NOT NULL"
DOMAIN = "a INT NOT NULL, b INT NOT NULL, c INT NOT NULL CHECK (c BETWEEN 0 AND 2)"


@dataclass
class Writer:
    """Writes a random query over streams s0, s1, ...; every subquery has the columns a, b and c."""

    rng: random.Random
    names: Iterator[int] = field(default_factory=count)
    streams: Iterator[int] = field(default_factory=count)

    def query(self, depth: int) -> str:
        if depth == 0 or self.rng.random() < 0.1:
            return f"SELECT a, b, c FROM s{next(self.streams)}"  # a stream of its own
        forms = [
            "unary",
            "unary",
            "group",
            "group",
            "set",
            "set",
            "join",
            "join",
            "join",
            "range_join",
            "over",
            "window",
        ]
        return getattr(self, self.rng.choice(forms))(depth)

    def with_order(self, depth: int) -> str:
        """A query, sometimes with ORDER BY."""
        order = self.rng.choice(["", "", "", "", "", " ORDER BY a, b", " ORDER BY b", " ORDER BY a DESC"])
        return f"SELECT a, b, c FROM {self.table(depth)}{order}" if order else self.query(depth)

    def table(self, depth: int) -> str:
        return f"({self.query(depth)}) AS t{next(self.names)}"

    def unary(self, depth: int) -> str:
        below = self.table(depth - 1)
        return self.rng.choice(
            [
                f"SELECT DISTINCT a, b, c FROM {below}",
                f"SELECT b AS a, a AS b, c FROM {below}",
                f"SELECT a / 2 * 2 AS a, b, c FROM {below}",
                f"SELECT a, b, b AS c FROM {below}",
                f"SELECT a, b, c FROM {below} WHERE a + b > 3",
                f"SELECT a, b, c FROM {below} WHERE c = 1",
            ]
        )

    def group(self, depth: int) -> str:
        below = self.table(depth - 1)
        return self.rng.choice(
            [
                f"SELECT a, a AS b, MAX(c) AS c FROM {below} GROUP BY a",
                f"SELECT b AS a, MAX(a) AS b, MAX(c) AS c FROM {below} GROUP BY b",
                f"SELECT a, b, MAX(c) AS c FROM {below} GROUP BY a, b",
                f"SELECT a, SUM(b) AS b, c FROM {below} GROUP BY a, c",
            ]
        )

    def set(self, depth: int) -> str:
        word = self.rng.choice(["UNION", "UNION ALL", "INTERSECT", "EXCEPT"])
        return (
            f"SELECT a, b, c FROM {self.table(depth - 1)} {word} SELECT a, b, c FROM {self.table(depth - 1)}"
        )

    def join(self, depth: int) -> str:
        left, right = self.table(depth - 1), self.table(depth - 1)
        x, y = (side.rsplit(" ", 1)[1] for side in (left, right))
        on = " AND ".join(f"{x}.{k} = {y}.{k}" for k in self.rng.choice(["a", "b", "ab", "bc"]))
        return self.joined(left, right, on)

    def range_join(self, depth: int) -> str:
        """A join with a range condition or an inequality."""
        left, right = self.table(depth - 1), self.table(depth - 1)
        x, y = (side.rsplit(" ", 1)[1] for side in (left, right))
        on = self.rng.choice(
            [
                f"{y}.a BETWEEN {x}.a AND {x}.a + 2",
                f"{y}.b BETWEEN {x}.a - 2 AND {x}.a",
                f"{x}.b = {y}.b AND {y}.a BETWEEN {x}.a AND {x}.a + 2",
                f"{y}.a <= {x}.a",
                f"{x}.a = {y}.a AND {x}.b <> {y}.b",
            ]
        )
        return self.joined(left, right, on)

    def joined(self, left: str, right: str, on: str) -> str:
        x, y = (side.rsplit(" ", 1)[1] for side in (left, right))
        word = self.rng.choice(
            ["JOIN", "JOIN", "SEMI JOIN", "ANTI JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]
        )
        first, c = ("y", "y") if word == "RIGHT JOIN" else ("x", "y" if word == "JOIN" else "x")
        alias = {"x": x, "y": y}
        return f"SELECT {alias[first]}.a, {alias[first]}.b, {alias[c]}.c FROM {left} {word} {right} ON {on}"

    def over(self, depth: int) -> str:
        """A window or an OVER call in the order of b."""
        below = self.query(depth - 1)
        alias, table = next(self.names), f"({below}) AS t{next(self.names)}"
        return self.rng.choice(
            [
                f"SELECT a, window_start AS b, c FROM TUMBLE(TABLE ({below}), DESCRIPTOR(b), 4) AS t{alias}",
                f"SELECT a, b, window_end AS c FROM HOP(TABLE ({below}), DESCRIPTOR(b), 2, 4) AS t{alias}",
                f"SELECT a, window_end AS b, c FROM"
                f" SESSION(TABLE ({below}) PARTITION BY a, DESCRIPTOR(b), 2) AS t{alias}",
                f"SELECT a, b, COUNT(*) OVER (PARTITION BY a ORDER BY b RANGE 2 PRECEDING) AS c FROM {table}",
                f"SELECT a, b, MAX(c) OVER (PARTITION BY a ORDER BY b ROWS 2 PRECEDING) AS c FROM {table}",
                f"SELECT a, b, LEAD(c, 1, c) OVER (ORDER BY b) AS c FROM {table}",
            ]
        )

    def window(self, depth: int) -> str:
        """A relation over a window of b, converted back to a stream."""
        s, t, x, y = (next(n) for n in (self.streams, self.names, self.names, self.names))
        pair = f"s{s} [RANGE 3] AS t{x} JOIN s{s} [RANGE 2] AS t{y} ON t{x}.a = t{y}.a"
        relation = self.rng.choice(
            [
                f"SELECT a, c FROM s{s} [RANGE 3]",
                f"SELECT a, c FROM s{s} [PARTITION BY a ROWS 2]",
                f"SELECT a, MAX(c) AS c FROM s{s} [RANGE 3] GROUP BY a",
                f"SELECT t{x}.a, t{y}.c FROM {pair}",
            ]
        )
        return f"SELECT a, b, c FROM {self.rng.choice(['ISTREAM', 'DSTREAM'])}({relation}) AS t{t}"


def case(seed: int) -> tuple[Query, str]:
    """A planned query and its text."""
    rng = random.Random(seed)
    columns = rng.choice([COLUMNS, COLUMNS, DOMAIN])
    writer = Writer(rng)
    query = writer.with_order(rng.choice([1, 2, 2, 3] if LONG else [1, 1, 1, 2]))
    creates = [stream(f"s{i}", columns, rng) for i in range(next(writer.streams))]
    text = "\n".join([*creates, query])
    return plan(text), text


def stream(name: str, columns: str, rng: random.Random) -> str:
    """A CREATE STREAM with schemes, PUNCTUATE or a key, or of a file that ends."""
    kind = rng.choice(["schemes"] * 5 + ["order", "key", "end"])
    schemes = rng.choice([s for s in SCHEMES if columns == COLUMNS or "c" not in s.split("|")])
    listed = ", ".join(f"({', '.join(s.split())})" for s in schemes.split("|"))
    clause = f" PUNCTUATED BY {listed}" if schemes and kind != "order" and kind != "end" else ""
    clause += f" PUNCTUATE ORDER BY {rng.choice(ORDERS)} SLACK {AHEAD}" if kind == "order" else ""
    columns += f", PRIMARY KEY ({rng.choice(['a', 'a, b'])})" if kind == "key" else ""
    source = f"{name}.xml" if kind == "end" else "-"
    return f"CREATE STREAM {name} ({columns}) WITH (source = '{source}', timestamp = 'b'){clause};"


def tuples(stream: Stream, rng: random.Random, step: int) -> Iterator[tuple[int, ...]]:
    """The tuples of a step, with values 1 to `AHEAD` above it, which are closed a few steps later."""
    small = stream.schema["c"].domain is not WILDCARD
    for _ in range(0 if stream.ends and step > STEPS else 2):
        a, b, c = (step + rng.randint(1, AHEAD) for _ in range(3))
        yield a, b, c % 3 if small else c


def punctuations(stream: Stream, step: int) -> Iterator[Punctuation]:
    """Every few steps, close ranges of the scheme's attribute on both sides of zero, so that no prefix is closed.

    For several attributes, close the tuples with at most ``step`` in each of them.
    """
    if stream.ends and step == STEPS:
        yield Punctuation.everything(stream.schema)
    for scheme in (stream.promised or ()) if step % AHEAD == 0 else ():
        ranged = [name for name in scheme if stream.schema[name].domain is WILDCARD]
        ranges = [f"(,{step}]"]
        if len(ranged) == 1:
            before = step - AHEAD
            ranges = (
                [f"[{-step},{-before - 1}]", f"[{before + 1},{step}]"] if before else [f"[{-step},{step}]"]
            )
        for value in range(3) if len(ranged) < len(scheme) else (None,):
            listed = {} if value is None else {"c": value}
            for values in ranges:
                yield Punctuation.of(stream.schema, **dict.fromkeys(ranged, values), **listed)


class Run:
    """A run on the local engine: the rows that each node retains, and its numbers of results, total and withheld."""

    def __init__(self, query: Query, steps: int) -> None:
        rng = random.Random(7)
        self.pipeline: Pipeline = build(query.root, [s.name for s in query.streams])
        self.pipeline.open()
        for start in range(1, steps + 1, STEPS):
            for port, stream in enumerate(query.streams):
                elements: list[object] = []
                for step in range(start, start + STEPS):
                    elements += tuples(stream, rng, step)
                    elements += punctuations(stream, step)
                self.pipeline.push(port, slice_of(stream.schema, elements))
        self.state = {o.number: o.state.rows for o in self.pipeline.operators}
        emitted = self.counted
        for port, stream in enumerate(query.streams):
            if not stream.ends:
                end = Slice(stream.schema.empty(), [Punctuation.everything(stream.schema)])
                self.pipeline.push(port, end)
        self.results = self.counted
        self.withheld = {number: self.results[number] - emitted[number] for number in emitted}

    @property
    def counted(self) -> dict[int, int]:
        """The number of tuples that each node has emitted."""
        counters_of_operators = zip(self.pipeline.operators, self.pipeline.counters, strict=True)
        return {o.number: counters.tuples_out for o, counters in counters_of_operators}


def is_more(short: int, long: int) -> bool:
    """Whether the long run has more than a bounded quantity allows."""
    return long > 3 * short + 10


def is_no_more(short: int, long: int) -> bool:
    """Whether the long run has no more than the short one, up to chance."""
    return long < 2 * short or long <= short + 2


def judge(seed: int) -> list[str]:
    """The wrong verdicts of a case, as messages."""
    query, text = case(seed)
    short, long = Run(query, STEPS), Run(query, STEPS * TIMES)
    outlook_by_node, wrong, spoilt = outlooks(query.root), [], set[int]()
    for node in query.root.walk():
        outlook, number = outlook_by_node[id(node)], node.number
        below = any(n.number in spoilt for n in node.inputs)
        by_chance = any(
            not need.by and (need.fate == Fate.BLOCKS or not need.fails) for need in outlook.needs
        )
        if by_chance or below or outlook.nulls or outlook.remark:
            spoilt.add(number)
        if not below and not outlook.nulls:
            label = f"#{number} {node.describe()}"
            wrong += [f"{label}: {message}" for message in against(node, outlook, short, long)]
    return [f"seed {seed}\n{text}", *wrong] if wrong else []


def against(node: Node, outlook: Outlook, short: Run, long: Run) -> Iterator[str]:
    """Contradictions between two runs and the outlook of a node; no node below it blocks."""
    number = node.number
    state, withheld = (
        (short.state[number], long.state[number]),
        (short.withheld[number], long.withheld[number]),
    )
    rows, results = f"{state} rows are retained", f"{withheld} results are withheld"
    busy = all(is_more(short.results[n.number], long.results[n.number]) for n in node.inputs)
    if outlook.fate is None and not outlook.remark and is_more(*state):
        yield f"{rows}, yet it is fine"
    if outlook.fate is not None and busy and is_no_more(*state):
        yield f"{rows}, yet it {outlook.fate}"
    # not joins: most tuples have a partner
    is_comparable = (not isinstance(node, Join) or node.left_only) and long.results[number] > STEPS * TIMES
    if outlook.fate == Fate.BLOCKS and is_comparable and is_no_more(*withheld):
        yield f"{results}, yet it blocks"
    if outlook.fate != Fate.BLOCKS and is_more(*withheld):
        yield f"{results}, yet it does not block"


@pytest.mark.parametrize("seed", SEEDS)
def test_verdicts_are_true(seed: int) -> None:
    wrong = judge(seed)
    assert not wrong, "\n".join(wrong)
