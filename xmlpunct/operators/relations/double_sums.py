"""Sums of DOUBLEs by group that stay exact when tuples are inserted and deleted."""

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
"""The number of sums whose digits are in memory at once."""


class RetractedSums:
    """The digits (see `exact`) of each group's sum at its last closed instant (``closed``), and ``later`` changes."""

    def __init__(self, keys: Sequence[str], empty: pl.DataFrame) -> None:
        self._keys = list(keys)
        digits = empty.drop(VALUE, DIFF).hstack(
            [pl.Series(PLACE, [], pl.Int64()), pl.Series(SUM, [], pl.Int128())]
        )
        self.later = Partials(digits, [*keys, PLACE, AT])
        self.closed = Partials(digits.drop(AT), keys)

    def digits(self, tuples: pl.DataFrame) -> pl.DataFrame:
        """The digits of the finite values of tuples, times the number of copies inserted or deleted."""
        tuples = tuples.filter(pl.col(VALUE).is_finite())
        position, digits = digits_of(tuples[VALUE].to_numpy())
        owner, index = np.nonzero(digits.T)
        amounts = pl.Series(SUM, digits[index, owner], pl.Int64()).cast(pl.Int128())
        amounts *= tuples[DIFF][owner].cast(pl.Int128())
        return tuples.drop(VALUE, DIFF)[owner].hstack([integers(PLACE, position[owner] + index), amounts])

    def advance(
        self, slots: Slots, row_slots: Numbers, rows: pl.DataFrame, counts: Numbers | None
    ) -> NDArray[np.float64]:
        """Add closed digits at their slots; return the sum (with ``counts``: the average) in each slot."""
        groups, old = withdraw(self.closed, slots.groups)
        slot = np.concatenate((slots.bases[groups], row_slots))
        digits = _to_digits(pl.concat([old[SUM], rows[SUM]]))
        position = np.concatenate((old[PLACE].to_numpy(), rows[PLACE].to_numpy()))
        lowest = int(position.min()) if len(position) else 0
        height = int(position.max()) - lowest + len(digits) if len(position) else 1
        order = np.argsort(slot, kind="stable")
        slot, position, digits = slot[order], position[order] - lowest, digits[:, order]
        before = np.zeros(height, np.int64)
        """The sum in the slot before a block."""
        results = []
        for low in range(0, len(slots), BLOCK_ROWS):
            high = min(low + BLOCK_ROWS, len(slots))
            block = slice(*np.searchsorted(slot, (low, high)))
            totals = np.zeros((height, high - low), np.int64)
            for i, digit in enumerate(digits):
                np.add.at(totals, (position[block] + i, slot[block] - low), digit[block])
            totals = _running_sums(totals, before, slots.bases[slots.slot_groups[low:high]] - low)
            before = totals[:, -1]
            ends = slots.ends[(slots.ends > low) & (slots.ends <= high)] - 1
            self._retain(slots.groups[slots.slot_groups[ends]], totals[:, ends - low], lowest)
            divisors = None if counts is None else np.maximum(counts[low:high], 1)
            results.append(rounded(totals, 32 * lowest + UNIT, divisors))
        return np.concatenate(results)

    def _retain(self, groups: pl.DataFrame, totals: Digits, lowest: int) -> None:
        """Retain the digits of groups' sums that are not 0."""
        position, group = np.nonzero(totals)
        amounts = pl.Series(SUM, totals[position, group], pl.Int64()).cast(pl.Int128())
        self.closed.keep(groups[group].hstack([integers(PLACE, position + lowest), amounts]))


def _running_sums(changes: Digits, before: Numbers, bases: Numbers) -> Digits:
    """The running sums of a block of slots, from each group's base, or from ``before`` if that precedes the block."""
    totals = np.cumsum(changes, axis=1)
    is_continued = bases < 0
    totals[:, is_continued] += before[:, None]
    totals[:, ~is_continued] -= (totals - changes)[:, bases[~is_continued]]
    return totals


def _to_digits(amounts: pl.Series) -> Digits:
    """Amounts as digits that can be summed in 64 bits: one digit if all are small, otherwise four."""
    if not len(amounts):
        return np.zeros((1, 0), np.int64)
    if sums_fit(amounts):
        return amounts.cast(pl.Int64()).to_numpy()[None]
    return spread(amounts)
