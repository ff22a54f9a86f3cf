"""Partials: sums by key, to which changes are added."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

import numpy as np
import polars as pl

from xmlpunct.operators.arrangement import UNINDEXED_ROWS, Arrangement
from xmlpunct.operators.exact_sums import SUM_DTYPE, by_owner, is_nonzero, summed
from xmlpunct.operators.hash_index import ascending
from xmlpunct.operators.relations.slots import Numbers, begins, group_numbers, order_by
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_set import PunctuationSet

SORTED_ROWS = UNINDEXED_ROWS
"""From this number of rows on, rows with mostly distinct keys are sorted (`benchmarks/windows.py --only range`)."""


class Partials(Arrangement):
    """A row for each key, with sums of its changes: integers, or exact sums of DOUBLEs (`exact_sums`).

    Rows whose sums are all 0 are not retained.

    >>> sums = Partials(pl.DataFrame(schema={"k": pl.Int64, "n": pl.Int64}), ["k"])
    >>> sums.add(pl.DataFrame({"k": [1, 1, 2], "n": [1, 2, 5]}))
    >>> sums.add(pl.DataFrame({"k": [2, 3], "n": [-5, 1]}))
    >>> sums.frame.rows()
    [(1, 3), (3, 1)]
    """

    def __init__(self, empty: pl.DataFrame, key: Sequence[str]) -> None:
        self.sums = [name for name in empty.columns if name not in key]
        super().__init__(empty[:, [*key, *self.sums]], key)
        dtypes = {name: empty.schema[name] for name in self.sums}
        self._totals = [summed(name, dtype) for name, dtype in dtypes.items()]
        self._is_nonzero = reduce(or_, (is_nonzero(name, dtype) for name, dtype in dtypes.items()))

    def add(self, tuples: pl.DataFrame) -> None:
        """Add changes, summed by key or not."""
        sums = self._sum_by_key(tuples)
        old = self.remove(ascending(self.probe(sums)[1])) if len(self) else self.empty
        sums = self._sum_by_key(pl.concat([old, sums])) if old.height else sums
        self.append(sums.filter(self._is_nonzero))

    def keep(self, rows: pl.DataFrame) -> None:
        """Retain rows that are summed by key, and whose keys are not retained."""
        self.append(self._nonzero(rows[:, self.empty.columns]))

    def _nonzero(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows with a sum that is not 0."""
        return rows.filter(self._is_nonzero)

    def _sum_by_key(self, tuples: pl.DataFrame) -> pl.DataFrame:
        """The sums by key."""
        tuples = tuples[:, self.empty.columns]
        if not self.key:
            return tuples.select(self._totals)
        return tuples.group_by(self.key, maintain_order=True).agg(self._totals)  # overflows cancel out

    def _sum_by_sorting(self, tuples: pl.DataFrame) -> pl.DataFrame:
        """The sums by key, in any order; faster if there are many keys that hardly repeat."""
        *major, last = self.key or [""]
        if not major or tuples.height < SORTED_ROWS or tuples[last].dtype != pl.Int64():
            return self._sum_by_key(tuples)
        tuples = tuples[:, self.empty.columns]
        number, _ = group_numbers(tuples.select(major))
        minor = tuples[last].to_numpy()
        order = order_by(minor, number)
        is_new = begins(minor[order], number[order])
        ends = np.append(np.flatnonzero(is_new)[1:], len(is_new)) - 1
        if len(ends) == len(is_new):
            return tuples
        tuples, sums = tuples[order], []
        for name in self.sums:
            if tuples[name].dtype == SUM_DTYPE:
                sums.append(by_owner(tuples[name], np.cumsum(is_new) - 1, len(ends)))
            else:
                totals = tuples[name].cum_sum()[ends]  # overflows cancel out
                sums.append(totals - totals.shift(1, fill_value=0))
        return tuples.select(self.key)[ends].hstack(sums)

    def move(self, changes: pl.DataFrame, closed: PunctuationSet) -> pl.DataFrame:
        """Add changes, remove the rows that match ``closed``, and return them, summed by key.

        Changes that match ``closed`` are never retained. In large slices these are most changes.

        >>> from xmlpunct.schema import Schema
        >>> schema = Schema.parse("k INT, at INT")
        >>> sums = Partials(pl.DataFrame(schema={"k": pl.Int64, "at": pl.Int64, "n": pl.Int64}), ["k", "at"])
        >>> closed = PunctuationSet(schema, [Punctuation.of(schema, at="(,3]")])
        >>> sums.move(pl.DataFrame({"k": [1, 1, 1], "at": [3, 3, 4], "n": [5, 2, 1]}), closed).rows()
        [(1, 3, 7)]
        >>> sums.frame.rows()
        [(1, 4, 1)]
        """
        rows = self.close(closed)
        if not changes.height:
            return rows
        is_closed = closed.mask(changes)
        if not is_closed.any():
            self.add(changes)
            return rows
        if is_closed.all():
            closed_changes = changes.select(self.empty.columns)
        else:
            self.add(changes.filter(~is_closed))
            closed_changes = changes.filter(is_closed).select(self.empty.columns)
        rows = pl.concat([rows, closed_changes]) if rows.height else closed_changes
        return self._nonzero(self._sum_by_sorting(rows))

    def close(self, closed: PunctuationSet) -> pl.DataFrame:
        """Remove the rows that match ``closed``; return them."""
        if not len(self):
            return self.empty
        if Punctuation.everything(closed.schema) in closed:
            rows = self.frame
            self.clear()
            return rows
        return self.remove(self.matching(closed))


def withdraw(arrangement: Arrangement, keys: pl.DataFrame) -> tuple[Numbers, pl.DataFrame]:
    """Remove the rows of distinct ``keys``; return the position of each row's key, shape (rows,), and the rows."""
    positions, rows = arrangement.probe(keys, keys.columns)
    order = np.argsort(rows)
    return positions[order], arrangement.remove(rows[order])
