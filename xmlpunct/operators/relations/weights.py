"""Weights: the amounts that a change of a tuple adds to the partial aggregates of its group."""

from __future__ import annotations

import polars as pl

from xmlpunct.expressions.int128 import unscaled
from xmlpunct.operators.group.aggregate import HALF, Accumulator
from xmlpunct.schema.change_columns import DIFF
from xmlpunct.types import DOUBLE, INT, DecimalType

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
    """The results of partial aggregates. For a sum of DOUBLEs, ``states`` has the rounded sum or quotient."""
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
    return a.finish(states)
