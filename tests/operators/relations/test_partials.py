"""Sums by key, values by group, and the arithmetic for them, against plain Python."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.aggregates import NotRepresentable, rounded_decimal
from tests.oracle.values import same
from xmlpunct.operators.exact_sums import UNIT, ExactSums, Terms, weighted_terms
from xmlpunct.operators.group.aggregate import HALF, Accumulator, Aggregate
from xmlpunct.operators.relations import ordered, partials
from xmlpunct.operators.relations.ordered import VALUE, Ordered
from xmlpunct.operators.relations.partials import Partials
from xmlpunct.operators.relations.slots import Slots
from xmlpunct.operators.relations.spans import least_over
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.schema.change_columns import AT, DIFF
from xmlpunct.types import DOUBLE, INT, NAN, decimal

DIFFS = st.sampled_from([-1, 1, 2, -(2**40)])
WIDE = st.integers(-(2**100), 2**100) | st.sampled_from([-(2**120), 2**120, 0, 1])
KEYS = st.sampled_from([None, 0.0, NAN, 1.5, -math.inf])
ROWS = st.lists(st.tuples(KEYS, st.integers(-2, 2), st.integers(-3, 3), WIDE), max_size=12)
SCHEMA = {"k": pl.Float64(), AT: pl.Int64(), "n": pl.Int64(), "sum": pl.Int128()}


@given(slices=st.lists(ROWS, max_size=4))
def test_rows_of_one_key_are_summed(slices: list[list[tuple[object, ...]]]) -> None:
    expected: Counter[tuple[object, int]] = Counter()
    sums: Counter[tuple[object, int]] = Counter()
    retained = Partials(pl.DataFrame(schema=SCHEMA), ["k", AT])
    for rows in slices:
        retained.add(pl.DataFrame(rows, schema=SCHEMA, orient="row"))
        for k, at, n, total in rows:
            expected[same(k), at] += n
            sums[same(k), at] += total
    actual = {(same(k), at): (n, total) for k, at, n, total in retained.frame.iter_rows()}
    assert len(actual) == len(retained)
    assert actual == {key: (n, sums[key]) for key, n in expected.items() if n or sums[key]}


@pytest.mark.parametrize("sorted_from", [1, partials.SORTED_ROWS])
@given(slices=st.lists(ROWS, max_size=4), data=st.data())
def test_closed_rows_are_moved_out(
    sorted_from: int, slices: list[list[tuple[object, ...]]], data: st.DataObject
) -> None:
    """Retained and new rows add up, sorted or not; each closed key is moved out once."""
    schema, retained = (
        Schema.of([Attribute("k", DOUBLE), Attribute(AT, INT)]),
        Partials(pl.DataFrame(schema=SCHEMA), ["k", AT]),
    )
    expected: Counter[tuple[object, int]] = Counter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partials, "SORTED_ROWS", sorted_from)
        for rows in slices:
            bound = data.draw(st.integers(-3, 2))
            closed = PunctuationSet(schema, [Punctuation.parse(schema, f"<*, (,{bound}]>")])
            moved = retained.move(pl.DataFrame(rows, schema=SCHEMA, orient="row"), closed)
            for k, at, _, total in rows:
                expected[same(k), at] += total
            moved_keys = [(same(k), at) for k, at, _, _ in moved.iter_rows()]
            assert len(set(moved_keys)) == len(moved_keys)
            for k, at, _, total in moved.iter_rows():
                assert at <= bound
                assert expected.pop((same(k), at)) == total
            for key in [key for key in expected if key[1] <= bound]:
                assert expected.pop(key) == 0  # or its rows cancel out
    assert {(same(k), at): total for k, at, _, total in retained.frame.iter_rows() if total} == {
        key: total for key, total in expected.items() if total
    }


EXACT_ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(-2, 2), st.floats(allow_nan=False, allow_infinity=False), DIFFS)
)


@pytest.mark.parametrize("sorted_from", [1, partials.SORTED_ROWS])
@given(slices=st.lists(EXACT_ROWS, max_size=4))
def test_exact_sums_are_retracted(sorted_from: int, slices: list[list[tuple[int, int, float, int]]]) -> None:
    """Rows are moved out with the exact sum of all that was added to their keys."""
    schema = Schema.of([Attribute("k", INT), Attribute(AT, INT)])
    dtypes = {"k": pl.Int64(), AT: pl.Int64(), "x": pl.Float64(), DIFF: pl.Int64()}
    exact = weighted_terms(pl.col("x"), pl.col(DIFF), Terms.of_values).alias("sum")
    retained = Partials(pl.DataFrame(schema=dtypes).select("k", AT, exact), ["k", AT])
    expected: Counter[tuple[int, int]] = Counter()
    actual: Counter[tuple[int, int]] = Counter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partials, "SORTED_ROWS", sorted_from)
        for closed in ("(,0]", "*"):
            closed_set = PunctuationSet(schema, [Punctuation.parse(schema, f"<*, {closed}>")])
            for rows in slices:
                changes = pl.DataFrame(rows, schema=dtypes, orient="row").select("k", AT, exact)
                moved = retained.move(changes, closed_set)
                sums = ExactSums.of_column(moved["sum"])
                keys = moved.select("k", AT).iter_rows()
                for key, number in zip(keys, sums.integers(), strict=True):
                    actual[key] += number << (sums.unit - UNIT)
                for k, at, x, n in rows:
                    expected[k, at] += n * int(Fraction(x) / Fraction(2) ** UNIT)
    assert not len(retained)
    assert {key: n for key, n in actual.items() if n} == {key: n for key, n in expected.items() if n}


@given(rows=st.lists(st.tuples(KEYS, st.integers(-3, 3), WIDE | st.integers(-9, 9)), min_size=1, max_size=12))
def test_totals_in_slots(rows: list[tuple[float | None, int, int]]) -> None:
    rows = list({(same(k), at): (k, at, n) for k, at, n in rows}.values())
    keys, ats, numbers = zip(*rows, strict=True)
    slots = Slots(pl.DataFrame({"k": pl.Series(keys, dtype=pl.Float64)}), np.array(ats))
    piece = pl.DataFrame({"n": pl.Series(numbers, dtype=pl.Int128)})
    (totals,) = slots.totals([(slots.row_slots, piece)], piece.clear()).iter_columns()
    for (k, at, _), slot in zip(rows, slots.row_slots.tolist(), strict=True):
        total = sum(n for other, earlier, n in rows if same(other) == same(k) and earlier <= at)
        assert (totals[slot], int(slots.at[slot])) == ((total + 2**127) % 2**128 - 2**127, at)
        assert same(slots.groups["k"][int(slots.slot_groups[slot])]) == same(k)


@given(spans=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9), st.integers(0, 5)), max_size=8))
def test_the_least_number_of_the_spans_at_a_position(spans: list[tuple[int, int, int]]) -> None:
    spans = [(start, min(start + length, 12), number) for start, length, number in spans]
    starts, ends, numbers = np.array(spans, np.int64).reshape(-1, 3).T
    expected = [min((n for a, b, n in spans if a <= at < b), default=99) for at in range(12)]
    assert least_over(starts, ends, numbers, 12, 99).tolist() == expected


@pytest.mark.parametrize("steps", [0, 8])
@given(data=st.data())
def test_the_least_and_the_greatest_value_of_a_group(steps: int, data: st.DataObject) -> None:
    values = st.lists(st.tuples(st.integers(0, 2), st.integers(-20, 20)), max_size=30)
    schema = {"k": pl.Int64, VALUE: pl.Int64, "n": pl.Int64}
    retained = Ordered(pl.DataFrame(schema=schema), ["k"])
    present: set[tuple[int, int]] = set()
    groups = pl.DataFrame({"k": [2, 0, 7, 1]})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ordered, "_STEPS", steps)
        for _ in range(data.draw(st.integers(1, 5))):
            added = [v for v in dict.fromkeys(data.draw(values)) if v not in present]
            retained.keep(pl.DataFrame([(*v, 1) for v in added], schema=schema, orient="row"))
            present |= set(added)
            removed = data.draw(st.sets(st.sampled_from(sorted(present)))) if present else set()
            if removed:
                keys = pl.DataFrame(sorted(removed), schema={"k": pl.Int64, VALUE: pl.Int64}, orient="row")
                retained.remove(np.sort(retained.probe(keys)[1]))
            present -= removed
            for greatest, best in ((False, min), (True, max)):
                positions, best_values = retained.extremes(groups, greatest)
                by_group: dict[int, list[int]] = {}
                for position, value in zip(positions.tolist(), best_values.to_list(), strict=True):
                    by_group.setdefault(groups["k"][position], []).append(value)
                extremes = {k: best(vs) for k, vs in by_group.items()}
                assert extremes == {k: best(v for g, v in present if g == k) for k in {g for g, _ in present}}
                assert all((k, v) in present for k, vs in by_group.items() for v in vs)


PARTS = st.integers(-(2**20), 2**20) | st.integers(-(2**70), 2**70)


@pytest.mark.parametrize("function", ["SUM", "AVG"])
@given(rows=st.lists(st.tuples(PARTS, PARTS, st.integers(0, 7)), min_size=1))
def test_sums_of_decimals_are_rounded_once(function: str, rows: list[tuple[int, int, int]]) -> None:
    """A row alone, or beside rows with sums that need more bits."""
    a = Accumulator(Aggregate(function, "x", False, "y"), decimal(30, 2), "$0")
    rows = [row if row[2] else (0, 0, 0) for row in rows]
    schema = {"$0.high": pl.Int128(), "$0.low": pl.Int128(), "$0.count": pl.Int64()}
    expected = [_decimal_result(function, *row) for row in rows]
    for batch in (rows, *([row] for row in rows)):
        results = a.finish(pl.DataFrame(batch, schema=schema, orient="row")).to_list()
        assert results == (expected if batch is rows else [_decimal_result(function, *batch[0])])


def _decimal_result(function: str, high: int, low: int, count: int) -> object:
    total = Fraction(high * HALF + low, 100)
    try:
        if function == "AVG":
            return rounded_decimal(total / count, 6) if count else None
        return rounded_decimal(total, 2) if count else None
    except NotRepresentable:
        return None


@given(rows=st.lists(st.tuples(st.integers(-(2**126), 2**126), st.integers(1, 2**62)), min_size=1))
def test_averages_of_integers_are_rounded_once(rows: list[tuple[int, int]]) -> None:
    a = Accumulator(Aggregate("AVG", "x", False, "y"), INT, "$0")
    rows = [*rows, (7, 2), (0, 0), (2**53 + 1, 1)]
    groups = pl.DataFrame(rows, schema={"$0.sum": pl.Int128(), "$0.count": pl.Int64()}, orient="row")
    expected = [float(Fraction(total, count)) if count else None for total, count in rows]
    assert a.finish(groups).to_list() == expected
