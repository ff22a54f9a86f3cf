"""Queries on DOUBLEs: equal results for every ``--slice``, and a NaN that equals itself."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

import xmlpunct
from tests.cli.harness import Cli
from tests.oracle import aggregate, bag, is_canonical, relational
from tests.oracle.values import Row, same
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.source import Source
from xmlpunct.engine.run.local.running import LocalRun
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.sql import plan
from xmlpunct.types import DOUBLE

TEXTS = ("NaN", "NaN", "INF", "-INF", "0", "-0.0", "1.5", None)
STREAMS = """CREATE STREAM l (a DOUBLE, v INT) WITH (source = 'l.xml', element = 't');
CREATE STREAM r (b DOUBLE, w INT) WITH (source = 'r.xml', element = 't');
"""
SLICES = (20, 100, 2**20)


def document(rng: random.Random, key: str, other: str) -> tuple[bytes, list[Row]]:
    """A stream and its tuples; punctuations close some values after their last tuple."""
    texts = [rng.choice(TEXTS) for _ in range(rng.randint(0, 9))]
    parsed = [None if text is None else DOUBLE.parse(text) for text in texts]
    lines, rows = [f'<s xmlns:p="{PUNCT_NAMESPACE}">'], []
    for i, (text, value) in enumerate(zip(texts, parsed, strict=True)):
        n = rng.randint(0, 1)
        lines.append(f"<t>{'' if text is None else f'<{key}>{text}</{key}>'}<{other}>{n}</{other}></t>")
        rows.append((value, n))
        later_values = map(same, parsed[i + 1 :])
        if text is not None and same(value) not in later_values and rng.random() < 0.5:
            lines.append(f"<p:t><{key}>{text}</{key}></p:t>")
    return "\n".join([*lines, "</s>"]).encode(), rows


def first(rows: Sequence[Row]) -> list[Row]:
    """The first column of the tuples."""
    return [t[:1] for t in rows]


def grouped(left: Sequence[Row]) -> list[Row]:
    groups: dict[object, list[Row]] = {}
    for t in left:
        groups.setdefault(same(t[0]), []).append(t)
    return [(ts[0][0], len(ts)) for ts in groups.values()]


def summed(left: Sequence[Row], _: Sequence[Row]) -> list[Row]:
    column = [t[0] for t in left]
    asked = (("MIN", False), ("MAX", False), ("SUM", False), ("COUNT", True), ("SUM", True))
    return [tuple(aggregate(f, distinct, DOUBLE, column) for f, distinct in asked)]


KEYS = [(0, 0)]
QUERIES: dict[str, Callable[[list[Row], list[Row]], list[Row]]] = {
    "SELECT a, v, w FROM l JOIN r ON a = b": relational.join("inner", (2, 2), KEYS),
    **{
        f"SELECT * FROM l {kind} JOIN r ON a = b": relational.join(kind.lower(), (2, 2), KEYS)
        for kind in ("LEFT", "RIGHT", "FULL")
    },
    "SELECT * FROM l WHERE a IN (SELECT b FROM r)": relational.semijoin(False, KEYS),
    "SELECT * FROM l WHERE a NOT IN (SELECT b FROM r)": relational.not_in(0, 0),
    "SELECT * FROM l WHERE EXISTS (SELECT 1 FROM r WHERE a = b)": relational.semijoin(False, KEYS),
    "SELECT * FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE a = b)": relational.semijoin(True, KEYS),
    "SELECT a FROM l INTERSECT SELECT b FROM r": lambda ts, us: relational.intersect(first(ts), first(us)),
    "SELECT a FROM l EXCEPT SELECT b FROM r": lambda ts, us: relational.difference(first(ts), first(us)),
    "SELECT a FROM l UNION SELECT b FROM r": lambda ts, us: relational.distinct(first(ts + us)),
    "SELECT DISTINCT a FROM l": lambda ts, _: relational.distinct(first(ts)),
    "SELECT a, COUNT(*) AS n FROM l GROUP BY a": lambda ts, _: grouped(ts),
    "SELECT MIN(a), MAX(a), SUM(a), COUNT(DISTINCT a), SUM(DISTINCT a) FROM l": summed,
    "SELECT a - a AS d FROM l WHERE a >= 0e0": lambda ts, _: [
        (0.0 if abs(t[0]) < 2 else float("nan"),) for t in ts if t[0] is not None and not t[0] < 0
    ],
    "SELECT a FROM l WHERE a IN (CAST('NaN' AS DOUBLE), 0e0)": lambda ts, _: [
        t[:1] for t in ts if same(t[0]) in map(same, (float("nan"), 0.0))
    ],
}


def answer(sql: str, sources: dict[str, bytes], size: int) -> list[Row]:
    """The results of a query over slices of ``size`` bytes."""
    query = plan(STREAMS + sql)
    opened = {name: Source.of(sources[name], name) for name in (s.name for s in query.streams)}
    rows: list[Row] = []
    with closing(LocalRun(query, opened, size, RunStats("local"), PUNCT_NAMESPACE)) as running:
        while (result := running.advance()) is not None:
            rows += result.tuples.rows()
    return rows


@pytest.mark.parametrize("sql", QUERIES)
def test_results_do_not_depend_on_slices(sql: str) -> None:
    rng = random.Random(sql)
    for _ in range(8):
        (left, ts), (right, us) = document(rng, "a", "v"), document(rng, "b", "w")
        expected, sources = QUERIES[sql](ts, us), {"l": left, "r": right}
        for size in SLICES:
            rows = answer(sql, sources, size)
            assert bag(rows) == bag(expected), f"slices of {size} bytes: {left.decode()}\n{right.decode()}"
            assert all(is_canonical(v) for row in rows for v in row)


@pytest.mark.parametrize("direction", ["", " DESC"])
def test_order(direction: str) -> None:
    rng = random.Random(1)
    for _ in range(8):
        left, ts = document(rng, "a", "v")
        values = sorted((t[0] for t in ts if t[0] is not None), key=DOUBLE.key, reverse=bool(direction))
        expected = [*map(same, values), *(same(None) for t in ts if t[0] is None)]
        for size in SLICES:
            rows = answer(f"SELECT a FROM l ORDER BY a{direction}", {"l": left}, size)
            assert [same(a) for (a,) in rows] == expected


def test_python_gets_a_nan_that_equals_itself() -> None:
    document = b"<s><t><a>NaN</a></t><t><a>INF</a></t><t><a>NaN</a></t></s>"
    sql = STREAMS + "SELECT a - a AS d, -a AS e FROM l"
    counts = Counter(t for t in xmlpunct.query(sql, l=document) if isinstance(t, tuple))
    nan = DOUBLE.accept(float("nan"))
    assert counts == {(nan, nan): 2, (nan, float("-inf")): 1}


PAIRS = {
    "JOIN r ON a = b": ["NaN"],
    "WHERE a IN (SELECT b FROM r)": ["NaN"],
    "WHERE NOT EXISTS (SELECT 1 FROM r WHERE a = b)": ["-INF"],
}


@pytest.mark.parametrize("clause", PAIRS)
@pytest.mark.parametrize("size", ["20", "1MiB"])
def test_the_command(tmp_path: Path, capfd: pytest.CaptureFixture[str], clause: str, size: str) -> None:
    """The left input stores its tuples in order, NaN last; the right input then sends NaN."""
    apart = 30 * " "
    left = [f"<t><a>{a}</a></t>{apart}" for a in ("-INF", "NaN")]
    right = [f"<t><b>{b}</b></t>{apart}" for b in (*range(9), "NaN")]
    files = {"l": f"<s>{''.join(left)}</s>", "r": f"<s>{''.join(right)}</s>"}
    arguments = []
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        arguments += ["-s", f"{name}={tmp_path / name}"]
    sql = (
        STREAMS.replace("source = 'l.xml', ", "").replace("source = 'r.xml', ", "")
        + f"SELECT a FROM l {clause}"
    )
    ran = Cli(capfd)("run", "-q", sql, *arguments, "--engine", "local", "--slice", size, "--format", "csv")
    assert (ran.code, sorted(ran.out.split())) == (0, sorted(["a", *PAIRS[clause]]))
