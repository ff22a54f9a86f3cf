"""Random plans over feeds that are not grammatical: guards reject each late tuple once, and no result changes."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import pytest

from tests.operators.harness import assert_proper
from tests.oracle import cql
from tests.oracle.cql.query import Column, IStream, Project, Stamped, Window
from tests.oracle.cql.query import Stream as NamedStream
from tests.oracle.values import Row, bag
from tests.plans.duck import answer
from tests.plans.engines import Engine, Local, engine, watch
from tests.plans.feeds import NAMES, STREAMS, VALUES, cuts, feed, parts, rows_of
from tests.plans.random_plans import Grower
from tests.plans.relations import Planned
from tests.plans.sharded import Sharded
from tests.strategies import Element, slice_of, tuples_of
from xmlpunct.base.errors import Reject
from xmlpunct.engine.plan import Limit, Query, Scan, Stream
from xmlpunct.engine.rules import optimize
from xmlpunct.engine.rules.guard import with_guards
from xmlpunct.engine.run.output import Output
from xmlpunct.engine.sql import plan
from xmlpunct.firehose import writer_for
from xmlpunct.operators import Operator, Pipeline
from xmlpunct.punctuations.punctuation import Punctuation, match
from xmlpunct.schema.provenance import placed
from xmlpunct.slice import Slice
from xmlpunct.types import pattern as pt

SEEDS = range(4000 if os.environ.get("XMLPUNCT_LONG") == "1" else 12)
LATE = "closed before it"


def spoiled(rng: random.Random, stream: Stream, elements: Sequence[Element]) -> list[Element]:
    """A feed with additional tuples at random positions before its end; some are duplicates."""
    spoiled_feed = list(elements)
    for _ in range(rng.randint(1, 8)):
        pools = [
            [v for v in (*VALUES[a.type], None) if (a.nullable if v is None else a.domain.matches(v))]
            for a in stream.schema
        ]
        sent = tuples_of(spoiled_feed)
        t = rng.choice(sent) if sent and rng.random() < 0.3 else tuple(map(rng.choice, pools))
        spoiled_feed.insert(rng.randint(0, len(spoiled_feed) - 1), t)
    return spoiled_feed


def judged(elements: Iterable[Element]) -> tuple[list[Element], dict[int, str]]:
    """A feed without its late tuples, and the reason of each late tuple by its number."""
    punctuations: list[Punctuation] = []
    grammatical: list[Element] = []
    late: dict[int, str] = {}
    number = 0
    for e in elements:
        if isinstance(e, Punctuation):
            punctuations.append(e)
            grammatical.append(e)
            continue
        number += 1
        violated = [p for p in punctuations if match(e, p)]
        if not violated:
            grammatical.append(e)
            continue
        p = min(violated, key=lambda p: ",".join(p.as_dict()))
        values = {p.schema.names[i]: pt.constant(p.schema.attributes[i].type, e[i]) for i in p.constrained}
        late[number] = f"late: {Punctuation.of(p.schema, **values)} was closed before it"
    return grammatical, late


class Guarded:
    """An engine whose plan has guards; it numbers the tuples of each stream and collects the rejects."""

    def __init__(self, running: Engine, streams: Sequence[Stream]) -> None:
        self.running, self.streams = running, streams
        self.at, self.rejects = [0] * len(streams), list[Reject]()

    def open(self) -> Iterable[Slice]:
        return self.running.open()

    def push(self, stream: int, slice_: Slice) -> Iterator[Slice]:
        first, self.at[stream] = self.at[stream], self.at[stream] + slice_.tuples.height
        lines = list(range(first + 1, self.at[stream] + 1))
        tuples = placed(slice_.tuples, self.streams[stream].name, lines, lines)
        accepted = self.streams[stream].taken(Slice(tuples, slice_.punctuations, slice_.before))
        yield from self.running.push(stream, accepted)
        self.collect()

    def rebuilt(self) -> Guarded:
        return Guarded(self.running.rebuilt(), self.streams)

    def restarted(self) -> Guarded:
        self.running = self.running.restarted()
        return self

    def collect(self) -> None:
        for pipeline in self.pipelines():
            self.rejects += pipeline.rejects
            pipeline.rejects.clear()

    def pipelines(self) -> list[Pipeline]:
        if isinstance(self.running, Local):
            return [self.running.pipeline]
        assert isinstance(self.running, Sharded)
        return self.running.pipelines

    @property
    def operators(self) -> list[Operator]:
        return self.running.operators


class Case:
    """A plan and its feeds; some feeds are not grammatical."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.root = Grower(seed).plan(self.rng.randint(1, 4))
        read = {node.stream.name for node in self.root.walk() if isinstance(node, Scan)}
        self.inputs = [
            spoiled(self.rng, s, feed(self.rng, s.schema)) if s.name in read else [] for s in STREAMS
        ]
        self.feeds = parts(self.rng, self.inputs, 2)
        self.late = {
            (s.name, number): reason
            for s, elements in zip(STREAMS, self.inputs, strict=True)
            for number, reason in judged(elements)[1].items()
        }

    def expected(self) -> Counter[tuple[object, ...]]:
        grammatical_feeds = [judged(elements)[0] for elements in self.inputs]
        tables = {
            s.name: (s.schema, rows_of(s, es)) for s, es in zip(STREAMS, grammatical_feeds, strict=True)
        }
        return bag(answer(self.root.inputs[0] if isinstance(self.root, Limit) else self.root, tables))

    def guarded(self, shards: int) -> tuple[list[Row], list[Reject]]:
        """The output of the plan with guards, and the rejects that have a position."""
        query = with_guards(Query.of(optimize(self.root), STREAMS))
        running = Guarded(engine(query.root, NAMES, shards), query.streams)
        recording = watch(running, query.streams, self.feeds, self.rng, query.root.schema, [])
        return recording.tuples, sorted((r for r in running.rejects if r.byte is not None), key=Reject.place)


