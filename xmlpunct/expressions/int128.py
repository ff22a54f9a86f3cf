"""Decimals as unscaled 128-bit integers, which is their form in polars."""

from __future__ import annotations

from functools import cache

import polars as pl

from xmlpunct.types import DecimalType


@cache
def int128(value: int) -> pl.Expr:
    """A 128-bit constant. Cached, because polars creates it slowly."""
    return pl.lit(value, dtype=pl.Int128)


def minus(wide: pl.Expr) -> pl.Expr:
    """The negative: polars has no negation of 128-bit integers."""
    return int128(0) - wide


def unscaled(value: pl.Expr) -> pl.Expr:
    """Decimals in units of their last place."""
    return value.to_physical().cast(pl.Int128)


def to_decimal(wide: pl.Expr, type_: DecimalType) -> pl.Expr:
    """The inverse of `unscaled`."""
    return wide.reinterpret(dtype=type_.dtype)


def rescale(wide: pl.Expr, type_: DecimalType, scale: int) -> tuple[pl.Expr, pl.Expr | None]:
    """Unscaled decimals at a ``scale`` that is not smaller, and the condition under which they exceed 38 digits."""
    factor = 10 ** (scale - type_.scale)
    fits = type_.precision + scale - type_.scale <= 38
    if factor == 1:
        return wide, None
    return wide * int128(factor), None if fits else wide.abs() > int128((10**38 - 1) // factor)
