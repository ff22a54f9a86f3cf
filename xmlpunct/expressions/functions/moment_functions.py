"""Functions of moments (DATE and TIMESTAMP)."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from xmlpunct.base.doubles import divided
from xmlpunct.expressions.expression import Call, Doc, Expression, Function, FunctionResult, Literal, Syntax
from xmlpunct.expressions.functions.casts import cast, is_null, literal
from xmlpunct.types import DATE, DOUBLE, INT, STRING, TIMESTAMP, Type


def _part(
    name: str,
    part: Callable[[pl.Expr], pl.Expr],
    meaning: str,
    *called: str,
    of_days: bool = True,
    rises: bool = False,
    type_: Type = INT,
) -> Function:
    """A function for a part of a moment, also available by EXTRACT and DATE_PART. ``of_days``: also for a DATE."""

    def type_call(record: Function, args: tuple[Expression, ...]) -> Expression:
        (a,) = args
        if a.type is not TIMESTAMP and not (a.type is DATE and of_days):
            raise ValueError(f"{a.type} has no {name}")
        return record.call(type_, a)

    record = Function(
        name, type_call, lambda call, value: FunctionResult(part(value).cast(type_.dtype)), called=(name, *called),
        arity=(1, 1), monotone=lambda call: (0, True) if rises else None,
        doc=Doc(f"{name}(t)", meaning, f"{name}(TIMESTAMP '2024-02-29 23:59:59.5')"),
    )  # fmt: skip
    PARTS.update(dict.fromkeys(record.called, record))
    return record


PARTS: dict[str, Function] = {}
"""The parts that EXTRACT and DATE_PART take, by all their names."""


def _year(value: pl.Expr) -> pl.Expr:
    return value.dt.year().cast(pl.Int64)


def _seconds(value: pl.Expr) -> pl.Expr:
    return value.dt.second().cast(pl.Int64) * 10**6 + value.dt.microsecond()


def since_epoch(value: pl.Expr) -> pl.Expr:
    """Microseconds since 1970-01-01."""
    return value.cast(pl.Datetime("us", "UTC")).to_physical()


def _julian(value: pl.Expr) -> pl.Expr:
    since = since_epoch(value)
    return (since // _DAY + _JULIAN) + divided((since % _DAY).cast(pl.Float64), _DAY)


def _epoch(value: pl.Expr) -> pl.Expr:
    return divided(since_epoch(value).cast(pl.Float64), 1e6)


_DAY = 86400 * 10**6
_JULIAN = 2_440_588
"""The Julian day of 1970-01-01."""

# fmt: off
YEAR = _part("YEAR", _year, "The year.", rises=True)
MONTH = _part("MONTH", lambda v: v.dt.month(), "The month, 1 to 12.")
DAY = _part("DAY", lambda v: v.dt.day(), "The day of the month.", "DAYOFMONTH")
HOUR = _part("HOUR", lambda v: v.dt.hour(), "The hour of a TIMESTAMP.", of_days=False)
MINUTE = _part("MINUTE", lambda v: v.dt.minute(), "The minute of a TIMESTAMP.", of_days=False)
SECOND = _part("SECOND", lambda v: v.dt.second(), "The second of a TIMESTAMP, without its fraction.", of_days=False)
MILLISECOND = _part(
    "MILLISECOND", lambda v: _seconds(v) // 1000,
    "The second of a TIMESTAMP with its fraction, in milliseconds.", "MILLISECONDS",
    of_days=False)
MICROSECOND = _part(
    "MICROSECOND", _seconds,
    "The second of a TIMESTAMP with its fraction, in microseconds.", "MICROSECONDS", of_days=False)
QUARTER = _part("QUARTER", lambda v: v.dt.quarter(), "The quarter of the year, 1 to 4.")
WEEK = _part("WEEK", lambda v: v.dt.week(), "The week of the ISO year, 1 to 53.", "WEEKOFYEAR")
DOW = _part("DAYOFWEEK", lambda v: v.dt.weekday() % 7, "The day of the week; 0 is Sunday.", "DOW", "WEEKDAY")
ISODOW = _part("ISODOW", lambda v: v.dt.weekday(), "The day of the week; 1 is Monday, 7 is Sunday.")
DOY = _part("DAYOFYEAR", lambda v: v.dt.ordinal_day(), "The day of the year, from 1.", "DOY")
ISOYEAR = _part("ISOYEAR", lambda v: v.dt.iso_year(), "The year that the ISO week belongs to.", rises=True)
YEARWEEK = _part(
    "YEARWEEK", lambda v: v.dt.iso_year().cast(pl.Int64) * 100 + v.dt.week(),
    "The ISO year and week as a number: 202409.",
    rises=True)
DECADE = _part("DECADE", lambda v: _year(v) // 10, "The year divided by 10.", rises=True)
CENTURY = _part("CENTURY", lambda v: (_year(v) - 1) // 100 + 1, "The century; the 21st began in 2001.", rises=True)
MILLENNIUM = _part("MILLENNIUM", lambda v: (_year(v) - 1) // 1000 + 1, "The millennium.", rises=True)
ERA = _part("ERA", lambda v: _year(v) * 0 + 1, "Always 1: no year is before the common era.", rises=True)
EPOCH = _part(
    "EPOCH", _epoch, "Seconds since 1970-01-01, as a DOUBLE.", rises=True, type_=DOUBLE)
EPOCH_US = _part("EPOCH_US", since_epoch, "Microseconds since 1970-01-01.", rises=True)
JULIAN = _part(
    "JULIAN", _julian, "The Julian day as a DOUBLE; days begin at midnight.", rises=True,
    type_=DOUBLE)
# fmt: on


def _type_part(record: Function, args: tuple[Expression, ...]) -> Expression:
    unit, a = args
    if not isinstance(unit, Literal) or unit.type is not STRING or unit.value is None:
        raise ValueError(f"{record.name} needs a literal part: 'year'")
    return part_of(unit.value, a)


def part_of(name: str, a: Expression) -> Expression:
    """A part of a moment by its name. Raises ValueError."""
    function = PARTS.get(name.upper()) or PARTS.get(name.upper().removesuffix("S"))
    if function is None:
        *parts, last = dict.fromkeys(part.name for part in PARTS.values())
        raise ValueError(f"EXTRACT takes {', '.join(parts)} or {last}, not {name}")
    return function(a)


DATE_PART = Function(
    "DATE_PART", _type_part, called=("DATE_PART", "DATEPART"),
    doc=Doc("EXTRACT(part FROM t), DATE_PART('part', t)", "A part of a DATE or TIMESTAMP, named as in this table.",
            "EXTRACT(WEEK FROM DATE '2024-02-29')"),
)  # fmt: skip

UNITS = {
    "SECOND": "1s", "MINUTE": "1m", "HOUR": "1h", "DAY": "1d", "WEEK": "1w", "MONTH": "1mo", "QUARTER": "1q",
    "YEAR": "1y",
}  # fmt: skip
"""The units that DATE_TRUNC takes, with their names in polars. A week begins on Monday."""


def _type_truncation(record: Function, args: tuple[Expression, ...]) -> Expression:
    unit, a = args
    if not isinstance(unit, Literal) or unit.type is not STRING or unit.value is None:
        raise ValueError(f"{record.name} needs a literal unit: 'hour'")
    if unit.value.upper() not in UNITS:
        raise ValueError(f"{record.name} takes {', '.join(UNITS)}, not {unit.value}")
    if a.type not in (DATE, TIMESTAMP) and not is_null(a):
        raise ValueError(f"{record.name} needs DATE or TIMESTAMP, not {a.type}")
    return record.call(TIMESTAMP, literal(STRING, unit.value.upper()), cast(a, TIMESTAMP))


def _truncate(call: Call, _: pl.Expr, value: pl.Expr) -> FunctionResult:
    (unit,) = (a.value for a in call.args[:1] if isinstance(a, Literal))
    return FunctionResult(value.dt.truncate(UNITS[unit]))


DATE_TRUNC = Function(
    "DATE_TRUNC", _type_truncation, _truncate, Syntax("DateTrunc", "unit this"), monotone=lambda call: (1, True),
    doc=Doc("DATE_TRUNC(unit, t)",
            "The start of the hour, day, ... that contains t, as a TIMESTAMP. A week begins on Monday.",
            "DATE_TRUNC('hour', TIMESTAMP '2024-02-29 23:59:59')"),
)  # fmt: skip
