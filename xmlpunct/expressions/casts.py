"""CAST: conversions of columns from one type to another."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import polars as pl

from xmlpunct.doubles import canonical
from xmlpunct.expressions.int128 import int128, magnitude, minus, to_decimal, unscaled
from xmlpunct.frames import join
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, NAN, SPACE, STRING, TIMESTAMP, DecimalType, Type, Value


def cast_to(source: Type, target: Type, value: pl.Expr) -> tuple[pl.Expr, pl.Expr | None]:
    """The column as one of type ``target``, and the condition under which that fails (None: never).

    A string is read as the text of a tuple is, in the lexical form of the type, and printed in it. What loses
    digits truncates toward zero on the way to INT and rounds half up (away from zero) on the way to a DECIMAL.
    """
    result, total = _convert(source, target, value)
    return result, None if total else value.is_not_null() & result.is_null()


def _convert(source: Type, target: Type, value: pl.Expr) -> tuple[pl.Expr, bool]:
    """The column, null where the conversion fails, and whether it never does."""
    if source is STRING:
        reader = {INT: _read_int, DOUBLE: _read_double}.get(target)
        return (reader(value) if reader else _lookup(value, target.read, target)), False
    if target is STRING:
        return _print(source, value), True
    if isinstance(target, DecimalType):
        return _to_decimal(source, target, value)
    if isinstance(source, DecimalType):
        return _from_decimal(source, target, value)
    if source is DOUBLE:  # to INT: what is out of range, INF or NaN becomes null
        return value.cast(pl.Int64, strict=False), False
    if target is DATE:
        return value.dt.date(), True
    if target is BOOLEAN:
        return value != 0, True
    return value.cast(target.dtype), True  # INT to DOUBLE, BOOLEAN to INT, DATE to TIMESTAMP


def _lookup(value: pl.Expr, convert: Callable[[Any], Value], target: Type) -> pl.Expr:
    """A conversion by Python, once for each distinct value."""

    def attempt(given: Value) -> Value:
        try:
            return None if given is None else convert(given)
        except (ValueError, ArithmeticError):
            return None

    def run(column: pl.Series) -> pl.Series:
        distinct = column.unique()
        results = pl.Series([attempt(v) for v in distinct], dtype=target.dtype)
        table = pl.DataFrame([distinct.alias("given"), results.alias("result")])
        given = column.alias("given").to_frame()
        return join(given, table, ["given"], "left", nulls_equal=True, order="left")["result"]

    return value.map_batches(run, target.dtype, is_elementwise=True)


def _read_int(value: pl.Expr) -> pl.Expr:
    text = value.str.strip_chars(SPACE).str.replace(r"^([+-]?)0+([0-9])", "${1}${2}")
    return pl.when(text.str.contains("^[+-]?[0-9]+$")).then(text).cast(pl.Int64, strict=False)


_SPECIAL = {"INF": float("inf"), "+INF": float("inf"), "-INF": float("-inf"), "NaN": NAN}


def _read_double(value: pl.Expr) -> pl.Expr:
    text = value.str.strip_chars(SPACE)
    plain = text.str.contains(r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$")
    number = canonical(pl.when(plain).then(text).cast(pl.Float64, strict=False))
    return pl.coalesce(number, text.replace_strict(_SPECIAL, default=None, return_dtype=pl.Float64))


def _print(source: Type, value: pl.Expr) -> pl.Expr:
    if source in (DOUBLE, TIMESTAMP):
        return _lookup(value, source.format, STRING)
    return value.cast(pl.String)  # polars prints these as our lexical forms are


def _to_decimal(source: Type, target: DecimalType, value: pl.Expr) -> tuple[pl.Expr, bool]:
    if source is DOUBLE:
        return _lookup(value, lambda x: _round(x, target), target), False
    digits, scale = 19, 0
    if isinstance(source, DecimalType):
        digits, scale = source.precision, source.scale
        wide = unscaled(value)
    else:
        wide = value.cast(pl.Int128)
    if scale <= target.scale:
        factor = 10 ** (target.scale - scale)
        safe = digits + target.scale - scale <= target.precision
        fits = magnitude(wide) <= int128((10**target.precision - 1) // factor)
        wide = wide * int128(factor)
    else:
        factor = 10 ** (scale - target.scale)
        size = magnitude(wide)
        rounded = size // factor + (size % factor >= factor // 2).cast(pl.Int128)
        safe = digits - scale + 1 <= target.precision - target.scale
        fits = rounded <= int128(10**target.precision - 1)
        wide = pl.when(wide < 0).then(minus(rounded)).otherwise(rounded)
    return to_decimal(wide if safe else pl.when(fits).then(wide), target), safe


def _round(value: float, target: DecimalType) -> Decimal:
    wide = Context(prec=400, rounding=ROUND_HALF_UP)
    return target.accept(Decimal(repr(value)).quantize(Decimal((0, (1,), -target.scale)), context=wide))


def _from_decimal(source: DecimalType, target: Type, value: pl.Expr) -> tuple[pl.Expr, bool]:
    wide = unscaled(value)
    if target is INT:
        whole = magnitude(wide) // int128(10**source.scale)
        whole = pl.when(wide < 0).then(minus(whole)).otherwise(whole)
        return whole.cast(pl.Int64, strict=False), source.precision - source.scale <= 18
    if source.precision <= 15:  # both exact in binary, so that the quotient is rounded once
        return wide.cast(pl.Float64) / 10.0**source.scale, True
    return _lookup(value, float, DOUBLE), True
