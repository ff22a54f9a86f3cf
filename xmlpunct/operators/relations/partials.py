"""Partials: sums by key, to which changes are added."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

import numpy as np
import polars as pl

from xmlpunct.operators.arrangement import UNINDEXED_ROWS, Arrangement
from xmlpunct.operators.hash_index import ascending
from xmlpunct.operators.relations.slots import Numbers, begins, numbered, order_by
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_set import PunctuationSet

SORTED_ROWS = UNINDEXED_ROWS
"""So many rows with keys of their own are summed by sorting (`benchmarks/windows.py --only range`)."""


class Partials(Arrangement):
    """A row for each key, with sums of what came. Sums of nothing but 0 are not retained.

    >>> sums = Partials(pl.DataFrame(schema={"k": pl.Int64, "n": pl.Int64}), ["k"])
    >>> sums.add(pl.DataFrame({"k": [1, 1, 2], "n": [1, 2, 5]}))
    >>> sums.add(pl.DataFrame({"k": [2, 3], "n": [-5, 1]}))
    >>> sums.frame.rows()
    [(1, 3), (3, 1)]
    """

    def __init__(self, empty: pl.DataFrame, key: Sequence[str]) -> None:
        self.sums = [name for name in empty.columns if name not in key]
        super().__init__(empty[:, [*key, *self.sums]], key)
        self._totals = [pl.col(name).sum() for name in self.sums]
        self._is_some = reduce(or_, (pl.col(name) != 0 for name in self.sums))

    def add(self, tuples: pl.DataFrame) -> None:
        """Add what came, summed by key or not."""
        fresh = self._summed(tuples)
        known = self.remove(ascending(self.probe(fresh)[1])) if len(self) else self.empty
        fresh = self._summed(pl.concat([known, fresh])) if known.height else fresh
        self.append(fresh.filter(self._is_some))

    def keep(self, rows: pl.DataFrame) -> None:
        """Retain rows that are summed, and whose keys are not retained."""
        self.append(self._some(rows[:, self.empty.columns]))

    def _some(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows with a sum that is not 0."""
        return rows.filter(self._is_some)

    def _summed(self, tuples: pl.DataFrame) -> pl.DataFrame:
        """The sums by key."""
        tuples = tuples[:, self.empty.columns]
        if not self.key:
            return tuples.select(self._totals)
        return tuples.group_by(self.key, maintain_order=True).agg(self._totals)  # what overflows comes back

    def _summed_apart(self, tuples: pl.DataFrame) -> pl.DataFrame:
        """The same of keys that hardly repeat, in any order: by sorting, if there are many."""
        *rest, last = self.key or [""]
        if not rest or tuples.height < SORTED_ROWS or tuples[last].dtype != pl.Int64():
            return self._summed(tuples)
        tuples = tuples[:, self.empty.columns]
        number, _ = numbered(tuples.select(rest))
        minor = tuples[last].to_numpy()
        order = order_by(minor, number)
        new = begins(minor[order], number[order])
        ends = np.append(np.flatnonzero(new)[1:], len(new)) - 1
        if len(ends) == len(new):
            return tuples
        tuples, sums = tuples[order], []
        for name in self.sums:
            totals = tuples[name].cum_sum()[ends]  # what overflows comes back
            sums.append(totals - totals.shift(1, fill_value=0))
        return tuples.select(self.key)[ends].hstack(sums)

    def move(self, fresh: pl.DataFrame, closed: PunctuationSet) -> pl.DataFrame:
        """Add what came, and let the rows go that some punctuations match; return them, summed by key.

        What came and is closed is not retained in between, which is most of it where slices are large.

        >>> from xmlpunct.schema import Schema
        >>> schema = Schema.parse("k INT, at INT")
        >>> sums = Partials(pl.DataFrame(schema={"k": pl.Int64, "at": pl.Int64, "n": pl.Int64}), ["k", "at"])
        >>> closed = PunctuationSet(schema, [Punctuation.of(schema, at="(,3]")])
        >>> sums.move(pl.DataFrame({"k": [1, 1, 1], "at": [3, 3, 4], "n": [5, 2, 1]}), closed).rows()
        [(1, 3, 7)]
        >>> sums.frame.rows()
        [(1, 4, 1)]
        """
        gone = self.close(closed)
        if not fresh.height:
            return gone
        is_closed = closed.mask(fresh)
        if not is_closed.any():
            self.add(fresh)
            return gone
        if is_closed.all():
            passing = fresh.select(self.empty.columns)
        else:
            self.add(fresh.filter(~is_closed))
            passing = fresh.filter(is_closed).select(self.empty.columns)
        return self._some(self._summed_apart(pl.concat([gone, passing]) if gone.height else passing))

    def close(self, closed: PunctuationSet) -> pl.DataFrame:
        """Let the rows go that some punctuations match; return them."""
        if not len(self):
            return self.empty
        if Punctuation.everything(closed.schema) in closed:
            rows = self.frame
            self.clear()
            return rows
        return self.remove(self.matching(closed))


def withdraw(known: Arrangement, keys: pl.DataFrame) -> tuple[Numbers, pl.DataFrame]:
    """Let the rows of some keys go; return them, each with the place of its key. No key comes twice."""
    places, rows = known.probe(keys, keys.columns)
    order = np.argsort(rows)
    return places[order], known.remove(rows[order])
