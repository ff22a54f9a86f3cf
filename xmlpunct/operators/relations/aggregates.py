"""The partial aggregates of groups into which tuples are inserted and from which they are deleted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from xmlpunct.base.frames import SnapshotPart
from xmlpunct.operators.exact_sums import summed
from xmlpunct.operators.group.aggregate import Accumulator, each_once
from xmlpunct.operators.group.open_groups import ALL
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.relations.ordered import VALUE
from xmlpunct.operators.relations.partials import Partials, withdraw
from xmlpunct.operators.relations.slots import Numbers, Slots
from xmlpunct.operators.relations.value_counts import SLOT, ValueCounts
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import AT, DIFF

COUNT = "$rows"
"""The column with the number of tuples of a group."""
_WEIGHT = pl.col(DIFF)


class Retracted:
    """For each group its partial aggregates at its last closed instant, and their later changes.

    COUNT, SUM and AVG use sums (`Partials`). MIN, MAX and the DISTINCT forms use the number of copies of each value
    (`ValueCounts`). Aggregates of one argument share these.
    """

    def __init__(self, schema: Schema, keys: Sequence[str], accumulators: Sequence[Accumulator]) -> None:
        self._names = list(keys) or [ALL]
        self._key_expressions = [pl.col(key) for key in keys] or [pl.lit(0, dtype=pl.Int64()).alias(ALL)]
        self._accumulators = accumulators
        self._plain = [a for a in accumulators if not a.aggregate.needs_values and not a.extreme]
        self._distinct = [a for a in accumulators if a.aggregate.needs_values]
        self._extremes = [a for a in accumulators if a.extreme]
        empty = schema.empty()
        partials = self._partials(empty)
        of_values = empty.select(e for a in self._distinct for e in a.amounts(_WEIGHT))
        self._open_changes = Partials(partials, [*self._names, AT])
        self._closed = Partials(partials.drop(AT).hstack(of_values), self._names)
        self._values = {
            name: ValueCounts(self._names, self._value_changes(empty, name))
            for name in sorted({_argument(a) for a in [*self._distinct, *self._extremes]})
        }

    @property
    def parts(self) -> dict[str, SnapshotPart]:
        """The parts of an operator's state."""
        parts: dict[str, SnapshotPart] = {"open_changes": self._open_changes, "now": self._closed}
        for i, table in enumerate(self._values.values()):
            parts |= {f"open_changes {i}": table.open_changes, f"now {i}": table.closed}
        return parts

    # Changes

    def _pieces(self, tuples: pl.DataFrame) -> list[pl.DataFrame]:
        """The rows that changes of tuples add to each table of later changes."""
        return [self._partials(tuples), *(self._value_changes(tuples, name) for name in self._values)]

    def _partials(self, tuples: pl.DataFrame) -> pl.DataFrame:
        """The amounts that changes of tuples add to the sums of their groups."""
        sums = each_once(e for a in self._plain for e in a.amounts(_WEIGHT))
        return tuples.select(*self._key_expressions, AT, pl.col(DIFF).alias(COUNT), *sums)

    def _value_changes(self, tuples: pl.DataFrame, name: str) -> pl.DataFrame:
        """Changes of one attribute's values, without nulls."""
        values = tuples.select(*self._key_expressions, pl.col(name).alias(VALUE), AT, DIFF)
        return values.filter(pl.col(VALUE).is_not_null())

    # Closing

    def advance(
        self, tuples: pl.DataFrame, closed: PunctuationSet, instants: Instants, first: int | None
    ) -> tuple[Slots, pl.DataFrame]:
        """Add changes of tuples, and advance the groups to their last closed instants.

        Returns the slots, and the partial aggregates in each slot.

        ``first`` is an instant at which the only group without keys has a slot even without a change there.
        """
        tables = [self._open_changes, *(values.open_changes for values in self._values.values())]
        new = self._pieces(tuples) if tuples.height else [table.empty for table in tables]
        moved = [table.move(piece, closed) for table, piece in zip(tables, new, strict=True)]
        changed = pl.concat([rows[:, [*self._names, AT]] for rows in moved])
        if first is not None:
            at = instants.column(AT, np.array([first]))
            changed = pl.concat([changed, pl.DataFrame([pl.Series(ALL, [0], pl.Int64()), at])])
        slots = Slots(changed[:, self._names], instants.ordinals(changed[AT]))
        if not len(slots):
            return slots, pl.DataFrame()
        ends = np.cumsum([rows.height for rows in moved])
        row_slots = [slots.row_slots[end - rows.height : end] for end, rows in zip(ends, moved, strict=True)]
        totals, *pieces = zip(row_slots, moved, strict=True)
        turns, columns = self._extremes_of(slots, pieces)
        return slots, self._totals(slots, totals, turns).hstack(columns)

    def _totals(
        self, slots: Slots, piece: tuple[Numbers, pl.DataFrame], turns: dict[str, pl.DataFrame]
    ) -> pl.DataFrame:
        """The sums in each slot. The sums in each group's last slot are retained."""
        positions, old = withdraw(self._closed, slots.groups)
        base = slots.bases[positions]
        plain = self._open_changes.empty.drop(*self._names, AT)
        states = slots.totals([(base, old), piece], plain)
        for a in self._distinct:
            name = _argument(a)
            values = turns[name].select(SLOT, pl.col(VALUE).alias(name), DIFF)
            amounts = values.select(SLOT, *a.amounts(_WEIGHT))
            empty = amounts.drop(SLOT).clear()
            sums = amounts.group_by(SLOT).agg(summed(name, dtype) for name, dtype in empty.schema.items())
            states = states.hstack(slots.totals([(base, old), (sums[SLOT].to_numpy(), sums)], empty))
        last = [
            states[name][slots.ends - 1].cast(self._closed.empty[name].dtype) for name in self._closed.sums
        ]
        self._closed.keep(slots.groups.hstack(last))
        return states

    def _extremes_of(
        self, slots: Slots, pieces: Sequence[tuple[Numbers, pl.DataFrame]]
    ) -> tuple[dict[str, pl.DataFrame], list[pl.Series]]:
        """The inserted and deleted values of each attribute; and the least and greatest values in each slot."""
        turns: dict[str, pl.DataFrame] = {}
        columns = []
        for (name, values), (row_slots, rows) in zip(self._values.items(), pieces, strict=True):
            extremes = [a for a in self._extremes if a.aggregate.argument == name]
            greatest = [a.aggregate.function == "MAX" for a in extremes]
            turns[name], results = values.advance(slots, row_slots, rows, greatest)
            columns += [
                column.alias(f"{a.prefix}.value") for a, column in zip(extremes, results, strict=True)
            ]
        return turns, columns

    def forget(self, closed: PunctuationSet) -> None:
        """Remove the groups that match ``closed``."""
        for groups in (self._closed, *(values.closed for values in self._values.values())):
            groups.close(closed)

    @property
    def waiting(self) -> int:
        """The number of changes that are not closed."""
        return len(self._open_changes)


def _argument(a: Accumulator) -> str:
    return str(a.aggregate.argument)
