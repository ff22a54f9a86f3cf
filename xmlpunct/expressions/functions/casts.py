"""Constants, the common types of arguments, and CAST, which gives arguments such a type."""

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
from xmlpunct.expressions.expression import Call, Doc, Expression, Function, Literal, Notation, Outcome
from xmlpunct.expressions.int128 import int128, minus, to_decimal, unscaled
from xmlpunct.expressions.non_null import of_first
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, DecimalType, Type, Value, decimal

NULL = Literal(STRING, True, None)
"""The NULL literal, before it has taken its type from what it stands with."""


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
    whole, _, part = text.partition(".")
    if not part and "." not in text and -(2**63) <= int(text) < 2**63:
        return literal(INT, int(text))
    digits = len(whole.lstrip("0")) + len(part)
    type_ = decimal(max(digits, 1), len(part))
    return literal(type_, type_.parse(text))


def is_null(argument: Expression) -> bool:
    """Whether it is the constant null."""
    return isinstance(argument, Literal) and argument.value is None


def of_type(name: str, argument: Expression, type_: Type) -> Expression:
    """The argument if it is of that type, or a null that becomes it. Raises ValueError."""
    if is_null(argument):
        return literal(type_, None)
    if argument.type is not type_:
        raise ValueError(f"{name} wants {type_}, not {argument.type}")
    return argument


def common_type(args: Iterable[Expression]) -> Type:
    """The type that all can have together: their own, or for numbers the wider. Raises ValueError.

    Nulls take the type of the others. Among nulls alone CAST(NULL AS type) decides.
    """
    args = list(args)
    known = [a.type for a in args if not is_null(a)] or [a.type for a in args if a.type is not STRING]
    return reduce(_wider, known) if known else STRING


def as_decimal(type_: Type) -> DecimalType:
    """What INT or a DECIMAL counts as among decimals."""
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
    """CAST(argument AS type). Raises ValueError where there is no conversion, or a literal has none."""
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
    """TRY_CAST(argument AS type). Raises ValueError where there is no conversion."""
    if argument.type == type_ or is_null(argument):
        return cast(argument, type_)
    _check(argument.type, type_)
    return TRY_CAST.call(type_, argument)


def _check(source: Type, target: Type) -> None:
    """Raise ValueError where there is no conversion."""
    if _kinds(source, target) not in CONVERSIONS:
        raise ValueError(f"there is no CAST from {source if source.comparable else source.kind} to {target}")


def fold(argument: Literal, type_: Type) -> Literal | None:
    """The literal as one of another type, where Python can tell without loss of meaning."""
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
        except ValueError:  # rounds, or fails when it runs
            return None
    return None


def unify(args: Sequence[Expression]) -> list[Expression]:
    """All of ``args`` cast to their common type. Raises ValueError."""
    type_ = common_type(args)
    return [cast(a, type_) for a in args]


def cast_to(source: Type, target: Type, value: pl.Expr) -> tuple[pl.Expr, pl.Expr | None]:
    """The column as one of type ``target``, and the condition under which that fails (None: never).

    A string is read and printed in the lexical form of the type, as the text of a tuple is; it is also read in the
    forms of SQL (`Type.sql_forms`), as a literal is. A conversion that loses
    digits truncates toward zero to INT, and rounds half up (away from zero) to a DECIMAL.
    """
    result, total = CONVERSIONS[_kinds(source, target)](source, target, value)
    return result, None if total else value.is_not_null() & result.is_null()


Conversion = Callable[[Any, Any, pl.Expr], tuple[pl.Expr, bool]]
"""Takes the types and a column. Gives the column, null where the conversion fails, and whether it never fails."""


def each(value: pl.Expr, convert: Callable[[Any], Value], target: Type) -> pl.Expr:
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


def _plain(source: Type, target: Type, value: pl.Expr) -> tuple[pl.Expr, bool]:
    return value.cast(target.dtype), True


def _double_to_int(source: Type, target: Type, value: pl.Expr) -> tuple[pl.Expr, bool]:
    return value.cast(pl.Int64, strict=False), False  # what is out of range, INF or NaN becomes null


