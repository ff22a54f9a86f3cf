"""Random plans over feeds that are not grammatical: what comes too late never matters, and is told once."""

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
    """A feed with more tuples anywhere before its end, some of them again."""
    found = list(elements)
    for _ in range(rng.randint(1, 8)):
        pools = [
            [v for v in (*VALUES[a.type], None) if (a.nullable if v is None else a.domain.matches(v))]
            for a in stream.schema
        ]
        again = tuples_of(found)
        t = rng.choice(again) if again and rng.random() < 0.3 else tuple(map(rng.choice, pools))
        found.insert(rng.randint(0, len(found) - 1), t)
    return found


def judged(elements: Iterable[Element]) -> tuple[list[Element], dict[int, str]]:
    """A feed without its late tuples, and of each of these, by number, the reason."""
    said: list[Punctuation] = []
    kept: list[Element] = []
    late: dict[int, str] = {}
    number = 0
    for e in elements:
        if isinstance(e, Punctuation):
            said.append(e)
            kept.append(e)
            continue
        number += 1
        violated = [p for p in said if match(e, p)]
        if not violated:
            kept.append(e)
            continue
        p = min(violated, key=lambda p: ",".join(p.as_dict()))
        values = {p.schema.names[i]: pt.constant(p.schema.attributes[i].type, e[i]) for i in p.constrained}
        late[number] = f"late: {Punctuation.of(p.schema, **values)} was closed before it"
    return kept, late


class Guarded:
    """An engine whose plan has guards, fed by position. ``rejects`` gather."""

    def __init__(self, running: Engine, streams: Sequence[Stream]) -> None:
        self.running, self.streams = running, streams
        self.at, self.rejects = [0] * len(streams), list[Reject]()

    def open(self) -> Iterable[Slice]:
        return self.running.open()

    def push(self, stream: int, given: Slice) -> Iterator[Slice]:
        first, self.at[stream] = self.at[stream], self.at[stream] + given.tuples.height
        lines = list(range(first + 1, self.at[stream] + 1))
        tuples = placed(given.tuples, self.streams[stream].name, lines, lines)
        taken = self.streams[stream].taken(Slice(tuples, given.punctuations, given.before))
        yield from self.running.push(stream, taken)
        self.collect()

    def fresh(self) -> Guarded:
        return Guarded(self.running.fresh(), self.streams)

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
    """A plan, and feeds of which some are not grammatical."""

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

    def wanted(self) -> Counter[tuple[object, ...]]:
        kept = [judged(elements)[0] for elements in self.inputs]
        tables = {s.name: (s.schema, rows_of(s, es)) for s, es in zip(STREAMS, kept, strict=True)}
        return bag(answer(self.root.inputs[0] if isinstance(self.root, Limit) else self.root, tables))

    def guarded(self, shards: int) -> tuple[list[Row], list[Reject]]:
        """What comes out of a plan with guards, and what is rejected by position."""
        query = with_guards(Query.of(optimize(self.root), STREAMS))
        running = Guarded(engine(query.root, NAMES, shards), query.streams)
        seen = watch(running, query.streams, self.feeds, self.rng, query.root.schema, [])
        return seen.tuples, sorted((r for r in running.rejects if r.byte is not None), key=Reject.place)


@pytest.mark.parametrize("seed", SEEDS)
def test_late_tuples_are_rejected_and_make_no_difference(seed: int) -> None:
    """Whatever the slices, shards and restarts."""
    case = Case(seed)
    told = []
    for shards in (0, case.rng.choice([1, 2, 3])):
        found, rejects = case.guarded(shards)
        told.append(rejects)
        late = {(r.source, r.line or 0): r.reason for r in rejects if r.reason.endswith(LATE)}
        assert late == case.late
        assert len({(r.source, r.line) for r in rejects}) == len(rejects), "a tuple is told twice"
        wanted = case.wanted()
        if isinstance(case.root, Limit):
            assert not bag(found) - wanted
            assert len(found) == min(case.root.count, sum(wanted.values()))
        else:
            assert bag(found) == wanted
    assert told[0] == told[1]


def test_there_are_late_tuples_at_all() -> None:
    assert sum(bool(Case(seed).late) for seed in range(20)) > 10


@pytest.mark.parametrize("seed", SEEDS)
def test_without_guards_what_was_given_stays_true(seed: int) -> None:
    """Late tuples may add to what is yet to come, but what is written is never contradicted, and nothing breaks."""
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
        for given in (one for several in slices for one in several):
            ready = output.prepare(given)
            assert_proper(ready.tuples.rows(), written)
            written += ready.punctuations


# Queries over windows and relations


class Tardy(Guarded):
    """Behind each slice, a tuple that was there before comes again, if its stream has closed it meanwhile."""

    def __init__(self, running: Engine, streams: Sequence[Stream], rng: random.Random) -> None:
        super().__init__(running, streams)
        self.rng, self.late = rng, 0
        self.given: list[list[Element]] = [[] for _ in streams]

    def push(self, stream: int, given: Slice) -> Iterator[Slice]:
        yield from super().push(stream, given)
        elements = self.given[stream]
        elements += [*given.tuples.rows(), *given.punctuations]
        said = [p for p in elements if isinstance(p, Punctuation)]
        again = [t for t in tuples_of(elements) if any(match(t, p) for p in said)]
        if again and not any(p.is_everything for p in said):
            self.late += 1
            yield from super().push(stream, slice_of(self.streams[stream].schema, [self.rng.choice(again)]))


def guard(planned: Planned, shards: int) -> tuple[Guarded, Tardy]:
    """A query with guards, on feeds that are grammatical, and on others."""
    query = with_guards(plan(planned.sql))
    streams = sorted(query.streams, key=lambda s: planned.names.index(s.name))
    made = engine(query.root, planned.names, shards)
    return Guarded(made, streams), Tardy(made.fresh(), streams, planned.rng)


def judge(planned: Planned, shards: int) -> int:
    """What comes out is what M says, with late tuples or without; only these are rejected, and how many they are."""
    guarded, tardy = guard(planned, shards)
    runs = [planned.run(running, planned.case.slices()) for running in (guarded, tardy)]
    assert planned.checker.check(*runs) is None, f"seed {planned.case.seed}: {planned.sql}"
    assert not [r for r in guarded.rejects if r.reason.endswith(LATE)]
    assert len({(r.source, r.line) for r in tardy.rejects if r.reason.endswith(LATE)}) == tardy.late
    return tardy.late


def test_guards_of_relation_queries_find_what_is_late_and_nothing_else() -> None:
    late = 0
    for seed in SEEDS:
        planned = Planned(cql.Case(seed))
        late += judge(planned, planned.rng.choice([0, 1, 2, 3]))
    assert late


@pytest.mark.parametrize("seed", range(3))
def test_a_window_over_copied_timestamps_is_not_sharded_by_its_instants(seed: int) -> None:
    """A tuple goes at another instant than it came at."""
    copied = Project(Window(Stamped(NamedStream("s0")), "RANGE", 2), (Column(2),))
    judge(Planned(cql.Case(seed, query=IStream(copied))), 2)
