"""Columns as numbers: the ordinals of the values of types whose ordinals fit 64 bits.

INT, DATE, TIMESTAMP, BOOLEAN and DECIMAL of up to 18 digits are such types.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.base.arrow_memory import Flags, integers
from xmlpunct.types import DATE, DecimalType, Type

Ordinals = NDArray[np.int64]
"""Ordinals of values: shape (n,), int64."""

_EPOCH = 719163
"""The ordinal of 1970-01-01, the first day in the numbering of polars."""


@cache
def is_numbered(type_: Type) -> bool:
    """Whether the ordinals of a type fit 64 bits.

    >>> from xmlpunct.types import INT, STRING, decimal
    >>> is_numbered(INT), is_numbered(decimal(18, 2)), is_numbered(decimal(19, 2)), is_numbered(STRING)
    (True, True, False, False)
    """
    return type_.discrete and not (isinstance(type_, DecimalType) and type_.precision > 18)


def ordinal_bounds(type_: Type, lows: pl.Series, highs: pl.Series) -> tuple[Ordinals, Ordinals]:
    """The first and the last ordinals of ranges of a numbered type; bounds are inclusive, null if unbounded."""
    bounds = []
    for column, end in ((lows, type_.lowest), (highs, type_.highest)):
        ordinals = ordinals_of(type_, column)
        if column.null_count():
            ordinals = np.where(column.is_null().to_numpy(), type_.ordinal(end), ordinals)
        bounds.append(ordinals)
    return bounds[0], bounds[1]


def range_columns(type_: Type, firsts: Ordinals, lasts: Ordinals, name: str) -> tuple[pl.Series, pl.Series]:
    """The inverse of `ordinal_bounds`: the bounds of ranges of a numbered type, null at the ends of the type.

    >>> from xmlpunct.types import BOOLEAN
    >>> [bound.to_list() for bound in range_columns(BOOLEAN, np.array([0, 1]), np.array([0, 1]), "x")]
    [[None, True], [False, None]]
    """
    bounds = []
    for ordinals, end in ((firsts, type_.ordinal(type_.lowest)), (lasts, type_.ordinal(type_.highest))):
        is_end = ordinals == end
        bounds.append(values_of(type_, ordinals, name, is_end if is_end.any() else None))
    return bounds[0], bounds[1]


def ordinals_of(type_: Type, column: pl.Series) -> Ordinals:
    """The ordinals of the values of a numbered type; arbitrary for nulls."""
    numbers = column if column.dtype == pl.Int64 else column.to_physical().cast(pl.Int64)
    values: Ordinals = (numbers.fill_null(0) if numbers.null_count() else numbers).to_numpy()
    return values + _EPOCH if type_ is DATE else values


def values_of(type_: Type, ordinals: Ordinals, name: str, null: Flags | None = None) -> pl.Series:
    """The inverse of `ordinals_of`: a column of the values of a numbered type, null where ``null`` is True.

    >>> values_of(DATE, np.array([1, 3652059]), "day").to_list()
    [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]
    """
    if isinstance(type_, DecimalType):
        missing = np.zeros(len(ordinals), np.bool_) if null is None else null
        values = [None if m else type_.at(i) for i, m in zip(ordinals.tolist(), missing, strict=True)]
        return pl.Series(name, values, dtype=type_.dtype)
    numbers = integers(name, ordinals - _EPOCH if type_ is DATE else ordinals, null)
    return (numbers.cast(pl.Int32) if type_ is DATE else numbers).cast(type_.dtype)
