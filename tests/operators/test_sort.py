"""sort: tuples are released in order, once all values before them are closed."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle
from tests.operators.harness import Tally, check_table, drive_twice, give
from tests.oracle import order
from tests.strategies import (
    DAY,
    FLAG,
    LETTER,
    MOMENT,
    MONEY,
    REAL,
    SMALL,
    SPACES,
    SPECIAL,
    Space,
    Stream,
    streams,
)
from xmlpunct.operators import Sort
from xmlpunct.punctuations.punctuation import Punctuation, Tuple, match
from xmlpunct.schema import Schema
from xmlpunct.types.pattern import interval

_MICRO = timedelta(microseconds=1)

BESIDE = {
    SMALL: (-2, 5),
    LETTER: ("0", "ab", "bb", "cc", "dd"),
    REAL: (-2.0, -0.5, 0.5, 1.2, 2.0),
    SPECIAL: (-2.0, 0.5, 2.0),
    MONEY: (Decimal("-0.2"), Decimal("0.5")),
    FLAG: (),
    DAY: (date(2025, 12, 31), date(2026, 1, 5)),
    MOMENT: (MOMENT.domain[0] - _MICRO, MOMENT.domain[-1] + _MICRO),
}
"""Values outside and between the drawn ones, which later tuples may have."""


def conceivable(space: Space) -> list[Tuple]:
    """Enough tuples to decide up to where the order is closed from its start."""
    value_lists = []
    for position, (attribute, pool) in enumerate(zip(space.schema, space.pools, strict=True)):
        extra = [v for v in BESIDE[pool] if attribute.domain.matches(v)]
        value_lists.append([*space.values(position), *extra])
    return list(product(*value_lists))


def some_keys(space: Space) -> st.SearchStrategy[list[tuple[str, bool, bool]]]:
    """One to three keys."""
    names = st.permutations(space.schema.names)
    flags = st.lists(st.tuples(st.booleans(), st.sampled_from([False, False, True])), min_size=1, max_size=3)
    return st.builds(lambda ns, fs: [(n, *f) for n, f in zip(ns, fs, strict=False)], names, flags)


@st.composite
def prefixed(draw: st.DrawFn, space: Space, keys: list[tuple[str, bool, bool]]) -> Stream:
    """A stream with, perhaps, a punctuation that closes the first key from the order's start."""
    stream = draw(streams(space, closing=[key[0] for key in keys]))
    name, down, _ = keys[0]
    bound = draw(st.none() | st.sampled_from(space.pools[space.schema.index(name)].constants))
    if bound is None:
        return stream
    pattern = interval(space.schema[name].type, *((bound, None) if down else (None, bound)), True, True)
    p = Punctuation.of(space.schema, **{name: pattern})
    position = draw(st.integers(0, len(stream)))
    remaining = [e for e in stream[position:] if isinstance(e, Punctuation) or not match(e, p)]
    return [*stream[:position], p, *remaining]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_against_the_oracle(space: Space) -> None:
    """Exact tuples and punctuations per slice, and one sequence for all divisions into slices."""
    tally, candidates = Tally(), conceivable(space)

    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        keys = data.draw(some_keys(space))
        stream = data.draw(prefixed(space, keys))
        expected = order.sort(space.schema, keys, candidates)
        sequences = []
        for outcome in drive_twice(
            data, lambda: Sort(space.schema, keys), expected, [stream], space.tuples()
        ):
            assert outcome.rejected == 0
            ranks = list(map(order.ranker(space.schema, keys), outcome.tuples))
            assert ranks == sorted(ranks)
            sequences.append([tuple(map(oracle.same, t)) for t in outcome.tuples])
            tally.add(outcome)
        assert sequences[0] == sequences[1]

    check()
    tally.check(released=0.05)


TEMP = Schema.parse("sid STRING, hour INT CHECK (hour BETWEEN 0 AND 23), minute INT NOT NULL, temp INT")


def sort_by(*keys: str, schema: Schema = TEMP) -> Sort:
    """Sorted by columns: ``-`` before a name is DESC, ``?`` NULLS FIRST."""
    return Sort(schema, [(k.strip("-?"), "-" in k, "?" in k) for k in keys])


