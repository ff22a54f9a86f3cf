"""A reference evaluator for `xmlpunct.expressions.functions`: one row at a time, in plain Python."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any
from xml.sax.saxutils import escape

import polars as pl

from xmlpunct.expressions.expression import Call, Column, Expression, Literal
from xmlpunct.types import BOOLEAN, DOUBLE, INT, NAN, STRING, TIMESTAMP, DecimalType, Type


class EvaluationError(Exception):
    """The tuple has no result: division by zero, overflow, a CAST that fails."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def evaluate_row(expression: Expression, row: Mapping[str, Any]) -> Any:
    """The value of an expression over one row (a value by column name; None is null).

    Raises `EvaluationError`.
    """
    if isinstance(expression, Column):
        return row[expression.name]
    if isinstance(expression, Literal):
        return expression.value
    assert isinstance(expression, Call)
    name, args = expression.function, expression.args
    if name in _LAZY:
        return _LAZY[name](args, row)
    values = [evaluate_row(argument, row) for argument in args]
    if name == "IS NULL":
        return values[0] is None
    if name in ("IS DISTINCT FROM", "IS NOT DISTINCT FROM"):
        a, b = values
        same = _order(a) == _order(b) if a is not None and b is not None else a is b
        return same == (name == "IS NOT DISTINCT FROM")
    if name in ("GREATEST", "LEAST"):
        non_null = [v for v in values if v is not None]
        return (max if name == "GREATEST" else min)(non_null, key=_order, default=None)
    if name == "IN":
        return _in(values[0], values[1:])
    if name == "XMLELEMENT":
        return _element(*values)
    if name == "XMLFOREST":
        elements = [
            _element(n, "", v) for n, v in zip(values[0].split(), values[1:], strict=True) if v is not None
        ]
        return "".join(elements) or None
    if None in values:
        return None
    try:
        return _apply(expression, values)
    except EvaluationError as error:
        raise EvaluationError(f"{error.reason}: {expression}") from None


def _apply(call: Call, values: list[Any]) -> Any:
    """Apply a function whose result is null if an operand is null."""
    name = call.function
    if name == "CAST":
        return _cast(call.args[0].type, call.type, values[0])
    if name in ("XMLTEXT", "XMLATTRIBUTE"):
        return _escaped(call.args[0].type, values[0], name == "XMLATTRIBUTE")
    if name in ("+", "-") and isinstance(call.type, DecimalType):
        # both operands are converted to the result type first
        values = [_checked(call.type, value) for value in values]
    result = _FUNCTIONS[name](*values)
    return _checked(call.type, result) if name in ("+", "-", "*", "/", "%", "NEG", "ABS") else result


# XML


def _element(opening: str, names: str, *values: Any) -> str:
    count = len(names.split())
    attributes = [(n, v) for n, v in zip(names.split(), values[:count], strict=True) if v is not None]
    head = "".join([opening, *(f' {n}="{v}"' for n, v in attributes)])
    return f"<{head}>{''.join(v for v in values[count:] if v is not None)}</{opening.split()[0]}>"


def _escaped(type_: Type, value: Any, in_attribute: bool) -> str:
    text = (
        value if type_ is STRING else pl.select(type_.format_column(pl.lit(value, dtype=type_.dtype))).item()
    )
    if re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", text):
        raise EvaluationError("a character that XML cannot hold")
    return escape(
        text, {"\r": "&#13;"} | ({'"': "&quot;", "\n": "&#10;", "\t": "&#9;"} if in_attribute else {})
    )


# functions that do not evaluate all operands


def _decided(args: tuple[Expression, ...], row: Mapping[str, Any], decisive: bool) -> Any:
    """AND (``decisive`` False) or OR (True): an operand of that value decides, even if another one fails."""
    values: list[Any] = []
    failure: EvaluationError | None = None
    for argument in args:
        try:
            values.append(evaluate_row(argument, row))
        except EvaluationError as error:
            failure = failure or error
    if decisive in values:
        return decisive
    if failure is not None:
        raise failure
    return None if None in values else not decisive


def _case(args: tuple[Expression, ...], row: Mapping[str, Any]) -> Any:
    for i in range(0, len(args) - 1, 2):
        if evaluate_row(args[i], row) is True:
            return evaluate_row(args[i + 1], row)
    return evaluate_row(args[-1], row)


