"""Lengths of time in SQL: how many instants a number or an INTERVAL is, and which one an ORIGIN."""

from __future__ import annotations

from datetime import date
from decimal import Decimal, InvalidOperation

from sqlglot import exp

from xmlpunct.engine.sql.dialect import literal
from xmlpunct.types import DATE, INT, TIMESTAMP, Type

MICROSECONDS = {"SECOND": 10**6, "MINUTE": 60 * 10**6, "HOUR": 3600 * 10**6, "DAY": 86400 * 10**6}
"""The units of an INTERVAL. A month is no constant number of instants."""


def span(type_: Type, node: exp.Expr, least: int = 0) -> int:
    """How many instants of a type a length is: days of DATE, microseconds of TIMESTAMP. Raises ValueError."""
    if type_ is TIMESTAMP:
        wanted = f"an INTERVAL in {', '.join(MICROSECONDS)}"
    else:
        wanted = "a number of days, or an INTERVAL in DAY" if type_ is DATE else "a whole number"
    found = _instants(type_, node)
    if found is None:
        is_month = isinstance(node, exp.Interval) and node.text("unit").upper().rstrip("S") in _MONTHS
        months = ": a month is no constant number of instants" if is_month else ""
        raise ValueError(f"over {type_} this is {wanted}{months}")
    if found < least:
        raise ValueError(f"over {type_} this is {wanted}, {least} or more")
    return found


_MONTHS = ("MONTH", "YEAR", "QUARTER")


def _instants(type_: Type, node: exp.Expr) -> int | None:
    sign = 1
    while isinstance(node, exp.Paren | exp.Neg):
        sign, node = (-sign if isinstance(node, exp.Neg) else sign), node.this
    is_interval = isinstance(node, exp.Interval) and node.this is not None
    unit, number = 1, node.this if is_interval else node
    while isinstance(number, exp.Paren | exp.Neg):
        sign, number = (-sign if isinstance(number, exp.Neg) else sign), number.this
    if is_interval:
        name = node.text("unit").upper()
        name = name if name in MICROSECONDS else name.removesuffix("S")
        if type_ is INT or name not in MICROSECONDS or (type_ is DATE and name != "DAY"):
            return None
        unit = 1 if type_ is DATE else MICROSECONDS[name]
    elif type_ is TIMESTAMP:
        return None
    if not isinstance(number, exp.Literal) or (number.is_string and not is_interval):
        return None
    try:
        found = Decimal(number.name) * unit
    except InvalidOperation:
        return None
    return sign * int(found) if found.is_finite() and found == int(found) else None


def origin(type_: Type, node: exp.Expr | None) -> int:
    """The instant from which slides are counted: 0, 1970-01-01 or the epoch if none is given. Raises ValueError."""
    if node is None:
        return type_.ordinal(date(1970, 1, 1)) if type_ is DATE else 0
    return type_.ordinal(literal(node, type_))
