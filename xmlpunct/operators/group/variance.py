"""VARIANCE and the aggregates computed by it: exact sums of DOUBLEs and of their squares, rounded once.

So a result depends on the values only, not on slices or shards, and values that differ little from a large mean lose
no digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.expressions.expression import Doc, Expression
from xmlpunct.expressions.functions.arithmetic import of_number
from xmlpunct.expressions.functions.casts import cast
from xmlpunct.expressions.functions.powers import SQRT
from xmlpunct.operators.group.aggregate import Accumulator, Aggregate, AggregateFunction
from xmlpunct.schema import Schema
from xmlpunct.types import DOUBLE, INT, STRING, Type

Exact = NDArray[Any]
"""Python integers, so that no sum overflows; shape (n,), dtype object."""

Scaled = tuple[int, int]
"""An exact number: an integer, and the exponent of its power of 2."""


def sums_of(values: NDArray[np.float64], owners: NDArray[np.int64], count: int) -> tuple[Exact, Exact, int]:
    """For each of ``count`` owners the exact sum of its finite DOUBLEs and of their squares, and an exponent.

    Sums are in units of 2^exponent, sums of squares in units of 4^exponent. The exponent is the greatest possible one.

    >>> sums_of(np.array([0.5, -1.5]), np.array([0, 0]), 1)
    (array([-9007199254740992], dtype=object), array([202824096036516704239472512860160], dtype=object), -53)
    """
    exponents = np.maximum(np.frexp(values)[1].astype(np.int64) - 53, -1074)
    unit = int(exponents.min(initial=0))
    mantissa = np.ldexp(values, -exponents).astype(np.int64).astype(object)
    shift = (exponents - unit).astype(object)
    total, squares = np.zeros(count, object), np.zeros(count, object)
    np.add.at(total, owners, np.left_shift(mantissa, shift))
    np.add.at(squares, owners, np.left_shift(mantissa * mantissa, 2 * shift))
    return total, squares, unit


def _text(*numbers: Scaled) -> str:
    return " ".join(f"{number:x}p{exponent}" for number, exponent in numbers)


def _numbers(text: str) -> list[Scaled]:
    """The inverse of `_text`."""
    parts = (part.split("p") for part in text.split())
    return [(int(digits, 16), int(exponent)) for digits, exponent in parts]


def _sum(numbers: Iterable[Scaled]) -> Scaled:
    nonzero = [n for n in numbers if n[0]]
    unit = min((exponent for _, exponent in nonzero), default=0)
    return sum(number << exponent - unit for number, exponent in nonzero), unit


def _sums_of_values(groups: pl.Series) -> pl.Series:
    """The sums of each list of values."""
    owners = np.repeat(np.arange(len(groups)), groups.list.len().to_numpy())
    values = groups.explode().drop_nulls().to_numpy()  # an empty list becomes a null
    finite = np.isfinite(values)
    totals, squares, unit = sums_of(values[finite], owners[finite], len(groups))
    texts = [_text((s, unit), (q, 2 * unit)) for s, q in zip(totals, squares, strict=True)]
    return pl.Series(groups.name, texts, dtype=pl.String)


def _sums_of_parts(groups: pl.Series) -> pl.Series:
    """The sums of each list of sums."""
    texts = [
        parts[0] if len(parts) == 1 else _text(*map(_sum, zip(*map(_numbers, parts), strict=True)))
        for parts in groups.to_list()
    ]
    return pl.Series(groups.name, texts, dtype=pl.String)


def _all_groups(values: pl.Expr, compute: Callable[[pl.Series], pl.Series]) -> pl.Expr:
    """Apply a function to the lists of all groups at once."""
    return values.implode().map_batches(compute, pl.String(), is_elementwise=True)


@dataclass(frozen=True)
class Moments(Accumulator):
    """The numbers of all and of non-finite values, and the exact sums of finite values and of their squares."""

    def partials(self) -> list[pl.Expr]:
        at = pl.col(str(self.aggregate.argument))
        return [
            at.count().cast(pl.Int64).alias(self._name("count")),
            (~at.is_finite()).sum().cast(pl.Int64).alias(self._name("odd")),
            _all_groups(at.drop_nulls(), _sums_of_values).alias(self._name("sums")),
        ]

    def merges(self) -> list[pl.Expr]:
        sums = self._name("sums")
        return [
            *(pl.col(self._name(part)).sum() for part in ("count", "odd")),
            _all_groups(pl.col(sums), _sums_of_parts).alias(sums),
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
    (total, unit), (squares, square_unit) = _numbers(sums)
    number, exponent = _sum([(count * squares, square_unit), (-total * total, 2 * unit)])
    scale = Fraction(2) ** exponent
    try:
        return float(Fraction(number, count * (count - less)) * scale)
    except OverflowError:
        return float("inf")


def _moments(a: Aggregate, type_: Type, prefix: str, schema: Schema) -> Accumulator:
    return Moments(a, type_, prefix)


def _result(a: Aggregate, type_: Type) -> Type:
    if type_ is not DOUBLE:
        raise ValueError(f"{a.function} needs DOUBLE, not {type_}")
    return DOUBLE


def _as_double(name: str, argument: Expression) -> Expression:
    return cast(of_number(name, argument), DOUBLE)


# fmt: off
VAR_SAMP = AggregateFunction(
    "VAR_SAMP", Doc("VARIANCE(x), VAR_SAMP(x)", "The sample variance as a DOUBLE; null for fewer than two values."),
    _result, called=("VARIANCE", "VAR_SAMP"), accumulator=_moments, nullable=True, before=_as_double)
VAR_POP = AggregateFunction(
    "VAR_POP", Doc("VAR_POP(x)", "The population variance as a DOUBLE."), _result, called=("VAR_POP",),
    accumulator=_moments, before=_as_double)
STDDEV = AggregateFunction(
    "STDDEV", Doc("STDDEV(x), STDDEV_SAMP(x)", "The square root of VAR_SAMP."), called=("STDDEV", "STDDEV_SAMP"),
    stands_for="VAR_SAMP", before=_as_double, after=SQRT)
STDDEV_POP = AggregateFunction(
    "STDDEV_POP", Doc("STDDEV_POP(x)", "The square root of VAR_POP."), called=("STDDEV_POP",),
    stands_for="VAR_POP", before=_as_double, after=SQRT)
