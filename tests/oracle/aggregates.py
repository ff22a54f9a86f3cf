"""The aggregates over Python values."""

from __future__ import annotations

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
    """One aggregate over a group's column. ``type_`` is the column's, None for COUNT(*).

    Nulls are left out, but for COUNT(*). Of no values COUNT is 0 and the others are null. An overflow is
    judged on the final value, so it does not depend on the order of the tuples.
    """
    found = list(column)
    if type_ is None:
        return len(found)
    found = [v for v in found if v is not None]
    if distinct:
        found = list({same(v): v for v in found}.values())
    if function == "COUNT":
        return len(found)
    if not found:
        return None
    if function in ("MIN", "MAX"):
        return (min if function == "MIN" else max)(found, key=_order)
    return _sum(type_, found) if function == "SUM" else _average(type_, found)


Order = tuple[int, bool, bool]
"""The place of an attribute to sort by, whether it descends, and whether its nulls come first."""


def xml_agg(place: int, order: Sequence[Order], ts: Iterable[Sequence[Any]]) -> str | None:
    """XMLAGG over the attribute at a place: its values in an order, and where that ties in their own."""
    found = [t for t in ts if t[place] is not None]
    for at, descending, nulls_first in ((place, False, False), *reversed(order)):  # the last sort counts most
        nulls = [t for t in found if t[at] is None]
        known = sorted(
            (t for t in found if t[at] is not None), key=lambda t: _order(t[at]), reverse=descending
        )
        found = [*nulls, *known] if nulls_first else [*known, *nulls]
    return "".join(t[place] for t in found) if found else None


def _order(value: Any) -> Any:
    """NaN is greatest."""
    return (value != value, 0.0 if value != value else value)


def _sum(type_: Type, found: Sequence[Any]) -> Any:
    if type_.name == "INT":
        total = sum(found)
        if not -(2**63) <= total < 2**63:
            raise NotRepresentable
        return total
    if isinstance(type_, DecimalType):
        return _decimal(sum(map(Fraction, found)), type_.scale)
    return sum(found)


def _average(type_: Type, found: Sequence[Any]) -> Any:
    if type_.name == "INT":
        return float(Fraction(sum(found), len(found)))
    if isinstance(type_, DecimalType):
        return _decimal(sum(map(Fraction, found)) / len(found), type_.scale + 4)
    return sum(found) / len(found)


def _decimal(value: Fraction | int, scale: int) -> Decimal:
    """A value as DECIMAL(38, scale), halves away from zero."""
    exact = _WIDE.divide(Decimal(value.numerator), Decimal(value.denominator))
    rounded = exact.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP, context=_WIDE)
    if abs(rounded) >= Decimal(10) ** (38 - scale):
        raise NotRepresentable
    return rounded
