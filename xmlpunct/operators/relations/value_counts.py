"""Values: the number of copies of each value in each group, for MIN, MAX and DISTINCT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from xmlpunct.base.arrow_memory import booleans
from xmlpunct.operators.relations.ordered import VALUE, Ordered
from xmlpunct.operators.relations.partials import Partials, withdraw
from xmlpunct.operators.relations.slots import Numbers, Slots, begins, group_numbers, order_by
from xmlpunct.operators.relations.spans import least_over
from xmlpunct.schema.change_columns import AT, DIFF

SLOT = "$slot"


@dataclass(frozen=True)
class Lives:
    """Values, each with the slots ``starts`` to ``ends`` (exclusive) in which its group has it, of ``size`` slots."""

    values: pl.Series
    starts: Numbers
    ends: Numbers
    size: int

    def least(self, unchanged: tuple[Numbers, Numbers, pl.Series], greatest: bool) -> pl.Series:
        """The least (greatest) value in each slot, null if there is none. ``unchanged`` has additional lives."""
        starts, ends, unchanged_values = unchanged
        values = pl.concat([self.values, unchanged_values])
        order = values.arg_sort(descending=greatest).to_numpy()
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        spans = np.concatenate((self.starts, starts)), np.concatenate((self.ends, ends))
        least = least_over(*spans, ranks, self.size, len(values))
        return values.extend_constant(None, 1)[np.append(order, len(values))[least]]


class ValueCounts:
    """The values of a column by group, with their numbers of copies: ``closed``, at the last closed instant, and
    ``open_changes``.

    The cost of a slice depends on its changes only. Of the unchanged values, only each group's least and greatest
    matter.
    """

    def __init__(self, keys: Sequence[str], empty: pl.DataFrame) -> None:
        self._keys = list(keys)
        self.open_changes = Partials(empty, [*keys, VALUE, AT])
        self.closed = Ordered(empty.drop(AT), keys)

    def advance(
        self, slots: Slots, row_slots: Numbers, changes: pl.DataFrame, ends: Sequence[bool]
    ) -> tuple[pl.DataFrame, list[pl.Series]]:
        """Apply closed changes at their slots.

        Returns the values that a group gains or loses, each with the group, the slot, and 1 or -1; and for each of
        ``ends`` the least (False) or greatest (True) value in each slot.
        """
        pairs = changes.select(*self._keys, VALUE)
        number, first = group_numbers(pairs)
        positions, old = withdraw(self.closed, pairs[first])
        rows = pl.concat([old, changes.select(old.columns)])
        pair = np.concatenate((positions, number))
        slot = np.concatenate((slots.bases[slots.slot_groups[row_slots[first]]][positions], row_slots))
        order = order_by(pair, slot)
        pair, slot, rows = pair[order], slot[order], rows[order]
        begin = begins(pair)
        diffs = rows[DIFF].to_numpy()
        counts = np.cumsum(diffs)
        counts -= (counts - diffs)[begin][np.cumsum(begin) - 1]
        is_last = np.append(begin[1:], True)[: len(begin)]
        until = np.append(slot[1:], 0)[: len(slot)]
        until[is_last] = slots.ends[slots.slot_groups[slot[is_last]]]
        live = counts > 0
        was_live = np.append(False, live[:-1])[: len(live)] & ~begin
        turned = (live != was_live) & slots.is_step[slot]
        turns = rows.drop(DIFF).filter(booleans(turned))
        slot_and_diff = {SLOT: slot[turned], DIFF: live[turned].astype(np.int64) * 2 - 1}
        turns = turns.hstack(
            [pl.Series(name, numbers, pl.Int64()) for name, numbers in slot_and_diff.items()]
        )
        lives = Lives(rows[VALUE].filter(booleans(live)), slot[live], until[live], len(slots))
        extremes = [lives.least(self._unchanged_lives(slots, greatest), greatest) for greatest in ends]
        last = rows.with_columns(pl.Series(DIFF, counts, pl.Int64())).filter(booleans(is_last))
        self.closed.keep(last)
        return turns, extremes

    def _unchanged_lives(self, slots: Slots, greatest: bool) -> tuple[Numbers, Numbers, pl.Series]:
        """The lives of unchanged values that can be the least (greatest) of their groups."""
        positions, values = self.closed.extremes(slots.groups, greatest)
        return slots.bases[positions], slots.ends[positions], values
