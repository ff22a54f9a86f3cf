"""Every operator is safe, complete, proper and maximal, and its output does not depend on the slices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.operators.harness import give
from tests.oracle import relational
from tests.oracle.aggregates import aggregate
from tests.oracle.judged_operations import (
    counted_above,
    counted_by_key,
    counted_down,
    counted_over,
    counted_using,
    counted_windows,
    first_of_each,
    full_using,
    sessions,
    tumbled,
    unnested,
)
from tests.oracle.judges import Relational, Verdict, continuations, in_output
from tests.oracle.operators import Port
from tests.oracle.order import in_time, without_jumps
from tests.oracle.table_1 import set_match
from tests.oracle.values import Row, bag, same
from tests.strategies import FLAG, Pool, Space, Stream, cuts, punctuations_of, streams, tuples_of
from xmlpunct.expressions.expression import Column
from xmlpunct.expressions.functions import call, literal
from xmlpunct.operators import (
    Aggregate,
    GroupBy,
    Hop,
    Join,
    Key,
    Limit,
    Merge,
    NotIn,
    Operator,
    Over,
    OverCall,
    Pointwise,
    Project,
    Punctuate,
    Select,
    Session,
    Sort,
    SortKey,
    Unnest,
)
from xmlpunct.operators.time.access_order import AccessOrder
from xmlpunct.operators.time.over.calls import Frame
from xmlpunct.operators.time.windows.frame import HoppingWindows as WindowFrame
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import array_of
from xmlpunct.types import BOOLEAN, INT

DIGIT = Pool("digit", INT, (0, 1, 2), (0, 1, 2))
FLAG_INT = Pool("bit", INT, (0, 1), (0, 1))
K, V = (DIGIT, "[0,1]"), (FLAG, "NOT NULL")
LEFT = Space.of(k=K, v=V)
RIGHT = Space.of(l=K, w=V)
NULLS = Space.of(k=FLAG)
WIDE = Space.of(l=K, w=(DIGIT, "[0,2]"))
TALL = Space.of(k=(DIGIT, "[0,1]"), v=(DIGIT, "[0,2]"))
KEYS = [("k", "l")]


@dataclass(frozen=True)
class Case:
    """An operator, its relational counterpart and its inputs.

    ``closing``: for each port, attributes that many punctuations constrain. Exceptions from maximality:

    - ``positions``: the operator emits a received punctuation unchanged, once no retained tuple matches it, and no part
      of it before. For each port, the position of each output attribute in its input.
    """

    make: Callable[[], Operator]
    operation: Relational
    spaces: Sequence[Space]
    closing: Sequence[Sequence[str]] = ()
    positions: Sequence[Sequence[int | None]] | None = None
    keys: int | None = None
    """The number of leading attributes that the promises constrain."""
    waived: str = ""
    """Judgements that do not apply; a comment next to it has the reason."""
    in_order: bool = False
    """Whether the judges check the order of the output."""


def accepted_with_jumps(ts: Sequence[Row]) -> list[Row]:
    """punctuate with AHEAD 1 AFTER 2, at the end of the stream: held tuples pass."""
    accepted, _, held, _ = without_jumps(ts, 1, 0, 1, 2)
    return [ts[i] for i in accepted + held]


def numbered(operation: Relational) -> Relational:
    """An operation whose result is a sequence: each tuple starts with its position."""
    return lambda *ports: [(i, *t) for i, t in enumerate(operation(*ports))]


def grouped(keys: int, *functions: tuple[str, bool]) -> Relational:
    """Aggregates over the second column, grouped by the first ``keys`` columns."""

    def result(ts: Sequence[Row]) -> list[Row]:
        groups: dict[Row, list[Row]] = {} if keys else {(): []}
        for t in ts:
            groups.setdefault(tuple(map(same, t[:keys])), []).append(t)
        return [
            (
                *(g[0][:keys] if g else ()),
                *(
                    aggregate(f.strip("*"), d, None if f == "COUNT*" else INT, [t[1] for t in g])
                    for f, d in functions
                ),
            )
            for g in groups.values()
        ]

    return result


def group_by(space: Space, keys: int, *functions: tuple[str, bool]) -> Case:
    """A group-by, whose promises constrain keys only: impossible aggregate values are not promised."""
    names = space.schema.names
    aggregates = [
        Aggregate(f.strip("*"), None if f == "COUNT*" else names[1], d, f"r{i}")
        for i, (f, d) in enumerate(functions)
    ]
    return Case(
        lambda: GroupBy(space.schema, names[:keys], aggregates),
        grouped(keys, *functions),
        [space],
        [names[:keys]],
        keys=keys,
    )


def joins() -> Iterator[tuple[str, Case]]:
    """Equijoins and semijoins."""
    spaces, widths, keys = (LEFT, RIGHT), (2, 2), [(0, 0)]
    schemas = LEFT.schema, RIGHT.schema
    for kind in ("inner", "left", "right", "full"):
        make = lambda kind=kind: Join(*schemas, KEYS, kind, combines=True)  # noqa: E731
        received_positions = (
            [[0, 1, None], [0, None, 1]] if kind == "inner" else [[0, 1, None, None], [None, None, 0, 1]]
        )
        yield (
            f"{kind} join",
            Case(make, relational.join(kind, widths, keys), spaces, [["k"], ["l"]], received_positions),
        )
    for kind in ("semi", "anti"):
        make = lambda kind=kind: Join(*schemas, KEYS, kind)  # noqa: E731
        operation = relational.semijoin(kind == "anti", keys)
        yield kind, Case(make, operation, spaces, [["k"], ["l"]], [[0, 1], [0, None]])


def band_joins() -> Iterator[tuple[str, Case]]:
    """Joins with a range condition: w BETWEEN v AND v + 1."""
    schemas, keys = (TALL.schema, WIDE.schema), [(0, 0)]
    v, w = Column(INT, False, "v"), Column(INT, False, "w")
    condition = call("AND", call(">=", w, v), call("<=", w, call("+", v, literal(INT, 1))))

    def holds(t: Row, u: Row) -> bool:
        return bool(t[1] <= u[1] <= t[1] + 1)

    for kind in ("inner", "left", "full"):
        make = lambda kind=kind: Join(*schemas, KEYS, kind, condition, True)  # noqa: E731
        received_positions = (
            [[0, 1, None], [0, None, 1]] if kind == "inner" else [[0, 1, None, None], [None, None, 0, 1]]
        )
        operation = relational.join(kind, (2, 2), keys, holds)
        yield f"{kind} join near", Case(make, operation, [TALL, WIDE], positions=received_positions)
    for kind in ("semi", "anti"):
        make = lambda kind=kind: Join(*schemas, KEYS, kind, condition)  # noqa: E731
        operation = relational.semijoin(kind == "anti", keys, holds)
        yield f"{kind} near", Case(make, operation, [TALL, WIDE], positions=[[0, 1], [0, None]])


def in_corner() -> Case:
    """A left join with a condition that bounds two attributes: w >= v AND y <= x."""
    small = (FLAG_INT, "[0,1]")
    left, right = Space.of(v=small, x=small), Space.of(w=small, y=small)
    v, x, w, y = (Column(INT, False, name) for name in "vxwy")
    condition = call("AND", call(">=", w, v), call("<=", y, x))
    operation = relational.join("left", (2, 2), [], lambda t, u: bool(u[0] >= t[0] and u[1] <= t[1]))
    return Case(
        lambda: Join(left.schema, right.schema, [], "left", condition, True),
        operation,
        [left, right],
        waived="incomplete, not maximal",  # only several punctuations together cover both attributes
    )


ITEMS = Pool("items", array_of(Schema.parse("i INT NOT NULL")), (), ([], [{"i": 1}, {"i": 2}]))
NOT_IN = Case(
    lambda: NotIn(NULLS.schema, NULLS.schema, "k", "k"),
    relational.not_in(0, 0),
    [NULLS, NULLS],
    positions=[[0], [None]],
)
SOME = Space.of(k=FLAG_INT, v=V)
NOT_IN_VALUES = Case(
    lambda: NotIn(SOME.schema, RIGHT.schema, "k", "l"),
    relational.not_in(0, 0),
    [SOME, RIGHT],
    [["k"], ["l"]],
    [[0, 1], [None, None]],
)
FLAGS = Space.of(k=FLAG, v=V)
EITHER = Space.of(k=FLAG_INT, v=FLAG_INT)
SAME = [[0, 1]] * 2
ARRAYS = Space.of(k=K, l=ITEMS)
ABOVE = call(">", Column(INT, True, "k"), literal(INT, 0))
CASES: dict[str, Case] = {
    "select": Case(lambda: Select(LEFT.schema, ABOVE), lambda ts: [t for t in ts if t[0] > 0], [LEFT]),
    "select some": Case(
        lambda: Select(FLAGS.schema, Column(BOOLEAN, True, "k")), lambda ts: [t for t in ts if t[0]], [FLAGS]
    ),
    "project": Case(
        lambda: Project.rename(LEFT.schema, ["k"], ["x"]), lambda ts: [t[:1] for t in ts], [LEFT]
    ),
    "coalesce": Case(
        lambda: Project(
            EITHER.schema, [("c", call("COALESCE", Column(INT, True, "k"), Column(INT, True, "v")))]
        ),
        lambda ts: [(k if k is not None else v,) for k, v in ts],
        [EITHER],
    ),
    "dupelim": Case(lambda: Pointwise([LEFT.schema], "distinct"), relational.distinct, [LEFT]),
    "merge": Case(lambda: Merge([LEFT.schema] * 2), lambda a, b: [*a, *b], [LEFT, LEFT]),
    "union": Case(
        lambda: Pointwise([LEFT.schema] * 2, "union"),
        lambda a, b: relational.distinct([*a, *b]),
        [LEFT, LEFT],
    ),
    "intersect": Case(
        lambda: Pointwise([LEFT.schema, LEFT.schema], "intersect"),
        relational.intersect,
        [LEFT, LEFT],
        positions=[[0, 1]] * 2,
    ),
    "difference": Case(
        lambda: Pointwise([LEFT.schema, LEFT.schema], "except"),
        relational.difference,
        [LEFT, LEFT],
        positions=[[0, 1]] * 2,
    ),
    **dict(joins()),
    "not in": NOT_IN,
    "not in values": NOT_IN_VALUES,
    "count": group_by(TALL, 1, ("COUNT*", False)),
    "max": group_by(TALL, 1, ("MAX", False)),
    "min, sum": group_by(TALL, 1, ("MIN", False), ("SUM", False)),
    "count distinct": group_by(TALL, 1, ("COUNT", True)),
    "count distinct, max": group_by(TALL, 1, ("COUNT", True), ("MAX", False)),
    "groups alone": group_by(TALL, 1),
    "max of all": group_by(TALL, 0, ("MAX", False)),
    "count of all, distinct": group_by(TALL, 0, ("COUNT", True), ("MIN", False)),
    **dict(band_joins()),
    "left join in a corner": in_corner(),
    # A tuple is released once it is closed, even if every later tuple at its position would be equal.
    "sort": Case(
        lambda: Sort(TALL.schema, [SortKey("k"), SortKey("v")]),
        sorted,
        [TALL],
        [["k"]],
        [[0, 1]],
        waived="incomplete",
        in_order=True,
    ),
    "limit": Case(lambda: Limit(TALL.schema, 2), lambda ts: ts[:2], [TALL]),
    "key": Case(lambda: Key(TALL.schema, [["k"]], remembers=True), first_of_each, [TALL]),
    "punctuate": Case(
        lambda: Punctuate(TALL.schema, AccessOrder("v", 1)), lambda ts: in_time(ts, 1, 1, None, ()), [TALL]
    ),
    # A tuple is held by the rule, even if no value of its type could still reject it.
    "punctuate ahead": Case(
        lambda: Punctuate(TALL.schema, AccessOrder("v", 0, ahead=1, after=2)),
        accepted_with_jumps,
        [TALL],
        waived="incomplete, not maximal",
    ),
    "unnest": Case(
        lambda: Unnest(ARRAYS.schema, "l", [("l.i", "i")], None, False, False), unnested, [ARRAYS], [["k"]]
    ),
    # Only closed prefixes of a partition count: a closed frame by itself releases no tuple.
    "over": Case(
        lambda: Over(
            TALL.schema, ["k"], [SortKey("v")], [OverCall("COUNT", "n", frame=Frame("RANGE", -1, 0))]
        ),
        counted_over,
        [TALL],
        [["k", "v"]],
        waived="incomplete, not maximal",
    ),
    "over without order": Case(
        lambda: Over(TALL.schema, ["k"], [], [OverCall("COUNT", "n")], has_timestamp=False),
        counted_by_key,
        [TALL],
        [["k"]],
        waived="not maximal",  # a punctuation waits for all unreleased rows that match it
    ),
    "over in descending order": Case(
        lambda: Over(TALL.schema, ["k"], [SortKey("v", True)], [OverCall("COUNT", "n")], has_timestamp=False),
        counted_down,
        [TALL],
        [["k"]],
        waived="incomplete, not maximal",
    ),
    # A closed session is released at once; promises of its bounds are prefixes.
    "session": Case(
        lambda: Session(TALL.schema, "v", 1, ["k"], "begin", "end"),
        sessions,
        [TALL],
        [["k", "v"]],
        waived="incomplete, not maximal",
    ),
    "tumble": Case(
        lambda: Hop(TALL.schema, "v", WindowFrame(INT, slide=2, size=2), "begin", "end"), tumbled, [TALL]
    ),
}
USING = Case(
    lambda: Project(EITHER.schema, []),
    full_using,
    [Space.of(k=FLAG_INT, v=V), Space.of(k=FLAG_INT, w=V)],
    [["k"], ["k"]],
    waived="not maximal",  # no punctuation states that v and w are null where their side has no tuple
)
PLANNED = CASES | {
    "count of a tumble": replace(CASES["tumble"], operation=counted_windows, closing=[["k"]], keys=2),
    "full join using": USING,
    "full join using, counted": replace(USING, operation=counted_using, closing=[["k"], ["k"]], keys=1),
    "count where": replace(CASES["select some"], operation=counted_above, closing=[["v"]], keys=1),
}
"""`CASES`, and cases of plans with several operators (`test_sharded_judges`)."""


@cache
def probes(name: str) -> list[Row]:
    """All tuples that the output can have."""
    case = PLANNED[name]
    empty_ports = [Port() for _ in case.spaces]
    rows_by_key: dict[object, Row] = {}
    for added in continuations(empty_ports, [space.tuples() for space in case.spaces]):
        rows_by_key.update((tuple(map(same, t)), t) for t in case.operation(*added))
    return list(rows_by_key.values())


def drawn(data: st.DataObject, case: Case) -> list[Stream]:
    """A short stream per port."""
    closing = case.closing or [()] * len(case.spaces)
    return [
        data.draw(streams(space, most=7, ends=False, closing=names))
        for space, names in zip(case.spaces, closing, strict=True)
    ]


@pytest.mark.parametrize("name", CASES)
def test_operators_pass_the_judges(name: str) -> None:
    case = CASES[name]

    @settings(max_examples=settings.default.max_examples // 2)
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        inputs = drawn(data, case)
        operator, output, promises = case.make(), list[Row](), []
        promises += operator.opening()
        for port, elements in data.draw(cuts(inputs)):
            step = give(operator, port, elements)
            output += step.tuples.rows()
            promises += step.punctuations
        ports = [Port(tuples_of(stream), punctuations_of(stream)) for stream in inputs]
        verdict = Verdict.of(case.operation, ports, [space.tuples() for space in case.spaces])
        received = None if case.positions is None else in_output(ports, operator.schema, case.positions)
        if case.in_order:
            numbered_verdict = Verdict.of(
                numbered(case.operation), ports, [space.tuples() for space in case.spaces]
            )
            wrong = list(numbered_verdict.judge_tuples((i, *t) for i, t in enumerate(output)))
            wrong += verdict.judge_promises(output, promises, probes(name), received)
        else:
            wrong = list(verdict.judge(output, promises, probes(name), received, case.keys))
        wrong = [message for message in wrong if message.partition(":")[0] not in case.waived.split(", ")]
        assert not wrong, wrong[0]

    check()


@pytest.mark.parametrize("name", CASES)
def test_output_does_not_depend_on_slices(name: str) -> None:
    """Tuples and promises do not depend on the slices or on the order of ports."""
    case = CASES[name]

    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        inputs, runs = drawn(data, case), []
        for _ in range(2):
            operator = case.make()
            outputs = [give(operator, port, elements) for port, elements in data.draw(cuts(inputs))]
            promises = [*operator.opening(), *(p for output in outputs for p in output.punctuations)]
            tuples = bag(t for output in outputs for t in output.tuples.rows())
            runs.append((tuples, [t for t in probes(name) if set_match(t, promises)]))
        assert runs[0] == runs[1]

    check()
