"""VARIANCE and what stands for it: exact sums of DOUBLEs and of their squares, rounded once.

So a result depends on the values alone, not on slices or shards, and values that differ little from a large mean lose
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.expressions.expression import Doc, Expression
from xmlpunct.expressions.functions.arithmetic import of_number
from xmlpunct.expressions.functions.casts import cast
from xmlpunct.expressions.functions.powers import SQRT
from xmlpunct.operators.aggregate import Accumulator, Aggregate, AggregateFunction
from xmlpunct.schema import Schema
from xmlpunct.types import DOUBLE, INT, STRING, Type

_UNIT = 1074
"""A DOUBLE is a multiple of 2^-1074, its square of 2^-2148."""
_LIMB = 18
"""A mantissa of 53 bits is three limbs; sums of products of limbs fit 64 bits for 2^27 values."""


def sums_of(values: NDArray[np.float64]) -> tuple[int, int]:
    """The exact sum of some finite DOUBLEs, in units of 2^-1074, and of their squares, in units of 2^-2148.

    >>> sums_of(np.array([0.5, -1.5])) == (-(2**1074), (2**2148) * 10 // 4)
    True
    """
    shift = np.maximum(np.frexp(values)[1].astype(np.int64) - 53 + _UNIT, 0)
    mantissa = np.ldexp(values, (_UNIT - shift).astype(np.int32)).astype(np.int64)
    places, which = np.unique(shift, return_inverse=True)
    limbs = [(np.abs(mantissa) >> _LIMB * i) & (2**_LIMB - 1) for i in range(3)]
    total = squares = 0

    def summed(terms: NDArray[np.int64]) -> list[int]:
        sums = np.zeros(len(places), np.int64)
        np.add.at(sums, which, terms)
        return [int(n) for n in sums]

    for i, limb in enumerate(limbs):
        signed = np.where(mantissa < 0, -limb, limb)
        total += sum(n << int(at) + _LIMB * i for n, at in zip(summed(signed), places, strict=True))
        for j, other in enumerate(limbs):
            products = summed(limb * other)
            squares += sum(n << 2 * int(at) + _LIMB * (i + j) for n, at in zip(products, places, strict=True))
    return total, squares


def _text(number: int) -> str:
    """An integer without the zeros at its end."""
    zeros = (number & -number).bit_length() - 1 if number else 0
    return f"{number >> zeros:x}p{zeros}"


def _number(text: str) -> int:
    digits, _, zeros = text.partition("p")
    return int(digits, 16) << int(zeros)


def _of_values(columns: Sequence[pl.Series]) -> str:
    values = columns[0].drop_nulls().to_numpy()
    return " ".join(map(_text, sums_of(values[np.isfinite(values)])))


def _of_parts(columns: Sequence[pl.Series]) -> str:
    if len(columns[0]) == 1:
        return str(columns[0][0])
    pairs = [[_number(text) for text in part.split()] for part in columns[0]]
    return " ".join(_text(sum(numbers)) for numbers in zip(*pairs, strict=True))


@dataclass(frozen=True)
class Moments(Accumulator):
    """The number of values, of those that are not finite, and the exact sums of the others and of their squares."""

    def partials(self) -> list[pl.Expr]:
        at = pl.col(str(self.aggregate.argument))
        return [
            at.count().cast(pl.Int64).alias(self._name("count")),
            (~at.is_finite()).sum().cast(pl.Int64).alias(self._name("odd")),
            pl.map_groups([at], _of_values, return_dtype=pl.String(), returns_scalar=True).alias(
                self._name("sums")
            ),
        ]

    def merges(self) -> list[pl.Expr]:
        sums = self._name("sums")
        return [
            *(pl.col(self._name(part)).sum() for part in ("count", "odd")),
            pl.map_groups([pl.col(sums)], _of_parts, return_dtype=pl.String(), returns_scalar=True).alias(
                sums
            ),
        ]

    def empty(self) -> dict[str, object]:
        return {self._name("count"): 0, self._name("odd"): 0, self._name("sums"): "0p0 0p0"}

    def finish(self, groups: pl.DataFrame) -> pl.Series:
        less = 0 if self.aggregate.function == "VAR_POP" else 1
        parts = (groups[self._name(part)] for part in ("count", "odd", "sums"))
        values = [
            None if count <= less else float("nan") if odd else _variance(count, sums, less)
            for count, odd, sums in zip(*parts, strict=True)
        ]
        return pl.Series(values, dtype=pl.Float64())

    def _columns(self) -> dict[str, Type]:
        return {self._name("count"): INT, self._name("odd"): INT, self._name("sums"): STRING}


def _variance(count: int, sums: str, less: int) -> float:
    total, squares = map(_number, sums.split())
    try:
        return float(Fraction(count * squares - total * total, (count * (count - less)) << 2 * _UNIT))
    except OverflowError:
        return float("inf")


def _moments(a: Aggregate, type_: Type, prefix: str, schema: Schema) -> Accumulator:
    return Moments(a, type_, prefix)


def _result(a: Aggregate, type_: Type) -> Type:
    if type_ is not DOUBLE:
        raise ValueError(f"{a.function} wants DOUBLE, not {type_}")
    return DOUBLE


def _as_double(name: str, argument: Expression) -> Expression:
    return cast(of_number(name, argument), DOUBLE)


# fmt: off
VAR_SAMP = AggregateFunction(
    "VAR_SAMP", Doc("VARIANCE(x), VAR_SAMP(x)", "The variance of a sample, a DOUBLE; null of fewer than two values."),
    _result, called=("VARIANCE", "VAR_SAMP"), accumulator=_moments, nullable=True, before=_as_double)
VAR_POP = AggregateFunction(
    "VAR_POP", Doc("VAR_POP(x)", "The variance of all there is, a DOUBLE."), _result, called=("VAR_POP",),
    accumulator=_moments, before=_as_double)
STDDEV = AggregateFunction(
    "STDDEV", Doc("STDDEV(x), STDDEV_SAMP(x)", "The square root of VAR_SAMP."), called=("STDDEV", "STDDEV_SAMP"),
    stands_for="VAR_SAMP", before=_as_double, after=SQRT)
STDDEV_POP = AggregateFunction(
    "STDDEV_POP", Doc("STDDEV_POP(x)", "The square root of VAR_POP."), called=("STDDEV_POP",),
    stands_for="VAR_POP", before=_as_double, after=SQRT)
