"""Constants, common types of arguments, and CAST, which converts arguments to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial, reduce
from typing import Any

import polars as pl

from xmlpunct.base.doubles import divided
from xmlpunct.base.frames import join
from xmlpunct.expressions.compiler import attempted
from xmlpunct.expressions.expression import Call, Doc, Expression, Function, FunctionResult, Literal, Notation
from xmlpunct.expressions.int128 import int128, minus, to_decimal, unscaled
from xmlpunct.expressions.non_null import of_first
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, DecimalType, Type, Value, decimal

NULL = Literal(STRING, True, None)
"""The NULL literal, before it takes its type from the other operands."""


def literal(type_: Type, value: Value) -> Literal:
    """A constant; None is a null of that type."""
    return Literal(type_, value is None, value)


def number(text: str) -> Literal:
    """A numeric literal: INT without point or exponent (DECIMAL beyond 64 bits), DECIMAL with a point,
    DOUBLE with an exponent. Raises ValueError.

    >>> number("12").type, number("1.50").type, number("1e3").type
    (INT, DECIMAL(3,2), DOUBLE)
    """
    if "e" in text.lower():
        return literal(DOUBLE, DOUBLE.parse(text))
    integer, _, fraction = text.partition(".")
    if not fraction and "." not in text and -(2**63) <= int(text) < 2**63:
        return literal(INT, int(text))
    digits = len(integer.lstrip("0")) + len(fraction)
    type_ = decimal(max(digits, 1), len(fraction))
    return literal(type_, type_.parse(text))


def is_null(argument: Expression) -> bool:
    """Whether the argument is the constant null."""
    return isinstance(argument, Literal) and argument.value is None


def of_type(name: str, argument: Expression, type_: Type) -> Expression:
    """The argument, which must be of ``type_``; a null takes that type. Raises ValueError."""
    if is_null(argument):
        return literal(type_, None)
    if argument.type is not type_:
        raise ValueError(f"{name} needs {type_}, not {argument.type}")
    return argument


def common_type(args: Iterable[Expression]) -> Type:
    """The common type of arguments: equal types, or the widest of numeric types. Raises ValueError.

    Nulls take the type of the other arguments. If all are null, the type of a CAST(NULL AS type) counts.
    """
    args = list(args)
    types = [a.type for a in args if not is_null(a)] or [a.type for a in args if a.type is not STRING]
    return reduce(_wider, types) if types else STRING


def as_decimal(type_: Type) -> DecimalType:
    """A DECIMAL itself; for INT the DECIMAL that holds all its values."""
    return type_ if isinstance(type_, DecimalType) else decimal(19, 0)


def _wider(a: Type, b: Type) -> Type:
    if a == b:
        return a
    if not (a.numeric and b.numeric):
        raise ValueError(f"{a} and {b} have no common type: CAST one of them")
    if DOUBLE in (a, b):
        return DOUBLE
    p, q = as_decimal(a), as_decimal(b)
    scale = max(p.scale, q.scale)
    digits = max(p.precision - p.scale, q.precision - q.scale) + scale
    if digits > 38:
        raise ValueError(f"{a} and {b} together need {digits} digits, of 38: CAST one of them")
    return decimal(digits, scale)


def cast(argument: Expression, type_: Type) -> Expression:
    """CAST(argument AS type). Raises ValueError if there is no conversion, or a literal cannot be converted."""
    if argument.type == type_:
        return argument
    if isinstance(argument, Literal):
        if argument.value is None:
            return literal(type_, None)
        if (folded := fold(argument, type_)) is not None:
            return folded
    _check(argument.type, type_)
    return CAST.call(type_, argument)


def try_cast(argument: Expression, type_: Type) -> Expression:
    """TRY_CAST(argument AS type). Raises ValueError if there is no conversion."""
    if argument.type == type_ or is_null(argument):
        return cast(argument, type_)
    _check(argument.type, type_)
    return TRY_CAST.call(type_, argument)


def _check(source: Type, target: Type) -> None:
    """Raise ValueError if there is no conversion between the types."""
    if _kinds(source, target) not in CONVERSIONS:
        raise ValueError(f"there is no CAST from {source if source.comparable else source.kind} to {target}")


def fold(argument: Literal, type_: Type) -> Literal | None:
    """The literal converted to another type; None if the conversion must be evaluated at run time."""
    value = argument.value
    if argument.type is STRING:
        return literal(type_, type_.parse_sql(value))
    if type_ is DOUBLE and argument.type.numeric:
        return literal(type_, DOUBLE.accept(float(value)))
    if type_ is TIMESTAMP and argument.type is DATE:
        return literal(type_, datetime(value.year, value.month, value.day, tzinfo=UTC))
    if isinstance(type_, DecimalType) and argument.type.numeric and argument.type is not DOUBLE:
        try:
            return literal(type_, type_.accept(value))
        except ValueError:  # it rounds, or fails at run time
            return None
    return None


def unify(args: Sequence[Expression]) -> list[Expression]:
    """All of ``args`` cast to their common type. Raises ValueError."""
    type_ = common_type(args)
    return [cast(a, type_) for a in args]


def cast_to(source: Type, target: Type, value: pl.Expr) -> tuple[pl.Expr, pl.Expr | None]:
    """The column converted to type ``target``, and the condition under which that fails (None: never).

    A string is read and printed in the lexical form of the type, like the text of a tuple. It is also read in the forms
    of SQL literals (`Type.sql_forms`). A conversion that loses digits truncates toward zero to INT, and rounds half up
    (away from zero) to a DECIMAL.
    """
    result, total = CONVERSIONS[_kinds(source, target)](source, target, value)
    return result, None if total else value.is_not_null() & result.is_null()


Conversion = Callable[[Any, Any, pl.Expr], tuple[pl.Expr, bool]]
"""From the types and a column to the converted column, null where it fails, and True if it never fails."""


def each(value: pl.Expr, convert: Callable[[Any], Value], target: Type) -> pl.Expr:
    """A conversion by a Python function, called once for each distinct value."""

    def attempt(operand: Value) -> Value:
        try:
            return None if operand is None else convert(operand)
        except (ValueError, ArithmeticError):
            return None

    def run(column: pl.Series) -> pl.Series:
        distinct = column.unique()
        results = pl.Series([attempt(v) for v in distinct], dtype=target.dtype)
        table = pl.DataFrame([distinct.alias("operand"), results.alias("result")])
        operands = column.alias("operand").to_frame()
        return join(operands, table, ["operand"], "left", nulls_equal=True, order="left")["result"]

    return value.map_batches(run, target.dtype, is_elementwise=True)


def _polars_cast(source: Type, target: Type, value: pl.Expr) -> tuple[pl.Expr, bool]:
    return value.cast(target.dtype), True


def _double_to_int(source: Type, target: Type, value: pl.Expr) -> tuple[pl.Expr, bool]:
    return value.cast(pl.Int64, strict=False), False  # INF, NaN and values out of range become null


def _to_decimal(source: Type, target: DecimalType, value: pl.Expr) -> tuple[pl.Expr, bool]:
    digits, scale = as_decimal(source).precision, as_decimal(source).scale
    wide = unscaled(value) if isinstance(source, DecimalType) else value.cast(pl.Int128)
    if scale <= target.scale:
        factor = 10 ** (target.scale - scale)
        always_fits = digits + target.scale - scale <= target.precision
        fits = wide.abs() <= int128((10**target.precision - 1) // factor)
        wide = wide * int128(factor)
    else:
        factor = 10 ** (scale - target.scale)
        magnitude = wide.abs()
        rounded = magnitude // factor + (magnitude % factor >= factor // 2).cast(pl.Int128)
        always_fits = digits - scale + 1 <= target.precision - target.scale
        fits = rounded <= int128(10**target.precision - 1)
        wide = pl.when(wide < 0).then(minus(rounded)).otherwise(rounded)
    return to_decimal(wide if always_fits else pl.when(fits).then(wide), target), always_fits


def _round(target: DecimalType, value: float) -> Decimal:
    wide = Context(prec=400, rounding=ROUND_HALF_UP)  # a DOUBLE has up to 309 digits, a scale 38
    return target.accept(Decimal(repr(value)).quantize(Decimal((0, (1,), -target.scale)), context=wide))


def _decimal_to_int(source: DecimalType, target: Type, value: pl.Expr) -> tuple[pl.Expr, bool]:
    wide = unscaled(value)
    integer = wide.abs() // int128(10**source.scale)
    integer = pl.when(wide < 0).then(minus(integer)).otherwise(integer)
    return integer.cast(pl.Int64, strict=False), source.precision - source.scale <= 18


def _decimal_to_double(source: DecimalType, target: Type, value: pl.Expr) -> tuple[pl.Expr, bool]:
    if source.precision <= 15:  # dividend and divisor are exact in binary: the quotient is rounded once
        return divided(unscaled(value).cast(pl.Float64), 10.0**source.scale), True
    return each(value, float, DOUBLE), True


DECIMAL = decimal(38, 0)
"""Represents every DECIMAL in the table of conversions."""


def _kinds(source: Type, target: Type) -> tuple[Type, Type]:
    kind, other = (DECIMAL if isinstance(t, DecimalType) else t for t in (source, target))
    return kind, other


_RISING: dict[tuple[Type, Type], Conversion] = {
    (INT, DOUBLE): _polars_cast,
    (INT, DECIMAL): _to_decimal,
    (DOUBLE, INT): _double_to_int,
    (DOUBLE, DECIMAL): lambda source, target, value: (each(value, partial(_round, target), target), False),
    (DECIMAL, INT): _decimal_to_int,
    (DECIMAL, DOUBLE): _decimal_to_double,
    (DECIMAL, DECIMAL): _to_decimal,
    (BOOLEAN, INT): _polars_cast,
    (DATE, TIMESTAMP): _polars_cast,
    (TIMESTAMP, DATE): lambda source, target, value: (value.dt.date(), True),
}
"""Monotone conversions, which never fall. Numbers are rounded or truncated; NaN fails."""

CONVERSIONS: dict[tuple[Type, Type], Conversion] = {
    **_RISING,
    **{
        (STRING, t): lambda source, target, value: (
            value.map_batches(target.read_sql_column, target.dtype, is_elementwise=True),
            False,
        )
        for t in (INT, DOUBLE, DECIMAL, BOOLEAN, DATE, TIMESTAMP)
    },
    **{
        (t, STRING): lambda source, target, value: (source.format_column(value), True)
        for t in (INT, DECIMAL, BOOLEAN, DATE, TIMESTAMP)
    },
    # Not `format_column`, which differs near zero.
    (DOUBLE, STRING): lambda source, target, value: (each(value, source.format, target), True),
    (INT, BOOLEAN): lambda source, target, value: (value != 0, True),
}
"""All conversions."""


def _type_call(record: Function, args: tuple[Expression, ...]) -> Expression:
    raise ValueError("CAST needs a type")


def _cast(call: Call, value: pl.Expr) -> FunctionResult:
    result, fails = cast_to(call.args[0].type, call.type, value)
    return FunctionResult(result, [] if fails is None else [(fails, f"no {call.type}")])


def _try_cast(call: Call, value: pl.Expr) -> FunctionResult:
    return FunctionResult(cast_to(call.args[0].type, call.type, value)[0])


CAST = Function(
    "CAST", _type_call, _cast, arity=(1, 1),
    notation=Notation(lambda call: ["CAST(", call.args[0], f" AS {call.type})"]),
    monotone=lambda call: (0, True) if _kinds(call.args[0].type, call.type) in _RISING else None,
    doc=Doc("CAST(x AS type), x::type",
            "x converted to the type. If x has no value of that type, the tuple is a reject. A text is read as in XML, "
            "and in the forms of SQL: `yes`, `inf`, `2024-02-29 12:00`.",
            "CAST(2.5 AS INT)"))  # fmt: skip
TRY_CAST = Function(
    "TRY_CAST", _type_call, _try_cast, arity=(1, 1), nullable=lambda args: True,
    notation=Notation(lambda call: ["TRY_CAST(", call.args[0], f" AS {call.type})"]),
    doc=Doc("TRY_CAST(x AS type)",
            "x converted to the type; null if x has no value of that type.",
            "TRY_CAST('2,5' AS INT)"))  # fmt: skip
TRY = Function(
    "TRY", lambda record, args: record.call(args[0].type, *args), lambda call, value: FunctionResult(value),
    called=("TRY",), arity=(1, 1), nullable=lambda args: True, non_null=of_first, compile=attempted, takes_whole=True,
    doc=Doc("TRY(x)",
            "x; null if the evaluation of x fails.",
            "TRY(1 / 0)"))  # fmt: skip
