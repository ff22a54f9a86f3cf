"""Slots: the instants at which groups change, group after group, as positions in columns."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.base.arrow_memory import Flags, integers
from xmlpunct.operators.exact_sums import SUM_DTYPE, ExactSums, Terms, blocks
from xmlpunct.operators.hash_index import Rows, firsts
from xmlpunct.types.ordinals import Ordinals

Numbers = NDArray[np.int64]
"""Groups, slots or positions in a frame; shape (n,)."""
_SEED = secrets.randbits(63)
"""The seed of the hashes, so that nobody can choose keys that collide."""


def group_numbers(keys: pl.DataFrame) -> tuple[Numbers, Rows]:
    """The group number of each row, shape (rows,), and the position of each group's first row, shape (groups,).

    Groups are numbered in the order of their first rows. Nulls are equal, and so are NaNs.

    >>> numbers, first = group_numbers(pl.DataFrame({"k": ["a", None, "a", "b"]}))
    >>> numbers.tolist(), first.tolist()
    ([0, 1, 0, 2], [0, 1, 3])
    """
    positions = np.arange(keys.height)
    first = firsts(keys.hash_rows(_SEED).to_numpy()) if keys.height else positions
    is_first = first == positions
    if not is_first.all() and not keys.equals(keys[first]):  # unequal keys of one hash, or NaN
        first = _firsts_exactly(keys)
        is_first = first == positions
    return (np.cumsum(is_first) - 1)[first], np.flatnonzero(is_first)


def _firsts_exactly(keys: pl.DataFrame) -> Rows:
    """For each row the position of the first equal row, by comparison."""
    position = pl.int_range(pl.len(), dtype=pl.Int64()).alias("$place")
    return (
        keys.with_columns(position).select(pl.col("$place").first().over(keys.columns)).to_series().to_numpy()
    )


def order_by(major: Numbers, minor: Numbers) -> Rows:
    """The order of rows by ``major``, then by ``minor``.

    >>> order_by(np.array([1, 0, 1]), np.array([5, 9, -7])).tolist()
    [1, 2, 0]
    """
    if not len(major):
        return np.empty(0, np.int64)
    low, least = int(major.min()), int(minor.min())
    bits = (int(minor.max()) - least).bit_length()
    if (int(major.max()) - low).bit_length() + bits <= 63:  # one number for both: several times as fast
        return np.argsort(((major - low) << bits) | (minor - least))
    return np.lexsort((minor, major))


def begins(*columns: NDArray[np.int64]) -> Flags:
    """Whether each row differs from the row before in one of the columns; shape (rows,)."""
    new = np.zeros(len(columns[0]), np.bool_)
    new[:1] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return new


class Slots:
    """The slots of all groups in a sequence: for each group its former state (*base*), then each instant of its rows.

    ``keys`` and ``at`` are the keys and instants of rows. Each group has at least one row. All arrays have shape
    (rows,), (groups,) or (slots,).

    >>> slots = Slots(pl.DataFrame({"k": [7, 8, 7]}), np.array([5, 1, 3]))
    >>> slots.groups.rows(), slots.slot_groups.tolist(), slots.at[slots.steps].tolist()
    ([(7,), (8,)], [0, 0, 0, 1, 1], [3, 5, 1])
    >>> slots.row_slots.tolist(), slots.bases.tolist(), slots.ends.tolist()
    ([2, 4, 1], [0, 3], [3, 5])
    """

    def __init__(self, keys: pl.DataFrame, at: Ordinals) -> None:
        self.row_groups, first = group_numbers(keys)
        """The group of each row."""
        self.groups = keys[first]
        """The keys of each group."""
        order = order_by(self.row_groups, at)
        groups, at = self.row_groups[order], at[order]
        is_new = begins(groups, at)
        self.row_slots = np.empty(len(order), np.int64)
        """The slot of each row."""
        self.row_slots[order] = np.cumsum(is_new) + groups
        steps = np.flatnonzero(is_new)
        groups = groups[steps]
        self.slot_groups = np.insert(groups, np.flatnonzero(begins(groups)), np.arange(len(first)))
        """The group of each slot."""
        self.bases = np.flatnonzero(begins(self.slot_groups))
        """The base of each group."""
        self.ends = np.append(self.bases[1:], len(self.slot_groups))
        """The end of each group's slots, exclusive."""
        self.is_step = np.ones(len(self.slot_groups), np.bool_)
        """True for slots that are instants, False for bases."""
        self.is_step[self.bases] = False
        self.at = np.zeros(len(self.slot_groups), np.int64)
        """The instant of each slot, 0 for bases."""
        self.at[self.is_step] = at[steps]

    def __len__(self) -> int:
        return len(self.slot_groups)

    @property
    def steps(self) -> Numbers:
        """The slots that are instants."""
        return np.flatnonzero(self.is_step)

    def totals(self, pieces: Sequence[tuple[Numbers, pl.DataFrame]], empty: pl.DataFrame) -> pl.DataFrame:
        """The sums in each slot, from the groups' former sums (at bases) and their changes (at steps).

        Each piece has the slots of its rows; no two rows have one slot. ``empty`` has the columns: Int64, Int128 or
        exact sums.
        """
        row_slots = np.concatenate([slots for slots, _ in pieces])
        columns = (pl.concat([piece[name] for _, piece in pieces]) for name in empty.columns)
        return pl.DataFrame([self._running_sums(row_slots, column) for column in columns])

    def _running_sums(self, row_slots: Numbers, changes: pl.Series) -> pl.Series:
        """Running sums from each base, of changes at ``row_slots``. Overflows across groups cancel out."""
        if changes.dtype == SUM_DTYPE:
            return self._running_exact_sums(row_slots, changes)
        if not sums_fit(changes):
            rows = np.full(len(self), len(changes), np.int64)
            rows[row_slots] = np.arange(len(changes))
            changes = changes.extend_constant(0, 1)[rows]
            sums = changes.cum_sum()
            return sums - (sums - changes)[self.bases][self.slot_groups]
        numbers = np.zeros(len(self), np.int64)
        numbers[row_slots] = changes.cast(pl.Int64()).to_numpy()
        totals = np.cumsum(numbers)
        before = (totals - numbers)[self.bases]
        return integers(changes.name, totals - np.repeat(before, self.ends - self.bases))

    def _running_exact_sums(self, row_slots: Numbers, changes: pl.Series) -> pl.Series:
        order = np.argsort(row_slots)
        row_slots, changes = row_slots[order], changes[order]
        parts: list[pl.Series] = []
        for low, high in blocks(len(self)):
            rows = slice(*np.searchsorted(row_slots, (low, high)).tolist())
            terms = [Terms.of_column(changes[rows], row_slots[rows] - low)]
            bases = self.bases[self.slot_groups[low:high]] - low
            if bases[0] < 0:  # the first group continues the block before
                terms.append(Terms.of_column(parts[-1][-1:]))
            running = ExactSums.of(Terms.concat(terms), high - low).running()
            totals = running.take(np.arange(1, len(running))) - running.take(np.maximum(bases, 0))
            parts.append(totals.column(changes.name))
        return pl.concat(parts)


def sums_fit(numbers: pl.Series) -> bool:
    """Whether all sums of these integers are certain to fit 64 bits, or to be right modulo 2^64.

    >>> sums_fit(pl.Series([2**60, 5], dtype=pl.Int128)), sums_fit(pl.Series([2**63, 5], dtype=pl.Int128))
    (True, False)
    """
    if numbers.dtype != pl.Int128 or not len(numbers):
        return True
    low, high = numbers.min(), numbers.max()
    assert isinstance(low, int)
    assert isinstance(high, int)
    return max(high, -low) * len(numbers) < 2**63
