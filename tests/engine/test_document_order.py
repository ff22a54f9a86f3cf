"""The local engine writes rows of one source in document order, with any number of threads (semantics 7.5).

Each query has a slow form in Python that takes one tuple at a time, in the order of the document.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.threads import COUNTS
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.engine.run.local.local_run import run
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.sql import plan

SEEDS = range(1000 if os.environ.get("XMLPUNCT_LONG") == "1" else 40)
STREAM = """CREATE STREAM t (n INT NOT NULL PATH '@n', a INT, ts INT NOT NULL, line ARRAY(sku STRING, qty INT))
    WITH (source = 't.xml', element = 't'); """

Tuple = dict[str, Any]
Step = Callable[[Iterable[Tuple]], list[Tuple]]
NOISE = ["<!-- <t/> -->", "<other><a>1</a></other>", "\n", "<?pi x?>", "text &amp; more", "<![CDATA[<t>]]>"]


def tuple_text(chance: random.Random, t: Tuple) -> str:
    """A tuple element; some have markup that the native reader leaves to libxml2."""
    a = "" if t["a"] is None else f"<a>{'<!-- 7 -->' * (chance.random() < 0.1)}{t['a']}</a>"
    lines = "".join(f"<line><sku>{line['sku']}</sku><qty>{line['qty']}</qty></line>" for line in t["line"])
    return f'<t n="{t["n"]}">{a}<ts>&#{48 + t["ts"] // 10};{t["ts"] % 10}</ts>{lines}</t>'


def document(chance: random.Random, count: int) -> tuple[list[Tuple], bytes]:
    """Random tuples in document order, and a document with noise, rejects and punctuations between them."""
    tuples, parts = list[Tuple](), [f'<s xmlns:p="{PUNCT_NAMESPACE}">']
    for n in range(count):
        lines = [
            {"sku": chance.choice("xyz"), "qty": chance.randint(0, 3)}
            for _ in range(chance.choice((0, 1, 3)))
        ]
        t = {"n": n, "a": chance.choice((None, *range(6))), "ts": chance.randint(0, 40), "line": lines}
        tuples.append(t)
        parts.append(tuple_text(chance, t))
        if chance.random() < 0.2:
            parts.append(chance.choice(NOISE))
        if chance.random() < 0.05:
            parts.append(f'<t n="{n}"><a>wrong</a><ts>1</ts></t>')
        if chance.random() < 0.1:
            parts.append(f"<p:t><n>(,{n}]</n></p:t>")
    return tuples, "".join([*parts, "</s>"]).encode()


@dataclass
class Request:
    """A query in the making: SQL text, its columns, and the steps that compute it a tuple at a time."""

    chance: random.Random
    sql: str = "t"
    columns: list[str] = field(default_factory=lambda: ["n", "a", "ts"])
    steps: list[Step] = field(default_factory=list)

    def grow(self) -> None:
        """Add one to four random operators, and perhaps a LIMIT."""
        if self.chance.random() < 0.4:
            self.unnest()
        for _ in range(self.chance.randint(1, 4)):
            self.chance.choice((self.select, self.project, self.window, self.distinct))()
        self.sql = f"SELECT {', '.join(self.columns)} FROM {self.sql}"
        if self.chance.random() < 0.6:
            count = self.chance.choice((0, 1, 5, 70, 500))
            self.sql += f" LIMIT {count}"
            self.steps.append(lambda tuples: list(tuples)[:count])

    def select(self) -> None:
        column, least = self.chance.choice(self.columns), self.chance.choice((1, 3, 10))
        if column == "sku":
            self._read(self.columns, "sku <> 'y'")
            self.steps.append(lambda tuples: [t for t in tuples if t["sku"] != "y"])
        else:
            self._read(self.columns, f"{column} >= {least}")
            self.steps.append(
                lambda tuples: [t for t in tuples if t[column] is not None and t[column] >= least]
            )

    def project(self) -> None:
        dropped = self.chance.choice(self.columns)
        self.columns = [c for c in self.columns if c != dropped]
        name = self.chance.choice(("ts", "a"))
        if name in self.columns and name != "ts":
            self._read([f"{c} % 3 AS {c}" if c == name else c for c in self.columns])
            self.steps.append(
                lambda tuples: [t | {name: None if t[name] is None else t[name] % 3} for t in tuples]
            )
        elif self.columns:
            self._read(self.columns)
        else:
            self._read(["1 AS one"])
            self.columns = ["one"]
            self.steps.append(lambda tuples: [{"one": 1} for _ in tuples])

    def distinct(self) -> None:
        names = self.columns = self.chance.sample(self.columns, self.chance.randint(1, len(self.columns)))
        self._read([f"DISTINCT {', '.join(names)}"])
        self.steps.append(lambda tuples: list(_first_copies(tuples, names)))

    def window(self) -> None:
        if "ts" not in self.columns or "window_start" in self.columns:
            return
        slide, size = self.chance.choice(((10, 10), (5, 10), (7, 7), (3, 12)))
        self._read(self.columns)
        if slide == size:
            self.sql = f"TUMBLE(TABLE {self.sql}, DESCRIPTOR(ts), {size})"
        else:
            self.sql = f"HOP(TABLE {self.sql}, DESCRIPTOR(ts), {slide}, {size})"
        self.columns = [*self.columns, "window_start"]
        self.steps.append(
            lambda tuples: [
                t | {"window_start": w}
                for t in tuples
                for w in range(-slide * size, t["ts"] + 1)
                if w % slide == 0 and w <= t["ts"] < w + size
            ]
        )

    def unnest(self) -> None:
        self.columns += ["sku", "qty"]
        self.sql = f"(SELECT {', '.join(self.columns)} FROM t CROSS JOIN UNNEST(line) AS l)"
        self.steps.append(lambda tuples: [t | line for t in tuples for line in t["line"]])

    def rows(self, tuples: list[Tuple]) -> list[tuple[Any, ...]]:
        """The results, computed a tuple at a time."""
        for step in self.steps:
            tuples = step(tuples)
        return [tuple(t[c] for c in self.columns) for t in tuples]

    def _read(self, listed: list[str], condition: str = "TRUE") -> None:
        self.sql = f"(SELECT {', '.join(listed)} FROM {self.sql} WHERE {condition})"


def _first_copies(tuples: Iterable[Tuple], names: list[str]) -> Iterable[Tuple]:
    seen = set[tuple[Any, ...]]()
    for t in tuples:
        row = tuple(t[c] for c in names)
        if row not in seen:
            seen.add(row)
            yield t


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_are_written_in_document_order(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    tuples, data = document(chance, chance.choice((5, 60, 600)))
    request = Request(chance)
    request.grow()
    expected = request.rows(tuples)
    monkeypatch.chdir(tmp_path)
    Path("t.xml").write_bytes(data)
    for threads in COUNTS:
        for size in (None, chance.randint(1, 20_000)):
            options = RunOptions(output="out.jsonl", format="jsonl", slice_bytes=size, threads=threads)
            run(plan(STREAM + request.sql), options, RunStats("local"))
            written = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
            rows = [tuple(row.values()) for row in written if "$punct" not in row]
            assert rows == expected, f"{request.sql} with {threads} threads and slices of {size} bytes"
