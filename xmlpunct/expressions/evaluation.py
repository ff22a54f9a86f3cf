"""What SQL's functions give, as polars expressions over their operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from xmlpunct.doubles import canonical
from xmlpunct.expressions.casts import cast_to
from xmlpunct.expressions.comparison import COMPARISONS, greater
from xmlpunct.expressions.expression import Call, Expression, Literal
from xmlpunct.expressions.functions import UNITS
from xmlpunct.expressions.int128 import int128, magnitude, minus, rescale, to_decimal, unscaled
from xmlpunct.types import DOUBLE, INT, DecimalType


class Outcome(NamedTuple):
    """What a function gives: results, and the ways it can fail, each a condition and a reason."""

    value: pl.Expr
    failures: Sequence[tuple[pl.Expr, str]] = ()


def operands(e: Expression) -> Sequence[Expression]:
    """The arguments; of AND, OR and || those of the whole chain.

    Of an AND that stands in another one twice, the second time changes nothing; nor of an OR.
    """
    if not isinstance(e, Call) or e.function not in ("AND", "OR", "||"):
        return e.arguments
    found: list[Expression] = []
    waiting: list[Expression] = [e]
    entered = set[int]()
    while waiting:
        part = waiting.pop()
        if not (isinstance(part, Call) and part.function == e.function):
            found.append(part)
        elif e.function == "||" or id(part) not in entered:
            entered.add(id(part))
            waiting += reversed(part.args)
    return found


Function = Callable[..., Outcome]
"""Takes the call and its operands' results."""

# arithmetic: INT in 128 bits then checked, DECIMAL unscaled in 128 bits, DOUBLE as IEEE has it in canonical form

_LOW, _HIGH = -(2**63), 2**63 - 1


def _to_int(wide: pl.Expr) -> Outcome:
    beyond = ~wide.is_between(int128(_LOW), int128(_HIGH))
    return Outcome(wide.cast(pl.Int64, strict=False), [(beyond, "INT overflow")])


def _arithmetic(call: Call, a: pl.Expr, b: pl.Expr) -> Outcome:
    operation: Callable[[Any, Any], Any] = _OPERATIONS[call.function]
    if call.type is DOUBLE:
        return Outcome(canonical(operation(a, b)))
    if isinstance(call.type, DecimalType):
        return _decimal_arithmetic(call, call.type, a, b)
    return _to_int(operation(a.cast(pl.Int128), b.cast(pl.Int128)))


_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}


def _decimal_arithmetic(call: Call, type_: DecimalType, a: pl.Expr, b: pl.Expr) -> Outcome:
    p, q = (argument.type for argument in call.args)
    assert isinstance(p, DecimalType)
    assert isinstance(q, DecimalType)
    bound = int128(10**type_.precision - 1)
    if call.function == "*":
        x, y = unscaled(a), unscaled(b)
        most = bound // magnitude(pl.when(y == 0).then(int128(1)).otherwise(y))
        safe = p.precision + q.precision <= 38
        return _to_decimal(x * y, type_, [] if safe else [(y != 0) & (magnitude(x) > most)])
    x, x_fails = rescale(unscaled(a), p, type_.scale)
    y, y_fails = rescale(unscaled(b), q, type_.scale)
    if call.function == "-":
        y = minus(y)
    beyond = [f for f in (x_fails, y_fails) if f is not None]
    if max(p.precision - p.scale, q.precision - q.scale) + type_.scale + 1 > 38:
        beyond.append(pl.when(y > 0).then(x > bound - y).otherwise(x < minus(bound) - y))
    return _to_decimal(x + y, type_, beyond)


def _to_decimal(wide: pl.Expr, type_: DecimalType, beyond: Sequence[pl.Expr]) -> Outcome:
    """Unscaled results as decimals, if none of these conditions says that it has too many digits."""
    if not beyond:
        return Outcome(to_decimal(wide, type_))
    fails = reduce(lambda a, b: a | b, beyond)
    return Outcome(to_decimal(pl.when(~fails).then(wide), type_), [(fails, f"{type_} overflow")])


def _divide(call: Call, a: pl.Expr, b: pl.Expr) -> Outcome:
    if call.type is DOUBLE:
        return Outcome(canonical(a / b), _by_zero(call, b))
    x, y = a.cast(pl.Int128), b.cast(pl.Int128)
    whole = x.abs() // y.abs()
    value, overflow = _to_int(pl.when((x < 0) == (y < 0)).then(whole).otherwise(minus(whole)))
    only = call.args[1]
    risky = not isinstance(only, Literal) or only.value == -1
    return Outcome(value, [*_by_zero(call, b), *(overflow if risky else ())])


def _remainder(call: Call, a: pl.Expr, b: pl.Expr) -> Outcome:
    if call.type is DOUBLE:
        pair = pl.struct(a.alias("a"), b.alias("b"))
        return Outcome(
            canonical(pair.map_batches(_fmod, pl.Float64(), is_elementwise=True)), _by_zero(call, b)
        )
    x, y = a.cast(pl.Int128), b.cast(pl.Int128)
    rest = x.abs() % y.abs()
    value = pl.when(x < 0).then(minus(rest)).otherwise(rest).cast(pl.Int64, strict=False)
    return Outcome(value, _by_zero(call, b))


def _by_zero(call: Call, divisor: pl.Expr) -> list[tuple[pl.Expr, str]]:
    only = call.args[1]
    if isinstance(only, Literal) and only.value != 0:
        return []
    return [(divisor == 0, "division by zero")]


