"""Rounding and truncation of numbers. Halves are rounded away from zero, as in DuckDB."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from xmlpunct.base.doubles import canonical, divided
from xmlpunct.expressions.expression import Call, Doc, Expression, Function, FunctionResult, Literal, Syntax
from xmlpunct.expressions.functions.arithmetic import of_number, to_int
from xmlpunct.expressions.functions.casts import cast, is_null, of_type
from xmlpunct.expressions.int128 import int128, minus, to_decimal, unscaled
from xmlpunct.types import DOUBLE, INT, DecimalType, decimal

_MAX_DIGITS = 38
_FIRST_INTEGERS = 2.0**52
"""DOUBLEs of at least this size are integers."""


def _type_round(record: Function, args: tuple[Expression, ...]) -> Expression:
    a = of_number(record.name, args[0])
    digits = of_type(record.name, args[1], INT) if len(args) > 1 else Literal(INT, False, 0)
    if not isinstance(digits, Literal):
        raise ValueError(f"{record.name} needs a literal number of digits: {record.name}(x, 2)")
    if digits.value is None:
        return Literal(a.type, True, None)
    if abs(digits.value) > _MAX_DIGITS:
        raise ValueError(f"{record.name} takes from -{_MAX_DIGITS} to {_MAX_DIGITS} digits")
    if a.type is not DOUBLE and digits.value >= (a.type.scale if isinstance(a.type, DecimalType) else 0):
        return a
    if isinstance(a.type, DecimalType):
        if digits.value >= 0:
            return cast(a, decimal(a.type.precision, digits.value))
        carry = 0 if a.type.scale else 1  # 99 may become 100
        return record.call(decimal(min(a.type.precision + carry, 38), 0), a, digits)
    return record.call(a.type, a, digits)


def _round(call: Call, a: pl.Expr, _: pl.Expr) -> FunctionResult:
    (digits,) = (e.value for e in call.args[1:] if isinstance(e, Literal))
    if call.type is DOUBLE:
        factor = 10.0 ** abs(digits)
        scaled = a * factor if digits >= 0 else divided(a, factor)
        rounded = scaled.round(0, mode="half_away_from_zero")
        result = divided(rounded, factor) if digits >= 0 else rounded * factor
        is_integer = a.abs() >= _FIRST_INTEGERS * (1.0 if digits >= 0 else factor)
        return FunctionResult(canonical(pl.when(is_integer).then(a).when(a.is_not_null()).then(result)))
    is_decimal = isinstance(call.type, DecimalType)
    operand_type = call.args[0].type
    scale = operand_type.scale if isinstance(operand_type, DecimalType) else 0
    wide = unscaled(a) if is_decimal else a.cast(pl.Int128)
    magnitude, power = wide.abs(), scale - digits
    if power > _MAX_DIGITS:  # every value is less than half the unit
        rounded = magnitude * 0
    else:
        step = int128(10**power)
        rounded = magnitude // step + (magnitude % step >= int128(10**power // 2)).cast(pl.Int128)
    limit = 10**38 - 1 if isinstance(call.type, DecimalType) else 2**63
    if isinstance(call.type, DecimalType):
        limit = 10**call.type.precision - 1
    unit = 10**-digits
    overflows = rounded > int128(limit // unit)
    rounded = pl.when(~overflows).then(rounded) * int128(unit)
    signed = pl.when(wide < 0).then(minus(rounded)).otherwise(rounded)
    if isinstance(call.type, DecimalType):
        return FunctionResult(to_decimal(signed, call.type), [(overflows, f"{call.type} overflow")])
    value, failures = to_int(signed)
    return FunctionResult(value, [(overflows | failures[0][0], failures[0][1])])


def _type_to_integer(record: Function, args: tuple[Expression, ...]) -> Expression:
    a = of_number(record.name, args[0])
    if a.type is INT or is_null(a):
        return a
    return record.call(decimal(a.type.precision, 0) if isinstance(a.type, DecimalType) else DOUBLE, a)


def _to_integer(
    double: Callable[[pl.Expr], pl.Expr], above: Callable[[pl.Expr], pl.Expr]
) -> Callable[[Call, pl.Expr], FunctionResult]:
    """Evaluation of FLOOR and the like. ``double`` is for DOUBLEs; decimals are rounded up where ``above`` holds."""

    def evaluate(call: Call, a: pl.Expr) -> FunctionResult:
        operand_type = call.args[0].type
        if not isinstance(operand_type, DecimalType) or not isinstance(call.type, DecimalType):
            return FunctionResult(canonical(double(a)))
        wide, step = unscaled(a), int128(10**operand_type.scale)
        floor = wide // step  # polars divides integers rounding down
        fraction = wide - floor * step
        up = (fraction > 0) & above(wide)
        return FunctionResult(to_decimal(floor + up.cast(pl.Int128), call.type))

    return evaluate


def _type_sign(record: Function, args: tuple[Expression, ...]) -> Expression:
    return record.call(INT, of_number(record.name, args[0]))


def _sign(call: Call, a: pl.Expr) -> FunctionResult:
    wide = unscaled(a) if isinstance(call.args[0].type, DecimalType) else a
    below, above = wide < 0, wide > 0
    if call.args[0].type is DOUBLE:
        above &= wide.is_not_nan()
    return FunctionResult(above.cast(pl.Int64) - below.cast(pl.Int64))


# fmt: off
ROUND = Function(
    "ROUND", _type_round, _round, called=("ROUND",), arity=(1, 2), monotone=lambda call: (0, True),
    doc=Doc("ROUND(x [, digits])",
            "x rounded to that number of digits after the point. -1 rounds to tens. Halves are rounded away from 0.",
            "ROUND(2.345, 2)"))
FLOOR = Function(
    "FLOOR", _type_to_integer, _to_integer(pl.Expr.floor, lambda wide: wide != wide), syntax=Syntax("Floor"),
    arity=(1, 1), monotone=lambda call: (0, True),
    doc=Doc("FLOOR(x)", "The greatest integer that is at most x.", "FLOOR(-2.5)"))
CEIL = Function(
    "CEIL", _type_to_integer, _to_integer(pl.Expr.ceil, lambda wide: wide == wide), syntax=Syntax("Ceil"), arity=(1, 1),
    monotone=lambda call: (0, True), doc=Doc("CEIL(x)", "The least integer that is at least x.", "CEIL(-2.5)"))
TRUNC = Function(
    "TRUNC", _type_to_integer,
    _to_integer(lambda x: pl.when(x < 0).then(x.ceil()).otherwise(x.floor()), lambda wide: wide < 0),
    called=("TRUNC",), arity=(1, 1), monotone=lambda call: (0, True),
    doc=Doc("TRUNC(x)", "x without the digits after the point.", "TRUNC(-2.5)"))
SIGN = Function(
    "SIGN", _type_sign, _sign, called=("SIGN",), arity=(1, 1),
    monotone=lambda call: None if call.args[0].type is DOUBLE else (0, True),  # NaN is greatest, and its sign 0
    doc=Doc("SIGN(x)", "The sign of x: -1, 0 or 1.", "SIGN(-2.5)"))