@pytest.mark.parametrize("seed", SEEDS)
def test_late_tuples_are_rejected_and_change_no_result(seed: int) -> None:
    """For random slices, shards and restarts, the rows equal the result without late tuples."""
    case = Case(seed)
    rejects_of_runs = []
    for shards in (0, case.rng.choice([1, 2, 3])):
        rows, rejects = case.guarded(shards)
        rejects_of_runs.append(rejects)
        late = {(r.source, r.line or 0): r.reason for r in rejects if r.reason.endswith(LATE)}
        assert late == case.late
        assert len({(r.source, r.line) for r in rejects}) == len(rejects), "a tuple is reported twice"
        expected = case.expected()
        if isinstance(case.root, Limit):
            assert not bag(rows) - expected
            assert len(rows) == min(case.root.count, sum(expected.values()))
        else:
            assert bag(rows) == expected
    assert rejects_of_runs[0] == rejects_of_runs[1]


def test_the_feeds_contain_late_tuples() -> None:
    assert sum(bool(Case(seed).late) for seed in range(20)) > 10


@pytest.mark.parametrize("seed", SEEDS)
def test_without_guards_the_written_output_stays_grammatical(seed: int) -> None:
    """Late tuples may change later results, but the written output stays grammatical, and no operator fails."""
    case = Case(seed)
    root = optimize(case.root)
    schema = root.schema
    for shards in (0, case.rng.choice([2, 3])):
        running = engine(root, NAMES, shards)
        output, written = Output(schema, writer_for("xml", schema)), list[Punctuation]()
        slices = [
            running.open(),
            *(
                running.push(port, slice_of(STREAMS[port].schema, elements))
                for part in case.feeds
                for port, elements in cuts(case.rng, part)
            ),
        ]
        for slice_ in (output_slice for outputs in slices for output_slice in outputs):
            ready = output.prepare(slice_)
            assert_proper(ready.tuples.rows(), written)
            written += ready.punctuations


# Queries over windows and relations


class Tardy(Guarded):
    """After each slice, repeats an earlier tuple that its stream has closed since, as a late tuple."""

    def __init__(self, running: Engine, streams: Sequence[Stream], rng: random.Random) -> None:
        super().__init__(running, streams)
        self.rng, self.late = rng, 0
        self.elements: list[list[Element]] = [[] for _ in streams]

    def push(self, stream: int, slice_: Slice) -> Iterator[Slice]:
        yield from super().push(stream, slice_)
        elements = self.elements[stream]
        elements += [*slice_.tuples.rows(), *slice_.punctuations]
        punctuations = [p for p in elements if isinstance(p, Punctuation)]
        closed = [t for t in tuples_of(elements) if any(match(t, p) for p in punctuations)]
        if closed and not any(p.is_everything for p in punctuations):
            self.late += 1
            yield from super().push(stream, slice_of(self.streams[stream].schema, [self.rng.choice(closed)]))


def guard(planned: Planned, shards: int) -> tuple[Guarded, Tardy]:
    """A query with guards as two engines: one for grammatical feeds, one that adds late tuples."""
    query = with_guards(plan(planned.sql))
    streams = sorted(query.streams, key=lambda s: planned.names.index(s.name))
    engine_ = engine(query.root, planned.names, shards)
    return Guarded(engine_, streams), Tardy(engine_.rebuilt(), streams, planned.rng)


def judge(planned: Planned, shards: int) -> int:
    """Assert M's answer with and without late tuples, and that only these are rejected; return their number."""
    guarded, tardy = guard(planned, shards)
    runs = [planned.run(running, planned.case.slices()) for running in (guarded, tardy)]
    assert planned.checker.check(*runs) is None, f"seed {planned.case.seed}: {planned.sql}"
    assert not [r for r in guarded.rejects if r.reason.endswith(LATE)]
    assert len({(r.source, r.line) for r in tardy.rejects if r.reason.endswith(LATE)}) == tardy.late
    return tardy.late


def test_guards_of_relation_queries_reject_exactly_the_late_tuples() -> None:
    late = 0
    for seed in SEEDS:
        planned = Planned(cql.Case(seed))
        late += judge(planned, planned.rng.choice([0, 1, 2, 3]))
    assert late


@pytest.mark.parametrize("seed", range(3))
def test_a_window_over_copied_timestamps_is_not_sharded_by_its_instants(seed: int) -> None:
    """A tuple leaves the window at another instant than it enters it."""
    copied = Project(Window(Stamped(NamedStream("s0")), "RANGE", 2), (Column(2),))
    judge(Planned(cql.Case(seed, query=IStream(copied))), 2)
