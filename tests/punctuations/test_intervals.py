"""The interval set against brute force: over a domain of values that tells all sets of these patterns apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import POOLS, Pool
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, NAN, STRING, Type, Value, decimal, ordinal_intervals
from xmlpunct.types import pattern as pt
from xmlpunct.types.interval_set import IntervalSet
from xmlpunct.types.ordinal_intervals import OrdinalBounds, OrdinalIntervals
from xmlpunct.types.pattern import WILDCARD, Pattern

WIDE = decimal(38, 2)


@st.composite
def patterns(draw: st.DrawFn, pool: Pool) -> Pattern:
    constants = st.sampled_from(pool.constants)
    kind = draw(st.sampled_from(["constant", "list", "range", "empty"]))
    if kind == "constant":
        return pt.constant(pool.type, draw(constants))
    if kind == "list":
        return pt.values(pool.type, draw(st.lists(constants, max_size=4)))
    if kind == "empty":
        return pt.EMPTY
    low, high = (draw(st.none() | constants) for _ in range(2))
    return pt.interval(pool.type, low, high, draw(st.booleans()), draw(st.booleans()))


@st.composite
def drawn(draw: st.DrawFn, count: int) -> tuple[Pool, list[list[Pattern]]]:
    pool = draw(st.sampled_from(POOLS))
    return pool, [draw(st.lists(patterns(pool), max_size=5)) for _ in range(count)]


def have(pool: Pool, pieces: Sequence[Pattern]) -> list[bool]:
    return [any(p.matches(v) for p in pieces) for v in pool.domain]


def held(pool: Pool, found: IntervalSet) -> list[bool]:
    """What a set has, asked in each of the ways that there are, which must agree."""
    one_by_one = [v in found for v in pool.domain]
    column = pl.Series([None, *pool.domain, None], dtype=pool.type.dtype)
    assert found.mask(column).to_list() == [False, *one_by_one, False]
    assert have(pool, list(found)) == one_by_one
    assert [any(p.matches(v) for p in found) for v in pool.domain] == one_by_one
    return one_by_one


@pytest.fixture(autouse=True, params=[256, 1], ids=["lists", "arrays"])
def most_recent(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many intervals stay in the lists at most: all of them, or one."""
    monkeypatch.setattr(ordinal_intervals, "RECENT", request.param)


@given(drawn(1))
def test_it_has_what_was_added(case: tuple[Pool, list[list[Pattern]]]) -> None:
    pool, (pieces,) = case
    assert held(pool, IntervalSet(pool.type, pieces)) == have(pool, pieces)


@given(drawn(2))
def test_what_is_removed_is_gone_and_nothing_else(case: tuple[Pool, list[list[Pattern]]]) -> None:
    pool, (pieces, gone) = case
    found = IntervalSet(pool.type, pieces)
    for pattern in gone:
        found.remove(pattern)
    expected = [was and not out for was, out in zip(have(pool, pieces), have(pool, gone), strict=True)]
    assert held(pool, found) == expected


@given(drawn(2), st.data())
def test_it_covers_what_it_has_all_of(case: tuple[Pool, list[list[Pattern]]], data: st.DataObject) -> None:
    pool, (pieces, _) = case
    found, asked = IntervalSet(pool.type, pieces), data.draw(patterns(pool))
    inside = held(pool, found)
    assert found.covers(asked) == all(
        has for v, has in zip(pool.domain, inside, strict=True) if asked.matches(v)
    )


@given(drawn(2))
def test_what_overlaps_and_what_is_missing(case: tuple[Pool, list[list[Pattern]]]) -> None:
    pool, (pieces, asked) = case
    found = IntervalSet(pool.type, pieces)
    for pattern in asked:
        near = [p for p in found if len(IntervalSet(pool.type, [p]) & IntervalSet(pool.type, [pattern]))]
        assert list(found.overlapping(pattern)) == near
        missing = [m and not has for m, has in zip(have(pool, [pattern]), have(pool, pieces), strict=True)]
        assert held(pool, found.missing(pattern)) == missing
    assert found.overlapping(WILDCARD) == found


@given(drawn(2))
def test_intersection_and_complement(case: tuple[Pool, list[list[Pattern]]]) -> None:
    pool, (some, others) = case
    one, other = IntervalSet(pool.type, some), IntervalSet(pool.type, others)
    both = [a and b for a, b in zip(have(pool, some), have(pool, others), strict=True)]
    assert held(pool, one & other) == both
    assert held(pool, ~one) == [not a for a in have(pool, some)]
    assert ~~one == one
    assert ~one & one == IntervalSet(pool.type)


