"""Sums of DOUBLEs by group that stay exact however tuples come and go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from xmlpunct.arrow import integers
from xmlpunct.changes import AT, DIFF
from xmlpunct.operators.relations.exact import UNIT, Digits, digits_of, spread
from xmlpunct.operators.relations.ordered import VALUE
from xmlpunct.operators.relations.partials import Partials, withdraw
from xmlpunct.operators.relations.slots import Numbers, Slots, sums_fit

PLACE, SUM = "$place", "$sum"


class ExactSums:
    """For each group the digits of an exact sum: ``now``, where last closed, and ``later`` changes. See `exact`."""

    def __init__(self, keys: Sequence[str], empty: pl.DataFrame) -> None:
        self._keys = list(keys)
        digits = empty.drop(VALUE, DIFF).hstack(
            [pl.Series(PLACE, [], pl.Int64()), pl.Series(SUM, [], pl.Int128())]
        )
        self.later = Partials(digits, [*keys, PLACE, AT])
        self.now = Partials(digits.drop(AT), keys)

    def digits(self, tuples: pl.DataFrame) -> pl.DataFrame:
        """The digits of the finite values of some tuples, as often as these come or go."""
        tuples = tuples.filter(pl.col(VALUE).is_finite())
        place, digits = digits_of(tuples[VALUE].to_numpy())
        owner, which = np.nonzero(digits.T)
        amounts = pl.Series(SUM, digits[which, owner], pl.Int64()).cast(pl.Int128())
        amounts *= tuples[DIFF][owner].cast(pl.Int128())
        return tuples.drop(VALUE, DIFF)[owner].hstack([integers(PLACE, place[owner] + which), amounts])

    def advance(self, slots: Slots, at: Numbers, gone: pl.DataFrame) -> tuple[Digits, int]:
        """Closed digits at their slots: the digits of the sum in each slot, and the exponent of their unit."""
        places, known = withdraw(self.now, slots.groups)
        slot = np.concatenate((slots.bases[places], at))
        place = np.concatenate((known[PLACE].to_numpy(), gone[PLACE].to_numpy()))
        amounts = pl.concat([known[SUM], gone[SUM]])
        lowest = int(place.min()) if len(place) else 0
        height = int(place.max()) - lowest + 1 if len(place) else 1
        totals = np.zeros((height + 3, len(slots)), np.int64)
        for i, digit in enumerate(_small(amounts)):
            np.add.at(totals, (place - lowest + i, slot), digit)
        changes = totals.copy()
        np.cumsum(totals, axis=1, out=totals)
        totals -= (totals - changes)[:, slots.bases][:, slots.of]
        self._keep(slots, totals[:, slots.ends - 1], lowest)
        return totals, 32 * lowest + UNIT

    def _keep(self, slots: Slots, totals: Digits, lowest: int) -> None:
        place, group = np.nonzero(totals)
        columns = [
            pl.Series(PLACE, place + lowest, pl.Int64()),
            pl.Series(SUM, totals[place, group], pl.Int64()).cast(pl.Int128()),
        ]
        self.now.keep(slots.groups[group].hstack(columns))


def _small(amounts: pl.Series) -> Digits:
    """Amounts as digits that can be summed in 64 bits: as one if all are small, else as four."""
    if not len(amounts):
        return np.zeros((1, 0), np.int64)
    if sums_fit(amounts):
        return amounts.cast(pl.Int64()).to_numpy()[None]
    return spread(amounts)
