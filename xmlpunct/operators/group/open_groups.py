"""The groups that a group-by retains: partial aggregates, and values that some aggregates need as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import polars as pl

from xmlpunct.base.frames import Snapshot, SnapshotPart, join, restore, snapshot_of
from xmlpunct.operators.arrangement import Arrangement, distinct
from xmlpunct.operators.group.aggregate import Accumulator, each_once
from xmlpunct.operators.hash_index import Rows, ascending
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import INT

ALL = "$all"
"""The constant key of the only group without grouping attributes."""
VALUE = "$value"
"""The column of retained argument values."""


class ValueKind(NamedTuple):
    """A kind of retained values: an argument with its sort columns (``columns``), ``every`` value or each value once.

    ``nulls``: null is a value. ``where``: the Boolean column that selects the tuples; empty for all tuples.
    """

    every: bool
    nulls: bool
    where: str
    columns: tuple[str, ...]


def grouping(keys: Schema) -> Schema:
    """The attributes that identify a group: the keys, or the constant `ALL` without keys."""
    return keys if len(keys) else Schema.of([Attribute(ALL, INT)])


class Groups(Arrangement):
    """A row for each group, with the partial columns of its aggregates. Without keys, one group exists from the start.

    A DISTINCT aggregate retains distinct (group, value) pairs instead, in a separate arrangement. XMLAGG retains all
    values that are not null, with their sort columns. Aggregates that retain the same values share an arrangement. With
    ``partial``, the input tuples are partial aggregates.
    """

    def __init__(
        self, schema: Schema, keys: Schema, accumulators: Sequence[Accumulator], partial: bool
    ) -> None:
        self.keys, self.partial = keys, partial
        self._key_expressions = [pl.col(key) for key in keys.names] or [pl.lit(0, INT.dtype).alias(ALL)]
        self._plain = [a for a in accumulators if not a.aggregate.needs_values]
        self._valued = [a for a in accumulators if a.aggregate.needs_values]
        empty_group = self._aggregate(schema.empty())  # without keys, polars makes a group of no tuples
        super().__init__(empty_group.clear(), list(keys.names) or [ALL])
        kinds = sorted({_value_kind(a) for a in self._valued})
        rows = {kind: self._rows(schema.empty(), kind) for kind in kinds}
        self._values = {key: Arrangement(frame, frame.columns) for key, frame in rows.items()}
        if not len(keys):  # it exists even if no tuple arrives
            self.append(empty_group)

    def add(self, tuples: pl.DataFrame) -> None:
        """Add tuples to their groups."""
        if self.partial:
            received = each_once(e for a in self._plain for e in a.received())
            partials = tuples.select(*self._key_expressions, *received)
        else:
            partials = self._aggregate(tuples)
        merges = each_once(e for a in self._plain for e in a.merges())
        self.merge(partials, merges, is_distinct=not self.partial)
        for kind, values in self._values.items():
            rows = self._rows(tuples, kind)
            if kind.every:
                values.append(rows if kind.nulls else rows.filter(pl.col(VALUE).is_not_null()))
            else:
                values.insert(rows)

    def release(self, closed: PunctuationSet) -> pl.DataFrame:
        """Remove the closed groups; return them with all their partial columns."""
        groups = self.remove(self.matching(closed))
        return self._with_all_values(
            groups, {kind: values.matching(closed) for kind, values in self._values.items()}
        )

    def take_out(self, rows: Rows) -> pl.DataFrame:
        """Remove groups by row; return them with all their partial columns."""
        groups = self.remove(rows)
        keys = groups.select(self.key)
        return self._with_all_values(
            groups,
            {kind: ascending(values.probe(keys, key=self.key)[1]) for kind, values in self._values.items()},
        )

    def rows_of(self, tuples: pl.DataFrame) -> Rows:
        """The rows of the groups of ``tuples``."""
        if not len(self.keys):
            return self.where(pl.lit(True))
        return ascending(self.probe(distinct(tuples.select(self.key)))[1])

    def values_of(self, a: Accumulator) -> Arrangement:
        """The arrangement of an aggregate's retained values, in the column `VALUE`."""
        return self._values[_value_kind(a)]

    def _with_all_values(self, groups: pl.DataFrame, rows_by_kind: Mapping[ValueKind, Rows]) -> pl.DataFrame:
        """Removed groups, with the partial columns of their values; removes the values."""
        values = {kind: self._values[kind].remove(rows) for kind, rows in rows_by_kind.items()}
        for a in self._valued:
            groups = self._with_values(groups, a, values[_value_kind(a)])
        return groups

    def _aggregate(self, tuples: pl.DataFrame) -> pl.DataFrame:
        partials = each_once(e for a in self._plain for e in a.partials())
        return tuples.group_by(self._key_expressions, maintain_order=True).agg(partials)

    def _rows(self, tuples: pl.DataFrame, kind: ValueKind) -> pl.DataFrame:
        """The group, value and sort columns of tuples, for one kind of retained values."""
        names = [VALUE, *_order(len(kind.columns) - 1)]
        if kind.where:
            tuples = tuples.filter(pl.col(kind.where))
        return tuples.select(
            *self._key_expressions, *(pl.col(c).alias(n) for c, n in zip(kind.columns, names, strict=True))
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
    def _parts(self) -> Mapping[str, SnapshotPart]:
        return {str(i): values for i, values in enumerate(self._values.values())}

    def snapshot(self) -> Snapshot:
        return {**super().snapshot(), **snapshot_of(self._parts)}

    def restore(self, snapshot: Snapshot) -> None:
        super().restore({key: frame for key, frame in snapshot.items() if "/" not in key})
        restore(self._parts, snapshot)


def _value_kind(a: Accumulator) -> ValueKind:
    aggregate = a.aggregate
    columns = (str(aggregate.argument), *(key.column for key in aggregate.order))
    return ValueKind(aggregate.needs_all, aggregate.takes_null, aggregate.where or "", columns)


def _order(count: int) -> list[str]:
    """The names of ``count`` sort columns."""
    return [f"$order{i}" for i in range(count)]
