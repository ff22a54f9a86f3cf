"""Random plans that end early, over documents with violations: the rejects of the documents are complete."""

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
from tests.plans.test_late_tuples import spoiled
from tests.spark.support import NAMESPACE
from tests.strategies import Element
from xmlpunct.engine.plan import (
    GroupBy,
    Join,
    Limit,
    Node,
    Project,
    Query,
    Scan,
    Select,
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
"""A placeholder in a feed for a tuple with a malformed value."""

Position = tuple[str, int]
"""The file of a stream, and a byte offset in it."""


def children(attributes: Iterable[Attribute], values: Iterable[Any]) -> str:
    """Values as XML elements; an array as one element per item."""
    text = ""
    for a, v in zip(attributes, values, strict=True):
        if isinstance(a.type, ArrayType):
            items = (children(a.type.attributes, item.values()) for item in v or ())
            text += "".join(f"<{a.name}>{item}</{a.name}>" for item in items)
        elif v is not None:
            text += f"<{a.name}>{a.type.format(v)}</{a.name}>"
    return text


class Document:
    """A feed as a document, with the byte offset of each element."""

    def __init__(self, stream: Stream, elements: Sequence[Element | object]) -> None:
        self.stream, self.elements = stream, elements
        self.text, self.offsets = f'<s xmlns:p="{NAMESPACE}">', list[int]()
        for e in elements:
            self.offsets.append(len(self.text.encode()))
            self.text += self.written(e) + "\n"
        self.text += "</s>"

    def written(self, e: Element | object) -> str:
        if e is WRONG:
            first = self.stream.schema.names[0]  # not of type STRING
            return f"<t><{first}>many</{first}></t>"
        if isinstance(e, Punctuation):
            children_of_punctuation = "".join(
                f"<{name}>{text}</{name}>" for name, text in e.as_dict().items()
            )
            return f"<p:t>{children_of_punctuation}</p:t>"
        assert isinstance(e, tuple)
        return f"<t>{children(self.stream.schema, e)}</t>"

    def judged(self) -> tuple[Counter[Position], InputStats]:
        """The positions of malformed and late tuples, and the counts of all elements, by one sequential pass."""
        punctuations: list[Punctuation] = []
        rejects, counts = Counter[Position](), InputStats(bytes=len(self.text.encode()))
        for e, offset in zip(self.elements, self.offsets, strict=True):
            if isinstance(e, Punctuation):
                punctuations.append(e)
                counts.punctuations += not e.is_empty  # empty punctuations are not counted
            elif e is WRONG or any(match(e, p) for p in punctuations):
                rejects[f"{self.stream.name}.xml", offset] += 1
                counts.rejected += 1
            else:
                counts.tuples += 1
        return rejects, counts


class Early(Grower):
    """Grows plans whose output mostly ends long before their inputs."""

    def early(self, depth: int) -> Node:
        ways = [self.limited, self.never, self.single_group, self.failing, lambda root: root]
        return numbered(self.rng.choice(ways)(self.grow(depth)))

    def limited(self, root: Node) -> Node:
        return Limit(root, self.rng.randint(0, 3))

    def never(self, root: Node) -> Node:
        """A semijoin whose right side is always empty."""
        right = self.scan()
        k = column(right.schema, right.schema.names[0])
        low, high = sorted(VALUES[k.type], key=k.type.key)[:2]
        first, second = call("<", k, literal(k.type, low)), call(">", k, literal(k.type, high))
        false = self.rng.choice([call("AND", first, second), call("=", literal(INT, 1), literal(INT, 0))])
        return Join(root, Select(right, false), (), "semi")

    def single_group(self, root: Node) -> Node:
        """A single group over a column with a domain, which punctuations can close completely."""
        scan = Scan(STREAMS[2], ("k",), (self.name(),))
        count = GroupBy(scan, (), (Aggregate("COUNT", None, False, self.name()),))
        return self.rng.choice([count, Join(root, count, (), "semi")])

    def failing(self, root: Node) -> Node:
        """A projection that fails for some tuples: division by zero."""
        numbers = [a.name for a in root.schema if a.type is INT]
        if not numbers:
            return self.limited(root)
        x = column(root.schema, self.rng.choice(numbers))
        return self.limited(Project(root, ((self.name(), call("/", literal(INT, 8), x)),)))


class Case:
    """A plan and its documents; some contain late or malformed tuples."""

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
        """A feed without its end marker; the end of the document implies it."""
        result: list[Element | object] = list(spoiled(self.rng, stream, feed(self.rng, stream.schema)))[:-1]
        for _ in range(self.rng.randint(0, 2)):
            result.insert(self.rng.randint(0, len(result)), WRONG)
        return result

    def run(self, size: int | None, **options: Any) -> tuple[list[dict[str, Any]], RunStats]:
        """The rejects in the order of the rejects file, and the statistics."""
        out, stats = self.folder / "out.xml", RunStats("local")
        rejects = self.folder / "rejects"
        local.run(self.query, RunOptions(str(out), slice_bytes=size, rejects=str(rejects), **options), stats)
        assert out.read_text().endswith("</stream>\n")
        return [json.loads(line) for line in rejects.read_text().splitlines()], stats


@pytest.mark.parametrize("seed", SEEDS)
def test_the_rejects_are_those_of_the_documents(seed: int, tmp_path: Path) -> None:
    case = Case(seed, tmp_path)
    judged = [d.judged() for d in case.documents]
    expected = sum((positions for positions, _ in judged), Counter[Position]())
    counts = {d.stream.name: stats for d, (_, stats) in zip(case.documents, judged, strict=True)}
    rejects_of_runs = []
    sizes = [1, case.rng.randint(2, 1000), None]
    checkpoint = {"checkpoint": str(tmp_path / "checkpoint"), "replaces": True}
    for size, options in [*((size, {}) for size in sizes), (case.rng.randint(60, 300), checkpoint)]:
        rejects, stats = case.run(size, **options)
        inputs = [r for r in rejects if r["byte"] is not None and "out of order" not in r["reason"]]
        inputs = [r for r in inputs if "not a listed sender" not in r["reason"]]
        assert Counter((Path(r["source"]).name, r["byte"]) for r in inputs) == expected
        assert stats.inputs == counts
        rejects_of_runs.append(sorted(rejects, key=str))
        if len(case.documents) == 1:
            assert inputs == sorted(inputs, key=lambda r: r["byte"]), "rejects are in document order"
    assert all(rejects == rejects_of_runs[0] for rejects in rejects_of_runs)


def test_there_are_plans_that_end_early(tmp_path: Path) -> None:
    """Without a rejects file, a plan that ends early does not read its inputs to the end."""
    early = 0
    for seed in range(10):
        case = Case(seed, tmp_path)
        stats = RunStats("local")
        local.run(case.query, RunOptions(str(tmp_path / "out.xml"), slice_bytes=30), stats)
        read = sum(i.punctuations for i in stats.inputs.values())
        early += read < sum(d.judged()[1].punctuations for d in case.documents)
    assert early > 3
