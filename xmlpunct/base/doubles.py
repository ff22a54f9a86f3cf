"""DOUBLE in canonical form: one NaN, which equals itself and is the greatest value, and a zero without sign.

Values are converted when they are read (`xmlpunct.types.DOUBLE`, `canonical_column`), and when expressions and
aggregates compute them (`canonical`), so equal values print alike. Hashing and joins need equal bits for equal values;
they do not rely on the conversion, but use `words`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.base.arrow_memory import Flags, floats, integers


def canonical(value: pl.Expr) -> pl.Expr:
    """A polars expression: DOUBLEs in canonical form.

    The expression uses its operand once, so that nested arithmetic does not grow with every level. (Adding 0 instead
    does not work: polars optimises it away.)
    """
    return value.map_batches(canonical_column, pl.Float64(), is_elementwise=True)


def paired(compute: Callable[[Any, Any], NDArray[np.float64]], a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """A polars expression: a numpy function of two columns of DOUBLEs; null if one of them is null."""

    def run(pairs: pl.Series) -> pl.Series:
        x, y = pairs.struct.field("a"), pairs.struct.field("b")
        with np.errstate(all="ignore"):
            values = compute(x.to_numpy(), y.to_numpy())
        null = x.is_null() | y.is_null()
        return floats(pairs.name, values, null.to_numpy() if null.any() else None)

    return pl.struct(a.alias("a"), b.alias("b")).map_batches(run, pl.Float64(), is_elementwise=True)


def divided(value: pl.Expr, divisor: pl.Expr | float) -> pl.Expr:
    """A polars expression: DOUBLEs divided by a column or a number, each quotient rounded once.

    (For a number or a scalar column polars multiplies by 1 / divisor, so that 28 / 10 is not 2.8.)

    >>> pl.select(divided(pl.lit(pl.Series([28.0, None])), 10.0)).to_series().to_list()
    [2.8, None]
    """
    if isinstance(divisor, pl.Expr):
        return paired(np.divide, value, divisor)

    def quotient(column: pl.Series) -> pl.Series:
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            return floats(column.name, column.to_numpy() / divisor, _nulls(column))

    return value.map_batches(quotient, pl.Float64(), is_elementwise=True)


def canonical_column(column: pl.Series) -> pl.Series:
    """A column of DOUBLEs in canonical form.

    >>> canonical_column(pl.Series("x", [-0.0, None, -float("nan")])).to_list()
    [0.0, None, nan]
    """
    return floats(column.name, _canonical_values(column), _nulls(column))


def words(column: pl.Series) -> NDArray[np.uint64]:
    """A 64-bit word for each DOUBLE of a column, shape (n,), equal for equal values; arbitrary for nulls."""
    return _canonical_values(column).view(np.uint64)


def bits(name: str, column: pl.Series) -> pl.Series:
    """The `words` of a column as integers to compare for equality; null stays null.

    The column is new, so it is not marked as sorted even if the DOUBLEs were: -1 < 1, but their words are in the
    opposite order.
    """
    return integers(name, _canonical_values(column).view(np.int64), _nulls(column))


def _canonical_values(column: pl.Series) -> NDArray[np.float64]:
    """A copy of the values in canonical form; arbitrary for nulls."""
    with np.errstate(invalid="ignore"):  # a signalling NaN would warn
        values: NDArray[np.float64] = column.to_numpy() + 0.0  # -0 becomes 0; polars gives NaN for null
    values[np.isnan(values)] = np.nan  # NaN has many bit patterns
    return values


def _nulls(column: pl.Series) -> Flags | None:
    return column.is_null().to_numpy() if column.null_count() else None
