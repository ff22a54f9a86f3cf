"""The sweep: counts of tuples as they were when last closed, and the changes behind that, instant after instant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.changes import AT, DIFF
from xmlpunct.frames import Part
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.hash_index import ascending
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.pattern import WILDCARD
from xmlpunct.punctuations.set import PunctuationSet
from xmlpunct.schema import Schema

Counts = NDArray[np.int64]
"""How many copies of each tuple there are, or come and go; shape (n,)."""

ALL = "$all"
"""Stands for the tuple where it has no attributes, since a data frame without columns has no rows."""


@dataclass(frozen=True)
class Steps:
    """Changes that are closed, by tuple and by instant. Two of a tuple differ in their instants."""

    tuples: pl.DataFrame
    """The tuples and their instants."""
    after: list[Counts]
    """For each input the count of the tuple from that instant on."""
    diffs: list[Counts]
    """For each input the change."""


class Sweep:
    """For each tuple its counts in some inputs where last closed, and all later changes, consolidated.

    ``schema`` is that of changes; they come in under its names.

    >>> from xmlpunct.changes import changes
    >>> from xmlpunct.punctuations.punctuation import Punctuation
    >>> from xmlpunct.types import INT
    >>> s = changes(Schema.parse("x INT"), INT)
    >>> sweep = Sweep(s, 1)
    >>> sweep.add(0, s.frame([(7, 1, 1), (7, 3, -1), (7, 3, 1), (7, 5, -1)]))
    >>> steps = sweep.close(PunctuationBatch([Punctuation.parse(s, "<*, (,3], *>")]))
    >>> steps.tuples.rows(), steps.after[0].tolist()
    ([(7, 1)], [1])
    >>> sweep.later.frame.rows()
    [(7, 5, -1)]
    """

    def __init__(self, schema: Schema, inputs: int) -> None:
        self._schema, self._at = schema, schema.index(AT)
        self._names = [name for name in schema.names if name not in (AT, DIFF)] or [ALL]
        self._diffs, self._counts = ([f"{kind}{i}" for i in range(inputs)] for kind in ("$diff", "$count"))
        keys = _keyed(schema.empty()).select(self._names)
        diffs, counts = (
            [pl.Series(name, [], pl.Int64()) for name in names] for names in (self._diffs, self._counts)
        )
        self.later = Arrangement(keys.hstack([schema.empty()[AT], *diffs]), [*self._names, AT])
        """What is not closed."""
        self.counts = Arrangement(keys.hstack(counts), self._names)
        """The counts of the tuples that any input has."""

    @property
    def parts(self) -> dict[str, Part]:
        """What is retained, for the state."""
        return {"later": self.later, "counts": self.counts}

    def add(self, port: int, tuples: pl.DataFrame) -> None:
        """Take changes of an input."""
        tuples = _keyed(tuples)
        none = pl.lit(0, dtype=pl.Int64())
        diffs = [(pl.col(DIFF) if i == port else none).alias(name) for i, name in enumerate(self._diffs)]
        fresh = self._consolidated(tuples.select(*self._names, AT, *diffs))
        known = self.later.remove(ascending(self.later.probe(fresh)[1]))
        self.later.append(self._consolidated(pl.concat([known, fresh])) if known.height else fresh)

    def _consolidated(self, tuples: pl.DataFrame) -> pl.DataFrame:
        """The changes of each tuple at each instant as one."""
        sums = tuples.group_by(*self._names, AT, maintain_order=True).agg(pl.col(self._diffs).sum())
        return sums.filter(pl.any_horizontal(pl.col(self._diffs) != 0))

    def close(self, closed: PunctuationBatch) -> Steps:
        """Let the changes go that some punctuations match; the counts move on to there, or go with the tuple's end."""
        steps = self._steps(self.later.remove(self.later.matching(PunctuationSet(self._schema, closed))))
        if len(self.counts):
            over = closed if closed.place not in (None, self._at) else self._over(closed)
            self.counts.remove(self.counts.matching(PunctuationSet(self._schema, over)))
        return steps

    def _over(self, closed: PunctuationBatch) -> PunctuationBatch:
        """Those of some punctuations that close tuples for ever."""
        return PunctuationBatch(p for p in closed if p.patterns[self._at] is WILDCARD)

    def _steps(self, gone: pl.DataFrame) -> Steps:
        """Closed changes, by tuple and by instant; the counts move on."""
        groups = gone.sort(AT).group_by(self._names, maintain_order=True).agg(AT, *self._diffs)
        lengths = groups[AT].list.len().to_numpy().astype(np.int64)
        ends = np.cumsum(lengths)
        places, rows = self.counts.probe(groups, self._names)
        order = np.argsort(rows)
        known = self.counts.remove(rows[order])
        after, diffs, left = [], [], []
        for diff, count in zip(self._diffs, self._counts, strict=True):
            steps = groups[diff].explode().to_numpy()
            totals = np.cumsum(steps)
            before = np.zeros(groups.height, np.int64)
            before[places[order]] = known[count].to_numpy()
            before[1:] -= totals[ends[:-1] - 1]
            totals += np.repeat(before, lengths)
            after.append(totals)
            diffs.append(steps)
            left.append(pl.Series(count, totals[ends - 1], pl.Int64()))
        keys = groups.select(self._names)
        counts = keys.hstack(left)
        self.counts.append(counts.filter(pl.any_horizontal(pl.col(self._counts) != 0)))
        tuples = keys[np.repeat(np.arange(groups.height), lengths)].hstack([groups[AT].explode()])
        return Steps(tuples.drop(ALL) if self._names == [ALL] else tuples, after, diffs)


def _keyed(tuples: pl.DataFrame) -> pl.DataFrame:
    """Changes with something to tell their tuples by."""
    return tuples if tuples.width > 2 else tuples.with_columns(pl.lit(0).alias(ALL))


def changes_of(tuples: pl.DataFrame, diffs: Counts, names: Sequence[str]) -> pl.DataFrame:
    """Tuples and their instants, and how they change, as changes; without those that do not."""
    changed = np.flatnonzero(diffs)
    return tuples[changed].hstack([pl.Series(DIFF, diffs[changed], pl.Int64())]).select(names)
