"""The groups that a group-by retains: partial aggregates, and what DISTINCT aggregates need besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from xmlpunct.frames import Part, Snapshot, join, restore, snapshot_of
from xmlpunct.operators.aggregate import Accumulator
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.punctuations.set import PunctuationSet
from xmlpunct.schema import Schema

ALL = "$all"
"""Stands for the grouping attributes where there are none."""


class Groups(Arrangement):
    """A row for each group, with the partial columns of its aggregates.

    A DISTINCT aggregate retains (group, value) pairs instead, in an arrangement of their own. Aggregates of one
    argument share it. With ``partial``, partial aggregates come in.
    """

    def __init__(
        self, schema: Schema, keys: Schema, accumulators: Sequence[Accumulator], partial: bool
    ) -> None:
        self.keys, self.partial = keys, partial
        self._by = [pl.col(key) for key in keys.names] or [pl.lit(0).alias(ALL)]
        self._plain = [a for a in accumulators if not a.aggregate.needs_values]
        self._distinct = [a for a in accumulators if a.aggregate.needs_values]
        super().__init__(self._aggregate(schema.empty()), list(keys.names) or [ALL])
        arguments = sorted({str(a.aggregate.argument) for a in self._distinct})
        pairs = {argument: self._pairs(schema.empty(), argument) for argument in arguments}
        self._values = {argument: Arrangement(pair, pair.columns) for argument, pair in pairs.items()}

    def add(self, tuples: pl.DataFrame) -> None:
        """Add tuples to their groups."""
        if self.partial:
            fresh = tuples.select(*self._by, *(e for a in self._plain for e in a.received()))
        else:
            fresh = self._aggregate(tuples)
        self.merge(fresh, [e for a in self._plain for e in a.merges()], apart=not self.partial)
        for argument, seen in self._values.items():
            seen.insert(self._pairs(tuples, argument))

    def release(self, closed: PunctuationSet) -> pl.DataFrame:
        """Let the closed groups go; return them with all their partial columns."""
        groups = self.remove(self.matching(closed))
        if not len(self.keys) and not groups.height:  # the one group exists even if no tuple came
            row = {ALL: 0} | {k: v for a in self._plain for k, v in a.empty().items()}
            groups = pl.DataFrame([row], schema=self.empty.schema)
        values = {name: seen.remove(seen.matching(closed)) for name, seen in self._values.items()}
        for a in self._distinct:
            groups = self._with_distinct(groups, a, values[str(a.aggregate.argument)])
        return groups

    def _aggregate(self, tuples: pl.DataFrame) -> pl.DataFrame:
        partials = [e for a in self._plain for e in a.partials()]
        return tuples.group_by(self._by, maintain_order=True).agg(partials)

    def _pairs(self, tuples: pl.DataFrame, argument: str) -> pl.DataFrame:
        """The (group, value) pairs of some tuples."""
        return tuples.select(*self._by, pl.col(argument).alias("$value"))

    def _with_distinct(self, groups: pl.DataFrame, a: Accumulator, values: pl.DataFrame) -> pl.DataFrame:
        """Groups with the partial columns of a DISTINCT aggregate, from the (group, value) pairs of its argument."""
        argument = str(a.aggregate.argument)
        if argument in self.keys:  # the pair repeats the group's own key
            values = values.drop("$value")
        else:
            values = values.rename({"$value": argument})
        partials = values.group_by(self.key).agg(a.partials())
        joined = join(groups, partials, self.key, "left", nulls_equal=True, order="left")
        return joined.with_columns(pl.col(k).fill_null(v) for k, v in a.empty().items() if v is not None)

    # As a part of the state

    def __len__(self) -> int:
        return max([self.height, *map(len, self._values.values())])

    @property
    def _parts(self) -> Mapping[str, Part]:
        return {str(i): seen for i, seen in enumerate(self._values.values())}

    def snapshot(self) -> Snapshot:
        return {**super().snapshot(), **snapshot_of(self._parts)}

    def restore(self, snapshot: Snapshot) -> None:
        super().restore({key: frame for key, frame in snapshot.items() if "/" not in key})
        restore(self._parts, snapshot)
