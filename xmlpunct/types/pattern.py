"""Patterns: the five kinds, their canonical forms, and their meaning as sets.

A pattern describes the values of one attribute (the paper, Section 3): wildcard ``*``, constant ``c``, range
``[a,b] (a,b) [a,b) (a,b]`` with either bound missing, list ``{a,b,c}``, and empty ``{}``. Patterns are typed
and always canonical: `constant`, `interval` and `values` choose the simplest kind that describes the set, in
the order empty, constant, range, list. Two patterns that describe the same set of a discrete type are equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from xmlpunct.types import DOUBLE, SPACE, Type, Value

ENUMERABLE = 1000
"""The most values that `enumerate_values` lists of a pattern.

An exchange sends a punctuation with at most this number of values to the shards of these values, and one with more to
every shard. A checkpoint records the number, because it determines the punctuations that each shard receives.
"""


class Pattern:
    """A set of values of one attribute. Null belongs to the wildcard alone."""

    __slots__ = ()

    def matches(self, value: Value) -> bool:
        """Whether ``value`` belongs to the set."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"


class Wildcard(Pattern):
    """``*``: every value, and null."""

    __slots__ = ()

    def matches(self, value: Value) -> bool:
        return True

    def __str__(self) -> str:
        return "*"

    def __reduce__(self) -> str:
        return "WILDCARD"


class Empty(Pattern):
    """``{}``: no value."""

    __slots__ = ()

    def matches(self, value: Value) -> bool:
        return False

    def __str__(self) -> str:
        return "{}"

    def __reduce__(self) -> str:
        return "EMPTY"


WILDCARD = Wildcard()
EMPTY = Empty()


@dataclass(frozen=True, slots=True, repr=False)
class Constant(Pattern):
    """``c``: one value."""

    type: Type
    value: Value

    def matches(self, value: Value) -> bool:
        return value is not None and bool(self.type.key(value) == self.type.key(self.value))

    def __str__(self) -> str:
        return _quote(self.type.format(self.value), member=False)

    def __reduce__(self) -> Any:
        return constant, (self.type, self.value)


@dataclass(frozen=True, slots=True, repr=False)
class Range(Pattern):
    """All values between two bounds; a bound of None is unbounded, and never closed."""

    type: Type
    low: Value
    high: Value
    low_closed: bool
    high_closed: bool

    def matches(self, value: Value) -> bool:
        if value is None:
            return False
        key = self.type.key
        value_key = key(value)
        if self.low is not None:
            low = key(self.low)
            if value_key < low or (value_key == low and not self.low_closed):
                return False
        if self.high is not None:
            high = key(self.high)
            if value_key > high or (value_key == high and not self.high_closed):
                return False
        return True

    def __str__(self) -> str:
        low = "" if self.low is None else _quote(self.type.format(self.low), member=True)
        high = "" if self.high is None else _quote(self.type.format(self.high), member=True)
        return f"{'[' if self.low_closed else '('}{low},{high}{']' if self.high_closed else ')'}"

    def __reduce__(self) -> Any:
        return interval, (self.type, self.low, self.high, self.low_closed, self.high_closed)


@dataclass(frozen=True, slots=True, repr=False)
class Values(Pattern):
    """``{a,b,c}``: at least two distinct values, in ascending order."""

    type: Type
    members: tuple[Value, ...]

    def matches(self, value: Value) -> bool:
        if value is None:
            return False
        key = self.type.key
        value_key = key(value)
        return any(key(member) == value_key for member in self.members)

    def __str__(self) -> str:
        return "{" + ",".join(_quote(self.type.format(v), member=True) for v in self.members) + "}"

    def __reduce__(self) -> Any:
        return values, (self.type, self.members)


# Canonical constructors


def constant(type_: Type, value: object) -> Pattern:
    """The pattern of one value. Raises ValueError for a value of another type."""
    return Constant(type_, type_.accept(value))


def values(type_: Type, members: Iterable[object]) -> Pattern:
    """The pattern of some values: empty, a constant, a range if they are consecutive, or a list.

    >>> from xmlpunct.types import INT
    >>> print(values(INT, [3, 1]), values(INT, [3, 1, 2]), values(INT, [7]), values(INT, []))
    {1,3} [1,3] 7 {}
    """
    accepted = {type_.key(v): v for v in map(type_.accept, members)}
    ordered = tuple(accepted[key] for key in sorted(accepted))
    if not ordered:
        return EMPTY
    if len(ordered) == 1:
        return Constant(type_, ordered[0])
    if type_.discrete and type_.ordinal(ordered[-1]) - type_.ordinal(ordered[0]) == len(ordered) - 1:
        return interval(type_, ordered[0], ordered[-1], True, True)
    return Values(type_, ordered)


