"""Random plans whose output ends early over feeds that violate: the rejects are those of the documents, in full."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.plans.feeds import STREAMS, VALUES, feed
from tests.plans.random_plans import Grower, column
from tests.plans.test_guard import spoiled
from tests.spark.support import NAMESPACE
from tests.strategies import Element
from xmlpunct.engine.plan import (
    GroupBy,
    Limit,
    Node,
    Project,
    Query,
    Scan,
    Select,
    SemiJoin,
    Stream,
    numbered,
)
from xmlpunct.engine.rules import optimize
from xmlpunct.engine.rules.walk import everywhere
from xmlpunct.engine.run.local import local_run as local
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.run.stats import InputStats, RunStats
from xmlpunct.expressions.functions import call, literal
from xmlpunct.operators import Aggregate
from xmlpunct.punctuations.punctuation import Punctuation, match
from xmlpunct.schema.arrays import ArrayType
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import INT

SEEDS = range(2000 if os.environ.get("XMLPUNCT_LONG") == "1" else 12)
WRONG = object()
"""Stands in a feed for a tuple with a value that is none of its type."""

Place = tuple[str, int]
"""A stream's file, and a byte in it."""


def children(attributes: Iterable[Attribute], values: Iterable[Any]) -> str:
    """Values as elements; an array as one for each of its items."""
    found = ""
    for a, v in zip(attributes, values, strict=True):
        if isinstance(a.type, ArrayType):
            items = (children(a.type.attributes, item.values()) for item in v or ())
            found += "".join(f"<{a.name}>{item}</{a.name}>" for item in items)
        elif v is not None:
            found += f"<{a.name}>{a.type.format(v)}</{a.name}>"
    return found


class Document:
    """A feed as a document: where each of its tuples stands."""

    def __init__(self, stream: Stream, elements: Sequence[Element | object]) -> None:
        self.stream, self.elements = stream, elements
        self.text, self.places = f'<s xmlns:p="{NAMESPACE}">', list[int]()
        for e in elements:
            self.places.append(len(self.text.encode()))
            self.text += self.written(e) + "\n"
        self.text += "</s>"

    def written(self, e: Element | object) -> str:
        if e is WRONG:
            first = self.stream.schema.names[0]  # which is no string
            return f"<t><{first}>many</{first}></t>"
        if isinstance(e, Punctuation):
            said = "".join(f"<{name}>{text}</{name}>" for name, text in e.as_dict().items())
            return f"<p:t>{said}</p:t>"
        assert isinstance(e, tuple)
        return f"<t>{children(self.stream.schema, e)}</t>"

    def judged(self) -> tuple[Counter[Place], InputStats]:
        """The places of what is wrong or late, and the counts of all: one element after the other."""
        said: list[Punctuation] = []
        rejects, counts = Counter[Place](), InputStats(bytes=len(self.text.encode()))
        for e, place in zip(self.elements, self.places, strict=True):
            if isinstance(e, Punctuation):
                said.append(e)
                counts.punctuations += not e.is_empty  # which says nothing, and is not heard
            elif e is WRONG or any(match(e, p) for p in said):
                rejects[f"{self.stream.name}.xml", place] += 1
                counts.rejected += 1
            else:
                counts.tuples += 1
        return rejects, counts


class Early(Grower):
    """Grows plans of which most have nothing more to say long before their inputs end."""

    def early(self, depth: int) -> Node:
        ways = [self.limited, self.never, self.alone, self.failing, lambda root: root]
        return numbered(self.rng.choice(ways)(self.grow(depth)))

    def limited(self, root: Node) -> Node:
        return Limit(root, self.rng.randint(0, 3))

    def never(self, root: Node) -> Node:
        """What exists only if something is there that cannot be."""
        right = self.scan()
        k = column(right.schema, right.schema.names[0])
        low, high = sorted(VALUES[k.type], key=k.type.key)[:2]
        first, second = call("<", k, literal(k.type, low)), call(">", k, literal(k.type, high))
        false = self.rng.choice([call("AND", first, second), call("=", literal(INT, 1), literal(INT, 0))])
        return SemiJoin(root, Select(right, false), ())

    def alone(self, root: Node) -> Node:
        """One group, of what has a domain that punctuations close."""
        scan = Scan(STREAMS[2], ("k",), (self.name(),))
        count = GroupBy(scan, (), (Aggregate("COUNT", None, False, self.name()),))
        return self.rng.choice([count, SemiJoin(root, count, ())])

    def failing(self, root: Node) -> Node:
        """What fails for some tuples."""
        found = [a.name for a in root.schema if a.type is INT]
        if not found:
            return self.limited(root)
        x = column(root.schema, self.rng.choice(found))
        return self.limited(Project(root, ((self.name(), call("/", literal(INT, 8), x)),)))


