"""The changes of relations that are not closed yet, consolidated."""

from __future__ import annotations

import polars as pl

from xmlpunct.operators.relations.partials import Partials
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import AT, DIFF, tuple_of

ALL = "$all"
"""The constant key of tuples without attributes, because a data frame without columns has no rows."""


class OpenChanges(Partials):
    """A row for each tuple and instant of its changes, with the sum of the changes of each input.

    >>> from xmlpunct.schema.change_columns import changes
    >>> from xmlpunct.punctuations.punctuation import Punctuation
    >>> from xmlpunct.punctuations.punctuation_set import PunctuationSet
    >>> from xmlpunct.types import INT
    >>> s = changes(Schema.parse("x INT"), INT)
    >>> open_changes = OpenChanges(s)
    >>> open_changes.add(s.frame([(7, 1, 1), (7, 3, -1), (7, 3, 1), (7, 5, -1)]))
    >>> open_changes.close(PunctuationSet(s, [Punctuation.parse(s, "<*, (,3], *>")])).rows()
    [(7, 1, 1)]
    >>> open_changes.frame.rows()
    [(7, 5, -1)]
    """

    def __init__(self, schema: Schema, inputs: int = 1) -> None:
        self.schema = schema
        self.names = list(tuple_of(schema).names) or [ALL]
        """The columns of the tuple."""
        self.diffs = [f"{DIFF}{i}" for i in range(inputs)]
        """The columns with the changes of each input."""
        keys = keyed(schema.empty())[:, [*self.names, AT]]
        super().__init__(keys.hstack([pl.Series(diff, [], pl.Int64()) for diff in self.diffs]), keys.columns)

    def add(self, tuples: pl.DataFrame, port: int = 0) -> None:
        """Add changes of an input."""
        zero = pl.lit(0, dtype=pl.Int64())
        diffs = [(pl.col(DIFF) if i == port else zero).alias(name) for i, name in enumerate(self.diffs)]
        super().add(keyed(tuples).select(*self.key, *diffs))


def keyed(tuples: pl.DataFrame) -> pl.DataFrame:
    """Changes with at least one key column: `ALL` if their tuples have no attributes."""
    if any(name not in (AT, DIFF) for name in tuples.columns):
        return tuples
    return tuples.with_columns(pl.lit(0, dtype=pl.Int64()).alias(ALL))
