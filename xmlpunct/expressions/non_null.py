"""Which columns are not null wherever an expression has a value, or a condition holds (semantics 7).

A tuple for which an expression fails is rejected, so it counts nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

Names = frozenset[str] | None
"""Names of columns. None: all there are, because there is no such tuple."""


class NonNull(NamedTuple):
    """The columns that are not null wherever an expression is not null, is true, and is false."""

    value: Names
    true: Names
    false: Names

    @property
    def negated(self) -> NonNull:
        """That of NOT."""
        return NonNull(self.value, self.false, self.true)


ALL = NonNull(None, None, None)
"""Of the literal NULL."""

Inference = Callable[[Any, Sequence[NonNull]], NonNull]
"""How the non-null columns of a call (an `expression.Call`) follow from those of its arguments."""


def union(sets: Iterable[Names]) -> Names:
    """The columns in any of some sets."""
    names = frozenset[str]()
    for some in sets:
        if some is None:
            return None
        names = names if some <= names else names | some
    return names


def intersection(sets: Iterable[Names]) -> Names:
    """The columns in all of some sets.

    >>> sorted(intersection([frozenset("ab"), None, frozenset("bc")]))
    ['b']
    """
    names: Names = None
    for some in sets:
        if some is not None:
            names = some if names is None or some <= names else names & some
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
    """A function that may have a value where every argument is null."""
    nothing = frozenset[str]()
    return NonNull(nothing, nothing, nothing)