class Case:
    """A plan, and documents of which some violate what they say."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng, self.folder = random.Random(seed), folder
        root = Early(seed).early(self.rng.randint(0, 2))
        names = {node.stream.name for node in root.walk() if isinstance(node, Scan)}
        self.documents = [Document(s, self.elements(s)) for s in STREAMS if s.name in names]
        streams = {
            d.stream.name: replace(d.stream, source=str(folder / f"{d.stream.name}.xml"), element="t")
            for d in self.documents
        }

        def placed(node: Node) -> Node:
            return replace(node, stream=streams[node.stream.name]) if isinstance(node, Scan) else node

        for d in self.documents:
            (folder / f"{d.stream.name}.xml").write_text(d.text)
        best = numbered(optimize(everywhere(root, placed)))
        self.query = Query.of(best, streams.values())

    def elements(self, stream: Stream) -> list[Element | object]:
        """A feed, without the end, which the document says."""
        found: list[Element | object] = list(spoiled(self.rng, stream, feed(self.rng, stream.schema)))[:-1]
        for _ in range(self.rng.randint(0, 2)):
            found.insert(self.rng.randint(0, len(found)), WRONG)
        return found

    def run(self, size: int | None, **options: Any) -> tuple[list[dict[str, Any]], RunStats]:
        """The rejects, in the order of their file, and what was counted."""
        out, stats = self.folder / "out.xml", RunStats("local")
        rejects = self.folder / "rejects"
        local.run(self.query, RunOptions(str(out), slice_bytes=size, rejects=str(rejects), **options), stats)
        assert out.read_text().endswith("</stream>\n")
        return [json.loads(line) for line in rejects.read_text().splitlines()], stats


@pytest.mark.parametrize("seed", SEEDS)
def test_the_rejects_are_those_of_the_documents(seed: int, tmp_path: Path) -> None:
    case = Case(seed, tmp_path)
    judged = [d.judged() for d in case.documents]
    wanted = sum((places for places, _ in judged), Counter[Place]())
    counts = {d.stream.name: found for d, (_, found) in zip(case.documents, judged, strict=True)}
    told = []
    sizes = [1, case.rng.randint(2, 1000), None]
    checkpoint = {"checkpoint": str(tmp_path / "checkpoint"), "replaces": True}
    for size, options in [*((size, {}) for size in sizes), (case.rng.randint(60, 300), checkpoint)]:
        found, stats = case.run(size, **options)
        inputs = [r for r in found if r["byte"] is not None and "out of order" not in r["reason"]]
        inputs = [r for r in inputs if "not a listed sender" not in r["reason"]]
        assert Counter((Path(r["source"]).name, r["byte"]) for r in inputs) == wanted
        assert stats.inputs == counts
        told.append(sorted(found, key=str))
        if len(case.documents) == 1:
            assert inputs == sorted(inputs, key=lambda r: r["byte"]), "they come as they stand"
    assert all(found == told[0] for found in told)


def test_there_are_plans_that_end_early(tmp_path: Path) -> None:
    """What nobody asks to be judged is not read: that is how to tell."""
    early = 0
    for seed in range(10):
        case = Case(seed, tmp_path)
        stats = RunStats("local")
        local.run(case.query, RunOptions(str(tmp_path / "out.xml"), slice_bytes=30), stats)
        read = sum(i.punctuations for i in stats.inputs.values())
        early += read < sum(d.judged()[1].punctuations for d in case.documents)
    assert early > 3
