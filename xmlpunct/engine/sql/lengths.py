"""Lengths of time in SQL, as numbers of instants: of days for a DATE, of microseconds for a TIMESTAMP."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from sqlglot import exp

from xmlpunct.types import DATE, INT, TIMESTAMP, Type, parse_type

TIMES = (INT, DATE, TIMESTAMP)
"""The types that a timestamp can have."""

_SECOND = 10**6
_DAY = 86400 * _SECOND
_MICROSECONDS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1000,
    "SECOND": _SECOND,
    "MINUTE": 60 * _SECOND,
    "HOUR": 3600 * _SECOND,
    "DAY": _DAY,
    "WEEK": 7 * _DAY,
}
_UNEVEN = ("MONTH", "QUARTER", "YEAR")
_EXAMPLES = {INT: "a number", DATE: "a number of days or INTERVAL '1' DAY", TIMESTAMP: "INTERVAL '10' MINUTE"}
_LONGEST = 2**63 - 1
_EPOCH = {INT: "0", DATE: "1970-01-01", TIMESTAMP: "1970-01-01T00:00:00Z"}


def length_of(type_: Type, node: exp.Expr, what: str, least: int = 1) -> int:
    """A length as a number of instants, ``least`` or more. Raises ValueError."""
    length = _signed(type_, node, what)
    if length < least:
        raise ValueError(f"{what} is {least} or more")
    if length > _LONGEST:
        raise ValueError(f"{what} is too long: more than 2^63 - 1 instants")
    return length


def origin_of(type_: Type, node: exp.Expr | None) -> int:
    """An origin as an ordinal: a value of the type, or how far it is from 0 or 1970. Raises ValueError."""
    epoch = type_.ordinal(type_.parse(_EPOCH[type_]))
    if node is None:
        return epoch
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
        said = parse_type(node.to.sql().upper())
        if said is not type_:
            raise ValueError(f"an origin of {type_} is {_EXAMPLES[type_]} or a {type_}, no {said}")
        return type_.ordinal(type_.parse_sql(node.this.name))
    return epoch + _signed(type_, node, "an origin")


def _signed(type_: Type, node: exp.Expr, what: str) -> int:
    sign = 1
    while isinstance(node, exp.Paren | exp.Neg):
        sign = -sign if isinstance(node, exp.Neg) else sign
        node = node.this
    if isinstance(node, exp.Interval) and type_ is not INT:
        return sign * _interval(type_, node, what)
    if isinstance(node, exp.Literal) and not node.is_string and type_ is not TIMESTAMP:
        if not node.name.isdecimal():
            raise ValueError(f"{what} over {type_} is a whole number")
        return sign * int(node.name)
    raise ValueError(f"{what} over {type_} is {_EXAMPLES[type_]}")


def _interval(type_: Type, node: exp.Interval, what: str) -> int:
    unit = node.text("unit").upper()
    unit = unit if unit in _MICROSECONDS else unit.removesuffix("S")
    if unit in _UNEVEN:
        raise ValueError(f"a {unit.lower()} is no constant number of days: say INTERVAL '30' DAY or the like")
    if unit not in _MICROSECONDS:
        raise ValueError(f"the unit of an INTERVAL is one of {', '.join(_MICROSECONDS)}")
    try:
        exact = Decimal(node.this.name) * _MICROSECONDS[unit] if node.this else None
    except InvalidOperation:
        exact = None
    if exact is None or not exact.is_finite():
        raise ValueError("an INTERVAL is a number and a unit: INTERVAL '10' MINUTE")
    exact = exact / _DAY if type_ is DATE else exact
    if exact != int(exact):
        raise ValueError(
            f"{what} over {type_} is a whole number of {'days' if type_ is DATE else 'microseconds'}"
        )
    return int(exact)