def _fmod(pairs: pl.Series) -> pl.Series:
    """C's fmod, which is exact, with the dividend's sign."""
    a, b = pairs.struct.field("a"), pairs.struct.field("b")
    with np.errstate(invalid="ignore"):
        rest = pl.Series(np.fmod(a.to_numpy(), b.to_numpy()), dtype=pl.Float64())
    return rest.to_frame("rest").select(pl.when(a.is_not_null() & b.is_not_null()).then("rest"))["rest"]


def _negate(call: Call, a: pl.Expr) -> Outcome:
    if call.type is INT:
        return _to_int(minus(a.cast(pl.Int128)))
    if isinstance(call.type, DecimalType):
        return Outcome(to_decimal(minus(unscaled(a)), call.type))
    return Outcome(canonical(-a))


def _abs(call: Call, a: pl.Expr) -> Outcome:
    if call.type is INT:
        return _to_int(a.cast(pl.Int128).abs())
    if isinstance(call.type, DecimalType):
        return Outcome(to_decimal(magnitude(unscaled(a)), call.type))
    return Outcome(a.abs())


# the rest


def _compare(call: Call, a: pl.Expr, b: pl.Expr) -> Outcome:
    return Outcome(COMPARISONS[call.function](call.args[0].type, call.args[1].type, a, b))


def _in(call: Call, subject: pl.Expr, *_: pl.Expr) -> Outcome:
    members = [a.value for a in call.args[1:] if isinstance(a, Literal)]
    known = pl.Series([m for m in members if m is not None], dtype=call.args[0].type.dtype)
    found = subject.is_in(known.implode())
    return Outcome(found if len(known) == len(members) else pl.when(found).then(True))


def better(function: str, a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """The one of two that GREATEST or LEAST gives."""
    other = greater(b, a) if function == "GREATEST" else greater(a, b)
    return pl.when(a.is_null() | other).then(b).otherwise(a)


def _substring(call: Call, text: pl.Expr, *places: pl.Expr) -> Outcome:
    first = places[0].cast(pl.Int128) - 1
    known = text.is_not_null() & first.is_not_null()
    start = first.clip(0, 2**62).cast(pl.Int64)
    if len(places) == 1:
        return Outcome(pl.when(known).then(text.str.slice(start)))
    length = places[1].cast(pl.Int128)
    size = (first + length - first.clip(0, 2**62)).clip(0, 2**62).cast(pl.UInt64)
    value = pl.when(known & length.is_not_null()).then(text.str.slice(start, size))
    return Outcome(value, [(length < 0, "negative length")])


def _like(call: Call, text: pl.Expr, *_: pl.Expr) -> Outcome:
    pattern, *rest = (a.value for a in call.args[1:] if isinstance(a, Literal))
    return Outcome(text.str.contains(like_regex(pattern, rest[0] if rest else "")))


def like_regex(pattern: str, escape: str) -> str:
    """The regular expression of a LIKE pattern; ``escape`` is the escape character, if there is one.

    >>> like_regex("50!%_", "!")
    '^(?s:50%.)$'
    """
    out, at = [], 0
    while at < len(pattern):
        char = pattern[at]
        if char == escape and at + 1 < len(pattern):
            at += 1
            out.append(pl.escape_regex(pattern[at]))
        else:
            out.append({"%": ".*", "_": "."}.get(char) or pl.escape_regex(char))
        at += 1
    return f"^(?s:{''.join(out)})$"


_STEPS = dict(zip(UNITS, ("1s", "1m", "1h", "1d", "1w", "1mo", "1q", "1y"), strict=True))


def _truncate(call: Call, _: pl.Expr, value: pl.Expr) -> Outcome:
    (unit,) = (a.value for a in call.args[:1] if isinstance(a, Literal))
    return Outcome(value.dt.truncate(_STEPS[unit]))


def _cast(call: Call, value: pl.Expr) -> Outcome:
    result, fails = cast_to(call.args[0].type, call.type, value)
    return Outcome(result, [] if fails is None else [(fails, f"no {call.type}")])


def _plain(method: Callable[[pl.Expr], pl.Expr]) -> Function:
    return lambda call, value: Outcome(method(value))


FUNCTIONS: dict[str, Function] = {
    **dict.fromkeys(_OPERATIONS, _arithmetic),
    **dict.fromkeys(COMPARISONS, _compare),
    "/": _divide,
    "%": _remainder,
    "NEG": _negate,
    "ABS": _abs,
    "CAST": _cast,
    "IN": _in,
    "NOT": _plain(lambda v: ~v),
    "IS NULL": _plain(lambda v: v.is_null()),
    "LIKE": _like,
    "SUBSTRING": _substring,
    "||": lambda call, *texts: Outcome(pl.concat_str(texts)),
    "UPPER": _plain(lambda v: v.str.to_uppercase()),
    "LOWER": _plain(lambda v: v.str.to_lowercase()),
    "TRIM": _plain(lambda v: v.str.strip_chars(" ")),
    "LENGTH": _plain(lambda v: v.str.len_chars().cast(pl.Int64)),
    "YEAR": _plain(lambda v: v.dt.year().cast(pl.Int64)),
    "MONTH": _plain(lambda v: v.dt.month().cast(pl.Int64)),
    "DAY": _plain(lambda v: v.dt.day().cast(pl.Int64)),
    "HOUR": _plain(lambda v: v.dt.hour().cast(pl.Int64)),
    "MINUTE": _plain(lambda v: v.dt.minute().cast(pl.Int64)),
    "SECOND": _plain(lambda v: v.dt.second().cast(pl.Int64)),
    "DATE_TRUNC": _truncate,
}
