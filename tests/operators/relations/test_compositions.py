"""Joins of relations that are composed of operators, against every instant's tuples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.relations.changes import KEY, T, change_feeds, count_at
from tests.operators.relations.test_join import LEFT, MOMENTS, RIGHT
from tests.strategies import SMALL, Space, Stream, cuts, punctuations_of, slice_of
from xmlpunct.expressions.expression import Absent, Column, Expression, Literal
from xmlpunct.expressions.functions import call, literal
from xmlpunct.operators.driver import InputPort, Pipeline
from xmlpunct.operators.iterator import Operator
from xmlpunct.operators.merge.merge import Merge
from xmlpunct.operators.relations.change_join import ChangeJoin
from xmlpunct.operators.relations.change_semijoin import ChangeSemi
from xmlpunct.operators.tuple.project import Project
from xmlpunct.operators.tuple.select import Select
from xmlpunct.punctuations.punctuation import Punctuation, Tuple, match
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import AT, DIFF, changes
from xmlpunct.types import INT
from xmlpunct.types.pattern import WILDCARD

Node = Callable[[], int]
"""Adds operators to a plan; returns the number of the last one, or -1 or -2 for an input."""
Keys = Sequence[tuple[str, str]]


class Plan:
    """Operators over two relations; an operator that is used twice is added twice."""

    def __init__(self, inputs: Sequence[Schema]) -> None:
        self.schemas, self.operators = inputs, list[Operator]()
        self.inputs: list[list[InputPort]] = [[] for _ in inputs]
        self.targets: list[list[InputPort]] = []

    def schema(self, number: int) -> Schema:
        return self.schemas[-1 - number] if number < 0 else self.operators[number].schema

    def add(self, operator: Operator, *sources: int) -> int:
        number = len(self.operators)
        self.operators.append(operator)
        self.targets.append([])
        for port, source in enumerate(sources):
            if source < 0:
                self.inputs[-1 - source].append((number, port))
            else:
                self.targets[source].append((number, port))
        return number

    def join(self, a: Node, b: Node, keys: Keys) -> int:
        left, right = a(), b()
        return self.add(ChangeJoin(self.schema(left), self.schema(right), keys, T), left, right)

    def select(self, a: Node, condition: Expression) -> int:
        source = a()
        return self.add(Select(self.schema(source), condition), source)

    def semi(self, a: Node, b: Node, keys: Keys, kind: str = "semi") -> int:
        left, right = a(), b()
        return self.add(ChangeSemi(self.schema(left), self.schema(right), keys, T, kind=kind), left, right)

    def anti(self, a: Node, b: Node, keys: Keys) -> int:
        return self.semi(a, b, keys, "anti")

    def left(self, a: Node, b: Node, keys: Keys) -> int:
        """A join B + ANTI(A, B) x nulls."""
        join, unmatched = self.join(a, b, keys), self.anti(a, b, keys)
        schema = self.schema(unmatched)
        columns = [
            (x.name, Column(x.type, x.nullable, x.name) if x.name in schema else literal(x.type, None))
            for x in self.schema(join)
        ]
        unmatched = self.add(Project(schema, columns), unmatched)
        weak = Schema.of(x if x.name in schema else x.weakened() for x in self.schema(join))
        assert weak.names == self.schema(unmatched).names
        return self.add(Merge([self.schema(unmatched), self.schema(join)]), unmatched, join)

    def full(self, a: Node, b: Node, keys: Keys) -> int:
        """A join B + ANTI(A, B) x nulls + ANTI(B, A) x nulls, with the columns of both."""
        pairs = self.padded(self.join(a, b, keys), {right: left for left, right in keys}, ())
        left_only = self.padded(self.anti(a, b, keys), {}, [right for _, right in keys])
        turned = [(right, left) for left, right in keys]
        right_only = self.padded(self.anti(b, a, turned), {}, [left for left, _ in keys])
        return self.add(
            Merge([self.schema(part) for part in (pairs, left_only, right_only)]),
            pairs,
            left_only,
            right_only,
        )

    def padded(self, source: int, copied: Mapping[str, str], keys: Sequence[str]) -> int:
        """The columns of both inputs: some copied from another column, and nulls for columns that a source lacks.

        No pair has null for ``keys``.
        """
        source_schema, columns = self.schema(source), list[tuple[str, Expression]]()
        for x in (x for schema in self.schemas for x in schema if x.name not in (AT, DIFF)):
            name = copied.get(x.name, x.name)
            null = (Absent if x.name in keys else Literal)(x.type, True, None)
            columns.append(
                (
                    x.name,
                    Column(x.type, source_schema[name].nullable, name) if name in source_schema else null,
                )
            )
        timing = [(name, Column(source_schema[name].type, False, name)) for name in (AT, DIFF)]
        return self.add(Project(source_schema, [*columns, *timing]), source)

    def not_in(self, a: Node, b: Node, x: str, y: str, keys: Keys) -> int:
        """A where x NOT IN (B's y), correlated by ``keys``."""
        unknown, none = (call("IS NULL", Column(INT, True, name)) for name in (x, y))

        def certain() -> int:
            comparable = lambda: self.select(a, call("NOT", unknown))  # noqa: E731
            return self.anti(comparable, lambda: self.select(b, none), keys)

        parts = [self.anti(certain, b, [*keys, (x, y)]), self.anti(lambda: self.select(a, unknown), b, keys)]
        return self.add(Merge([self.schema(part) for part in parts]), *parts)

    def pipeline(self) -> Pipeline:
        return Pipeline(self.operators, self.inputs, self.targets)


A, B = (lambda: -1), (lambda: -2)
NULLABLE = Space.of(k=KEY, n=SMALL), Space.of(j=(KEY, "NOT NULL"), m=SMALL)


def partners(e: Tuple, fs: list[Tuple]) -> list[Tuple]:
    """The tuples whose first value equals that of e."""
    return [f for f in fs if e[0] is not None and e[0] == f[0]]


def unknown_or_in(e: Tuple, fs: list[Tuple]) -> bool:
    """True if e's n is among the m of some tuples, or a null makes this unknown."""
    return any(e[1] is None or f[1] is None or e[1] == f[1] for f in fs)


Meaning = Callable[[list[Tuple], list[Tuple]], list[Tuple]]
"""The results of a query for the left and right tuples at an instant."""


def flat(of_one: Callable[[Tuple, list[Tuple]], list[Tuple]]) -> Meaning:
    """The results of each left tuple with all right tuples."""
    return lambda es, fs: [t for e in es for t in of_one(e, fs)]


def fully(es: list[Tuple], fs: list[Tuple]) -> list[Tuple]:
    """The full outer join."""
    pairs = [(*e, *f) for e in es for f in partners(e, fs) or [(None, None)]]
    return pairs + [(None, None, *f) for f in fs if not partners(f, es)]


QUERIES: dict[str, tuple[tuple[Space, Space], Callable[[Plan], int], Meaning]] = {
    "semi": ((LEFT, RIGHT), lambda p: p.semi(A, B, [("k", "j")]), flat(lambda e, fs: [e] if partners(e, fs) else [])),
    "anti": ((LEFT, RIGHT), lambda p: p.anti(A, B, [("k", "j")]), flat(lambda e, fs: [] if partners(e, fs) else [e])),
    "exists": ((LEFT, RIGHT), lambda p: p.semi(A, B, []), flat(lambda e, fs: [e] if fs else [])),
    "left": (
        (LEFT, RIGHT),
        lambda p: p.left(A, B, [("k", "j")]),
        flat(lambda e, fs: [(*e, f[1]) for f in partners(e, fs)] or [(*e, None)]),
    ),
    "full": ((LEFT, RIGHT), lambda p: p.full(A, B, [("k", "j")]), fully),
    "not in": (
        NULLABLE,
        lambda p: p.not_in(A, B, "n", "m", []),
        flat(lambda e, fs: [] if unknown_or_in(e, fs) else [e]),
    ),
    "not in, correlated": (
        NULLABLE,
        lambda p: p.not_in(A, B, "n", "m", [("k", "j")]),
        flat(lambda e, fs: [] if unknown_or_in(e, partners(e, fs)) else [e]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", QUERIES)
@given(data=st.data())
def test_against_every_instant(name: str, data: st.DataObject) -> None:
    spaces, build, meaning = QUERIES[name]
    schemas = [changes(space.schema, INT) for space in spaces]
    feeds = [data.draw(change_feeds(space, 4)) for space in spaces]
    plan = Plan(schemas)
    build(plan)
    pipeline = plan.pipeline()
    expected = [results_at(feeds, spaces, meaning, at) for at in MOMENTS]
    emitted = list(pipeline.open().punctuations)
    tuples, received = list[Tuple](), [list[Punctuation](), list[Punctuation]()]
    for port, elements in data.draw(cuts(feeds)):
        output = pipeline.push(port, slice_of(schemas[port], elements))
        rows = output.tuples.rows()
        assert not any(match(t, p) for t in rows for p in emitted)
        tuples += rows
        emitted += output.punctuations
        received[port] += punctuations_of(elements)
        closed = [closed_for_all(ps) for ps in received]
        for at, results in zip(MOMENTS, expected, strict=True):
            sure = {e for e in results if any(match((*e, at, 1), p) for p in emitted)}
            assert len(sure) == len(results) or at > min(closed)
            counts = {e: count_at(tuples, e, at) for e in {*results, *(t[:-2] for t in tuples)}}
            for e, count in counts.items():
                if e in sure or any(match((*e, at, 1), p) for p in emitted):
                    assert count == results.get(e, 0), (e, at)
    assert any(p.is_everything for p in emitted)
    assert not any(map(len, (operator.state for operator in pipeline.operators)))


def results_at(
    feeds: Sequence[Stream], spaces: tuple[Space, Space], meaning: Meaning, at: int
) -> dict[Tuple, int]:
    """The tuples of a query at an instant, with the number of copies of each."""
    left, right = (
        [e for e in space.tuples() for _ in range(count_at(feed, e, at))]
        for space, feed in zip(spaces, feeds, strict=True)
    )
    results = dict[Tuple, int]()
    for t in meaning(left, right):
        results[t] = results.get(t, 0) + 1
    return results


def closed_for_all(punctuations: list[Punctuation]) -> int:
    """The last instant up to which prefixes close all tuples of an input."""
    of_all = [p for p in punctuations if all(q is WILDCARD for q in p.patterns[:-2])]
    return max((T.bound(p.patterns[-2]) for p in of_all), default=T.lo - 1)
