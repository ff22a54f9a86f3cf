"""Repeated: the tuples of a relation, emitted again at every instant."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.hash_index import Rows, ascending
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.relations.open_changes import OpenChanges
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema.change_columns import AT
from xmlpunct.types.ordinals import Ordinals

_COUNT = "$count"


class Repeated(Arrangement):
    """The current tuples, the number of copies of each, and the next instant at which to emit them.

    That is the next multiple of ``every`` from ``origin``.
    """

    def __init__(self, open_changes: OpenChanges, instants: Instants, every: int, origin: int) -> None:
        self._schema, self._names, self._diff = open_changes.schema, open_changes.names, open_changes.diffs[0]
        self.instants, self._every, self._origin = instants, every, origin
        empty = open_changes.empty.select(*self._names, AT, pl.col(self._diff).alias(_COUNT))
        super().__init__(empty, self._names)

    @property
    def none(self) -> Rows:
        """No rows."""
        return np.empty(0, np.int64)

    def due(self, closed: PunctuationBatch) -> Rows:
        """The rows that may be emitted, because their next instant is closed."""
        return self.matching(PunctuationSet(self._schema, closed))

    def emit(
        self,
        closed: pl.DataFrame,
        due: Rows,
        bounds: Callable[[pl.DataFrame], Ordinals],
        begin: int | None = None,
    ) -> pl.DataFrame:
        """Apply closed changes; emit their tuples and the tuples of ``due``, from ``begin`` up to their ``bounds``."""
        changed = self.probe(closed, self._names)[1]
        current = self.remove(ascending(np.concatenate((due, changed))))
        # The current count is the first change of its tuple.
        current = current.rename({_COUNT: self._diff})
        steps = pl.concat([current, closed.sort(AT)[:, current.columns]])
        groups = steps.group_by(self._names, maintain_order=True).agg(AT, self._diff)
        tuples, lengths = groups[:, self._names], groups[AT].list.len().to_numpy().astype(np.int64)
        ends = np.cumsum(lengths)
        counts = np.cumsum(groups[self._diff].explode().to_numpy())
        counts -= np.repeat(np.append(0, counts)[ends - lengths], lengths)
        starts = self.instants.ordinals(groups[AT].explode())
        stops = np.append(starts[1:] - 1, 0)[: len(starts)]
        last = bounds(tuples)
        stops[ends - 1] = last
        self._retain(tuples, last, counts[ends - 1])
        begin = self.instants.first if begin is None else max(begin, self.instants.first)
        return self._repeat(tuples, np.maximum(starts, begin), stops, counts, lengths)

    def _retain(self, tuples: pl.DataFrame, emitted: Ordinals, counts: Ordinals) -> None:
        """Retain the tuples that are to be emitted again after the instants ``emitted``."""
        repeats = (counts != 0) & (emitted < self.instants.last)
        at, within = self.instants.up(np.where(repeats, emitted, 0) + 1, self._every, self._origin)
        repeats &= within
        retained = tuples.filter(pl.Series(repeats))
        number = pl.Series(_COUNT, counts[repeats], pl.Int64())
        self.append(retained.hstack([self.instants.column(AT, at[repeats]), number]))

    def _repeat(
        self, tuples: pl.DataFrame, starts: Ordinals, stops: Ordinals, counts: Ordinals, lengths: Ordinals
    ) -> pl.DataFrame:
        """The tuples, each with ``lengths`` intervals of instants and a number of copies in each interval."""
        starts, within = self.instants.up(starts, self._every, self._origin)
        within &= (counts > 0) & (starts <= stops)
        owners = np.repeat(np.arange(tuples.height), lengths)[within]
        starts, stops, counts = starts[within], stops[within], counts[within]
        multiples = ((stops - starts).view(np.uint64) // np.uint64(self._every)).astype(np.int64) + 1
        copies = multiples * counts
        begins = np.repeat(np.cumsum(copies) - copies, copies)
        turns = (np.arange(len(begins)) - begins) // np.repeat(counts, copies)
        at = np.repeat(starts, copies) + turns * self._every
        return tuples[np.repeat(owners, copies)].hstack([self.instants.column(AT, at)])
