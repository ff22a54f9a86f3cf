"""Weights: what a change of a tuple adds to the partial aggregates of its group."""

from __future__ import annotations

import polars as pl

from xmlpunct.changes import DIFF
from xmlpunct.expressions.int128 import unscaled
from xmlpunct.operators.aggregate import HALF, Accumulator
from xmlpunct.types import DOUBLE, INT, DecimalType

COUNT = "$rows"
"""How many tuples a group has."""


def is_linear(a: Accumulator) -> bool:
    """Whether an aggregate is of sums. MIN and MAX are not."""
    return a.aggregate.function not in ("MIN", "MAX")


def is_exact(a: Accumulator) -> bool:
    """Whether an aggregate is of an exact sum of DOUBLEs."""
    return a.aggregate.function in ("SUM", "AVG") and a.type is DOUBLE


def weighted(a: Accumulator) -> list[pl.Expr]:
    """Expressions over changes of tuples: what they add to the columns `Accumulator.finish` reads.

    For sums of DOUBLEs these count what is not finite; the finite ones are summed by `exact`.
    """
    diff, argument, prefix = pl.col(DIFF), a.aggregate.argument, a.prefix
    if argument is None:
        return [diff.alias(f"{prefix}.count")]
    value = pl.col(argument)
    count = pl.when(value.is_not_null()).then(diff).otherwise(0).alias(f"{prefix}.count")
    if a.aggregate.function == "COUNT":
        return [count]
    if is_exact(a):
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