def _coalesce(args: tuple[Expression, ...], row: Mapping[str, Any]) -> Any:
    for argument in args:
        if (value := evaluate_row(argument, row)) is not None:
            return value
    return None


def _in_xml(text: str, type_: Type) -> str:
    """Convert a SQL text to the XML Schema form of its value, where the two differ."""
    text = text.strip(" \t\r\n")
    if type_ is BOOLEAN:
        return {"t": "true", "y": "true", "yes": "true", "f": "false", "n": "false", "no": "false"}.get(
            text.lower(), text.lower() if text.lower() in ("true", "false") else text
        )
    if (
        type_ is DOUBLE
        and text.lower().lstrip("+-") in ("inf", "infinity", "nan")
        and len(text.lstrip("+-")) + 2 > len(text)
    ):
        sign = "-" if text.startswith("-") else ""
        return "NaN" if text.lower().endswith("nan") else f"{sign}INF"
    if type_ is TIMESTAMP and re.match(r"\d{4}-\d\d-\d\d", text):
        day, time = text[:10], text[10:]
        if not time:
            return f"{day}T00:00:00"
        time = "T" + time.lstrip(" ") if time.startswith(" ") else time
        short = re.fullmatch(r"(T\d\d:\d\d)(|Z|[+-].*)", time)
        return f"{day}{short[1]}:00{short[2]}" if short else day + time
    return text


def _capital(c: str) -> str:
    """The upper case of a letter as one character, as in DuckDB."""
    return next((u for u in (c.upper(), c.title(), "ẞ" if c == "ß" else c) if len(u) == 1), c)


_LAZY: dict[str, Callable[[tuple[Expression, ...], Mapping[str, Any]], Any]] = {
    "AND": lambda args, row: _decided(args, row, False),
    "OR": lambda args, row: _decided(args, row, True),
    "CASE": _case,
    "COALESCE": _coalesce,
}


# numbers


def _order(value: Any) -> Any:
    """A comparison key: numbers of all types compare exactly, and NaN is greatest."""
    if isinstance(value, float) and math.isnan(value):
        return (1, 0)
    if isinstance(value, float) and math.isinf(value):
        return (0, Fraction(10**400 if value > 0 else -(10**400)))
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return (0, Fraction(value))
    return value


def _in(subject: Any, members: list[Any]) -> Any:
    if subject is None:
        return None
    if any(_order(subject) == _order(m) for m in members if m is not None):
        return True
    return None if None in members else False


def _checked(type_: Type, value: Any) -> Any:
    """Convert an arithmetic result to its type, or raise `EvaluationError`."""
    if type_ is DOUBLE:
        return NAN if math.isnan(value) else value + 0.0
    if type_ is INT:
        if not -(2**63) <= value < 2**63:
            raise EvaluationError("INT overflow")
        return value
    assert isinstance(type_, DecimalType)
    unscaled = Fraction(value) * 10**type_.scale
    assert unscaled.denominator == 1
    if abs(unscaled) >= 10**type_.precision:
        raise EvaluationError(f"{type_} overflow")
    return type_.at(int(unscaled))


def _arithmetic(exact: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def compute(a: Any, b: Any) -> Any:
        if isinstance(a, Decimal):
            return exact(Fraction(a), Fraction(b))
        return exact(a, b)

    return compute


def _divide(a: Any, b: Any) -> Any:
    if b == 0:
        raise EvaluationError("division by zero")
    if isinstance(a, float):
        return a / b
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: Any, b: Any) -> Any:
    if b == 0:
        raise EvaluationError("division by zero")
    if isinstance(a, float):
        return math.fmod(a, b) if math.isfinite(a) else NAN
    return abs(a) % abs(b) * (1 if a >= 0 else -1)


# text


def _substring(text: str, first: int, length: int | None = None) -> str:
    start = first - 1 if first >= 0 else len(text) + first
    end = max(start, len(text)) if length is None else start + length
    low, high = sorted(max(position, 0) for position in (start, end))
    return text[low:high]


