"""Arithmetic: INT in 128 bits with an overflow check, DECIMAL unscaled in 128 bits, DOUBLE by IEEE 754, canonical."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
import polars as pl

from xmlpunct.base.doubles import canonical, divided, paired
from xmlpunct.expressions.expression import (
    Call,
    CallText,
    Doc,
    Expression,
    Function,
    FunctionResult,
    Literal,
    Notation,
    Syntax,
    Typing,
    infix,
)
from xmlpunct.expressions.functions.casts import as_decimal, cast, is_null, literal
from xmlpunct.expressions.functions.interval_arithmetic import of_moments
from xmlpunct.expressions.int128 import int128, minus, rescale, to_decimal, unscaled
from xmlpunct.types import DATE, DOUBLE, INT, TIMESTAMP, DecimalType, decimal

# typing


def of_number(name: str, argument: Expression) -> Expression:
    """A numeric argument; a null becomes numeric. Raises ValueError."""
    (number,) = _numbers(name, [argument])
    return number


def _numbers(name: str, args: Sequence[Expression]) -> list[Expression]:
    """Numeric arguments, all DOUBLE if one is. Raises ValueError."""
    types = [a.type for a in args]
    type_ = DOUBLE if DOUBLE in types else next((t for t in types if t.numeric), INT)
    numbers = [literal(type_, None) if is_null(a) else a for a in args]
    for a in numbers:
        if not a.type.numeric:
            raise ValueError(f"{name} needs numbers, not {a.type}")
    return [cast(a, DOUBLE) for a in numbers] if type_ is DOUBLE else numbers


def _type_call(of_decimals: Callable[[DecimalType, DecimalType], DecimalType] | None = None) -> Typing:
    """Typing of functions of two numbers. ``of_decimals`` computes the type for DECIMAL (None: not supported)."""

    def type_call(record: Function, args: tuple[Expression, ...]) -> Expression:
        if any(a.type in (DATE, TIMESTAMP) for a in args):
            return of_moments(record.name, *args)
        a, b = _numbers(record.name, args)
        if not isinstance(a.type, DecimalType) and not isinstance(b.type, DecimalType):
            return record.call(a.type, a, b)
        if of_decimals is None:
            raise ValueError(f"{record.name} over DECIMAL has no result type: CAST to DOUBLE first")
        p, q = as_decimal(a.type), as_decimal(b.type)
        return record.call(of_decimals(p, q), cast(a, p), cast(b, q))

    return type_call


def _type_quotient(record: Function, args: tuple[Expression, ...]) -> Expression:
    """The quotient of DECIMALs is a DOUBLE, as in DuckDB."""
    doubles = (cast(a, DOUBLE) if isinstance(a.type, DecimalType) else a for a in args)
    return _type_call()(record, tuple(doubles))


def _type_of_sum(p: DecimalType, q: DecimalType) -> DecimalType:
    scale = max(p.scale, q.scale)
    return decimal(min(max(p.precision - p.scale, q.precision - q.scale) + scale + 1, 38), scale)


def _type_of_product(p: DecimalType, q: DecimalType) -> DecimalType:
    scale = p.scale + q.scale
    if scale > 38:
        raise ValueError(f"{p} * {q} needs a scale of {scale}, of 38: CAST to a smaller one first")
    return decimal(min(p.precision + q.precision, 38), scale)


def _type_sign(record: Function, args: tuple[Expression, ...]) -> Expression:
    a = of_number(record.name, args[0])
    return record.call(a.type, a)


# evaluation

_LOW, _HIGH = -(2**63), 2**63 - 1


def to_int(wide: pl.Expr) -> FunctionResult:
    """128-bit results as INT. A result that does not fit fails."""
    overflows = ~wide.is_between(int128(_LOW), int128(_HIGH))
    return FunctionResult(wide.cast(pl.Int64, strict=False), [(overflows, "INT overflow")])


def _operation(
    operation: Callable[[Any, Any], Any],
    of_decimals: Callable[[DecimalType, list[DecimalType], pl.Expr, pl.Expr], FunctionResult],
) -> Callable[[Call, pl.Expr, pl.Expr], FunctionResult]:
    def evaluate(call: Call, a: pl.Expr, b: pl.Expr) -> FunctionResult:
        if call.type is DOUBLE:
            return FunctionResult(canonical(operation(a, b)))
        if isinstance(call.type, DecimalType):
            return of_decimals(call.type, [as_decimal(argument.type) for argument in call.args], a, b)
        return to_int(operation(a.cast(pl.Int128), b.cast(pl.Int128)))

    return evaluate


def _product(type_: DecimalType, types: list[DecimalType], a: pl.Expr, b: pl.Expr) -> FunctionResult:
    x, y = unscaled(a), unscaled(b)
    bound = int128(10**type_.precision - 1)
    limit = bound // pl.when(y == 0).then(int128(1)).otherwise(y).abs()
    always_fits = sum(t.precision for t in types) <= 38
    return _to_decimal(x * y, type_, [] if always_fits else [(y != 0) & (x.abs() > limit)])


def _sum(
    type_: DecimalType, types: list[DecimalType], a: pl.Expr, b: pl.Expr, sign: int = 1
) -> FunctionResult:
    p, q = types
    x, x_fails = rescale(unscaled(a), p, type_.scale)
    y, y_fails = rescale(unscaled(b), q, type_.scale)
    if sign < 0:
        y = minus(y)
    overflows = [f for f in (x_fails, y_fails) if f is not None]
    if max(p.precision - p.scale, q.precision - q.scale) + type_.scale + 1 > 38:
        bound = int128(10**type_.precision - 1)
        overflows.append(pl.when(y > 0).then(x > bound - y).otherwise(x < minus(bound) - y))
    return _to_decimal(x + y, type_, overflows)


def _to_decimal(wide: pl.Expr, type_: DecimalType, overflows: Sequence[pl.Expr]) -> FunctionResult:
    """Unscaled results as decimals. They fail where a condition in ``overflows`` holds."""
    if not overflows:
        return FunctionResult(to_decimal(wide, type_))
    fails = reduce(lambda a, b: a | b, overflows)
    return FunctionResult(to_decimal(pl.when(~fails).then(wide), type_), [(fails, f"{type_} overflow")])


def _quotient(call: Call, a: pl.Expr, b: pl.Expr) -> FunctionResult:
    divisor = call.args[1]
    if call.type is DOUBLE:
        constant = divisor.value if isinstance(divisor, Literal) else None
        return FunctionResult(canonical(divided(a, b if constant is None else constant)), _by_zero(call, b))
    x, y = a.cast(pl.Int128), b.cast(pl.Int128)
    magnitude = x.abs() // y.abs()
    value, overflow = to_int(pl.when((x < 0) == (y < 0)).then(magnitude).otherwise(minus(magnitude)))
    may_overflow = not isinstance(divisor, Literal) or divisor.value == -1
    return FunctionResult(value, [*_by_zero(call, b), *(overflow if may_overflow else ())])


def _remainder(call: Call, a: pl.Expr, b: pl.Expr) -> FunctionResult:
    if call.type is DOUBLE:
        return FunctionResult(
            canonical(paired(np.fmod, a, b)), _by_zero(call, b)
        )  # exact, with the dividend's sign
    x, y = a.cast(pl.Int128), b.cast(pl.Int128)
    magnitude = x.abs() % y.abs()
    value = pl.when(x < 0).then(minus(magnitude)).otherwise(magnitude).cast(pl.Int64, strict=False)
    return FunctionResult(value, _by_zero(call, b))


def _by_zero(call: Call, divisor: pl.Expr) -> list[tuple[pl.Expr, str]]:
    argument = call.args[1]
    if isinstance(argument, Literal) and argument.value != 0:
        return []
    return [(divisor == 0, "division by zero")]


def _sign_operation(
    wide: Callable[[pl.Expr], pl.Expr], double: Callable[[pl.Expr], pl.Expr]
) -> Callable[[Call, pl.Expr], FunctionResult]:
    def evaluate(call: Call, a: pl.Expr) -> FunctionResult:
        if call.type is INT:
            return to_int(wide(a.cast(pl.Int128)))
        if isinstance(call.type, DecimalType):
            return FunctionResult(to_decimal(wide(unscaled(a)), call.type))
        return FunctionResult(double(a))

    return evaluate


# monotonicity, and operators made of other ones


def _finite(argument: Expression) -> Any:
    """The value of a constant number that is neither null, nor INF, nor NaN; else None."""
    value = argument.value if isinstance(argument, Literal) else None
    return None if value is None or (argument.type is DOUBLE and not abs(value) < float("inf")) else value


def _with_addend(sign: bool) -> Callable[[Call], tuple[int, bool] | None]:
    """Monotone in one argument if the other is constant. Rises with the first; with the second only if ``sign``."""

    def monotone(call: Call) -> tuple[int, bool] | None:
        if _finite(call.args[1]) is not None:
            return 0, True
        return None if _finite(call.args[0]) is None else (1, sign)

    return monotone


def _with_factor(call: Call) -> tuple[int, bool] | None:
    a, b = map(_finite, call.args)
    factor, position = (a, 1) if b is None else (b, 0)
    return (position, factor > 0) if factor else None


def _with_divisor(call: Call) -> tuple[int, bool] | None:
    divisor = _finite(call.args[1])
    return (0, divisor > 0) if divisor else None


def _type_whole_quotient(record: Function, args: tuple[Expression, ...]) -> Expression:
    quotient = DIVIDE(*args)
    if quotient.type is not INT:
        raise ValueError("// takes INTs: write TRUNC(a / b)")
    return quotient


def _write_negative(call: Call) -> CallText:
    (argument,) = call.args
    if isinstance(argument, Literal) and str(argument).startswith("-"):
        return ["-(", argument, ")"]
    return ["-", *call.operand(0)]


# fmt: off
PLUS = Function(
    "+", _type_call(_type_of_sum), _operation(lambda a, b: a + b, _sum),
    Syntax("Add", "this expression"), infix(7), monotone=_with_addend(True),
    doc=Doc("a + b",
            "The sum. INT and DECIMAL are exact; a tuple whose sum does not fit the type is a reject.",
            "2 + 0.5"))
MINUS = Function(
    "-", _type_call(_type_of_sum), _operation(lambda a, b: a - b, partial(_sum, sign=-1)),
    Syntax("Sub", "this expression"), infix(7), monotone=_with_addend(False),
    doc=Doc("a - b",
            "The difference.",
            "2 - 5"))
TIMES = Function(
    "*", _type_call(_type_of_product), _operation(lambda a, b: a * b, _product),
    Syntax("Mul", "this expression"), infix(8), monotone=_with_factor,
    doc=Doc("a * b",
            "The product.",
            "1.5 * 2.25"))
DIVIDE = Function(
    "/", _type_quotient, _quotient,
    Syntax("Div", "this expression", unread="typed safe"), infix(8), monotone=_with_divisor,
    doc=Doc("a / b",
            "The quotient. Two INTs give an INT, rounded towards 0; DECIMALs give a DOUBLE. Division by 0 is a reject.",
            "-7 / 2"))
WHOLE_QUOTIENT = Function(
    "//", _type_whole_quotient, syntax=Syntax("IntDiv", "this expression"),
    doc=Doc("a // b",
            "The quotient of two INTs, rounded towards 0.",
            "-7 // 2"))
REMAINDER = Function("%", _type_call(), _remainder, Syntax("Mod", "this expression"), infix(8),
    doc=Doc("a % b, MOD(a, b)",
            "The remainder of a / b, with the sign of a. Division by 0 is a reject.",
            "MOD(-7, 3)"))
NEGATIVE = Function(
    "NEG", _type_sign, _sign_operation(minus, lambda a: canonical(-a)), arity=(1, 1),
    notation=Notation(_write_negative, 9), monotone=lambda call: (0, False),
    doc=Doc("-a",
            "The number with the opposite sign.",
            "-(2 - 5)"))
ABS = Function("ABS", _type_sign, _sign_operation(pl.Expr.abs, pl.Expr.abs), Syntax("Abs"), arity=(1, 1),
    doc=Doc("ABS(x)",
            "The absolute value.",
            "ABS(-2.5)"))
