"""Every operator that compares DOUBLEs: NaN, the infinities, zeros and nulls, in slices of one tuple and of all.

polars marks a column of one row as sorted, and ordered concatenations of them, and then uses other algorithms.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle
from tests.operators.harness import drive
from tests.operators.joins import conceivable_of
from tests.oracle import Oracle, order, relational
from tests.oracle.scalar import evaluate_row
from tests.strategies import SIGNED, SPECIAL, Cut, Space, Stream, streams
from xmlpunct.expressions.expression import FUNCTIONS, Column, Literal
from xmlpunct.expressions.functions import call, cast, literal
from xmlpunct.operators import (
    Aggregate,
    GroupBy,
    Join,
    NotIn,
    Operator,
    PartialDupElim,
    PartialGroupBy,
    Pipeline,
    Pointwise,
    Punctuate,
    Select,
    Sort,
    run,
)
from xmlpunct.operators.time.access_order import AccessOrder
from xmlpunct.punctuations.punctuation import Punctuation, Tuple, match
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice
from xmlpunct.types import DOUBLE, NAN, STRING

Case = tuple[Callable[[], Operator], Oracle, tuple[Space, ...], Sequence[Tuple]]
"""An operator, its oracle, its inputs, and the tuples on which punctuations are compared."""


def joins(left: Space, right: Space) -> Iterator[tuple[str, Case]]:
    """Operators that pair tuples by k = l."""
    keys, schemas, spaces = [("k", "l")], (left.schema, right.schema), (left, right)
    conceivable = conceivable_of(spaces)

    def case(make: Callable[[], Operator], expected: Oracle, probes: Sequence[Tuple]) -> Case:
        return make, expected, spaces, probes

    for kind in relational.PRESERVED:
        make = lambda kind=kind: Join(*schemas, keys, kind)  # noqa: E731
        yield f"{kind} join", case(make, oracle.join(*schemas, keys, kind, conceivable), [])
    for kind in ("semi", "anti"):
        make = lambda kind=kind: Join(*schemas, keys, kind)  # noqa: E731
        yield kind, case(make, oracle.semijoin(*schemas, keys, kind == "anti", conceivable), left.tuples())
    expected = oracle.not_in(*schemas, "k", "l", conceivable)
    yield "not in", case(lambda: NotIn(*schemas, "k", "l"), expected, left.tuples())


def sets(space: Space) -> Iterator[tuple[str, Case]]:
    """Operators that compare whole tuples."""
    schema, twice, probes = space.schema, (space, space), space.tuples()
    yield "dupelim", (lambda: Pointwise([schema], "distinct"), oracle.dupelim(), (space,), probes)
    yield "union", (lambda: Pointwise([schema] * 2, "union"), oracle.union(), twice, probes)
    yield "intersect", (lambda: Pointwise([schema, schema], "intersect"), oracle.intersect(), twice, probes)
    yield "difference", (lambda: Pointwise([schema, schema], "except"), oracle.difference(), twice, probes)


AGGREGATES = [(f, "k", d) for f in ("COUNT", "SUM", "AVG", "MIN", "MAX") for d in (False, True)]


def groups(space: Space, *keys: str) -> tuple[str, Case]:
    """Every aggregate of k, by some keys."""
    aggregates = [Aggregate(*a, f"r{i}") for i, a in enumerate(AGGREGATES)]
    expected = oracle.group_by(space.schema, keys, AGGREGATES, space.tuples())
    return f"group by {', '.join(keys) or 'nothing'}", (
        lambda: GroupBy(space.schema, keys, aggregates),
        expected,
        (space,),
        [],
    )


def sorts(space: Space, down: bool) -> tuple[str, Case]:
    keys = [("k", down, False)]
    conceivable = [*space.tuples(), (-2.0,), (0.5,)]  # values outside and between the drawn ones
    expected = order.sort(space.schema, keys, conceivable)
    return f"sort{' down' * down}", (
        lambda: Sort(space.schema, keys),
        expected,
        (space,),
        space.tuples(),
    )


ONE, TWO = Space.of(k=SPECIAL), Space.of(k=SPECIAL, v=SIGNED)
CASES = dict(
    [
        *((f"{name} of one column", case) for name, case in joins(ONE, Space.of(l=SPECIAL))),
        *((f"{name} of two columns", case) for name, case in joins(TWO, Space.of(w=SIGNED, l=SPECIAL))),
        *((f"{name} of one column", case) for name, case in sets(ONE)),
        *((f"{name} of two columns", case) for name, case in sets(TWO)),
        *(groups(ONE, *keys) for keys in ((), ("k",))),
        *(groups(TWO, *keys) for keys in (("v",), ("k", "v"))),
        *(sorts(ONE, down) for down in (False, True)),
    ]
)


@st.composite
def inputs(draw: st.DrawFn, spaces: Sequence[Space]) -> list[Stream]:
    """A stream for each input. Most close nothing before the end, and in half of these k rises."""
    drawn: list[Stream] = []
    for space in spaces:
        if draw(st.integers(0, 3)) == 0:
            drawn.append(draw(streams(space, ends=True, closing=space.schema.names[:1])))
            continue
        ts = draw(st.lists(st.sampled_from(space.tuples()), max_size=8))
        if draw(st.booleans()):
            ts.sort(key=order.ranker(space.schema, []))
        drawn.append([*ts, Punctuation.everything(space.schema)])
    return drawn


def one_by_one(feeds: Sequence[Stream], first: int) -> list[Cut]:
    """Slices of one element, all of one input before any of another."""
    ports = sorted(range(len(feeds)), key=lambda port: port != first)
    return [(port, [element]) for port in ports for element in feeds[port]]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@given(data=st.data())
def test_against_the_oracle(case: Case, data: st.DataObject) -> None:
    make, expected, spaces, probes = case
    feeds = data.draw(inputs(spaces))
    restarts = data.draw(st.sets(st.integers(0, 8), max_size=2))
    uncut = list(enumerate(feeds))
    for pieces in (uncut, uncut[::-1], *(one_by_one(feeds, first) for first in range(len(feeds)))):
        drive(make, expected, pieces, probes, restarts, spare_rows=1)


# Expressions and patterns

PAIR = Space.of(a=SPECIAL, b=SPECIAL)
A, B = Column(DOUBLE, True, "a"), Column(DOUBLE, True, "b")
CONSTANTS = [literal(DOUBLE, v) for v in SPECIAL.domain]
COMPARED = [name for name, record in FUNCTIONS.items() if record.holds]
PREDICATES = [
    *(call(name, A, other) for name in COMPARED for other in (B, CONSTANTS[-1], CONSTANTS[0])),
    *(call("IN", A, *CONSTANTS[i:]) for i in (1, 3, 4)),
    call("BETWEEN", A, CONSTANTS[1], B),
    call("=", call("GREATEST", A, B), B),
    call("=", call("LEAST", A, B), B),
    call("IS NULL", call("NULLIF", A, B)),
    call("=", call("-", A, A), CONSTANTS[-1]),
    call("=", cast(A, STRING), literal(STRING, "NaN")),
]


@pytest.mark.parametrize("predicate", PREDICATES, ids=str)
def test_select(predicate: Any) -> None:
    stream: Stream = [*PAIR.tuples(), Punctuation.everything(PAIR.schema)]
    expected = oracle.select(
        lambda t: evaluate_row(predicate, dict(zip("ab", t, strict=True))), PAIR.tuples()
    )
    for pieces in ([(0, stream)], one_by_one([stream], 0)):
        drive(lambda: Select(PAIR.schema, predicate), expected, pieces, PAIR.tuples())


def test_a_constant_has_one_form() -> None:
    assert str(Literal(DOUBLE, False, -0.0)) == str(Literal(DOUBLE, False, 0.0))
    assert Literal(DOUBLE, False, float("nan")) == Literal(DOUBLE, False, NAN)


def test_rejects_show_infinities_and_nan_in_json() -> None:
    """As strings, like the JSON lines of results."""
    operator = Select(PAIR.schema, call("=", call("/", A, B), B))
    run(operator, 0, Slice(PAIR.schema.frame([(v, 0.0) for v in SPECIAL.domain])))
    texts = [json.loads(r.text, parse_constant=pytest.fail)["a"] for r in operator.rejects]
    assert texts == ["-INF", 0.0, 1.5, "INF", "NaN"]


# Partial operators before an exchange


@given(st.lists(st.sampled_from(TWO.tuples()), max_size=10), st.sets(st.integers(1, 9)))
def test_partial_operators(ts: list[Tuple], cuts: set[int]) -> None:
    schema = TWO.schema
    asked = [a for a in AGGREGATES if not a[2]]
    aggregates = [Aggregate(*a, f"r{i}") for i, a in enumerate(asked)]
    partial = PartialGroupBy(schema, ["v"], aggregates)
    group = GroupBy(partial.schema, ["v"], aggregates, schema)
    piped = Pipeline([PartialDupElim(schema), Pointwise([schema], "distinct")], [[(0, 0)]], [[(1, 0)], []])
    distinct: list[Tuple] = []
    bounds = [0, *sorted(c for c in cuts if c < len(ts)), len(ts)]
    for start, end in pairwise(bounds):
        slice_ = Slice(schema.frame(ts[start:end]))
        distinct += piped.push(0, slice_).tuples.rows()
        run(group, 0, run(partial, 0, slice_))
    grouped = run(group, 0, Slice(partial.schema.empty(), [Punctuation.everything(partial.schema)])).tuples
    end_ = [oracle.Port(ts, [Punctuation.everything(schema)])]
    assert oracle.bag(distinct) == oracle.bag(oracle.dupelim().cpass(end_))
    assert oracle.bag(grouped.rows()) == oracle.bag(oracle.group_by(schema, ["v"], asked).cpass(end_))


# Punctuations from order


@pytest.mark.parametrize("slack", [0, 0.5])
@given(st.lists(st.sampled_from(ONE.tuples()), max_size=8), st.booleans())
def test_punctuate(slack: float, ts: list[Tuple], single: bool) -> None:
    key = DOUBLE.key
    operator = Punctuate(ONE.schema, AccessOrder("k", slack))
    highest, expected, released, emitted = None, list[Tuple](), list[Tuple](), list[Punctuation]()
    for (value,) in ts:
        if value is None or highest is None or not key(value) < key(DOUBLE.accept(highest - slack)):
            expected.append((value,))
            if value is not None and (highest is None or key(value) > key(highest)):
                highest = value
    for piece in [[t] for t in ts] if single else [ts]:
        output = run(operator, 0, Slice(ONE.schema.frame(piece)))
        assert not set(output.punctuations) & set(emitted)
        released += output.tuples.rows()
        emitted += output.punctuations
    assert oracle.bag(released) == oracle.bag(expected)
    for t in ONE.tuples():
        is_closed = None not in (highest, t[0]) and key(t[0]) < key(DOUBLE.accept(highest - slack))
        assert any(match(t, p) for p in emitted) == is_closed


def test_a_sender_that_is_nan_is_one_sender() -> None:
    """Its bound is emitted once, and with the other sender's bound that of the stream."""
    schema = Schema.parse("s DOUBLE, a INT")
    operator = Punctuate(schema, AccessOrder("a", 0, "s", (1.5, NAN)))
    slices: list[list[tuple[object, ...]]] = [[(NAN, 5)], [(NAN, 5)], [(1.5, 7)], [(NAN, 4)], [(NAN, 6)]]
    emitted = [[str(p) for p in run(operator, 0, Slice(schema.frame(ts))).punctuations] for ts in slices]
    assert emitted == [["<NaN, (,4]>"], [], ["<1.5, (,6]>", "<*, (,4]>"], [], ["<NaN, (,5]>", "<*, (,5]>"]]
    assert len(operator.rejects) == 1