def interval(type_: Type, low: object, high: object, low_closed: bool, high_closed: bool) -> Pattern:
    """The pattern of all values between two bounds (None: unbounded), in canonical form.

    Over a discrete type a range is closed, and unbounded if it reaches the end of the type.

    >>> from xmlpunct.types import INT, DOUBLE
    >>> print(interval(INT, 17, 20, True, False), interval(INT, 3, 4, False, False))
    [17,19] {}
    >>> print(interval(DOUBLE, 3, 4, False, False), interval(DOUBLE, 3, 3, True, True))
    (3.0,4.0) 3.0
    """
    lowest = None if low is None else type_.accept(low)
    highest = None if high is None else type_.accept(high)
    if type_.discrete:
        first = None if lowest is None else type_.ordinal(lowest) + (not low_closed)
        last = None if highest is None else type_.ordinal(highest) - (not high_closed)
        return ordinals(type_, first, last)
    key = type_.key
    if type_ is DOUBLE:  # the two greatest values, INF and NaN, are neighbours
        if lowest == math.inf and not low_closed:
            lowest, low_closed = type_.highest, True
        if highest is not None and highest != highest and not high_closed:
            highest, high_closed = math.inf, True
    if lowest is not None and type_.lowest is not None and low_closed and key(lowest) == key(type_.lowest):
        lowest = None
    if (
        highest is not None
        and type_.highest is not None
        and high_closed
        and key(highest) == key(type_.highest)
    ):
        highest = None
    low_closed, high_closed = low_closed and lowest is not None, high_closed and highest is not None
    # Compare with the ends of the type where a side is unbounded: (,"") is empty, [NaN,) is NaN.
    bottom, bottom_in = (lowest, low_closed) if lowest is not None else (type_.lowest, True)
    top, top_in = (highest, high_closed) if highest is not None else (type_.highest, True)
    if bottom is not None and top is not None:
        if key(bottom) > key(top) or (key(bottom) == key(top) and not (bottom_in and top_in)):
            return EMPTY
        if key(bottom) == key(top):
            return Constant(type_, bottom)
    return Range(type_, lowest, highest, low_closed, high_closed)


def ordinals(type_: Type, first: int | None, last: int | None) -> Pattern:
    """The canonical pattern of a discrete type's values with ordinals from ``first`` to ``last``, inclusive."""
    bottom, top = type_.ordinal(type_.lowest), type_.ordinal(type_.highest)
    first = bottom if first is None else max(first, bottom)
    last = top if last is None else min(last, top)
    if first > last:
        return EMPTY
    if first == last:
        return Constant(type_, type_.at(first))
    low = None if first == bottom else type_.at(first)
    high = None if last == top else type_.at(last)
    return Range(type_, low, high, low is not None, high is not None)


def bounds(pattern: Pattern) -> tuple[int, int] | None:
    """The first and last ordinal of a discrete constant or range; None for any other pattern."""
    if isinstance(pattern, Constant) and pattern.type.discrete:
        ordinal = pattern.type.ordinal(pattern.value)
        return ordinal, ordinal
    if isinstance(pattern, Range) and pattern.type.discrete:
        type_ = pattern.type
        low = type_.lowest if pattern.low is None else pattern.low
        high = type_.highest if pattern.high is None else pattern.high
        return type_.ordinal(low), type_.ordinal(high)
    return None


def enumerate_values(pattern: Pattern, limit: int = ENUMERABLE) -> Iterator[Value] | None:
    """The values of a pattern one by one; None if there are more than ``limit``, or they cannot be listed."""
    if isinstance(pattern, Constant):
        return iter((pattern.value,))
    if isinstance(pattern, Values):
        return iter(pattern.members) if len(pattern.members) <= limit else None
    if isinstance(pattern, Empty):
        return iter(())
    ends = bounds(pattern)
    if ends is None or ends[1] - ends[0] >= limit:
        return None
    type_ = pattern.type  # type: ignore[attr-defined]
    return (type_.at(i) for i in range(ends[0], ends[1] + 1))


# Set operations


def intersect(p: Pattern, q: Pattern) -> Pattern:
    """The pattern of the values that belong to both sets."""
    if p is q or isinstance(q, Wildcard):
        return p
    if isinstance(p, Wildcard):
        return q
    if isinstance(p, Empty) or isinstance(q, Empty):
        return EMPTY
    if isinstance(p, Constant):
        return p if q.matches(p.value) else EMPTY
    if isinstance(q, Constant):
        return q if p.matches(q.value) else EMPTY
    if isinstance(p, Values):
        return values(p.type, (v for v in p.members if q.matches(v)))
    if isinstance(q, Values):
        return values(q.type, (v for v in q.members if p.matches(v)))
    assert isinstance(p, Range)
    assert isinstance(q, Range)
    low, low_closed = _tighter(p.type, (p.low, p.low_closed), (q.low, q.low_closed), 1)
    high, high_closed = _tighter(p.type, (p.high, p.high_closed), (q.high, q.high_closed), -1)
    return interval(p.type, low, high, low_closed, high_closed)


def covers(p: Pattern, q: Pattern) -> bool:
    """Whether ``p`` contains every value of ``q``.

    It is exact on discrete types; on dense ones too, since these have no neighbouring values.
    """
    if isinstance(p, Wildcard) or isinstance(q, Empty):
        return True
    if isinstance(q, Wildcard) or isinstance(p, Empty):
        return False
    if isinstance(q, Constant):
        return p.matches(q.value)
    if isinstance(q, Values):
        return all(p.matches(v) for v in q.members)
    return intersect(p, q) == q


def _tighter(
    type_: Type, first: tuple[Value, bool], second: tuple[Value, bool], sign: int
) -> tuple[Value, bool]:
    """The tighter bound: the higher of two lower bounds (sign 1), the lower of two upper bounds (-1)."""
    if first[0] is None or second[0] is None:
        return second if first[0] is None else first
    a, b = type_.key(first[0]), type_.key(second[0])
    if a == b:
        return first[0], first[1] and second[1]
    return first if (a > b) == (sign > 0) else second


def _quote(text: str, member: bool) -> str:
    special = text[:1] in '*[({"' if text else True
    if not special:
        special = text[0] in SPACE or text[-1] in SPACE or "," in text
    if member and not special:
        special = any(c in text for c in '[](){}"')
    return '"' + text.replace('"', '""') + '"' if special else text
