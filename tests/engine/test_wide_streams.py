"""Streams of many columns: four times the columns are at most five times the work."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import xmlpunct
from xmlpunct.connectors.source import Source
from xmlpunct.engine.sql import plan
from xmlpunct.engine.why.plan_text import explain
from xmlpunct.firehose import writer_for
from xmlpunct.firehose.stream_check import check
from xmlpunct.punctuations.grid import Axis, Part, first_open
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.python.inferred_stream import stream_of
from xmlpunct.schema import Schema

PACKAGE = str(Path(xmlpunct.__file__).parent)
NAMESPACE = "http://www.cse.ogi.edu/dot/niagara/punct"


def lines_run(action: Callable[[], object]) -> int:
    """The number of lines of this package that an action executes; loops count each turn."""
    count = 0

    def line(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return line

    def call(frame: FrameType, event: str, _: Any) -> Any:
        return line if frame.f_code.co_filename.startswith(PACKAGE) else None

    before = sys.gettrace()
    threading.settrace(call)
    sys.settrace(call)
    try:
        action()
    finally:
        sys.settrace(before)
        threading.settrace(before)  # type: ignore[arg-type]
    return count


def document(folder: Path, columns: int, wide: bool = True) -> Path:
    """Twelve tuples with punctuations on one attribute and, if ``wide``, on all attributes."""
    names = [f"c{i}" for i in range(columns)]
    parts = []
    for row in range(12):
        parts.append(f"<t>{''.join(f'<{n}>{row + i}</{n}>' for i, n in enumerate(names))}</t>")
        if row % 4 == 3:
            patterns = "".join(f"<{n}>[{row + i - 1},{row + i}]</{n}>" for i, n in enumerate(names))
            parts.append(f"<punct:t><c0>(,{row}]</c0></punct:t>")
            parts.append(f"<punct:t>{patterns}</punct:t>" if wide else "")
    path = folder / f"{columns}.xml"
    path.write_text(f'<s xmlns:punct="{NAMESPACE}">{"".join(parts)}</s>')
    return path


def per_column(columns: int, text: str, start: int = 0) -> str:
    """The text for each column, separated by commas; ``{n}`` stands for the column's name."""
    return ", ".join(text.format(n=f"c{i}") for i in range(start, columns))


QUERIES: dict[str, Callable[[int], str]] = {
    "all": lambda n: "SELECT * FROM s",
    "computed": lambda n: f"SELECT {per_column(n, '{n} + 1 AS x{n}')} FROM s",
    "tested": lambda n: f"SELECT c0 FROM s WHERE {per_column(n, '{n} >= 0').replace(',', ' AND')}",
    "distinct": lambda n: "SELECT DISTINCT * FROM s",
    "grouped": lambda n: (
        f"SELECT {per_column(n, '{n}')}, COUNT(*) AS n FROM s GROUP BY {per_column(n, '{n}')}"
    ),
    "aggregated": lambda n: f"SELECT c0, {per_column(n, 'SUM({n}) AS x{n}', 1)} FROM s GROUP BY c0",
    "joined": lambda n: (
        f"SELECT {per_column(n, 's.{n} AS a{n}')}, {per_column(n, 'r.{n} AS b{n}')} FROM s JOIN r ON s.c0 = r.c0"
    ),
    "joined by all": lambda n: (
        f"SELECT s.c0 FROM s JOIN r ON {per_column(n, 's.{n} = r.{n}').replace(',', ' AND')}"
    ),
    "using": lambda n: f"SELECT c0 FROM s JOIN r USING ({per_column(n, '{n}')})",
    "union": lambda n: "SELECT * FROM s UNION SELECT * FROM r",
    "except": lambda n: "SELECT * FROM s EXCEPT SELECT * FROM r",
    "ordered": lambda n: f"SELECT * FROM s ORDER BY {per_column(n, '{n}')}",
}


@pytest.mark.parametrize("kind", QUERIES)
def test_queries(kind: str, tmp_path: Path) -> None:
    def action(columns: int) -> None:
        # No wide punctuations here: each computed column would repeat all their patterns.
        path = document(tmp_path, columns, wide=kind != "computed")
        streams = [
            f"CREATE STREAM {name} ({per_column(columns, '{n} INT')}) WITH (source = '{path}', element = 't')"
            for name in ("s", "r")
        ]
        sql = "; ".join([*streams, QUERIES[kind](columns)])
        explain(plan(sql))
        assert list(xmlpunct.query(sql))

    action(5)  # warm up: imports and one-time work
    few, many = (lines_run(lambda n=columns: action(n)) for columns in (40, 160))  # type: ignore[misc]
    assert many < 5 * few


@pytest.mark.parametrize("declared", [True, False])
def test_parsing_and_checking(declared: bool, tmp_path: Path) -> None:
    def action(columns: int) -> None:
        source = Source.of(document(tmp_path, columns).read_bytes())
        if declared:
            schema = Schema.parse(per_column(columns, "{n} INT NOT NULL"))
            check(source, schema, "t")
        else:
            spec, source = stream_of(source, None, "t")
            schema = spec.schema
            writer = writer_for("xml", schema)
            assert b"".join(writer.body(part) for part in xmlpunct.slices(source, schema, element="t"))

    action(5)
    few, many = (lines_run(lambda n=columns: action(n)) for columns in (40, 160))  # type: ignore[misc]
    assert many < 5 * few


def test_a_set_of_punctuations_over_many_attributes() -> None:
    count = 3000
    schema = Schema.parse(per_column(count, "{n} INT NOT NULL"))
    punctuation = Punctuation(
        schema, [Punctuation.parse(Schema.parse("a INT"), "<[1,5]>").patterns[0]] * count
    )
    punctuations = PunctuationSet(schema, [punctuation])
    tuples = schema.frame([(3,) * count, (*(3,) * (count - 1), 6)])
    assert punctuations.mask(tuples).to_list() == [True, False]
    (index,) = punctuations.groups()
    assert index.matched(tuples[1:]) == []
    assert index.matched(tuples) == [punctuation]
    assert punctuations.combinations(Punctuation.of(schema, c7="[2,9]")) == [
        Punctuation(
            schema,
            [
                *punctuation.patterns[:7],
                Punctuation.of(schema, c7="[2,5]").patterns[7],
                *punctuation.patterns[8:],
            ],
        )
    ]


def test_a_grid_of_many_attributes() -> None:
    count = 3000
    schema = Schema.parse(per_column(count, "{n} INT NOT NULL"))
    low, high = Punctuation.of(schema, c0="(,5]"), Punctuation.of(schema, c0="(5,)")
    every = [Axis(a, [Part.of(a, p.patterns[0]) for p in (low, high)]) for a in schema]
    assert first_open(every, 0b01) == [*[0] * (count - 1), 1]
    assert first_open(every[:1], 0b11) is None
