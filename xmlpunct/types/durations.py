"""Lengths of time as numbers of instants: days for a DATE, microseconds for a TIMESTAMP."""

from __future__ import annotations

from datetime import date

from xmlpunct.types import DATE, INT, Type

TIME_UNITS = {
    "WEEK": 7 * 86400 * 10**6,
    "DAY": 86400 * 10**6,
    "HOUR": 3600 * 10**6,
    "MINUTE": 60 * 10**6,
    "SECOND": 10**6,
    "MILLISECOND": 1000,
    "MICROSECOND": 1,
}
"""The units of an INTERVAL in microseconds, in descending order, without units of varying length (months)."""


def in_words(type_: Type, length: int) -> str:
    """A number of instants as text; for a TIMESTAMP in the largest unit that divides it.

    >>> from xmlpunct.types import TIMESTAMP
    >>> in_words(TIMESTAMP, 90_000_000), in_words(DATE, 7), in_words(INT, 7)
    ('90 SECOND', '7 DAY', '7')
    """
    if type_ is INT:
        return str(length)
    if type_ is DATE:
        return f"{length} DAY"
    unit, steps = next((unit, steps) for unit, steps in TIME_UNITS.items() if length % steps == 0)
    return f"{length // steps} {unit}" if length else "0 SECOND"


def epoch(type_: Type) -> int:
    """The ordinal of the default origin of instants: 0, 1970-01-01, or its midnight in UTC."""
    return DATE.ordinal(date(1970, 1, 1)) if type_ is DATE else 0
