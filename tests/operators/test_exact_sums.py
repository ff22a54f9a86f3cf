"""Exact sums against `fractions.Fraction` and `math.fsum`."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.aggregates import nearest
from xmlpunct.operators import exact_sums
from xmlpunct.operators.exact_sums import (
    BLOCK_ROWS,
    ExactSums,
    Positions,
    Terms,
    by_group,
    by_owner,
    weighted_terms,
)

FINITE = st.floats(allow_nan=False, allow_infinity=False)
OWNED = st.lists(st.tuples(FINITE | st.floats(-1e3, 1e3) | st.integers(-5, 5).map(float), st.integers(0, 2)))
GROUPS = 3


def arrays(owned: list[tuple[float, int]]) -> tuple[pl.Series, Positions]:
    """The values, and the groups that they belong to."""
    return pl.Series([v for v, _ in owned], dtype=pl.Float64), np.array([g for _, g in owned], np.int64)


def exactly(owned: list[tuple[float, int]], power: int = 1) -> list[Fraction]:
    """The sums of powers of the values of each group."""
    return [
        sum((Fraction(v) ** power for v, g in owned if g == group), Fraction(0)) for group in range(GROUPS)
    ]


def fractions(sums: ExactSums) -> list[Fraction]:
    return [number * Fraction(2) ** sums.unit for number in sums.integers()]


@given(owned=OWNED, counts=st.lists(st.integers(1, 2**62), min_size=GROUPS, max_size=GROUPS))
def test_sums_are_rounded_once(owned: list[tuple[float, int]], counts: list[int]) -> None:
    """Sums and quotients are the DOUBLEs nearest to the exact ones."""
    sums = ExactSums.of(Terms.of_values(*arrays(owned)), GROUPS)
    assert fractions(sums) == exactly(owned)
    assert sums.rounded().tolist() == [nearest(total) for total in exactly(owned)]
    quotients = [nearest(total / count) for total, count in zip(exactly(owned), counts, strict=True)]
    assert sums.rounded(np.array(counts)).tolist() == quotients


@given(owned=OWNED)
def test_squares(owned: list[tuple[float, int]]) -> None:
    squares = ExactSums.of(Terms.of_squares(*arrays(owned)), GROUPS)
    assert fractions(squares) == exactly(owned, 2)
    assert fractions(ExactSums.of_column(squares.column(""))) == exactly(owned, 2)


@given(owned=OWNED, cut=st.integers(0, 20))
def test_columns_are_summed_by_group(owned: list[tuple[float, int]], cut: int) -> None:
    """The sums of two slices' sums are `math.fsum` of all values, and a column has one form."""
    tuples = pl.DataFrame(
        {"g": [g for _, g in owned], "x": [v for v, _ in owned]}, {"g": pl.Int64, "x": pl.Float64}
    )
    of_values = by_group(pl.col("x"), Terms.of_values)
    parts = [part.group_by("g").agg(of_values.alias("s")) for part in (tuples[:cut], tuples[cut:])]
    merged = pl.concat(parts).group_by("g").agg(by_group(pl.col("s"), Terms.of_column)).sort("g")
    assert merged["s"].to_list() == tuples.group_by("g").agg(of_values.alias("s")).sort("g")["s"].to_list()
    groups = merged["g"].to_list()
    try:
        totals = [math.fsum(v for v, g in owned if g == group) for group in groups]
    except OverflowError:  # an intermediate sum
        totals = [nearest(exactly(owned)[group]) for group in groups]
    assert ExactSums.of_column(merged["s"]).rounded().tolist() == totals


@given(first=OWNED, second=OWNED)
def test_arithmetic(first: list[tuple[float, int]], second: list[tuple[float, int]]) -> None:
    a, b = (ExactSums.of(Terms.of_values(*arrays(owned)), GROUPS) for owned in (first, second))
    assert fractions(a + b) == exactly([*first, *second])
    assert fractions(a - b) == exactly([*first, *((-v, g) for v, g in second)])
    assert fractions((a + b - b).take(np.array([2, 0]))) == [exactly(first)[2], exactly(first)[0]]
    assert (a + b - a - b).column("").to_list() == [[]] * GROUPS
    totals = exactly(first)
    assert fractions(a.running()) == [sum(totals[:i], Fraction(0)) for i in range(GROUPS + 1)]


WEIGHTS = st.integers(-3, 3) | st.integers(-(2**40), 2**40) | st.sampled_from([-(2**63), 2**63 - 1])


