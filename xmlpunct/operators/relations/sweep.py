"""The sweep: counts of tuples as they were when last closed, and the changes behind that, instant after instant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.base.frames import Part
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.relations.bounds import for_ever
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.relations.open_changes import Later
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import AT, DIFF

_LAST = "$last"

Counts = NDArray[np.int64]
"""How many copies of each tuple there are, or come and go; shape (n,)."""


@dataclass(frozen=True)
class Steps:
    """Changes that are closed, by tuple and by instant. Two of a tuple differ in their instants."""

    tuples: pl.DataFrame
    """The tuples and their instants."""
    after: list[Counts]
    """For each input the count of the tuple from that instant on."""
    diffs: list[Counts]
    """For each input the change."""
    over: pl.DataFrame
    """The tuples, with their counts, that are closed for ever."""


class Sweep:
    """For each tuple its counts in some inputs where last closed, and all `Later` changes.

    ``schema`` is that of changes; they come in under its names.

    >>> from xmlpunct.schema.change_columns import changes
    >>> from xmlpunct.punctuations.punctuation import Punctuation
    >>> from xmlpunct.types import INT
    >>> s = changes(Schema.parse("x INT"), INT)
    >>> sweep = Sweep(s, 1)
    >>> sweep.later.add(s.frame([(7, 1, 1), (7, 2, 1), (7, 5, -1)]))
    >>> steps = sweep.close(PunctuationBatch([Punctuation.parse(s, "<*, (,3], *>")]))
    >>> steps.tuples.rows(), steps.after[0].tolist(), steps.diffs[0].tolist()
    ([(7, 1), (7, 2)], [1, 2], [1, 1])
    """

    def __init__(self, schema: Schema, inputs: int) -> None:
        self._schema = schema
        self.later = Later(schema, inputs)
        """What is not closed."""
        self._counts = [f"$count{i}" for i in range(inputs)]
        counts = [pl.Series(name, [], pl.Int64()) for name in self._counts]
        columns = [*counts, self.later.empty[AT].alias(_LAST)]
        self.counts = Arrangement(self.later.empty[:, self.later.names].hstack(columns), self.later.names)
        """The counts of the tuples that any input has, and the instant of the last change of them that is closed."""

    @property
    def parts(self) -> dict[str, Part]:
        """What is retained, for the state."""
        return {"later": self.later, "counts": self.counts}

    def close(self, closed: PunctuationBatch) -> Steps:
        """Let the changes go that some punctuations match; the counts move on to there, or go at the tuple's end."""
        tuples, after, diffs = self._move(self.later.close(PunctuationSet(self._schema, closed)))
        over = self.counts.matching(PunctuationSet(self._schema, for_ever(closed)))
        return Steps(tuples, after, diffs, self.counts.remove(over))

    def empty_until(self, side: int, q: Punctuation, instants: Instants) -> int:
        """Up to which instant an input that has closed q has no tuple that matches it, where that is not closed.

        Of a tuple that it has, all is closed up to the last change.
        """
        asked, count, diff = PunctuationSet(self._schema, [q]), self._counts[side], self.later.diffs[side]
        there = self.counts.take(self.counts.matching(asked), [count, _LAST])
        later = self.later.take(self.later.matching(asked), [AT, diff])
        has, comes = there.filter(there[count] > 0)[_LAST].min(), later.filter(later[diff] != 0)[AT].min()
        ends = [] if has is None else [instants.type.ordinal(has)]
        ends += [] if comes is None else [instants.type.ordinal(comes) - 1]
        return min(ends, default=instants.last)

    def _move(self, gone: pl.DataFrame) -> tuple[pl.DataFrame, list[Counts], list[Counts]]:
        """Closed changes, by tuple and by instant, as `Steps` have them; the counts move on."""
        names = self.later.names
        if not gone.height:
            nothing = [np.zeros(0, np.int64) for _ in self._counts]
            return gone[:, [*names, AT]], nothing, nothing
        groups = gone.sort(AT).group_by(names, maintain_order=True).agg(AT, *self.later.diffs)
        lengths = groups[AT].list.len().to_numpy().astype(np.int64)
        ends = np.cumsum(lengths)
        places, rows = self.counts.probe(groups, names)
        order = np.argsort(rows)
        known = self.counts.remove(rows[order])
        after, diffs, left = [], [], []
        for diff, count in zip(self.later.diffs, self._counts, strict=True):
            steps = groups[diff].explode().to_numpy()
            totals = np.cumsum(steps)
            before = np.zeros(groups.height, np.int64)
            before[places[order]] = known[count].to_numpy()
            before[1:] -= totals[ends[:-1] - 1]
            totals += np.repeat(before, lengths)
            after.append(totals)
            diffs.append(steps)
            left.append(pl.Series(count, totals[ends - 1], pl.Int64()))
        instants = groups[AT].explode()
        left.append(instants[ends - 1].alias(_LAST))
        keys = groups[:, names]
        counts = keys.hstack(left)
        self.counts.append(counts.filter(pl.any_horizontal(pl.col(self._counts) != 0)))
        tuples = keys[np.repeat(np.arange(groups.height), lengths)].hstack([instants])
        return tuples, after, diffs


def changes_of(tuples: pl.DataFrame, diffs: Counts, names: Sequence[str]) -> pl.DataFrame:
    """Tuples and their instants, and how they change, as changes; without those that do not."""
    changed = np.flatnonzero(diffs)
    return tuples[changed].hstack([pl.Series(DIFF, diffs[changed], pl.Int64())])[:, names]
