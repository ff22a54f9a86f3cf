"""Finds the columns of a stream whose values rise, so that PUNCTUATE ORDER BY may apply to them."""

from __future__ import annotations

import polars as pl

from xmlpunct.schema import Schema
from xmlpunct.types import DATE, STRING, TIMESTAMP

_TIME = r"^-?\d{4}-\d\d-\d\d"
"""The beginning of a date or a time. Such texts are compared as texts."""


class OrderedColumns:
    """Finds the numbers and times that never fall and rise at least once. Nulls do not count.

    >>> s = Schema.parse("ts INT, user STRING, n STRING")
    >>> columns = OrderedColumns(s)
    >>> columns.take(s.frame([(1, "a", "9"), (1, "b", "10")]))
    >>> columns.take(s.frame([(3, "c", "8")]))
    >>> columns.names
    ['ts']
    """

    def __init__(self, schema: Schema) -> None:
        ordered_types = (DATE, TIMESTAMP, STRING)
        candidates = [a.name for a in schema if a.type.numeric or a.type in ordered_types]
        self._ends: dict[str, pl.Series | None] = dict.fromkeys(candidates)
        """The first and the last value of each column that has not fallen."""

    def take(self, tuples: pl.DataFrame) -> None:
        """Add the next tuples."""
        for name, ends in list(self._ends.items()):
            values = _as_measure(tuples[name].drop_nulls())
            if values is None or (ends is not None and len(values) and ends.dtype != values.dtype):
                del self._ends[name]
            elif len(values):
                values = values if ends is None else pl.concat([ends, values])
                if values.is_sorted():
                    self._ends[name] = values.gather([0, -1])
                else:
                    del self._ends[name]

    @property
    def names(self) -> list[str]:
        """The columns in order so far."""
        return [name for name, ends in self._ends.items() if ends is not None and ends[0] != ends[1]]


def _as_measure(values: pl.Series) -> pl.Series | None:
    """Values as numbers or times; None if they are neither."""
    if values.dtype != pl.String():
        return values
    numbers = values.str.strip_chars().cast(pl.Float64(), strict=False)
    if not numbers.null_count():
        return numbers
    return values if values.str.contains(_TIME).all() else None
