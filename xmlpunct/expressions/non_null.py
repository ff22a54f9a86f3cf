"""The columns that are not null wherever an expression has a value, or a condition holds (semantics 7).

A tuple for which an expression fails is rejected, so it is not considered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

ColumnNames = frozenset[str] | None
"""Names of columns. None: all columns, because no tuple fulfils the condition."""


class NonNull(NamedTuple):
    """The columns that are not null wherever an expression is not null, is true, and is false."""

    value: ColumnNames
    true: ColumnNames
    false: ColumnNames

    @property
    def negated(self) -> NonNull:
        """The sets of the negated expression."""
        return NonNull(self.value, self.false, self.true)


ALL = NonNull(None, None, None)
"""The sets of the literal NULL."""

NonNullRule = Callable[[Any, Sequence[NonNull]], NonNull]
"""Derives the non-null columns of a call (an `expression.Call`) from the sets of its arguments."""


def union(sets: Iterable[ColumnNames]) -> ColumnNames:
    """The columns in any of some sets."""
    names = frozenset[str]()
    for columns in sets:
        if columns is None:
            return None
        names = names if columns <= names else names | columns
    return names


def intersection(sets: Iterable[ColumnNames]) -> ColumnNames:
    """The columns in all of some sets.

    >>> sorted(intersection([frozenset("ab"), None, frozenset("bc")]))
    ['b']
    """
    names: ColumnNames = None
    for columns in sets:
        if columns is not None:
            names = columns if names is None or columns <= names else names & columns
    return names


def of_all(call: Any, arguments: Sequence[NonNull]) -> NonNull:
    """A strict function: null where any argument is."""
    names = union(a.value for a in arguments)
    return NonNull(names, names, names)


def of_any(call: Any, arguments: Sequence[NonNull]) -> NonNull:
    """A function whose value is that of one of its arguments."""
    value, true, false = map(intersection, zip(*arguments, strict=True))
    return NonNull(value, true, false)


def of_first(call: Any, arguments: Sequence[NonNull]) -> NonNull:
    """A function that is null where its first argument is; a condition has that argument's value."""
    return arguments[0]


def of_none(call: Any, arguments: Sequence[NonNull]) -> NonNull:
    """A function that may have a value even if every argument is null."""
    no_columns = frozenset[str]()
    return NonNull(no_columns, no_columns, no_columns)