@given(drawn(1), st.randoms())
def test_equal_sets_have_equal_intervals(case: tuple[Pool, list[list[Pattern]]], rng: object) -> None:
    pool, (pieces,) = case
    shuffled = list(pieces)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert IntervalSet(pool.type, pieces) == IntervalSet(pool.type, [*shuffled, *pieces])


@given(drawn(1))
def test_no_interval_touches_the_next(case: tuple[Pool, list[list[Pattern]]]) -> None:
    pool, (pieces,) = case
    intervals = IntervalSet(pool.type, pieces).intervals()
    assert all(low < high for low, high in intervals)
    assert all(before[1] < after[0] for before, after in pairwise(intervals))


@given(drawn(1))
def test_a_column_is_added_as_its_values_are(case: tuple[Pool, list[list[Pattern]]]) -> None:
    pool, (pieces,) = case
    values = [v for v, has in zip(pool.domain, have(pool, pieces), strict=True) if has]
    found = IntervalSet(pool.type)
    found.add_values(pl.Series([None, *values], dtype=pool.type.dtype))
    assert held(pool, found) == have(pool, [pt.constant(pool.type, v) for v in values])


@pytest.mark.parametrize("type_", [INT, BOOLEAN, DATE, DOUBLE, STRING, WIDE, decimal(18, 0)])
def test_everything_is_one_interval_and_has_the_ends(type_: Type) -> None:
    every = IntervalSet.everything(type_)
    assert len(every) == 1
    assert not len(~every)
    ends: list[Value] = [v for v in (type_.lowest, type_.highest) if v is not None]
    assert all(end in every for end in ends)
    assert None not in every
    assert not every.covers(WILDCARD)
    for end in ends:
        every.remove(pt.constant(type_, end))
    assert not any(end in every for end in ends)
    assert every.mask(pl.Series(ends, dtype=type_.dtype)).to_list() == [False] * len(ends)


def test_nan_is_above_infinity_and_negative_zero_is_zero() -> None:
    top = IntervalSet(DOUBLE, [pt.constant(DOUBLE, NAN), pt.constant(DOUBLE, 0.0)])
    column = pl.Series([NAN, -NAN, float("inf"), -0.0, 0.0, 5e-324])
    assert top.mask(column).to_list() == [True, True, False, True, True, False]


def test_null_is_refused() -> None:
    with pytest.raises(ValueError, match="null"):
        IntervalSet(INT).add(WILDCARD)


@given(
    st.sampled_from([pool for pool in POOLS if pool.type in (INT, STRING)]).flatmap(
        lambda pool: st.tuples(
            st.just(pool), st.lists(st.tuples(st.sampled_from("+-*?"), patterns(pool)), max_size=30)
        )
    )
)
def test_adding_removing_and_asking_in_turn(case: tuple[Pool, list[tuple[str, Pattern]]]) -> None:
    pool, steps = case
    some, values = IntervalSet(pool.type), set[Value]()
    for step, pattern in steps:
        matched = {v for v in pool.domain if pattern.matches(v)}
        if step == "+":
            some.add(pattern)
            values |= matched
        elif step == "-":
            some.remove(pattern)
            values -= matched
        elif step == "*":
            some.update(IntervalSet(pool.type, [pattern]))
            values |= matched
        else:
            assert held(pool, some) == [v in values for v in pool.domain]
        assert len(some) == len(some.intervals())
        if values:
            assert some.ends == (some.intervals()[0][0], some.intervals()[-1][1])
    assert held(pool, some) == [v in values for v in pool.domain]


@pytest.mark.parametrize("step", [1, 7919])
def test_one_more_does_not_sort_all_anew(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times the intervals, and each time a question, sort at most 15 times the rows."""
    rows, of = [0], OrdinalIntervals.of

    def counted(columns: Iterable[OrdinalBounds]) -> OrdinalIntervals:
        columns = list(columns)
        rows[0] += sum(len(firsts) for firsts, _ in columns)
        return of(columns)

    monkeypatch.setattr(ordinal_intervals, "RECENT", 16)
    monkeypatch.setattr(OrdinalIntervals, "of", counted)
    sorted_rows = []
    for n in (2_000, 20_000):
        rows[0], some = 0, IntervalSet(INT)
        for i in range(n):
            value = pt.constant(INT, 2 * (i * step % n))
            assert not some.covers(value)
            some.add(value)
            assert some.covers(value)
            assert len(some.overlapping(value)) == 1
        for i in range(n):
            some.remove(pt.constant(INT, 2 * (i * step % n)))
            assert len(some) == n - 1 - i
            assert (some.ends is None) == (i == n - 1)
        sorted_rows.append(rows[0])
    assert sorted_rows[1] <= 15 * sorted_rows[0]