def test_the_paper_s_example() -> None:
    """Section 5.3: [2,4] releases nothing; [0,3] then releases all through hour 4, since 0 is the first hour."""
    check_table(
        sort_by("hour"),
        """
        S1 4 0 70; S2 1 0 71; S1 3 5 72; S2 5 0 73  ->
        P(*, [2,4], *, *)                            ->
        P(*, [0,3], *, *)  -> S2 1 0 71; S1 3 5 72; S1 4 0 70; P(*, [2,4], *, *); P(*, [0,3], *, *)
        P(*, [6,23], *, *)                           -> P(*, [6,23], *, *)
        P(*, 5, *, *)                                -> S2 5 0 73; P(*, 5, *, *)
        """,
    )


def test_tuples_come_in_order() -> None:
    operator = sort_by("hour", "-minute")
    give(operator, 0, [("b", 2, 5, 1), ("a", 2, 5, 1), ("a", 1, 3, 0), ("a", 2, 9, 0), (None, 2, 5, 1)])
    output = give(operator, 0, [Punctuation.everything(TEMP)])
    assert output.tuples.rows() == [
        ("a", 1, 3, 0),
        ("a", 2, 9, 0),
        ("a", 2, 5, 1),
        ("b", 2, 5, 1),
        (None, 2, 5, 1),
    ]


def test_without_a_domain_the_order_starts_where_the_type_does() -> None:
    schema = Schema.parse("n INT")
    check_table(
        sort_by("n", schema=schema),
        """
        3; 5; null      ->
        P([0,4])        ->
        P((,0])         -> 3; P([0,4]); P((,0])
        P([5,))         -> 5; P([5,))
        P(*)            -> null; P(*)
        """,
    )


def test_at_the_first_open_value_the_next_key_goes_on() -> None:
    check_table(
        sort_by("hour", "minute"),
        """
        S1 5 30 1; S1 5 40 2; S1 4 59 3; S1 6 0 4   ->
        P(*, (,4], *, *)       -> S1 4 59 3; P(*, (,4], *, *)
        P(*, [5,6], (,30], *)  -> S1 5 30 1; P(*, 5, (,30], *)
        P(*, 5, (30,), *)      -> S1 5 40 2; S1 6 0 4; P(*, [5,6], (,30], *); P(*, 5, [31,), *)
        """,
    )


def test_several_punctuations_close_a_value_together() -> None:
    schema = Schema.parse("hour INT CHECK (hour BETWEEN 0 AND 23), sid STRING CHECK (sid IN ('S1', 'S2'))")
    check_table(
        sort_by("hour", schema=schema),
        """
        0 S1; 0 S2; 1 S1                 ->
        P(0, S2)                         ->
        P([0,1], S1)                     -> 0 S1; 0 S2; 1 S1; P(0, S2); P([0,1], S1)
        """,
    )


def test_nulls_first_wait_for_the_end() -> None:
    schema = Schema.parse("n INT")
    check_table(
        sort_by("?n", schema=schema), "3; null; P((,5]); P([5,)) -> P([5,))\n P(*) -> null; 3; P((,5]); P(*)"
    )
    check_table(sort_by("?hour"), "S1 0 5 1; P(*, 0, *, *) -> S1 0 5 1; P(*, 0, *, *)")


def test_descending_starts_at_the_highest() -> None:
    schema = Schema.parse("x DOUBLE NOT NULL")
    check_table(
        sort_by("-x", schema=schema),
        """
        1.5; NaN; INF; 2.0  ->
        P([2.0,INF])        ->
        P(NaN)              -> NaN; INF; 2.0; P([2.0,INF]); P(NaN)
        P((,2.0))           -> 1.5; P((,2.0))
        """,
    )


def test_a_late_tuple_is_rejected_and_breaks_no_order() -> None:
    operator = sort_by("hour")
    check_table(operator, "S1 0 1 2; P(*, (,3], *, *) -> S1 0 1 2; P(*, (,3], *, *)\n S1 2 0 0; S1 4 0 0 ->")
    assert [r.reason for r in operator.rejects] == [
        "too late to be sorted: tuples after it are released already"
    ]
    check_table(operator, "P(*, *, *, *) -> S1 4 0 0; P(*, *, *, *)")


def test_released_hours_are_purged() -> None:
    """Hour by hour, with punctuations on items that never release a tuple."""
    schema = Schema.parse("hour INT NOT NULL, item INT NOT NULL")
    operator = sort_by("hour", schema=schema)
    for hour in range(60):
        elements = [
            (hour, hour),
            Punctuation.of(schema, item=hour),
            Punctuation.of(schema, hour=f"(,{hour}]"),
        ]
        output = give(operator, 0, elements)
        assert output.tuples.rows() == [(hour, hour)]
        assert len(output.punctuations) == 2
        assert operator.state.rows == 0
        assert operator.state.held <= 2
