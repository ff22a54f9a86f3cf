"""Cuts: positions between neighbouring values of a type. A pattern is a list of intervals between two cuts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from xmlpunct.types import DOUBLE, Type, Value
from xmlpunct.types.pattern import (
    EMPTY,
    WILDCARD,
    Constant,
    Empty,
    Pattern,
    Range,
    Values,
    bounds,
    interval,
    ordinals,
)

Cut = tuple[int, Any, int]
"""A position between values: (-1, ..) before all, (0, key, 0) just before a value, (0, key, 1) just after it,
(1, ..) after all."""

Interval = tuple[Cut, Cut]
"""The values between two cuts."""


def cuts(pattern: Pattern) -> list[Interval]:
    """A pattern other than ``*`` as disjoint intervals in ascending order, each from one cut to another.

    The value after a discrete one has the next ordinal, so there "just after 3" is "just before 4".
    """
    if isinstance(pattern, Empty):
        return []
    if isinstance(pattern, Values):
        return [piece for v in pattern.members for piece in cuts(Constant(pattern.type, v))]
    ends = bounds(pattern)
    if ends is not None:
        return [((0, ends[0], 0), (0, ends[1] + 1, 0))]
    if isinstance(pattern, Constant):
        return [(_cut(pattern.type, pattern.value, 0), _cut(pattern.type, pattern.value, 1))]
    assert isinstance(pattern, Range)
    low, high = _BEFORE_ALL, _AFTER_ALL
    if pattern.low is not None:
        low = _cut(pattern.type, pattern.low, int(not pattern.low_closed))
    if pattern.high is not None:
        high = _cut(pattern.type, pattern.high, int(pattern.high_closed))
    return [(low, high)]


_BEFORE_ALL: Cut = (-1, 0, 0)
_AFTER_ALL: Cut = (1, 0, 0)


def _cut(type_: Type, value: Value, after: int) -> Cut:
    """The cut just before (0) or just after (1) a dense value. Equal cuts have one form: after INF is before NaN."""
    key = type_.key(value)
    if not after and type_.lowest is not None and key == type_.key(type_.lowest):
        return _BEFORE_ALL
    if type_ is DOUBLE and value != value:
        return _AFTER_ALL if after else (0, type_.key(math.inf), 1)
    return (0, key, after)


def ends(type_: Type) -> Interval:
    """The cuts before and after all values of a type."""
    if type_.discrete:
        return (0, type_.ordinal(type_.lowest), 0), (0, type_.ordinal(type_.highest) + 1, 0)
    return _BEFORE_ALL, _AFTER_ALL


def between(type_: Type, low: Cut, high: Cut) -> Pattern:
    """The pattern of the values between two cuts: the inverse of `cuts`, for one interval.

    >>> from xmlpunct.types import INT
    >>> print(between(INT, *cuts(interval(INT, 17, 20, True, False))[0]))
    [17,19]
    """
    if type_.discrete:
        return ordinals(type_, low[1], high[1] - 1)
    if low >= high:
        return EMPTY
    first = None if low == _BEFORE_ALL else value_at(type_, low)
    last = None if high == _AFTER_ALL else value_at(type_, high)
    return interval(type_, first, last, not low[2], bool(high[2]))


def hull(type_: Type, patterns: Iterable[Pattern], *, below: bool = False, above: bool = False) -> Pattern:
    """The smallest range that covers some patterns; with ``below`` or ``above``, extended without bound.

    >>> from xmlpunct.types import INT
    >>> from xmlpunct.types.pattern import constant
    >>> hours = [constant(INT, 17), constant(INT, 20)]
    >>> print(hull(INT, hours), hull(INT, hours, below=True), hull(INT, hours, below=True, above=True))
    [17,20] (,20] *
    """
    patterns = list(patterns)
    if WILDCARD in patterns:
        return WILDCARD
    intervals = [piece for p in patterns for piece in cuts(p)]
    if not intervals:
        return EMPTY
    lowest, highest = ends(type_)
    low = lowest if below else min(low for low, _ in intervals)
    high = highest if above else max(high for _, high in intervals)
    return WILDCARD if (low, high) == (lowest, highest) else between(type_, low, high)


def first_value(type_: Type, low: Cut, high: Cut, descending: bool = False) -> Value | None:
    """The lowest (or highest) value between two cuts; None if there is none, as just above 3.0 among DOUBLEs."""
    if type_.discrete:
        return type_.at(high[1] - 1 if descending else low[1])
    if descending:
        if high == _AFTER_ALL:
            return type_.highest
        return value_at(type_, high) if high[2] else None
    if low == _BEFORE_ALL:
        return type_.lowest
    if type_ is DOUBLE and low == (0, type_.key(math.inf), 1):
        return type_.highest
    return None if low[2] else value_at(type_, low)


def value_at(type_: Type, cut: Cut) -> Value:
    """The dense value at a cut."""
    return cut[1][1] if type_ is DOUBLE else cut[1]
