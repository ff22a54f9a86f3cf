"""Sums of DOUBLEs by group that stay exact however tuples come and go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.base.arrow_memory import integers
from xmlpunct.operators.relations.exact import UNIT, Digits, digits_of, rounded, spread
from xmlpunct.operators.relations.ordered import VALUE
from xmlpunct.operators.relations.partials import Partials, withdraw
from xmlpunct.operators.relations.slots import Numbers, Slots, sums_fit
from xmlpunct.schema.change_columns import AT, DIFF

PLACE, SUM = "$place", "$sum"

BLOCK_ROWS = 2**14
"""The digits of so many sums are in memory at once."""


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

    def advance(
        self, slots: Slots, at: Numbers, gone: pl.DataFrame, counts: Numbers | None
    ) -> NDArray[np.float64]:
        """Closed digits at their slots: the sum in each slot, or the average of ``counts``, rounded once."""
        places, known = withdraw(self.now, slots.groups)
        slot = np.concatenate((slots.bases[places], at))
        digits = _small(pl.concat([known[SUM], gone[SUM]]))
        place = np.concatenate((known[PLACE].to_numpy(), gone[PLACE].to_numpy()))
        lowest = int(place.min()) if len(place) else 0
        height = int(place.max()) - lowest + len(digits) if len(place) else 1
        order = np.argsort(slot, kind="stable")
        slot, place, digits = slot[order], place[order] - lowest, digits[:, order]
        before = np.zeros(height, np.int64)
        """The sum in the slot before a block."""
        results = []
        for low in range(0, len(slots), BLOCK_ROWS):
            high = min(low + BLOCK_ROWS, len(slots))
            rows = slice(*np.searchsorted(slot, (low, high)))
            totals = np.zeros((height, high - low), np.int64)
            for i, digit in enumerate(digits):
                np.add.at(totals, (place[rows] + i, slot[rows] - low), digit[rows])
            totals = _running(totals, before, slots.bases[slots.of[low:high]] - low)
            before = totals[:, -1]
            ends = slots.ends[(slots.ends > low) & (slots.ends <= high)] - 1
            self._keep(slots.groups[slots.of[ends]], totals[:, ends - low], lowest)
            some = None if counts is None else np.maximum(counts[low:high], 1)
            results.append(rounded(totals, 32 * lowest + UNIT, some))
        return np.concatenate(results)

    def _keep(self, groups: pl.DataFrame, totals: Digits, lowest: int) -> None:
        """Retain the digits of groups' sums that are not 0."""
        place, group = np.nonzero(totals)
        amounts = pl.Series(SUM, totals[place, group], pl.Int64()).cast(pl.Int128())
        self.now.keep(groups[group].hstack([integers(PLACE, place + lowest), amounts]))


def _running(changes: Digits, before: Numbers, bases: Numbers) -> Digits:
    """The sums in some slots, each from its group's base on, or from ``before`` where that is before these slots."""
    totals = np.cumsum(changes, axis=1)
    begun = bases < 0
    totals[:, begun] += before[:, None]
    totals[:, ~begun] -= (totals - changes)[:, bases[~begun]]
    return totals


def _small(amounts: pl.Series) -> Digits:
    """Amounts as digits that can be summed in 64 bits: as one if all are small, else as four."""
    if not len(amounts):
        return np.zeros((1, 0), np.int64)
    if sums_fit(amounts):
        return amounts.cast(pl.Int64()).to_numpy()[None]
    return spread(amounts)