def _to_decimal(source: Type, target: DecimalType, value: pl.Expr) -> tuple[pl.Expr, bool]:
    digits, scale = as_decimal(source).precision, as_decimal(source).scale
    wide = unscaled(value) if isinstance(source, DecimalType) else value.cast(pl.Int128)
    if scale <= target.scale:
        factor = 10 ** (target.scale - scale)
        safe = digits + target.scale - scale <= target.precision
        fits = wide.abs() <= int128((10**target.precision - 1) // factor)
        wide = wide * int128(factor)
    else:
        factor = 10 ** (scale - target.scale)
        size = wide.abs()
        rounded = size // factor + (size % factor >= factor // 2).cast(pl.Int128)
        safe = digits - scale + 1 <= target.precision - target.scale
        fits = rounded <= int128(10**target.precision - 1)
        wide = pl.when(wide < 0).then(minus(rounded)).otherwise(rounded)
    return to_decimal(wide if safe else pl.when(fits).then(wide), target), safe


def _round(target: DecimalType, value: float) -> Decimal:
    wide = Context(prec=400, rounding=ROUND_HALF_UP)  # a DOUBLE has up to 309 digits, a scale 38
    return target.accept(Decimal(repr(value)).quantize(Decimal((0, (1,), -target.scale)), context=wide))


def _decimal_to_int(source: DecimalType, target: Type, value: pl.Expr) -> tuple[pl.Expr, bool]:
    wide = unscaled(value)
    whole = wide.abs() // int128(10**source.scale)
    whole = pl.when(wide < 0).then(minus(whole)).otherwise(whole)
    return whole.cast(pl.Int64, strict=False), source.precision - source.scale <= 18


def _decimal_to_double(source: DecimalType, target: Type, value: pl.Expr) -> tuple[pl.Expr, bool]:
    if source.precision <= 15:  # both exact in binary, so that the quotient is rounded once
        return divided(unscaled(value).cast(pl.Float64), 10.0**source.scale), True
    return each(value, float, DOUBLE), True


DECIMAL = decimal(38, 0)
"""Stands for every DECIMAL in the table of conversions."""


def _kinds(source: Type, target: Type) -> tuple[Type, Type]:
    kind, other = (DECIMAL if isinstance(t, DecimalType) else t for t in (source, target))
    return kind, other


_RISING: dict[tuple[Type, Type], Conversion] = {
    (INT, DOUBLE): _plain,
    (INT, DECIMAL): _to_decimal,
    (DOUBLE, INT): _double_to_int,
    (DOUBLE, DECIMAL): lambda source, target, value: (each(value, partial(_round, target), target), False),
    (DECIMAL, INT): _decimal_to_int,
    (DECIMAL, DOUBLE): _decimal_to_double,
    (DECIMAL, DECIMAL): _to_decimal,
    (BOOLEAN, INT): _plain,
    (DATE, TIMESTAMP): _plain,
    (TIMESTAMP, DATE): lambda source, target, value: (value.dt.date(), True),
}
"""Conversions that never fall. Those of numbers round or truncate, those of DOUBLE fail on NaN."""

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
    (DOUBLE, STRING): lambda source, target, value: (
        each(value, source.format, target),
        True,
    ),  # also near zero
    (INT, BOOLEAN): lambda source, target, value: (value != 0, True),
}
"""Every conversion there is."""


def _typed(record: Function, args: tuple[Expression, ...]) -> Expression:
    raise ValueError("CAST wants a type")


def _converted(call: Call, value: pl.Expr) -> Outcome:
    result, fails = cast_to(call.args[0].type, call.type, value)
    return Outcome(result, [] if fails is None else [(fails, f"no {call.type}")])


def _attempted(call: Call, value: pl.Expr) -> Outcome:
    return Outcome(cast_to(call.args[0].type, call.type, value)[0])


CAST = Function(
    "CAST", _typed, _converted, arity=(1, 1),
    notation=Notation(lambda call: ["CAST(", call.args[0], f" AS {call.type})"]),
    monotone=lambda call: (0, True) if _kinds(call.args[0].type, call.type) in _RISING else None,
    doc=Doc("CAST(x AS type), x::type",
            "x as another type. What has no such value is a reject. A text is read as a tuple's text is, and in SQL's "
            "forms: `yes`, `inf`, `2024-02-29 12:00`.",
            "CAST(2.5 AS INT)"))  # fmt: skip
TRY_CAST = Function(
    "TRY_CAST", _typed, _attempted, arity=(1, 1), nullable=lambda args: True,
    notation=Notation(lambda call: ["TRY_CAST(", call.args[0], f" AS {call.type})"]),
    doc=Doc("TRY_CAST(x AS type)",
            "x as another type, null where it has no such value.",
            "TRY_CAST('2,5' AS INT)"))  # fmt: skip
TRY = Function(
    "TRY", lambda record, args: record.call(args[0].type, *args), lambda call, value: Outcome(value),
    called=("TRY",), arity=(1, 1), nullable=lambda args: True, non_null=of_first, compile=attempted, takes_whole=True,
    doc=Doc("TRY(x)",
            "x, null where it fails.",
            "TRY(1 / 0)"))  # fmt: skip
