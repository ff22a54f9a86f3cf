"""Equality of values, as grouping, duplicate elimination and the comparison of results define it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any

Row = tuple[Any, ...]


def same(value: Any) -> Hashable:
    """A key that two values share if and only if they are the same value.

    Nulls are equal, NaNs are equal, and -0 equals 0; 1, 1.0, true and the decimal 1 are four different values.
    Sums of DOUBLE are exact up to rounding, so twelve digits are compared.
    """
    if isinstance(value, list):  # an array, whose items are objects
        return ("array", *(tuple(map(same, item.values())) for item in value))
    if isinstance(value, float):
        return ("float", "NaN" if value != value else float(f"{value:.12g}") + 0.0)
    return (type(value).__name__, value)


def is_canonical(value: Any) -> bool:
    """Whether a value is in canonical form: neither a zero nor a NaN has a sign."""
    special = isinstance(value, float) and (value == 0 or value != value)
    return not special or math.copysign(1, value) == 1


def bag(rows: Iterable[Row]) -> Counter[tuple[Hashable, ...]]:
    """Rows as a bag."""
    return Counter(tuple(map(same, row)) for row in rows)
