"""The inputs of a query: declarations, a feed of tuples and punctuations, and T, the set of instants.

An instant is an int: the value itself for INT, days since 1970 for DATE, microseconds since 1970 for TIMESTAMP.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any

from tests.oracle.values import Row
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.types import DATE, INT, NAN, Type
from xmlpunct.types import pattern as pt
from xmlpunct.types.pattern import Pattern, Values

Spans = list[tuple[int, int]]
"""Closed intervals of instants."""


def zero(type_: Type) -> int:
    """The ordinal of the instant 0."""
    return type_.ordinal(date(1970, 1, 1)) if type_ is DATE else 0


def instant(type_: Type, value: Any) -> int:
    """A timestamp as an instant."""
    return type_.ordinal(value) - zero(type_)


def timestamp(type_: Type, at: int) -> Any:
    """An instant as a timestamp."""
    return type_.at(at + zero(type_))


def spans(type_: Type, pattern: Pattern) -> Spans:
    """The instants that a pattern matches, as intervals."""
    ends = pt.bounds(pattern)
    if ends is not None:
        return [(ends[0] - zero(type_), ends[1] - zero(type_))]
    if isinstance(pattern, Values):
        return [(instant(type_, v), instant(type_, v)) for v in pattern.members]
    lowest, highest = instant(type_, type_.lowest), instant(type_, type_.highest)
    return [(lowest, highest)] if str(pattern) in ("*", "(,)") else []


def prefix(start: int, parts: Iterable[tuple[int, int]]) -> int:
    """The end of the prefix that the intervals close without a gap, if it is closed up to ``start``."""
    for first, last in sorted(parts):
        if first > start + 1:
            break
        start = max(start, last)
    return start


def canonical(row: Row) -> Row:
    """Replace -0.0 by 0.0 and every NaN by one object, so that Python dictionaries compare rows correctly."""
    return tuple(v if not isinstance(v, float) else NAN if v != v else v + 0.0 for v in row)


@dataclass(frozen=True)
class Input:
    """A stream with a timestamp, a relation by changes (``change`` names the diff), or a constant relation."""

    name: str
    schema: Schema
    stamp: str | None = None
    change: str | None = None

    @cached_property
    def places(self) -> list[int]:
        """The positions of the columns visible to a query: all but the timestamp and the diff."""
        return [i for i, name in enumerate(self.schema.names) if name not in (self.stamp, self.change)]

    @property
    def is_stream(self) -> bool:
        return self.stamp is not None and self.change is None

    @cached_property
    def type(self) -> Type:
        """The type of the timestamp."""
        return INT if self.stamp is None else self.schema[self.stamp].type

    @cached_property
    def declared(self) -> tuple[int | None, int | None]:
        """The bounds of the timestamp that a CHECK declares."""
        assert self.stamp is not None
        domain = self.schema[self.stamp].domain
        if str(domain) in ("*", "(,)"):
            return None, None
        parts = spans(self.type, domain)
        low, high = min(a for a, _ in parts), max(b for _, b in parts)
        ends = instant(self.type, self.type.lowest), instant(self.type, self.type.highest)
        return (None if low == ends[0] else low), (None if high == ends[1] else high)

    def element(self, t: Row) -> tuple[Row, int, int]:
        """A tuple of the input as <e, at, diff>."""
        e = canonical(tuple(t[i] for i in self.places))
        if self.stamp is None:
            return e, 0, 1
        at = instant(self.type, t[self.schema.index(self.stamp)])
        diff: Any = 1 if self.change is None else t[self.schema.index(self.change)]
        return e, at, 1 if diff == "insert" else -1 if diff == "delete" else diff

    def row(self, e: Row, at: int = 0, diff: int = 1) -> Row:
        """<e, at, diff> as a tuple of the input."""
        values: list[Any] = [None] * len(self.schema)
        for position, value in zip(self.places, e, strict=True):
            values[position] = value
        if self.stamp is not None:
            values[self.schema.index(self.stamp)] = timestamp(self.type, at)
        if self.change is not None:
            is_word = self.schema[self.change].type is not INT
            values[self.schema.index(self.change)] = ["delete", "insert"][diff > 0] if is_word else diff
        return tuple(values)


Inputs = Mapping[str, Input]
Element = Row | Punctuation
Feed = Sequence[tuple[str, Element]]
"""Elements in the order in which they arrive, each with its input's name."""


@dataclass(frozen=True)
class Time:
    """T (relations 2.1). ``low`` is LO: a formal first instant, unless all inputs declare it (``declared_low``)."""

    low: int
    high: int
    declared_low: bool = False
    declared_high: bool = False

    @classmethod
    def of(cls, inputs: Iterable[Input]) -> Time:
        """T of the inputs of a query."""
        timed = [i for i in inputs if i.stamp is not None]
        type_ = timed[0].type if timed else INT
        lows, highs = ({i.declared[end] for i in timed} for end in (0, 1))
        low, high = (ends.pop() if len(ends) == 1 else None for ends in (lows, highs))
        return cls(
            instant(type_, type_.lowest) if low is None else low,
            instant(type_, type_.highest) if high is None else high,
            low is not None,
            high is not None,
        )

    def is_formal(self, at: int) -> bool:
        """Whether an instant is a formal LO, which a relation's changes show as null (relations 2.1)."""
        return at == self.low and not self.declared_low

    @property
    def before(self) -> int:
        """The initially closed prefix of a stream: LO is formal, unless declared."""
        return self.low - 1 if self.declared_low else self.low

    def bound(self, b: float) -> float:
        """Extend a closed prefix that reaches the end of T to oo."""
        return math.inf if b >= self.high else b


Changes = list[tuple[Row, int, int]]


def tuples(inputs: Inputs, feed: Feed) -> dict[str, Changes]:
    """The tuples of each input as <e, at, diff>."""
    changes: dict[str, Changes] = {name: [] for name in inputs}
    for name, element in feed:
        if not isinstance(element, Punctuation):
            changes[name].append(inputs[name].element(element))
    return changes


def judged(changes: Changes) -> tuple[dict[Row, list[tuple[int, int]]], int]:
    """The counts of each tuple from its instants on (relations 4.3), and the number of rejected deletes.

    Instants are in order, with inserts before deletes. A delete without a tuple is rejected.
    """
    steps: dict[Row, list[tuple[int, int]]] = {}
    rejects = 0
    for e in dict.fromkeys(e for e, _, _ in changes):
        count = 0
        for at in sorted({a for f, a, _ in changes if f == e}):
            diffs = [d for f, a, d in changes if f == e and a == at]
            count += sum(d for d in diffs if d > 0) + sum(d for d in diffs if d < 0)
            rejects += max(0, -count)
            count = max(0, count)
            steps.setdefault(e, []).append((at, count))
    return steps, rejects
