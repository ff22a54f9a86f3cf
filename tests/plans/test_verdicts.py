"""Verdicts are proved by running: random plans over streams that offer random schemes, and keep at it.

An operator that is fine retains no more after ten times the length; one that grows for ever retains as many times more.
If none blocks, all results but those of the last few steps are out; what blocks retains what it holds back. No rule is
copied here: in the feeds every conceivable tuple is closed by each offered scheme some steps later, and by no other.

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
from xmlpunct.engine.build import build
from xmlpunct.engine.plan import Query, Stream
from xmlpunct.engine.plan.outlooks import outlooks
from xmlpunct.engine.plan.schemes import Fate
from xmlpunct.engine.sql import plan
from xmlpunct.operators import Pipeline
from xmlpunct.punctuations.pattern import WILDCARD
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.slice import Slice

LONG = bool(os.environ.get("XMLPUNCT_LONG"))
SLOW = {14, 17, 18, 21}
"""Plans whose set operations combine so many punctuations that they take seconds each."""
SEEDS = range(1_000) if LONG else sorted({*range(30)} - SLOW)
STEPS, TIMES, PER_SLICE, AHEAD = 16, 6, 16, 4
"""The short length, how many times that the long one is, the steps of a slice, and how far values run ahead of them."""
SCHEMES = ("", "a", "b", "c", "a b", "a b c", "a|b", "a|b", "a|b", "a|b c", "a|b|c")
COLUMNS = "a INT NOT NULL, b INT NOT NULL, c INT NOT NULL"
DOMAIN = "a INT NOT NULL, b INT NOT NULL, c INT NOT NULL CHECK (c BETWEEN 0 AND 2)"


@dataclass
class Writer:
    """Writes a random query over streams s0, s1, ...; every part of it has the columns a, b and c."""

    rng: random.Random
    names: Iterator[int] = field(default_factory=count)
    streams: Iterator[int] = field(default_factory=count)

    def query(self, depth: int) -> str:
        if depth == 0 or self.rng.random() < 0.1:
            return f"SELECT a, b, c FROM s{next(self.streams)}"  # one that says nothing of any other
        form = self.rng.choice(["unary", "unary", "group", "group", "set", "set", "join", "join", "join"])
        return getattr(self, form)(depth)

    def table(self, depth: int) -> str:
        return f"({self.query(depth)}) AS t{next(self.names)}"

    def unary(self, depth: int) -> str:
        below = self.table(depth - 1)
        return self.rng.choice(
            [
                f"SELECT DISTINCT a, b, c FROM {below}",
                f"SELECT b AS a, a AS b, c FROM {below}",
                f"SELECT a / 2 AS a, b, c FROM {below}",
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
        word = self.rng.choice(["JOIN", "JOIN", "SEMI JOIN", "ANTI JOIN", "LEFT JOIN"])
        c = f"{y}.c" if word == "JOIN" else f"{x}.c"
        return f"SELECT {x}.a, {x}.b, {c} FROM {left} {word} {right} ON {on}"


def case(seed: int) -> tuple[Query, str]:
    """A query, and its text."""
    rng = random.Random(seed)
    columns = rng.choice([COLUMNS, COLUMNS, DOMAIN])
    writer = Writer(rng)
    query = writer.query(rng.choice([1, 2, 2, 3] if LONG else [1, 1, 1, 2]))
    creates = []
    for i in range(next(writer.streams)):
        schemes = rng.choice([s for s in SCHEMES if columns == COLUMNS or "c" not in s.split("|")])
        listed = ", ".join(f"({', '.join(s.split())})" for s in schemes.split("|"))
        said = f" PUNCTUATED BY {listed}" if schemes else ""
        creates.append(f"CREATE STREAM s{i} ({columns}) WITH (source = 'tcp://h:{i}'){said};")
    text = "\n".join([*creates, query])
    return plan(text), text


def tuples(stream: Stream, rng: random.Random, step: int) -> Iterator[tuple[int, ...]]:
    """The tuples of a step: their values have not been closed, and those that go on are not far from it."""
    small = stream.schema["c"].domain is not WILDCARD
    for _ in range(2):
        a, b, c = (step + rng.randint(1, AHEAD) for _ in range(3))
        yield a, b, c % 3 if small else c


def punctuations(stream: Stream, step: int) -> Iterator[Punctuation]:
    """Every few steps these values of a; of several attributes all that has no more than ``step`` in any of them."""
    for scheme in (stream.promised or ()) if step % AHEAD == 0 else ():
        ranged = [name for name in scheme if stream.schema[name].domain is WILDCARD]
        values = f"[{step - AHEAD + 1},{step}]" if len(ranged) == 1 and step > AHEAD else f"(,{step}]"
        for value in range(3) if len(ranged) < len(scheme) else (None,):
            listed = {} if value is None else {"c": value}
            yield Punctuation.of(stream.schema, **dict.fromkeys(ranged, values), **listed)


class Run:
    """A plan on the local engine, and what it retains and has given."""

    def __init__(self, query: Query, steps: int) -> None:
        self.query, rng = query, random.Random(7)
        self.pipeline: Pipeline = build(query.root, [s.name for s in query.streams])
        self.rows = self.pipeline.open().tuples.height
        for start in range(1, steps + 1, PER_SLICE):
            for port, stream in enumerate(query.streams):
                elements: list[object] = []
                for step in range(start, start + PER_SLICE):
                    elements += tuples(stream, rng, step)
                    elements += punctuations(stream, step)
                self.rows += self.pipeline.push(port, slice_of(stream.schema, elements)).tuples.height
        self.state = {o.number: o.state.rows for o in self.pipeline.operators}
        counters = zip(self.pipeline.operators, self.pipeline.counters, strict=True)
        self.taken = {o.number: c.tuples_in for o, c in counters}
        self.withheld = -self.rows
        for port, stream in enumerate(query.streams):
            end = Slice(stream.schema.empty(), [Punctuation.everything(stream.schema)])
            self.withheld += self.pipeline.push(port, end).tuples.height
        self.withheld += self.rows


def is_more(long: int, short: int) -> bool:
    """Whether there is more after the long run than a bounded rest can be."""
    return long > 3 * short + 10


def is_no_more(long: int, short: int) -> bool:
    """Whether there is no more after the long run, but for chance."""
    return long < 2 * short or long <= short + 2


def judge(seed: int) -> list[str]:
    """What the verdicts of a case say wrongly, in words."""
    query, text = case(seed)
    short, long = Run(query, STEPS), Run(query, STEPS * TIMES)
    found, wrong, spoilt = outlooks(query.root), [], set[int]()
    for node in query.root.walk():
        outlook, few, many = found[id(node)], short.state[node.number], long.state[node.number]
        told = f"#{node.number} {node.describe()}: {few}, {many} rows"
        below = any(n.number in spoilt for n in node.inputs)
        if outlook.fate is not None or below or outlook.nulls:
            spoilt.add(node.number)
        if below or outlook.nulls:
            continue
        if outlook.fate is None and is_more(many, few):
            wrong.append(f"{told}, yet it is fine")
        if outlook.fate is not None and long.taken[node.number] > STEPS * TIMES and is_no_more(many, few):
            wrong.append(f"{told}, yet it {outlook.fate}")
    told_of = [found[id(node)] for node in query.root.walk()]
    known = not any(outlook.nulls or outlook.fate == Fate.BLOCKS for outlook in told_of)
    if known and is_more(long.withheld, short.withheld):
        wrong.append(f"{short.withheld}, {long.withheld} results are withheld, yet nothing blocks")
    return [f"seed {seed}\n{text}", *wrong] if wrong else []


@pytest.mark.parametrize("seed", SEEDS)
def test_verdicts_are_true(seed: int) -> None:
    wrong = judge(seed)
    assert not wrong, "\n".join(wrong)
