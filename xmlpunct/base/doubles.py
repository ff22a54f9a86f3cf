"""DOUBLE in canonical form: there is one NaN, which equals itself and is greatest, and zero has no sign.

Values get this form where they enter (`xmlpunct.types.DOUBLE`, `canonical_column`) and where expressions and aggregates
make them (`canonical`), so equal values print alike. Hashing and joins need equal values to have the same bits; they
do not rely on this, and take `words`.
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

    It names its operand once, so that nested arithmetic does not grow with every level. (polars optimises adding 0
    away.)
    """
    return value.map_batches(canonical_column, pl.Float64(), is_elementwise=True)


def paired(compute: Callable[[Any, Any], NDArray[np.float64]], a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """A polars expression: numpy's function of two columns of DOUBLEs; null where one of the two is."""

    def run(pairs: pl.Series) -> pl.Series:
        x, y = pairs.struct.field("a"), pairs.struct.field("b")
        with np.errstate(all="ignore"):
            values = compute(x.to_numpy(), y.to_numpy())
        null = x.is_null() | y.is_null()
        return floats(pairs.name, values, null.to_numpy() if null.any() else None)

    return pl.struct(a.alias("a"), b.alias("b")).map_batches(run, pl.Float64(), is_elementwise=True)


def divided(value: pl.Expr, by: pl.Expr | float) -> pl.Expr:
    """A polars expression: DOUBLEs divided by others, or by a number, each quotient rounded once.

    (By a number or a scalar column polars multiplies by 1 / by, which makes 28 / 10 no 2.8.)

    >>> pl.select(divided(pl.lit(pl.Series([28.0, None])), 10.0)).to_series().to_list()
    [2.8, None]
    """
    if isinstance(by, pl.Expr):
        return paired(np.divide, value, by)

    def quotient(column: pl.Series) -> pl.Series:
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            return floats(column.name, column.to_numpy() / by, _nulls(column))

    return value.map_batches(quotient, pl.Float64(), is_elementwise=True)


def canonical_column(column: pl.Series) -> pl.Series:
    """A column of DOUBLEs in canonical form.

    >>> canonical_column(pl.Series("x", [-0.0, None, -float("nan")])).to_list()
    [0.0, None, nan]
    """
    return floats(column.name, _plain(column), _nulls(column))


def words(column: pl.Series) -> NDArray[np.uint64]:
    """A 64-bit word for each DOUBLE of a column, shape (n,), equal for equal values; anything for nulls."""
    return _plain(column).view(np.uint64)


def bits(name: str, column: pl.Series) -> pl.Series:
    """The `words` of a column as numbers to compare for equality, null where it is.

    The column is new, so it is not marked as sorted even if the DOUBLEs were: -1 is below 1, but its word is above.
    """
    return integers(name, _plain(column).view(np.int64), _nulls(column))


def _plain(column: pl.Series) -> NDArray[np.float64]:
    """The values in canonical form, anything for nulls, in memory of their own."""
    with np.errstate(invalid="ignore"):  # of a signalling NaN
        values: NDArray[np.float64] = column.to_numpy() + 0.0  # -0 becomes 0; polars gives NaN for null
    values[np.isnan(values)] = np.nan  # NaN has many spellings
    return values


def _nulls(column: pl.Series) -> Flags | None:
    return column.is_null().to_numpy() if column.null_count() else None
