"""IntervalSet against brute force, over domains that distinguish all sets of these patterns."""

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


def pattern_mask(pool: Pool, pieces: Sequence[Pattern]) -> list[bool]:
    return [any(p.matches(v) for p in pieces) for v in pool.domain]


def set_mask(pool: Pool, intervals: IntervalSet) -> list[bool]:
    """Which values of the domain are in the set; all methods must agree."""
    one_by_one = [v in intervals for v in pool.domain]
    column = pl.Series([None, *pool.domain, None], dtype=pool.type.dtype)
    assert intervals.mask(column).to_list() == [False, *one_by_one, False]
    assert pattern_mask(pool, list(intervals)) == one_by_one
    assert [any(p.matches(v) for p in intervals) for v in pool.domain] == one_by_one
    return one_by_one


@pytest.fixture(autouse=True, params=[256, 1], ids=["lists", "arrays"])
def most_recent(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of intervals in the lists: all of them, or one."""
    monkeypatch.setattr(ordinal_intervals, "RECENT", request.param)


@given(drawn(1))
def test_it_contains_the_added_values(case: tuple[Pool, list[list[Pattern]]]) -> None:
    pool, (pieces,) = case
    assert set_mask(pool, IntervalSet(pool.type, pieces)) == pattern_mask(pool, pieces)


@given(drawn(2))
def test_remove_takes_out_exactly_the_matched_values(case: tuple[Pool, list[list[Pattern]]]) -> None:
    pool, (pieces, removed) = case
    intervals = IntervalSet(pool.type, pieces)
    for pattern in removed:
        intervals.remove(pattern)
    expected = [
        was_added and not is_removed
        for was_added, is_removed in zip(pattern_mask(pool, pieces), pattern_mask(pool, removed), strict=True)
    ]
    assert set_mask(pool, intervals) == expected


@given(drawn(2), st.data())
def test_covers_is_inclusion(case: tuple[Pool, list[list[Pattern]]], data: st.DataObject) -> None:
    pool, (pieces, _) = case
    intervals, probe = IntervalSet(pool.type, pieces), data.draw(patterns(pool))
    inside = set_mask(pool, intervals)
    assert intervals.covers(probe) == all(
        has for v, has in zip(pool.domain, inside, strict=True) if probe.matches(v)
    )


@given(drawn(2))
def test_overlapping_and_missing(case: tuple[Pool, list[list[Pattern]]]) -> None:
    pool, (pieces, probes) = case
    intervals = IntervalSet(pool.type, pieces)
    for pattern in probes:
        overlapping = [
            p for p in intervals if len(IntervalSet(pool.type, [p]) & IntervalSet(pool.type, [pattern]))
        ]
        assert list(intervals.overlapping(pattern)) == overlapping
        missing = [
            m and not has
            for m, has in zip(pattern_mask(pool, [pattern]), pattern_mask(pool, pieces), strict=True)
        ]
        assert set_mask(pool, intervals.missing(pattern)) == missing
    assert intervals.overlapping(WILDCARD) == intervals


@given(drawn(2))
def test_intersection_and_complement(case: tuple[Pool, list[list[Pattern]]]) -> None:
    pool, (left_patterns, right_patterns) = case
    left, right = IntervalSet(pool.type, left_patterns), IntervalSet(pool.type, right_patterns)
    common = [
        a and b
        for a, b in zip(pattern_mask(pool, left_patterns), pattern_mask(pool, right_patterns), strict=True)
    ]
    assert set_mask(pool, left & right) == common
    assert set_mask(pool, ~left) == [not a for a in pattern_mask(pool, left_patterns)]
    assert ~~left == left
    assert ~left & left == IntervalSet(pool.type)


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
    values = [v for v, has in zip(pool.domain, pattern_mask(pool, pieces), strict=True) if has]
    intervals = IntervalSet(pool.type)
    intervals.add_values(pl.Series([None, *values], dtype=pool.type.dtype))
    assert set_mask(pool, intervals) == pattern_mask(pool, [pt.constant(pool.type, v) for v in values])


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
    intervals, values = IntervalSet(pool.type), set[Value]()
    for step, pattern in steps:
        matched = {v for v in pool.domain if pattern.matches(v)}
        if step == "+":
            intervals.add(pattern)
            values |= matched
        elif step == "-":
            intervals.remove(pattern)
            values -= matched
        elif step == "*":
            intervals.update(IntervalSet(pool.type, [pattern]))
            values |= matched
        else:
            assert set_mask(pool, intervals) == [v in values for v in pool.domain]
        assert len(intervals) == len(intervals.intervals())
        if values:
            assert intervals.ends == (intervals.intervals()[0][0], intervals.intervals()[-1][1])
    assert set_mask(pool, intervals) == [v in values for v in pool.domain]


@pytest.mark.parametrize("step", [1, 7919])
def test_one_change_does_not_sort_all_intervals(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ten times the intervals, lookups sort at most 15 times the rows."""
    rows, original = [0], OrdinalIntervals.of

    def counted(columns: Iterable[OrdinalBounds]) -> OrdinalIntervals:
        columns = list(columns)
        rows[0] += sum(len(firsts) for firsts, _ in columns)
        return original(columns)

    monkeypatch.setattr(ordinal_intervals, "RECENT", 16)
    monkeypatch.setattr(OrdinalIntervals, "of", counted)
    sorted_rows = []
    for n in (2_000, 20_000):
        rows[0], intervals = 0, IntervalSet(INT)
        for i in range(n):
            value = pt.constant(INT, 2 * (i * step % n))
            assert not intervals.covers(value)
            intervals.add(value)
            assert intervals.covers(value)
            assert len(intervals.overlapping(value)) == 1
        for i in range(n):
            intervals.remove(pt.constant(INT, 2 * (i * step % n)))
            assert len(intervals) == n - 1 - i
            assert (intervals.ends is None) == (i == n - 1)
        sorted_rows.append(rows[0])
    assert sorted_rows[1] <= 15 * sorted_rows[0]
