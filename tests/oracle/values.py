"""When two values are the same, as grouping, duplicate elimination and a comparison of results see it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any

Row = tuple[Any, ...]


def same(value: Any) -> Hashable:
    """A key that two values share if and only if they are the same value.

    Null is null, NaN is NaN, -0 is 0; 1, 1.0, true and the decimal 1 are four different values. Sums of
    DOUBLE are right up to rounding, so twelve digits decide.
    """
    if isinstance(value, list):  # an array, whose items are objects
        return ("array", *(tuple(map(same, item.values())) for item in value))
    if isinstance(value, float):
        return ("float", "NaN" if value != value else float(f"{value:.12g}") + 0.0)
    return (type(value).__name__, value)


def is_canonical(value: Any) -> bool:
    """Whether a value has the one form in which it prints and hashes: no zero and no NaN has a sign."""
    special = isinstance(value, float) and (value == 0 or value != value)
    return not special or math.copysign(1, value) == 1


def bag(rows: Iterable[Row]) -> Counter[tuple[Hashable, ...]]:
    """Rows as a bag."""
    return Counter(tuple(map(same, row)) for row in rows)
