"""Counted: the number of copies of each row."""

from __future__ import annotations

import polars as pl

from xmlpunct.operators.relations.partials import Partials
from xmlpunct.schema.change_columns import DIFF


class Counted(Partials):
    """`Partials` whose key is all columns but ``$diff``.

    >>> from xmlpunct.schema import Schema
    >>> from xmlpunct.schema.change_columns import changes
    >>> from xmlpunct.types import INT
    >>> s = changes(Schema.parse("x INT"), INT)
    >>> counted = Counted(s.empty())
    >>> counted.add(s.frame([(7, 1, 1), (7, 1, 2), (7, 3, 1)]))
    >>> counted.add(s.frame([(7, 3, -1)]))
    >>> counted.frame.rows()
    [(7, 1, 3)]
    """

    def __init__(self, empty: pl.DataFrame) -> None:
        super().__init__(empty, [name for name in empty.columns if name != DIFF])


def consolidated(changes: pl.DataFrame) -> pl.DataFrame:
    """Changes that differ in ``$diff`` only, merged to one with their sum, or dropped if that is 0. NaN equals itself.

    >>> consolidated(pl.DataFrame({"x": [7, 8, 7], DIFF: [1, 1, -1]})).rows()
    [(8, 1)]
    """
    key = [name for name in changes.columns if name != DIFF]
    if changes.height > 1:
        total = pl.col(DIFF).sum()
        sums = changes.group_by(key, maintain_order=True).agg(total) if key else changes.select(total)
        changes = sums[:, changes.columns]
    return changes.filter(changes[DIFF] != 0)
