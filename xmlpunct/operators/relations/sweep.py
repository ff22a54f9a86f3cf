"""The sweep: counts of tuples at their last closed instants, and their later changes, by instant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from xmlpunct.base.frames import SnapshotPart
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.relations.open_changes import OpenChanges
from xmlpunct.operators.relations.prefixes import split
from xmlpunct.operators.sets.count_functions import Counts
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import AT, DIFF

_LAST = "$last"


@dataclass(frozen=True)
class Steps:
    """Closed changes, by tuple and by instant; at most one for each tuple and instant."""

    tuples: pl.DataFrame
    """The tuples and their instants."""
    after: list[Counts]
    """For each input, the count of each tuple from its instant on."""
    diffs: list[Counts]
    """For each input, the change of each tuple's count."""
    over: pl.DataFrame
    """The tuples, with their counts, that are closed for ever."""


class Sweep:
    """For each tuple its counts in all inputs at its last closed instant, and its `OpenChanges`.

    ``schema`` is the schema of changes; all inputs use its names.

    >>> from xmlpunct.schema.change_columns import changes
    >>> from xmlpunct.punctuations.punctuation import Punctuation
    >>> from xmlpunct.types import INT
    >>> s = changes(Schema.parse("x INT"), INT)
    >>> sweep = Sweep(s, 1)
    >>> sweep.open_changes.add(s.frame([(7, 1, 1), (7, 2, 1), (7, 5, -1)]))
    >>> steps = sweep.close(PunctuationBatch([Punctuation.parse(s, "<*, (,3], *>")]))
    >>> steps.tuples.rows(), steps.after[0].tolist(), steps.diffs[0].tolist()
    ([(7, 1), (7, 2)], [1, 2], [1, 1])
    """

    def __init__(self, schema: Schema, inputs: int) -> None:
        self._schema = schema
        self.open_changes = OpenChanges(schema, inputs)
        """The changes that are not closed."""
        self._counts = [f"$count{i}" for i in range(inputs)]
        counts = [pl.Series(name, [], pl.Int64()) for name in self._counts]
        columns = [*counts, self.open_changes.empty[AT].alias(_LAST)]
        self.counts = Arrangement(
            self.open_changes.empty[:, self.open_changes.names].hstack(columns), self.open_changes.names
        )
        """The counts of the tuples of all inputs, and the instant of each tuple's last closed change."""

    @property
    def parts(self) -> dict[str, SnapshotPart]:
        """The parts of an operator's state."""
        return {"open_changes": self.open_changes, "counts": self.counts}

    def close(self, closed: PunctuationBatch) -> Steps:
        """Remove the changes that match ``closed``, and advance the counts; drop tuples that are closed for ever."""
        tuples, after, diffs = self._move(self.open_changes.close(PunctuationSet(self._schema, closed)))
        over = self.counts.matching(PunctuationSet(self._schema, split(closed)[0]))
        return Steps(tuples, after, diffs, self.counts.remove(over))

    def least(self, side: int, patterns: Sequence[Punctuation]) -> list[int]:
        """For each pattern, the least instant at which an input has a tuple that matches it; after T's end if none.

        The input has closed the pattern. A tuple that is there at its last closed change counts from the next instant.
        """
        return [self._least(side, PunctuationSet(self._schema, [q])) for q in patterns]

    def _least(self, side: int, pattern: PunctuationSet) -> int:
        count, diff = self._counts[side], self.open_changes.diffs[side]
        counts = self.counts.take(self.counts.matching(pattern), [count, _LAST])
        changes = self.open_changes.take(self.open_changes.matching(pattern), [AT, diff])
        type_ = self._schema[AT].type
        current = counts.filter(counts[count] > 0)[_LAST].min()
        change = changes.filter(changes[diff] != 0)[AT].min()
        firsts = [] if current is None else [type_.ordinal(current) + 1]
        firsts += [] if change is None else [type_.ordinal(change)]
        return min(firsts, default=type_.ordinal(type_.highest) + 1)

    def _move(self, changes: pl.DataFrame) -> tuple[pl.DataFrame, list[Counts], list[Counts]]:
        """Advance the counts by closed changes; return the first three fields of `Steps`."""
        names = self.open_changes.names
        if not changes.height:
            no_counts = [np.zeros(0, np.int64) for _ in self._counts]
            return changes[:, [*names, AT]], no_counts, no_counts
        groups = changes.sort(AT).group_by(names, maintain_order=True).agg(AT, *self.open_changes.diffs)
        lengths = groups[AT].list.len().to_numpy().astype(np.int64)
        ends = np.cumsum(lengths)
        positions, rows = self.counts.probe(groups, names)
        order = np.argsort(rows)
        old = self.counts.remove(rows[order])
        after, diffs, last = [], [], []
        for diff, count in zip(self.open_changes.diffs, self._counts, strict=True):
            steps = groups[diff].explode().to_numpy()
            totals = np.cumsum(steps)
            before = np.zeros(groups.height, np.int64)
            before[positions[order]] = old[count].to_numpy()
            before[1:] -= totals[ends[:-1] - 1]
            totals += np.repeat(before, lengths)
            after.append(totals)
            diffs.append(steps)
            last.append(pl.Series(count, totals[ends - 1], pl.Int64()))
        instants = groups[AT].explode()
        last.append(instants[ends - 1].alias(_LAST))
        keys = groups[:, names]
        counts = keys.hstack(last)
        self.counts.append(counts.filter(pl.any_horizontal(pl.col(self._counts) != 0)))
        tuples = keys[np.repeat(np.arange(groups.height), lengths)].hstack([instants])
        return tuples, after, diffs


def changes_of(tuples: pl.DataFrame, diffs: Counts, names: Sequence[str]) -> pl.DataFrame:
    """The changes of tuples at their instants, without changes of 0."""
    changed = np.flatnonzero(diffs)
    return tuples[changed].hstack([pl.Series(DIFF, diffs[changed], pl.Int64())])[:, names]
