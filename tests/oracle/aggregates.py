"""Aggregate functions over Python values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

from tests.oracle.values import same
from xmlpunct.types import DecimalType, Type

_WIDE = Context(prec=200)


class NotRepresentable(Exception):
    """A result that does not fit its type: the group's tuple is rejected."""


def aggregate(function: str, distinct: bool, type_: Type | None, column: Iterable[Any]) -> Any:
    """One aggregate over a group's column. ``type_`` is the column's type, None for COUNT(*).

    All functions but COUNT(*) skip nulls. Over no values COUNT is 0 and every other function is null. Only the
    final value can overflow, so the order of the tuples does not matter.
    """
    values = list(column)
    if type_ is None:
        return len(values)
    values = [v for v in values if v is not None]
    if distinct:
        values = list({same(v): v for v in values}.values())
    if function == "COUNT":
        return len(values)
    if not values:
        return None
    if function in ("MIN", "MAX"):
        return (min if function == "MIN" else max)(values, key=_order)
    if function in ("VAR_SAMP", "VAR_POP"):
        return _variance(values, int(function == "VAR_SAMP"))
    return _sum(type_, values) if function == "SUM" else _average(type_, values)


Order = tuple[int, bool, bool]
"""The position of a sort attribute, whether it descends, and whether its nulls come first."""


def xml_agg(position: int, order: Sequence[Order], ts: Iterable[Sequence[Any]]) -> str | None:
    """XMLAGG over the attribute at a position: values in the given order, ties by the value."""
    rows = [t for t in ts if t[position] is not None]
    # stable sorts, the most significant key last
    for at, descending, nulls_first in ((position, False, False), *reversed(order)):
        nulls = [t for t in rows if t[at] is None]
        non_null = sorted(
            (t for t in rows if t[at] is not None), key=lambda t: _order(t[at]), reverse=descending
        )
        rows = [*nulls, *non_null] if nulls_first else [*non_null, *nulls]
    return "".join(t[position] for t in rows) if rows else None


def _order(value: Any) -> Any:
    """A comparison key by which NaN is greatest."""
    return (value != value, 0.0 if value != value else value)


def _sum(type_: Type, values: Sequence[Any]) -> Any:
    if type_.name == "INT":
        total = sum(values)
        if not -(2**63) <= total < 2**63:
            raise NotRepresentable
        return total
    if isinstance(type_, DecimalType):
        return rounded_decimal(sum(map(Fraction, values)), type_.scale)
    return _doubles(values, 1)


def _average(type_: Type, values: Sequence[Any]) -> Any:
    if type_.name == "INT":
        return float(Fraction(sum(values), len(values)))
    if isinstance(type_, DecimalType):
        return rounded_decimal(sum(map(Fraction, values), Fraction(0)) / len(values), type_.scale + 4)
    return _doubles(values, len(values))


def _doubles(values: Sequence[float], count: int) -> float:
    """The exact sum divided by a count, rounded once."""
    if all(map(math.isfinite, values)):
        return nearest(sum(map(Fraction, values), Fraction(0)) / count)
    return float(sum(v for v in values if not math.isfinite(v)))


def _variance(values: Sequence[float], less: int) -> float | None:
    """The exact sum of the squared distances from the mean, divided by the count minus ``less``, rounded once."""
    if len(values) <= less:
        return None
    if not all(map(math.isfinite, values)):
        return math.nan
    mean = sum(map(Fraction, values), Fraction(0)) / len(values)
    return nearest(sum((v - mean) ** 2 for v in map(Fraction, values)) / (len(values) - less))


def nearest(number: Fraction) -> float:
    """The nearest DOUBLE, infinity if it is too large."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def rounded_decimal(value: Fraction | int, scale: int) -> Decimal:
    """A value as DECIMAL(38, scale), halves away from zero."""
    exact = _WIDE.divide(Decimal(value.numerator), Decimal(value.denominator))
    rounded = exact.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP, context=_WIDE)
    if abs(rounded) >= Decimal(10) ** (38 - scale):
        raise NotRepresentable
    return rounded
