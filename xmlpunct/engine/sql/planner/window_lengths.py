"""Lengths of time in SQL, and their origins."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from sqlglot import exp

from xmlpunct.schema.sql_literals import literal_value
from xmlpunct.types import DATE, INT, TIMESTAMP, Type, parse_type
from xmlpunct.types.durations import TIME_UNITS, epoch

TIMES = (INT, DATE, TIMESTAMP)
"""The types of timestamps."""

_UNEVEN = ("MONTH", "QUARTER", "YEAR")
_EXAMPLES = {
    INT: "a number",
    DATE: "a number of days or INTERVAL '1' DAY",
    TIMESTAMP: "an INTERVAL: INTERVAL '10' MINUTE",
}
LONGEST = 2**63 - 1
"""The longest length that fits an INT."""


def length_of(type_: Type, node: exp.Expr, description: str, least: int = 1, most: float = LONGEST) -> int:
    """A length as a number of instants, from ``least`` to ``most``. Raises ValueError."""
    length = _signed(type_, node, description)
    if length < least:
        raise ValueError(f"{description} is {least} or more")
    if length > most:
        raise ValueError(f"{description} is too long: more than 2^63 - 1 instants")
    return length


def origin_of(type_: Type, node: exp.Expr | None) -> int:
    """An origin as an ordinal: a value of the type, or an offset from 0 or 1970. Raises ValueError."""
    if node is None:
        return epoch(type_)
    if isinstance(node, exp.Cast):
        literal_type = parse_type(node.to.sql().upper())
        if literal_type is not type_:
            raise ValueError(f"an origin of {type_} is {_EXAMPLES[type_]} or a {type_}, no {literal_type}")
        return type_.ordinal(literal_value(node, type_))
    return epoch(type_) + _signed(type_, node, "an origin")


def _signed(type_: Type, node: exp.Expr, description: str) -> int:
    sign = 1
    while isinstance(node, exp.Paren | exp.Neg):
        sign = -sign if isinstance(node, exp.Neg) else sign
        node = node.this
    if isinstance(node, exp.Interval) and type_ is not INT:
        return sign * _interval(type_, node, description)
    if isinstance(node, exp.Literal) and not node.is_string and type_ is not TIMESTAMP:
        if not node.name.isdecimal():
            raise ValueError(f"{description} over {type_} is a whole number")
        return sign * int(node.name)
    raise ValueError(f"{description} over {type_} is {_EXAMPLES[type_]}")


def _interval(type_: Type, node: exp.Interval, description: str) -> int:
    unit = node.text("unit").upper()
    unit = unit if unit in TIME_UNITS else unit.removesuffix("S")
    if unit in _UNEVEN:
        raise ValueError(
            f"a {unit.lower()} is no constant number of instants: write, for example, INTERVAL '30' DAY"
        )
    if unit not in TIME_UNITS:
        raise ValueError(f"the unit of an INTERVAL must be one of {', '.join(reversed(TIME_UNITS))}")
    try:
        exact = Decimal(node.this.name) * TIME_UNITS[unit] if node.this else None
    except InvalidOperation:
        exact = None
    if exact is None or not exact.is_finite():
        raise ValueError("an INTERVAL has a number and a unit: INTERVAL '10' MINUTE")
    exact = exact / TIME_UNITS["DAY"] if type_ is DATE else exact
    if exact != int(exact):
        units = "days, or an INTERVAL in DAY" if type_ is DATE else "microseconds"
        raise ValueError(f"{description} over {type_} is a whole number of {units}")
    return int(exact)
