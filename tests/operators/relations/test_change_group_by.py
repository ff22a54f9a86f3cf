"""group-by over changes: each group's tuple at each instant, emitted once the group is closed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.harness import check_table, give
from tests.operators.relations.changes import (
    KEY,
    RESTARTS,
    TAU,
    T,
    change_feeds,
    closed_up_to,
    count_at,
    moments,
    runs,
)  # fmt: skip
from tests.oracle.aggregates import NotRepresentable, aggregate
from tests.oracle.values import same
from tests.strategies import FLAG, LETTER, MONEY, REAL, SMALL, Pool, Space, Stream, cuts
from xmlpunct.operators import exact_sums
from xmlpunct.operators.group.aggregate import Aggregate
from xmlpunct.operators.relations.change_group_by import ChangeGroupBy
from xmlpunct.punctuations.punctuation import Punctuation, Tuple
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import changes
from xmlpunct.types import DOUBLE, INT, NAN, Type

HUGE = Pool("huge", INT, (-(2**63), 2**63 - 1), (-(2**63), -1, 1, 2**63 - 1))
WIDE = Pool(
    "wide", DOUBLE, (0.0, 1e308), (-1e308, -1e-300, 5e-324, 0.1, 0.2, 1.0, 2.0**53, 1e308, math.inf, NAN)
)
SPACES = {
    "ints": Space.of(k=KEY, n=(SMALL, "[0,1]")),
    "huge": Space.of(k=(KEY, "NOT NULL"), n=HUGE),
    "money": Space.of(k=KEY, n=MONEY),
    "real": Space.of(k=KEY, n=REAL),
    "wide": Space.of(k=(KEY, "[0,1]"), n=(WIDE, "NOT NULL")),
    "letters": Space.of(k=(KEY, "NOT NULL"), n=LETTER),
    "flags": Space.of(k=KEY, n=FLAG),
    "double keys": Space.of(k=REAL, n=(SMALL, "[0,1]")),
}
NUMBERS = ("ints", "huge", "money", "real", "wide")


def exactly(rows: Iterable[Sequence[Any]]) -> Counter[tuple[Any, ...]]:
    """Rows as a bag, in which DOUBLEs are equal to the last bit."""
    return Counter(tuple(repr(v) if isinstance(v, float) else v for v in row) for row in rows)


def meaning(a: Aggregate, type_: Type | None, column: list[Any]) -> Any:
    """The exact aggregate of a column."""
    values = [v for v in column if v is not None]
    if type_ is not DOUBLE or a.function not in ("SUM", "AVG") or not values:
        return aggregate(a.function, a.distinct, type_, column)
    values = list(set(values)) if a.distinct else values
    special = {v for v in values if v - v != 0}
    if special:
        return special.pop() if len(special) == 1 else NAN
    total = sum(map(Fraction, values)) / (len(values) if a.function == "AVG" else 1)
    try:
        return float(total) + 0.0
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def row_at(
    schema: Schema, feed: Stream, es: Sequence[Tuple], key: Tuple, aggregates: Sequence[Aggregate], at: int
) -> Any:
    """The tuple of a group at an instant, or None. ``es`` are the tuples that the group may contain."""
    bag = [e for e in es for _ in range(count_at(feed, e, at))]
    if not bag and (key or at < T.lo):
        return None
    columns = [(None, bag) if (n := a.argument) is None else _column(schema, n, bag) for a in aggregates]
    try:
        return (
            *key,
            *(meaning(a, type_, column) for a, (type_, column) in zip(aggregates, columns, strict=True)),
        )
    except NotRepresentable:
        return None


def _column(schema: Schema, name: str, bag: Sequence[Tuple]) -> tuple[Type, list[Any]]:
    """The type of an attribute, and its values."""
    return schema[name].type, [e[schema.index(name)] for e in bag]


def check(data: st.DataObject, space: Space, keys: list[str], aggregates: list[Aggregate]) -> None:
    """Run the operator over a random feed; after each slice exactly the closed results are released."""
    schema = changes(space.schema, INT)
    feed = data.draw(change_feeds(space))
    groups: dict[Any, list[Tuple]] = {}
    for e in space.tuples():
        groups.setdefault(same(e[0]) if keys else (), []).append(e)

    def make() -> ChangeGroupBy:
        return ChangeGroupBy(schema, keys, aggregates, T)

    rows: dict[Any, list[Any]] = {}
    instants = [T.lo, *TAU.domain]
    for g, es in groups.items():
        key = (es[0][0],) if keys else ()
        rows[g] = [row_at(schema, feed, es, key, aggregates, at) for at in instants]
    for run in runs(make, data.draw(cuts([feed])), data.draw(RESTARTS)):
        expected: list[Tuple] = []
        max_rows = 0
        for g, es in groups.items():
            closed = min(closed_up_to(e, run.punctuations_in[0]) for e in es)
            before: Any = None
            for at, row in zip(instants, rows[g], strict=True):
                if at <= closed and exactly([row or ()]) != exactly([before or ()]):
                    expected += [(*before, at, -1)] if before else []
                    expected += [(*row, at, 1)] if row else []
                    before = row
            sample = next(
                (row for row in rows[g] if row), (*([es[0][0]] if keys else []), *(0 for _ in aggregates))
            )
            for at in (*moments(T.last), T.last):
                assert run.promises((*sample, at, 1)) == (at <= closed), (g, at)
            for e in es:
                arrived = run.tuples_in[0]
                is_present = closed < T.last and bool(count_at(arrived, e, closed))
                nets = [
                    count_at(arrived, e, at) - count_at(arrived, e, at - 1) for at in instants if at > closed
                ]
                max_rows += is_present + sum(n != 0 for n in nets)
        assert exactly(run.tuples) == exactly(expected)
        assert run.operator.state.rows <= 2 * max_rows  # sums, and values with their counts
    assert len(run.operator.state) == 0


@pytest.mark.parametrize("keys", [["k"], []], ids=str)
@pytest.mark.parametrize("name", NUMBERS)
@given(data=st.data())
def test_sums_and_counts(name: str, keys: list[str], data: st.DataObject) -> None:
    functions = [
        ("SUM", False),
        ("AVG", False),
        ("COUNT", False),
        ("SUM", True),
        ("AVG", True),
        ("COUNT", True),
    ]
    if name in ("real", "wide"):
        functions += [("VAR_SAMP", False), ("VAR_POP", False), ("VAR_POP", True)]
    chosen = data.draw(st.lists(st.sampled_from(functions), min_size=1, max_size=3, unique=True))
    named = [Aggregate(f, "n", distinct, f"a{i}") for i, (f, distinct) in enumerate(chosen)]
    check(data, SPACES[name], keys, [*named, Aggregate("COUNT", None, False, "c")])


@pytest.mark.parametrize("keys", [["k"], []], ids=str)
@pytest.mark.parametrize("name", SPACES)
@given(data=st.data())
def test_least_and_greatest(name: str, keys: list[str], data: st.DataObject) -> None:
    functions = [("MIN", False), ("MAX", True), ("COUNT", True), ("COUNT", False)]
    chosen = data.draw(st.lists(st.sampled_from(functions), min_size=1, max_size=3, unique=True))
    check(
        data,
        SPACES[name],
        keys,
        [Aggregate(f, "n", distinct, f"a{i}") for i, (f, distinct) in enumerate(chosen)],
    )


@given(data=st.data())
def test_groups_without_aggregates(data: st.DataObject) -> None:
    check(data, SPACES["ints"], ["k"], [])


@given(data=st.data())
def test_aggregates_of_a_key(data: st.DataObject) -> None:
    aggregates = [Aggregate("SUM", "k", True, "s"), Aggregate("MAX", "k", False, "m")]
    check(data, SPACES["ints"], ["k"], aggregates)


S = changes(Schema.parse("g STRING, x INT"), INT)


def test_a_sum_that_does_not_fit_is_rejected_at_its_instants() -> None:
    operator = ChangeGroupBy(S, ["g"], [Aggregate("SUM", "x", False, "s")], T)
    check_table(
        operator,
        f"""
        a {2**63 - 1} 1 1; a 1 2 1; a 1 3 -1; b 1 2 1 ->
        P(*, *, *, *) -> a {2**63 - 1} 1 1; a {2**63 - 1} 2 -1; a {2**63 - 1} 3 1; b 1 2 1; P(*, *, *, *)
        """,
    )
    assert [(r.reason, r.text) for r in operator.rejects] == [("s does not fit INT at 2", '{"g": "a"}')]


def test_the_row_of_the_empty_bag_is_there_from_the_first_instant_on() -> None:
    operator = ChangeGroupBy(
        S, [], [Aggregate("COUNT", None, False, "n"), Aggregate("MIN", "x", False, "m")], T
    )
    lo = T.prefix(T.lo)
    check_table(operator, f"P(*, *, {lo}, *) -> 0 null {T.lo} 1; P(*, *, {lo}, *)")
    check_table(
        operator,
        """
        a 7 1 1; a 7 3 -1 ->
        P(*, *, *, *) -> 0 null 1 -1; 1 7 1 1; 1 7 3 -1; 0 null 3 1; P(*, *, *, *)
        """,
    )


def test_counts_of_more_copies_than_32_bits() -> None:
    operator = ChangeGroupBy(
        changes(Schema.parse("x DOUBLE, y INT"), INT),
        [],
        [
            Aggregate("AVG", "x", False, "a"),
            Aggregate("SUM", "x", True, "d"),
            Aggregate("AVG", "y", False, "b"),
        ],
        T,
    )
    n = 2**40 + 1
    feed = [(0.1, 3, 5, n), (0.3, 2**62, 5, 1), Punctuation.everything(operator.inputs[0])]
    *row, _, diff = give(operator, 0, feed).tuples.rows()[-1]
    total = n * Fraction(0.1) + Fraction(0.3)
    exact = (total / (n + 1), Fraction(0.1) + Fraction(0.3), Fraction(3 * n + 2**62, n + 1))
    assert (row, diff) == ([float(number) for number in exact], 1)


@pytest.mark.parametrize("name", ["real", "wide"])
@given(data=st.data())
def test_sums_of_doubles_in_blocks(name: str, data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact_sums, "BLOCK_ROWS", 2)
        named = [Aggregate("SUM", "n", False, "s"), Aggregate("AVG", "n", True, "a")]
        check(data, SPACES[name], ["k"], named)


def test_one_sender_is_far_ahead() -> None:
    """Only the last prefix of the sender that is ahead is retained."""
    operator = ChangeGroupBy(changes(Schema.parse("k INT, s INT CHECK (s IN (1, 2))"), INT), ["k"], [], T)
    for at in range(50):
        check_table(operator, f"P(*, 1, (,{at}], *) ->")
    assert operator.state.held == 1
    check_table(operator, "P(*, 2, (,20], *) -> P(*, (,20], *)")
