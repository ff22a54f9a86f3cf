"""Arithmetic of moments: DATE or TIMESTAMP plus an interval, and the number of unit boundaries between two moments.

There is no interval type. An interval is a number of units, added by DATE_ADD: in SQL ``ts + INTERVAL '1' DAY``.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation

import polars as pl

from xmlpunct.expressions.expression import (
    FUNCTIONS,
    Call,
    CallText,
    Doc,
    Expression,
    Function,
    FunctionResult,
    Literal,
    Notation,
)
from xmlpunct.expressions.functions.casts import cast, is_null, literal, of_type
from xmlpunct.expressions.int128 import int128
from xmlpunct.types import DATE, INT, STRING, TIMESTAMP, Type
from xmlpunct.types.durations import TIME_UNITS

MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12, "DECADE": 120, "CENTURY": 1200, "MILLENNIUM": 12000}
"""The units of varying length, in months."""


def unit_of(name: str) -> str:
    """A unit by its name, in the singular. Raises ValueError."""
    unit = name.upper()
    units = (*TIME_UNITS, *MONTHS)
    if unit not in units:
        unit = {"MILLENNIA": "MILLENNIUM", "CENTURIES": "CENTURY"}.get(unit, unit.removesuffix("S"))
    if unit not in units:
        raise ValueError(f"a unit of time is one of {', '.join(units)}, not {name}")
    return unit


def interval_units(text: str, unit: str) -> tuple[Expression, str]:
    """A constant interval as a whole number and its unit. Raises ValueError for other numbers.

    >>> [str(part) for part in interval_units("1.5", "hours")]
    ['5400000000', 'MICROSECOND']
    """
    unit = unit_of(unit)
    try:
        amount = Decimal(text)
    except InvalidOperation:
        raise ValueError(
            "an INTERVAL has a number and a unit: INTERVAL '10' MINUTE; add several with +"
        ) from None
    if amount != amount.to_integral_value() and unit in TIME_UNITS:
        amount, unit = amount * TIME_UNITS[unit], "MICROSECOND"
    if not amount.is_finite() or amount != amount.to_integral_value():
        raise ValueError(f"INTERVAL '{text}' is no whole number of {unit.lower()}s")
    return literal(INT, INT.accept(int(amount))), unit


def of_moments(operator: str, a: Expression, b: Expression) -> Expression:
    """``a + b`` or ``a - b`` where an operand is a DATE or a TIMESTAMP. Raises ValueError."""
    days = literal(STRING, "DAY")
    if operator == "-" and a.type is b.type is DATE:
        return DATE_DIFF(days, b, a)
    if operator == "-" and {a.type, b.type} <= {DATE, TIMESTAMP}:
        raise ValueError(
            f"{a.type} - {b.type} has no unit: write, for example, DATE_DIFF('microsecond', b, a)"
        )
    if operator == "+" and b.type is DATE:
        a, b = b, a
    if operator in "+-" and a.type is DATE and (b.type is INT or is_null(b)):
        return SHIFT.call(DATE, a, _with_sign(operator, of_type(operator, b, INT)), days)
    if operator in "+-" and TIMESTAMP in (a.type, b.type):
        raise ValueError(
            f"{a.type} {operator} {b.type} has no unit: write, for example, {operator} INTERVAL '1' SECOND"
        )
    raise ValueError(f"{a.type} {operator} {b.type} makes no sense")


def shifted(operator: str, a: Expression, amount: Expression, unit: str) -> Expression:
    """``a`` plus or minus ``amount`` of a unit (see `unit_of`). Raises ValueError."""
    return SHIFT(a, _with_sign(operator, of_type("INTERVAL", amount, INT)), literal(STRING, unit))


def _with_sign(operator: str, amount: Expression) -> Expression:
    if operator == "+":
        return amount
    if isinstance(amount, Literal):
        return literal(INT, None if amount.value is None else INT.accept(-amount.value))
    return FUNCTIONS["NEG"](amount)


def _constant(a: Expression) -> str:
    assert isinstance(a, Literal)
    return str(a.value)


def _type_shift(record: Function, args: tuple[Expression, ...]) -> Expression:
    a, amount, unit = args
    if a.type not in (DATE, TIMESTAMP) and not is_null(a):
        raise ValueError(f"an INTERVAL is added to DATE or TIMESTAMP, not {a.type}")
    if not isinstance(unit, Literal) or unit.type is not STRING or unit.value is None:
        raise ValueError(f"{record.name} needs a literal unit")
    return record.call(TIMESTAMP, cast(a, TIMESTAMP), amount, unit)


_EPOCH = datetime(1970, 1, 1)
_ENDS: dict[Type, tuple[int, int]] = {
    DATE: tuple((day - _EPOCH.date()).days for day in (date.min, date.max)),  # type: ignore[dict-item]
    TIMESTAMP: tuple((at - _EPOCH) // timedelta(microseconds=1) for at in (datetime.min, datetime.max)),  # type: ignore[dict-item]
}
"""The first and last instants of a type, in days or microseconds since 1970."""


def _shift(call: Call, moment: pl.Expr, amount: pl.Expr, _: pl.Expr) -> FunctionResult:
    unit = _constant(call.args[2])
    if unit in MONTHS:
        return _shift_months(call, moment, amount.cast(pl.Int128) * int128(MONTHS[unit]))
    step = 1 if call.type is DATE else TIME_UNITS[unit]
    return instant(call.type, moment.to_physical().cast(pl.Int128) + amount.cast(pl.Int128) * int128(step))


def instant(type_: Type, number: pl.Expr) -> FunctionResult:
    """The DATE or TIMESTAMP ``number`` days or microseconds (128 bits) after 1970-01-01."""
    low, high = _ENDS[type_]
    fits = number.is_between(int128(low), int128(high))
    physical = pl.when(fits).then(number).cast(pl.Int32 if type_ is DATE else pl.Int64)
    return FunctionResult(physical.cast(type_.dtype), [(~fits, f"{type_} overflow")])


def _shift_months(call: Call, moment: pl.Expr, months: pl.Expr) -> FunctionResult:
    """The same day and time ``months`` later, or the last day of that month if it is shorter."""
    month = (
        moment.dt.year().cast(pl.Int128) * int128(12) + moment.dt.month().cast(pl.Int128) - int128(1) + months
    )
    fits = month.is_between(int128(12), int128(12 * 10_000 - 1))
    valid_month = pl.when(fits).then(month).cast(pl.Int64)
    first = pl.date(valid_month // 12, valid_month % 12 + 1, 1)
    day = pl.min_horizontal(moment.dt.day(), first.dt.month_end().dt.day()).cast(pl.Int64)
    time = moment.to_physical() % TIME_UNITS["DAY"]
    physical = (first.to_physical().cast(pl.Int64) + day - 1) * TIME_UNITS["DAY"] + time
    return FunctionResult(
        pl.when(fits).then(physical).cast(call.type.dtype), [(~fits, f"{call.type} overflow")]
    )


def _monotone_shift(call: Call) -> tuple[int, bool] | None:
    """Months are not monotone: a month after 30 January 23:00 is later than a month after 31 January 01:00."""
    value, amount, unit = call.args
    of_days = isinstance(value, Call) and value.function == "CAST" and value.args[0].type is DATE
    if (
        isinstance(amount, Literal)
        and amount.value is not None
        and (of_days or _constant(unit) in TIME_UNITS)
    ):
        return 0, True
    return None


def _write_shift(call: Call) -> CallText:
    value, amount, unit = call.args
    if call.type is DATE:
        return [value, " + ", "(", amount, ")"] if isinstance(amount, Call) else [value, " + ", amount]
    if isinstance(amount, Literal):
        return [value, f" + INTERVAL '{amount.value}' {_constant(unit)}"]
    return [value, " + INTERVAL (", amount, f") {_constant(unit)}"]


def _type_difference(record: Function, args: tuple[Expression, ...]) -> Expression:
    unit, a, b = args
    if not isinstance(unit, Literal) or unit.type is not STRING or unit.value is None:
        raise ValueError(f"{record.name} needs a literal unit: 'day'")
    for x in (a, b):
        if x.type not in (DATE, TIMESTAMP) and not is_null(x):
            raise ValueError(f"{record.name} needs DATE or TIMESTAMP, not {x.type}")
    return record.call(INT, literal(STRING, unit_of(unit.value)), cast(a, TIMESTAMP), cast(b, TIMESTAMP))


def _number_of(unit: str) -> Callable[[pl.Expr], pl.Expr]:
    """The number of the unit that contains a moment, counted from a fixed origin."""
    if unit in MONTHS:
        return lambda moment: (moment.dt.year().cast(pl.Int64) * 12 + moment.dt.month() - 1) // MONTHS[unit]
    return lambda moment: moment.to_physical() // TIME_UNITS[unit]


def _difference(call: Call, _: pl.Expr, a: pl.Expr, b: pl.Expr) -> FunctionResult:
    unit = _constant(call.args[0])
    if unit == "WEEK":
        days = _number_of("DAY")(b) - _number_of("DAY")(a)
        return FunctionResult(pl.when(days < 0).then(-(-days // 7)).otherwise(days // 7))
    number = _number_of(unit)
    return FunctionResult(number(b) - number(a))


def _monotone_difference(call: Call) -> tuple[int, bool] | None:
    _, a, b = (isinstance(x, Literal) and x.value is not None for x in call.args)
    return (2, True) if a else (1, False) if b else None


# fmt: off
SHIFT = Function(
    "DATE_ADD", _type_shift, _shift, arity=(3, 3), monotone=_monotone_shift, notation=Notation(_write_shift, 7),
    doc=Doc("t + INTERVAL 'n' unit, t - INTERVAL 'n' unit, DATE_ADD(t, INTERVAL 'n' unit)",
            "The TIMESTAMP n units later or earlier than t. One month later is the same day of the next month, or that "
            "month's last day; so a TIMESTAMP plus months keeps no order. All other sums do. DATE + n is the DATE n "
            "days later.",
            "DATE '2024-01-31' + INTERVAL '1' MONTH"))
DATE_DIFF = Function(
    "DATE_DIFF", _type_difference, _difference, called=("DATE_DIFF", "DATEDIFF"), arity=(3, 3),
    monotone=_monotone_difference,
    doc=Doc("DATE_DIFF(unit, t, u)",
            "The number of unit boundaries from t to u; for weeks, the number of whole 7 days. DATE - DATE gives days.",
            "DATE_DIFF('hour', TIMESTAMP '2024-01-01 10:59:00', TIMESTAMP '2024-01-01 12:01:00')"))
