"""Comparisons, exact across numeric types: 2^53 + 1 is greater than 9007199254740992e0, as INT."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from xmlpunct.expressions.int128 import int128, unscaled
from xmlpunct.types import DOUBLE, INT, DecimalType, Type

Comparison = Callable[[Type, Type, pl.Expr, pl.Expr], pl.Expr]


def _equal(s: Type, t: Type, a: pl.Expr, b: pl.Expr) -> pl.Expr:
    if s == t:
        return a == b
    (a, a_rest), (b, b_rest) = _parts(s, t, a), _parts(t, s, b)
    return (a == b) & (a_rest == b_rest)


def _less(s: Type, t: Type, a: pl.Expr, b: pl.Expr) -> pl.Expr:
    if s == t:
        return a < b
    (a, a_rest), (b, b_rest) = _parts(s, t, a), _parts(t, s, b)
    return (a < b) | ((a == b) & (a_rest < b_rest))


def _distinct(s: Type, t: Type, a: pl.Expr, b: pl.Expr) -> pl.Expr:
    return pl.when(a.is_null() | b.is_null()).then(a.is_null() != b.is_null()).otherwise(~_equal(s, t, a, b))


COMPARISONS: dict[str, Comparison] = {
    "=": _equal,
    "<>": lambda s, t, a, b: ~_equal(s, t, a, b),
    "<": _less,
    "<=": lambda s, t, a, b: ~_less(t, s, b, a),
    ">": lambda s, t, a, b: _less(t, s, b, a),
    ">=": lambda s, t, a, b: ~_less(s, t, a, b),
    "IS DISTINCT FROM": _distinct,
    "IS NOT DISTINCT FROM": lambda s, t, a, b: ~_distinct(s, t, a, b),
}
"""Each takes the operands' types, then the operands."""


def greater(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """a > b, of one type; NaN is greatest."""
    return a > b


def _parts(mine: Type, other: Type, value: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """A number as its floor and a rest that compares with the other operand's."""
    if DOUBLE in (mine, other):
        if mine is INT:
            return value.cast(pl.Int128), pl.when(value.is_not_null()).then(0.0)
        beyond = value.is_nan() | (value >= 2.0**63)
        inside = ~beyond & (value >= -(2.0**63))
        floor = pl.when(inside).then(value).otherwise(0.0).floor()
        edge = pl.when(beyond).then(int128(2**63)).otherwise(int128(-(2**63) - 1))
        whole = pl.when(inside).then(floor.cast(pl.Int128)).when(value.is_not_null()).then(edge)
        return whole, pl.when(inside).then(value - floor).when(value.is_not_null()).then(0.0)
    scales = [t.scale if isinstance(t, DecimalType) else 0 for t in (mine, other)]
    wide = unscaled(value) if isinstance(mine, DecimalType) else value.cast(pl.Int128)
    unit = int128(10 ** scales[0])
    # polars divides integers rounding down
    return wide // unit, (wide % unit) * int128(10 ** (max(scales) - scales[0]))
