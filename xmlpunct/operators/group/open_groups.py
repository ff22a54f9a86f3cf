"""The groups that a group-by retains: partial aggregates, and the values that some aggregates need besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import polars as pl

from xmlpunct.base.frames import Part, Snapshot, join, restore, snapshot_of
from xmlpunct.operators.arrangement import Arrangement, distinct
from xmlpunct.operators.group.aggregate import Accumulator
from xmlpunct.operators.hash_index import Rows, ascending
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import INT

ALL = "$all"
"""Stands for the grouping attributes where there are none."""
VALUE = "$value"
"""The argument's value among those retained."""


class Kept(NamedTuple):
    """The values that some aggregates retain: of an argument and of what they sort by, ``every`` one or each once.

    ``nulls``: null counts as one. ``where``: the column that says which tuples count; the empty name for all.
    """

    every: bool
    nulls: bool
    where: str
    columns: tuple[str, ...]


def grouping(keys: Schema) -> Schema:
    """The attributes by which groups have their rows: one that stands for all keys where there are none."""
    return keys if len(keys) else Schema.of([Attribute(ALL, INT)])


class Groups(Arrangement):
    """A row for each group, with the partial columns of its aggregates. Without keys the one group has it at once.

    A DISTINCT aggregate retains (group, value) pairs instead, each once, in an arrangement of their own; XMLAGG all
    values that are not null, with those that it sorts by. Aggregates that retain the same share it. With ``partial``,
    partial aggregates come in.
    """

    def __init__(
        self, schema: Schema, keys: Schema, accumulators: Sequence[Accumulator], partial: bool
    ) -> None:
        self.keys, self.partial = keys, partial
        self._by = [pl.col(key) for key in keys.names] or [pl.lit(0, INT.dtype).alias(ALL)]
        self._plain = [a for a in accumulators if not a.aggregate.needs_values]
        self._valued = [a for a in accumulators if a.aggregate.needs_values]
        one = self._aggregate(schema.empty())  # polars makes a group of no tuples, if there are no keys
        super().__init__(one.clear(), list(keys.names) or [ALL])
        kept = sorted({_kept(a) for a in self._valued})
        rows = {key: self._rows(schema.empty(), key) for key in kept}
        self._values = {key: Arrangement(frame, frame.columns) for key, frame in rows.items()}
        if not len(keys):  # it exists even if no tuple comes
            self.append(one)

    def add(self, tuples: pl.DataFrame) -> None:
        """Add tuples to their groups."""
        if self.partial:
            fresh = tuples.select(*self._by, *(e for a in self._plain for e in a.received()))
        else:
            fresh = self._aggregate(tuples)
        self.merge(fresh, [e for a in self._plain for e in a.merges()], apart=not self.partial)
        for key, seen in self._values.items():
            rows = self._rows(tuples, key)
            if key.every:
                seen.append(rows if key.nulls else rows.filter(pl.col(VALUE).is_not_null()))
            else:
                seen.insert(rows)

    def release(self, closed: PunctuationSet) -> pl.DataFrame:
        """Let the closed groups go; return them with all their partial columns."""
        groups = self.remove(self.matching(closed))
        return self._with_all_values(
            groups, {key: seen.matching(closed) for key, seen in self._values.items()}
        )

    def leave(self, rows: Rows) -> pl.DataFrame:
        """Let some groups go; return them with all their partial columns."""
        groups = self.remove(rows)
        keys = groups.select(self.key)
        return self._with_all_values(
            groups, {key: ascending(seen.probe(keys, key=self.key)[1]) for key, seen in self._values.items()}
        )

    def touched(self, tuples: pl.DataFrame) -> Rows:
        """The groups of some tuples."""
        if not len(self.keys):
            return self.where(pl.lit(True))
        return ascending(self.probe(distinct(tuples.select(self.key)))[1])

    def values_of(self, a: Accumulator) -> Arrangement:
        """The groups' values that an aggregate retains, as `VALUE`."""
        return self._values[_kept(a)]

    def _with_all_values(self, groups: pl.DataFrame, gone: Mapping[Kept, Rows]) -> pl.DataFrame:
        """Groups that go with the partial columns of the values that go with them."""
        values = {key: self._values[key].remove(rows) for key, rows in gone.items()}
        for a in self._valued:
            groups = self._with_values(groups, a, values[_kept(a)])
        return groups

    def _aggregate(self, tuples: pl.DataFrame) -> pl.DataFrame:
        partials = [e for a in self._plain for e in a.partials()]
        return tuples.group_by(self._by, maintain_order=True).agg(partials)

    def _rows(self, tuples: pl.DataFrame, key: Kept) -> pl.DataFrame:
        """What some tuples have of a group and of the values that are retained."""
        names = [VALUE, *_order(len(key.columns) - 1)]
        if key.where:
            tuples = tuples.filter(pl.col(key.where))
        return tuples.select(
            *self._by, *(pl.col(c).alias(n) for c, n in zip(key.columns, names, strict=True))
        )

    def _with_values(self, groups: pl.DataFrame, a: Accumulator, values: pl.DataFrame) -> pl.DataFrame:
        """Groups with the partial columns of an aggregate, from the values of its argument."""
        argument, order = str(a.aggregate.argument), a.aggregate.order
        if a.aggregate.record.gathers:
            values = values.sort(
                [*_order(len(order)), VALUE],
                descending=[*(key.descending for key in order), False],
                nulls_last=[*(not key.nulls_first for key in order), True],
            )
        if argument in self.keys:  # the row repeats the group's own key
            values = values.drop(VALUE)
        else:
            values = values.rename({VALUE: argument})
        partials = values.group_by(self.key, maintain_order=True).agg(a.partials())
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


def _kept(a: Accumulator) -> Kept:
    one = a.aggregate
    columns = (str(one.argument), *(key.column for key in one.order))
    return Kept(one.needs_all, one.takes_null, one.where or "", columns)


def _order(count: int) -> list[str]:
    """The names of so many columns that values are sorted by."""
    return [f"$order{i}" for i in range(count)]
