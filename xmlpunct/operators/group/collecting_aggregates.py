"""Aggregates of all values of a group: STRING_AGG, ARRAY_AGG, MEDIAN and the quantiles."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

import polars as pl

from xmlpunct.expressions.expression import Doc, Expression
from xmlpunct.expressions.functions.casts import cast
from xmlpunct.expressions.functions.lists import ITEM, list_of
from xmlpunct.expressions.int128 import int128, to_decimal, unscaled
from xmlpunct.operators.group.aggregate import Accumulator, Aggregate, AggregateFunction
from xmlpunct.schema import Schema
from xmlpunct.types import DATE, DOUBLE, INT, STRING, TIMESTAMP, DecimalType, Type

_DIGITS = 9
"""The most digits of a quantile."""


@dataclass(frozen=True)
class Gathered(Accumulator):
    """An aggregate that is computed once, from all values of a group in its order."""

    def partials(self) -> list[pl.Expr]:
        return [self._result(pl.col(str(self.aggregate.argument))).alias(self._name("value"))]

    def empty(self) -> dict[str, object]:
        return {self._name("value"): None}

    def finish(self, groups: pl.DataFrame) -> pl.Series:
        return groups[self._name("value")]

    def _result(self, argument: pl.Expr) -> pl.Expr:
        if self.aggregate.function == "ARRAY_AGG":
            return pl.struct(argument.alias(ITEM))
        if self.aggregate.function == "STRING_AGG":
            return pl.when(argument.count() > 0).then(
                argument.drop_nulls().str.join(self.aggregate.parameter)
            )
        if self.aggregate.function == "MODE":
            return argument.drop_nulls().mode().min()
        values, count = argument.drop_nulls(), argument.count().cast(pl.Int128)
        fraction = Decimal(self.aggregate.parameter)
        unit = 10 ** -min(int(fraction.as_tuple().exponent), 0)
        part = int128(int(fraction * unit))
        if self.aggregate.function == "QUANTILE_DISC":
            index = ((count * part + int128(unit - 1)) // unit - 1).clip(0)
            return values.get(index.cast(pl.Int64), null_on_oob=True)
        reach = (count - 1).clip(0) * part
        low, remainder = reach // unit, reach % unit
        first = values.get(low.cast(pl.Int64), null_on_oob=True)
        second = values.get((low + (remainder > 0).cast(pl.Int128)).cast(pl.Int64), null_on_oob=True)
        return self._interpolate(first, second, remainder, unit)

    def _interpolate(self, first: pl.Expr, second: pl.Expr, remainder: pl.Expr, unit: int) -> pl.Expr:
        """The value ``remainder`` / ``unit`` of the way between two values: decimals are cut, moments rounded."""
        if self.type in (INT, DOUBLE):
            low, high = first.cast(pl.Float64), second.cast(pl.Float64)
            share = remainder.cast(pl.Float64) / unit
            return pl.when(remainder == 0).then(low).otherwise(low + (high - low) * share)
        is_decimal = isinstance(self.type, DecimalType)
        low, high = (unscaled(v) if is_decimal else _microseconds(v) for v in (first, second))
        gap = high - low
        parts = (gap % unit) * remainder
        value, parts = low + (gap // unit) * remainder + parts // unit, parts % unit  # no product overflows
        if isinstance(self.type, DecimalType):  # towards 0
            return to_decimal(value + ((value < 0) & (parts > 0)).cast(pl.Int128), self.type)
        up = pl.when(value < 0).then(2 * parts > unit).otherwise(2 * parts >= unit)
        return (value + up.cast(pl.Int128)).cast(pl.Int64).cast(TIMESTAMP.dtype)


def _microseconds(moment: pl.Expr) -> pl.Expr:
    return moment.cast(TIMESTAMP.dtype).to_physical().cast(pl.Int128)


def _collector(a: Aggregate, type_: Type, prefix: str, schema: Schema) -> Accumulator:
    return Gathered(a, type_, prefix)


def quantile(text: str) -> str:
    """A quantile, 0 to 1, in canonical form. Raises ValueError."""
    try:
        fraction = Decimal(text)
    except InvalidOperation:
        fraction = Decimal(-1)
    if not 0 <= fraction <= 1 or fraction != round(fraction, _DIGITS):
        raise ValueError(f"a quantile is a number from 0 to 1 with {_DIGITS} digits at most, not {text}")
    return f"{fraction.normalize():f}"


def has_between(type_: Type) -> bool:
    """Whether a type can interpolate between two values, so that it has a QUANTILE_CONT."""
    return type_.numeric or type_ in (DATE, TIMESTAMP)


def _continuous(a: Aggregate, type_: Type) -> Type:
    if type_ in (DATE, TIMESTAMP):
        return TIMESTAMP
    if not has_between(type_):
        raise ValueError(f"{a.function} needs numbers, DATE or TIMESTAMP, not {type_}: say QUANTILE_DISC")
    return type_ if isinstance(type_, DecimalType) else DOUBLE


def _texts(a: Aggregate, type_: Type) -> Type:
    if type_ is not STRING:
        raise ValueError(f"{a.function} needs STRING, not {type_}")
    return STRING


def _as_text(name: str, argument: Expression) -> Expression:
    return cast(argument, STRING)


# fmt: off
STRING_AGG = AggregateFunction(
    "STRING_AGG", Doc("STRING_AGG(x [, separator] [ORDER BY y])",
    "All x joined, with the separator between them (default: ','). Without ORDER BY they are ordered by value."),
    _texts, called=("STRING_AGG", "GROUP_CONCAT", "LISTAGG"), gathers=True, accumulator=_collector, before=_as_text)
ARRAY_AGG = AggregateFunction(
    "ARRAY_AGG", Doc("ARRAY_AGG(x [ORDER BY y])",
    "All x, with nulls: an array of rows with one column, `value`. Without ORDER BY they are ordered by value."),
    lambda a, type_: list_of(type_), called=("ARRAY_AGG", "LIST"), gathers=True, accumulator=_collector)
QUANTILE_CONT = AggregateFunction(
    "QUANTILE_CONT", Doc("QUANTILE_CONT(x, q), PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x)",
    "The value below which the fraction q of the values lies, interpolated between two values."),
    _continuous, called=("QUANTILE_CONT", "PERCENTILE_CONT"), gathers=True, accumulator=_collector)
QUANTILE_DISC = AggregateFunction(
    "QUANTILE_DISC", Doc("QUANTILE_DISC(x, q), PERCENTILE_DISC(q) WITHIN GROUP (ORDER BY x)",
    "The least value that is at least as great as the fraction q of the values."),
    called=("QUANTILE_DISC", "QUANTILE", "PERCENTILE_DISC"), gathers=True, accumulator=_collector)
MODE = AggregateFunction(
    "MODE", Doc("MODE(x)", "The most frequent value; if several are, the least of them."),
    called=("MODE",), gathers=True,
    accumulator=_collector)
MEDIAN = AggregateFunction(
    "MEDIAN", Doc("MEDIAN(x)", "QUANTILE_CONT(x, 0.5); for types without interpolation, QUANTILE_DISC(x, 0.5)."),
    called=("MEDIAN",), stands_for="QUANTILE_CONT")