@pytest.mark.parametrize("block_rows", [2, BLOCK_ROWS])
@given(weighted=st.lists(st.tuples(st.none() | FINITE, st.integers(0, GROUPS - 1), WEIGHTS)))
def test_weights(block_rows: int, weighted: list[tuple[float | None, int, int]]) -> None:
    """The sums of terms times weights, which cancel out when the terms are retracted."""
    schema = {"x": pl.Float64, "g": pl.Int64, "n": pl.Int64}
    tuples = pl.DataFrame(weighted, schema=schema, orient="row").sort("g")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact_sums, "BLOCK_ROWS", block_rows)
        terms = tuples.select(weighted_terms(pl.col("x"), pl.col("n"), Terms.of_values)).to_series()
        sums = by_owner(terms, tuples["g"].to_numpy(), GROUPS)
    totals = [
        sum((Fraction(x) * n for x, g, n in weighted if x is not None and g == group), Fraction(0))
        for group in range(GROUPS)
    ]
    assert fractions(ExactSums.of_column(sums)) == totals
    assert (ExactSums.of_column(terms) - ExactSums.of_column(terms)).column("").to_list() == [[]] * len(terms)


def test_values_that_are_not_finite_are_counted() -> None:
    """So they can be subtracted again."""
    values = np.array([1.0, math.inf, 2.0, -math.inf, 3.0, math.nan])
    all_sums = ExactSums.of(Terms.of_values(pl.Series(values), np.array([0, 0, 1, 1, 2, 2])), 3)
    assert all_sums.is_finite.tolist() == [False, False, False]
    assert str(all_sums.rounded().tolist()) == "[inf, -inf, nan]"
    column = all_sums.column("")
    copies = ExactSums.of(Terms.of_values(pl.Series(values), np.arange(6)).times(np.full(6, 2**54)), 6)
    assert str(ExactSums.of_column(copies.column("")).rounded()[1::2].tolist()) == "[inf, -inf, nan]"
    specials = ExactSums.of(Terms.of_values(pl.Series(values[1::2]), np.arange(3)), 3)
    assert (ExactSums.of_column(column) - specials).rounded().tolist() == [1.0, 2.0, 3.0]
    assert str((all_sums + all_sums.take(np.array([1, 2, 0]))).rounded().tolist()) == "[nan, nan, nan]"


def test_a_sum_of_nothing_adds_no_digits() -> None:
    ones = ExactSums.of(Terms.of_values(pl.Series([1.0, 1.0, 1.0]), np.arange(GROUPS)), GROUPS)
    nothing = ExactSums.of(Terms.of_values(pl.Series([], dtype=pl.Float64), np.arange(0)), GROUPS)
    for total in (ones + nothing, nothing + ones, ones - nothing):
        assert total.digits.shape == ones.digits.shape
        assert total.rounded().tolist() == [1.0] * GROUPS
    assert (nothing + nothing).rounded(np.array([1, 2, 3])).tolist() == [0.0] * GROUPS


def test_sums_of_many() -> None:
    """Digits of many values."""
    values = np.tile([1e16, 1.0, -1e16, 2.0**-60], 20_000)
    owners = np.arange(len(values)) // 4
    column = ExactSums.of(Terms.of_values(pl.Series(values), owners), 20_000).column("")
    assert ExactSums.of_column(column).rounded().tolist() == [1.0] * 20_000
    assert ExactSums.of(Terms.of_column(column, np.zeros(20_000, np.int64)), 1).rounded().tolist() == [
        20_000.0
    ]


def test_the_last_bit_of_quotients() -> None:
    """Halves go to the even neighbour, unless there is a remainder."""
    values = np.array([1 + 2**-52, 1 + 3 * 2**-52, 5e-324, 1.5e-323])
    sums = ExactSums.of(Terms.of_values(pl.Series(values), np.arange(4)), 4)
    for count in (1, 2, 3, 2**31 - 1, 2**31, 2**40 + 1):
        quotients = [nearest(Fraction(v) / count) for v in values.tolist()]
        assert sums.rounded(np.full(4, count)).tolist() == quotients


@pytest.mark.parametrize(
    "sums", [pl.Series([], dtype=pl.List(pl.Int64)), pl.Series([None, []], dtype=pl.List(pl.Int64))]
)
def test_null_and_the_empty_list_are_0(sums: pl.Series) -> None:
    assert ExactSums.of_column(sums).rounded().tolist() == [0.0] * len(sums)
