"""Values: how many there are of each value in each group, for MIN, MAX and DISTINCT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from xmlpunct.base.arrow_memory import booleans
from xmlpunct.operators.relations.ordered import VALUE, Ordered
from xmlpunct.operators.relations.partials import Partials, withdraw
from xmlpunct.operators.relations.slots import Numbers, Slots, begins, numbered, order_by
from xmlpunct.operators.relations.spans import least_over
from xmlpunct.schema.change_columns import AT, DIFF

SLOT = "$slot"


@dataclass(frozen=True)
class Lives:
    """Values that some groups have, each from a slot on until another. There are ``size`` slots."""

    values: pl.Series
    starts: Numbers
    ends: Numbers
    size: int

    def least(self, rest: tuple[Numbers, Numbers, pl.Series], greatest: bool) -> pl.Series:
        """The least (greatest) value in each slot, null where there is none. ``rest`` are further lives."""
        starts, ends, more = rest
        values = pl.concat([self.values, more])
        order = values.arg_sort(descending=greatest).to_numpy()
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        every = np.concatenate((self.starts, starts)), np.concatenate((self.ends, ends))
        least = least_over(*every, ranks, self.size, len(values))
        return values.extend_constant(None, 1)[np.append(order, len(values))[least]]


class Values:
    """The values of a column by group, with their numbers: ``now``, where last closed, and ``later`` changes.

    A slice costs what it changes. Of the values that it does not touch, the least and the greatest of each group count.
    """

    def __init__(self, keys: Sequence[str], empty: pl.DataFrame) -> None:
        self._keys = list(keys)
        self.later = Partials(empty, [*keys, VALUE, AT])
        self.now = Ordered(empty.drop(AT), keys)

    def advance(
        self, slots: Slots, at: Numbers, gone: pl.DataFrame, ends: Sequence[bool]
    ) -> tuple[pl.DataFrame, list[pl.Series]]:
        """Take closed changes at their slots; which values come and go, and for each of ``ends`` the least (greatest).

        Of a value that comes or goes there is the group, the slot, and 1 or -1.
        """
        pairs = gone.select(*self._keys, VALUE)
        number, first = numbered(pairs)
        places, known = withdraw(self.now, pairs[first])
        rows = pl.concat([known, gone.select(known.columns)])
        pair = np.concatenate((places, number))
        slot = np.concatenate((slots.bases[slots.of[at[first]]][places], at))
        order = order_by(pair, slot)
        pair, slot, rows = pair[order], slot[order], rows[order]
        begin = begins(pair)
        changes = rows[DIFF].to_numpy()
        counts = np.cumsum(changes)
        counts -= (counts - changes)[begin][np.cumsum(begin) - 1]
        is_last = np.append(begin[1:], True)[: len(begin)]
        until = np.append(slot[1:], 0)[: len(slot)]
        until[is_last] = slots.ends[slots.of[slot[is_last]]]
        live = counts > 0
        before = np.append(False, live[:-1])[: len(live)] & ~begin
        turned = (live != before) & slots.is_step[slot]
        turns = rows.drop(DIFF).filter(booleans(turned))
        slot_and_diff = {SLOT: slot[turned], DIFF: live[turned].astype(np.int64) * 2 - 1}
        turns = turns.hstack(
            [pl.Series(name, numbers, pl.Int64()) for name, numbers in slot_and_diff.items()]
        )
        lives = Lives(rows[VALUE].filter(booleans(live)), slot[live], until[live], len(slots))
        found = [lives.least(self._untouched(slots, greatest), greatest) for greatest in ends]
        last = rows.with_columns(pl.Series(DIFF, counts, pl.Int64())).filter(booleans(is_last))
        self.now.keep(last)
        return turns, found

    def _untouched(self, slots: Slots, greatest: bool) -> tuple[Numbers, Numbers, pl.Series]:
        """The lives of values of the groups that do not change, as far as they count."""
        places, values = self.now.extremes(slots.groups, greatest)
        return slots.bases[places], slots.ends[places], values
