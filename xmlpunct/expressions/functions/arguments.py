"""Arguments of functions: constants, and what arguments are together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from xmlpunct.expressions.expression import Expression, Literal
from xmlpunct.types import DOUBLE, INT, STRING, DecimalType, Type, Value, decimal

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


def check_count(name: str, args: Sequence[Expression], least: int, most: int | None = None) -> None:
    """Raises ValueError for too few or too many arguments."""
    most = least if most is None else most
    if not least <= len(args) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise ValueError(f"{name} takes {wanted} argument{'s' * (wanted != '1')}, not {len(args)}")


def of_type(name: str, argument: Expression, type_: Type) -> Expression:
    """The argument if it is of that type, or a null that becomes it. Raises ValueError."""
    if is_null(argument):
        return literal(type_, None)
    if argument.type is not type_:
        raise ValueError(f"{name} wants {type_}, not {argument.type}")
    return argument


def common_type(args: Iterable[Expression]) -> Type:
    """The type that all can have together: their own, or for numbers the wider. Raises ValueError."""
    known = [a.type for a in args if not is_null(a)]
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