def _like(text: str, pattern: str, escape: str = "") -> bool:
    if not pattern:
        return not text
    if escape and pattern[0] == escape and len(pattern) > 1:
        return text[:1] == pattern[1] and _like(text[1:], pattern[2:], escape)
    if pattern[0] == "%":
        return any(_like(text[i:], pattern[1:], escape) for i in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and _like(text[1:], pattern[1:], escape)


# time


def _truncate(unit: str, at: datetime) -> datetime:
    if unit == "WEEK":
        at -= timedelta(days=at.weekday())
    if unit == "QUARTER":
        at = at.replace(month=(at.month - 1) // 3 * 3 + 1, day=1)
    below = {"YEAR": 1, "QUARTER": 2, "MONTH": 2, "WEEK": 3, "DAY": 3, "HOUR": 4, "MINUTE": 5, "SECOND": 6}[
        unit
    ]
    first = [None, 1, 1, 0, 0, 0, 0]
    return datetime(*at.timetuple()[:below], *first[below:6], tzinfo=UTC)  # type: ignore[arg-type]


def _days_later(day: date, days: int, _: str) -> date:
    try:
        return day + timedelta(days=days)
    except OverflowError:
        raise EvaluationError("DATE overflow") from None


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "+": _arithmetic(lambda a, b: a + b),
    "-": _arithmetic(lambda a, b: a - b),
    "*": _arithmetic(lambda a, b: a * b),
    "/": _divide,
    "%": _remainder,
    "NEG": lambda a: -a if not isinstance(a, Decimal) else a.copy_negate(),
    "ABS": lambda a: abs(a) if not isinstance(a, Decimal) else a.copy_abs(),
    "=": lambda a, b: _order(a) == _order(b),
    "<>": lambda a, b: _order(a) != _order(b),
    "<": lambda a, b: _order(a) < _order(b),
    "<=": lambda a, b: _order(a) <= _order(b),
    ">": lambda a, b: _order(a) > _order(b),
    ">=": lambda a, b: _order(a) >= _order(b),
    "NOT": lambda a: not a,
    "UPPER": lambda s: "".join(map(_capital, s)),
    "LOWER": lambda s: "".join(c.lower()[0] for c in s),
    "TRIM": lambda s: s.strip(" "),
    "LENGTH": len,
    "SUBSTRING": _substring,
    "||": lambda a, b: a + b,
    "LIKE": _like,
    "YEAR": lambda d: d.year,
    "MONTH": lambda d: d.month,
    "DAY": lambda d: d.day,
    "HOUR": lambda d: d.hour,
    "MINUTE": lambda d: d.minute,
    "SECOND": lambda d: d.second,
    "DATE_TRUNC": _truncate,
    "DATE_ADD": _days_later,
    "DATE_DIFF": lambda unit, a, b: (b.date() - a.date()).days,
}


# CAST


def _cast(source: Type, target: Type, value: Any) -> Any:
    try:
        if source is STRING:
            return target.read(_in_xml(value, target))
        if target is STRING:
            return source.format(value)
        return _CASTS[_kind(source), _kind(target)](value, target)
    except (ValueError, OverflowError) as error:
        raise EvaluationError(f"no {target}") from error


def _kind(type_: Type) -> str:
    return re.sub(r"\(.*", "", type_.name)


def _round(value: Any, target: Any) -> Decimal:
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not number.is_finite():
        raise ValueError(value)
    step = Decimal((0, (1,), -target.scale))
    return target.accept(number.quantize(step, context=Context(prec=1000, rounding=ROUND_HALF_UP)))


def _midnight(value: date, _: Type) -> datetime:
    return datetime(value.year, value.month, value.day, tzinfo=UTC)


_CASTS: dict[tuple[str, str], Callable[[Any, Type], Any]] = {
    ("INT", "DOUBLE"): lambda v, t: float(v),
    ("INT", "DECIMAL"): _round,
    ("INT", "BOOLEAN"): lambda v, t: v != 0,
    ("DOUBLE", "INT"): lambda v, t: INT.accept(math.trunc(v)),
    ("DOUBLE", "DECIMAL"): _round,
    ("DECIMAL", "INT"): lambda v, t: INT.accept(math.trunc(v)),
    ("DECIMAL", "DOUBLE"): lambda v, t: float(v) + 0.0,
    ("DECIMAL", "DECIMAL"): _round,
    ("BOOLEAN", "INT"): lambda v, t: int(v),
    ("DATE", "TIMESTAMP"): _midnight,
    ("TIMESTAMP", "DATE"): lambda v, t: v.date(),
}
