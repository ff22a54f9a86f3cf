"""Functions of moments."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from xmlpunct.expressions.expression import Call, Expression, Function, Literal, Outcome, Syntax
from xmlpunct.expressions.functions.casts import cast, is_null, literal
from xmlpunct.types import DATE, INT, STRING, TIMESTAMP


def _part(
    name: str, part: Callable[[pl.Expr], pl.Expr], of_days: bool = False, rises: bool = False
) -> Function:
    """YEAR and the like, which EXTRACT gives too."""

    def typed(record: Function, args: tuple[Expression, ...]) -> Expression:
        (a,) = args
        if a.type is not TIMESTAMP and not (a.type is DATE and of_days):
            raise ValueError(f"{a.type} has no {name}")
        return record.call(INT, a)

    return Function(
        name, typed, lambda call, value: Outcome(part(value).cast(pl.Int64)), Syntax(name.capitalize()),
        arity=(1, 1), monotone=lambda call: (0, True) if rises else None,
    )  # fmt: skip


_PARTS = [
    _part("YEAR", lambda v: v.dt.year(), of_days=True, rises=True),
    _part("MONTH", lambda v: v.dt.month(), of_days=True),
    _part("DAY", lambda v: v.dt.day(), of_days=True),
    _part("HOUR", lambda v: v.dt.hour()),
    _part("MINUTE", lambda v: v.dt.minute()),
    _part("SECOND", lambda v: v.dt.second()),
]
PARTS = {record.name: record for record in _PARTS}
"""What EXTRACT can give, by name."""

UNITS = {
    "SECOND": "1s", "MINUTE": "1m", "HOUR": "1h", "DAY": "1d", "WEEK": "1w", "MONTH": "1mo", "QUARTER": "1q",
    "YEAR": "1y",
}  # fmt: skip
"""What DATE_TRUNC can cut down to, and polars' word for it. A week begins on Monday."""


def _typed_truncation(record: Function, args: tuple[Expression, ...]) -> Expression:
    unit, a = args
    if not isinstance(unit, Literal) or unit.type is not STRING or unit.value is None:
        raise ValueError(f"{record.name} wants a literal unit: 'hour'")
    if unit.value.upper() not in UNITS:
        raise ValueError(f"{record.name} goes by {', '.join(UNITS)}, not {unit.value}")
    if a.type not in (DATE, TIMESTAMP) and not is_null(a):
        raise ValueError(f"{record.name} wants DATE or TIMESTAMP, not {a.type}")
    return record.call(TIMESTAMP, literal(STRING, unit.value.upper()), cast(a, TIMESTAMP))


def _truncated(call: Call, _: pl.Expr, value: pl.Expr) -> Outcome:
    (unit,) = (a.value for a in call.args[:1] if isinstance(a, Literal))
    return Outcome(value.dt.truncate(UNITS[unit]))


DATE_TRUNC = Function(
    "DATE_TRUNC", _typed_truncation, _truncated, Syntax("DateTrunc", "unit this"), monotone=lambda call: (1, True)
)  # fmt: skip
