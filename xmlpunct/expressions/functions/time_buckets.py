"""Moments from numbers, last days of months, and buckets of time."""

from __future__ import annotations

from datetime import date

import polars as pl

from xmlpunct.expressions.expression import Call, Doc, Expression, Function, FunctionResult, Literal
from xmlpunct.expressions.functions.casts import cast, is_null, literal, of_type
from xmlpunct.expressions.functions.interval_arithmetic import MONTHS, instant
from xmlpunct.expressions.functions.moment_functions import since_epoch
from xmlpunct.expressions.int128 import int128
from xmlpunct.types import DATE, DOUBLE, INT, STRING, TIMESTAMP, Type
from xmlpunct.types.durations import TIME_UNITS


def _type_milliseconds(record: Function, args: tuple[Expression, ...]) -> Expression:
    (a,) = args
    if a.type in (DATE, TIMESTAMP):
        return record.call(INT, a)
    return record.call(TIMESTAMP, of_type(record.name, a, INT))


def _milliseconds(call: Call, a: pl.Expr) -> FunctionResult:
    if call.type is INT:
        return FunctionResult((since_epoch(a) + 500) // 1000)
    return instant(TIMESTAMP, a.cast(pl.Int128) * int128(1000))


def _type_seconds(record: Function, args: tuple[Expression, ...]) -> Expression:
    (a,) = args
    if not (a.type.numeric or is_null(a)):
        raise ValueError(f"{record.name} needs seconds since 1970-01-01, not {a.type}: else say STRPTIME")
    return record.call(TIMESTAMP, cast(a, INT if a.type is INT else DOUBLE))


def _seconds(call: Call, a: pl.Expr) -> FunctionResult:
    if call.args[0].type is INT:
        return instant(TIMESTAMP, a.cast(pl.Int128) * int128(10**6))
    micros = a * 1e6
    inside = pl.when(micros.abs() < 2.0**62).then(micros).otherwise(2.0**62)
    return instant(TIMESTAMP, inside.round(mode="half_to_even").cast(pl.Int64).cast(pl.Int128))


def _type_date(record: Function, args: tuple[Expression, ...]) -> Expression:
    return record.call(DATE, *(of_type(record.name, a, INT) for a in args))


def _date(call: Call, *parts: pl.Expr) -> FunctionResult:
    bounds = zip(parts, ((1, 9999), (1, 12), (1, 31)), strict=True)
    in_range = pl.all_horizontal([part.is_between(*bound) for part, bound in bounds])
    year, month, day = (pl.when(in_range).then(part) for part in parts)
    first = pl.date(year, month, 1)
    exists = in_range & (day <= first.dt.month_end().dt.day())
    days = first.to_physical() + pl.when(exists).then(day).cast(pl.Int32) - 1
    return FunctionResult(days.cast(pl.Date), [(~exists, "there is no such day")])


def _type_timestamp(record: Function, args: tuple[Expression, ...]) -> Expression:
    return record.call(TIMESTAMP, of_type(record.name, args[0], INT))


def _type_last_day(record: Function, args: tuple[Expression, ...]) -> Expression:
    (a,) = args
    if a.type not in (DATE, TIMESTAMP) and not is_null(a):
        raise ValueError(f"{record.name} needs DATE or TIMESTAMP, not {a.type}")
    return record.call(DATE, cast(a, DATE))


def bucket(moment: Expression, amount: Expression, unit: str, origin: Expression | None) -> Expression:
    """TIME_BUCKET with a width of ``amount`` units (see `unit_of`). Raises ValueError."""
    if not isinstance(amount, Literal) or amount.value is None or amount.value < 1:
        raise ValueError("TIME_BUCKET needs a constant interval above 0: INTERVAL '10' MINUTE")
    if moment.type not in (DATE, TIMESTAMP) and not is_null(moment):
        raise ValueError(f"TIME_BUCKET needs DATE or TIMESTAMP, not {moment.type}")
    if origin is None:
        origin = literal(DATE, date(2000, 1, 1 if unit in MONTHS else 3))
    if not isinstance(origin, Literal):
        raise ValueError("the origin of TIME_BUCKET is a literal: TIMESTAMP '2024-01-01 00:30:00'")
    type_: Type = moment.type if moment.type is DATE else TIMESTAMP
    start = TIME_BUCKET.call(
        TIMESTAMP, cast(moment, TIMESTAMP), amount, literal(STRING, unit), cast(origin, TIMESTAMP)
    )
    return cast(start, type_)


def _type_bucket(record: Function, args: tuple[Expression, ...]) -> Expression:
    raise ValueError("TIME_BUCKET needs an interval: TIME_BUCKET(INTERVAL '10' MINUTE, t)")


def _bucket(call: Call, moment: pl.Expr, *_: pl.Expr) -> FunctionResult:
    amount, unit, origin = (a.value for a in call.args[1:] if isinstance(a, Literal))
    if unit in TIME_UNITS:
        width, zero = int128(amount * TIME_UNITS[unit]), pl.lit(origin).to_physical().cast(pl.Int128)
        return instant(TIMESTAMP, (moment.to_physical().cast(pl.Int128) - zero) // width * width + zero)
    width, first = amount * MONTHS[unit], origin.year * 12 + origin.month - 1
    month = moment.dt.year().cast(pl.Int64) * 12 + moment.dt.month() - 1
    start = (month - first) // width * width + first
    in_range = start >= 12
    valid_month = pl.when(in_range).then(start)
    value = pl.date(valid_month // 12, valid_month % 12 + 1, 1).cast(TIMESTAMP.dtype)
    return FunctionResult(value, [(~in_range, "TIMESTAMP overflow")])


# fmt: off
EPOCH_MS = Function(
    "EPOCH_MS", _type_milliseconds, _milliseconds, called=("EPOCH_MS",), arity=(1, 1), monotone=lambda call: (0, True),
    doc=Doc("EPOCH_MS(t)", "The milliseconds from 1970-01-01 to t, rounded; for an INT, the TIMESTAMP of that number.",
            "EPOCH_MS(1709251199500)"))
MAKE_TIMESTAMP = Function(
    "MAKE_TIMESTAMP", _type_timestamp, lambda call, a: instant(TIMESTAMP, a.cast(pl.Int128)),
    called=("MAKE_TIMESTAMP",), arity=(1, 1), monotone=lambda call: (0, True),
    doc=Doc("MAKE_TIMESTAMP(n)", "The TIMESTAMP that is n microseconds after 1970-01-01.",
            "MAKE_TIMESTAMP(1709251199500000)"))
TO_TIMESTAMP = Function(
    "TO_TIMESTAMP", _type_seconds, _seconds, called=("TO_TIMESTAMP",), arity=(1, 1),
    monotone=lambda call: (0, True),
    doc=Doc("TO_TIMESTAMP(x)", "The TIMESTAMP that is x seconds after 1970-01-01.", "TO_TIMESTAMP(1709251199.5)"))
MAKE_DATE = Function(
    "MAKE_DATE", _type_date, _date, called=("MAKE_DATE",), arity=(3, 3),
    doc=Doc("MAKE_DATE(year, month, day)", "The DATE of that year, month and day.", "MAKE_DATE(2024, 2, 29)"))
LAST_DAY = Function(
    "LAST_DAY", _type_last_day, lambda call, a: FunctionResult(a.dt.month_end()), called=("LAST_DAY",), arity=(1, 1),
    monotone=lambda call: (0, True),
    doc=Doc("LAST_DAY(t)", "The last day of the month of t.", "LAST_DAY(DATE '2024-02-03')"))
TIME_BUCKET = Function(
    "TIME_BUCKET", _type_bucket, _bucket, arity=(2, 4), monotone=lambda call: (0, True),
    doc=Doc("TIME_BUCKET(INTERVAL 'n' unit, t [, origin])",
            "The start of the bucket that contains t. Buckets have the length of the interval and start at the origin. "
            "The default origin is Monday 2000-01-03, for months 2000-01-01.",
            "TIME_BUCKET(INTERVAL '15' MINUTE, TIMESTAMP '2024-02-29 17:20:00')"))
