"""Weights: the amounts that a change of a tuple adds to the partial aggregates of its group."""

from __future__ import annotations

import numpy as np
import polars as pl

from xmlpunct.expressions.int128 import int128, minus, to_decimal, unscaled
from xmlpunct.operators.group.aggregate import HALF, Accumulator
from xmlpunct.operators.relations.exact import rounded, spread
from xmlpunct.schema.change_columns import DIFF
from xmlpunct.types import DOUBLE, INT, DecimalType, decimal

COUNT = "$rows"
"""The column with the number of tuples of a group."""


def is_extreme(a: Accumulator) -> bool:
    """Whether an aggregate is MIN or MAX."""
    return a.aggregate.function in ("MIN", "MAX")


def is_double_sum(a: Accumulator) -> bool:
    """Whether an aggregate uses a sum of DOUBLEs, which is exact."""
    return a.aggregate.function in ("SUM", "AVG") and a.type is DOUBLE


def weighted(a: Accumulator) -> list[pl.Expr]:
    """Expressions over changes of tuples: the amounts that they add to the columns of `Accumulator.finish`.

    For sums of DOUBLEs these count the non-finite values; the finite ones are summed by `exact`.
    """
    diff, argument, prefix = pl.col(DIFF), a.aggregate.argument, a.prefix
    if argument is None:
        return [diff.alias(f"{prefix}.count")]
    value = pl.col(argument)
    count = pl.when(value.is_not_null()).then(diff).otherwise(0).alias(f"{prefix}.count")
    if a.aggregate.function == "COUNT":
        return [count]
    if is_double_sum(a):
        special = {"nan": value.is_nan(), "above": value == float("inf"), "below": value == -float("inf")}
        flags = {name: flag.fill_null(False) for name, flag in special.items()}
        return [
            count,
            *(pl.when(f).then(diff).otherwise(0).alias(f"{prefix}.{name}") for name, f in flags.items()),
        ]
    wide = diff.cast(pl.Int128)
    if isinstance(a.type, DecimalType):
        digits = unscaled(value)
        high, low = (digits // HALF).fill_null(0), (digits % HALF).fill_null(0)
        return [count, (high * wide).alias(f"{prefix}.high"), (low * wide).alias(f"{prefix}.low")]
    assert a.type is INT
    return [count, (value.fill_null(0).cast(pl.Int128) * wide).alias(f"{prefix}.sum")]


def finished(a: Accumulator, states: pl.DataFrame) -> pl.Series:
    """The results of partial aggregates; null outside the range of the type, as in `Accumulator.finish`.

    AVG over INT is rounded once, even for large sums. So is AVG over DOUBLE, for which ``states`` has the quotient.
    """
    prefix = a.prefix
    if is_double_sum(a):
        nan, above, below = (pl.col(f"{prefix}.{name}") > 0 for name in ("nan", "above", "below"))
        expression = (
            pl.when(pl.col(f"{prefix}.count") == 0)
            .then(None)
            .when(nan | (above & below))
            .then(pl.lit(float("nan")))
            .when(above)
            .then(pl.lit(float("inf")))
            .when(below)
            .then(pl.lit(-float("inf")))
            .otherwise(pl.col(f"{prefix}.sum"))
        )
        return states.select(expression.alias("result"))["result"]
    if isinstance(a.type, DecimalType) and a.aggregate.function in ("SUM", "AVG"):
        return _decimals(a, a.type, states)
    result = a.finish(states)
    if a.aggregate.function == "AVG" and a.type is INT:
        sums, counts = states[f"{prefix}.sum"], states[f"{prefix}.count"]
        large = np.flatnonzero((sums.cast(pl.Int128()).abs() > 2**53).to_numpy())
        if len(large):
            quotients = rounded(spread(sums[large].cast(pl.Int128())), 0, counts[large].to_numpy())
            result = result.scatter(large, quotients)
    return result


def _decimals(a: Accumulator, type_: DecimalType, states: pl.DataFrame) -> pl.Series:
    """SUM and AVG over DECIMAL, rounded half away from zero; vectorized, with the results of `Accumulator.finish`."""
    names = [f"{a.prefix}.{part}" for part in ("high", "low", "count")]
    high, low, count = (pl.col(name).cast(pl.Int128()) for name in names)
    added_digits = 4 if a.aggregate.function == "AVG" else 0
    room = 2**127 // (4 * 10**added_digits * HALF) - 1  # so that no product overflows
    if not states.select((high.abs().max() <= room) & (low.abs().max() <= HALF * (room // 2))).item():
        return a.finish(states)
    total = high * HALF + low
    if added_digits:
        twice = 2 * count.clip(1)
        magnitude = (total.abs() * (2 * 10**added_digits) + count) // twice
        total = pl.when(total < 0).then(minus(magnitude)).otherwise(magnitude)
    fits = (count > 0) & (total.abs() < int128(10**38))
    result = to_decimal(
        pl.when(fits).then(total).otherwise(int128(0)), decimal(38, type_.scale + added_digits)
    )
    return states.select(pl.when(fits).then(result).alias("result"))["result"]
