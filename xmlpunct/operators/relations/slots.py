"""Slots: the instants at which some groups change, group after group, as places in columns."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.base.arrow_memory import Flags, integers
from xmlpunct.operators.hash_index import Rows, firsts
from xmlpunct.types.ordinals import Ordinals

Numbers = NDArray[np.int64]
"""Groups, slots or places in a frame; shape (n,)."""
_SEED = secrets.randbits(63)
"""The seed of the hashes: nobody can choose keys that collide."""


def numbered(keys: pl.DataFrame) -> tuple[Numbers, Rows]:
    """For each row the number of its group, and for each group the place of its first row.

    Groups are numbered as they come. Nulls are equal, and so are NaNs.

    >>> numbers, first = numbered(pl.DataFrame({"k": ["a", None, "a", "b"]}))
    >>> numbers.tolist(), first.tolist()
    ([0, 1, 0, 2], [0, 1, 3])
    """
    places = np.arange(keys.height)
    first = firsts(keys.hash_rows(_SEED).to_numpy()) if keys.height else places
    is_first = first == places
    if not is_first.all() and not keys.equals(keys[first]):  # not the same hash, or NaN
        first = _firsts_exactly(keys)
        is_first = first == places
    return (np.cumsum(is_first) - 1)[first], np.flatnonzero(is_first)


def _firsts_exactly(keys: pl.DataFrame) -> Rows:
    """For each row the place of the first that is equal, by comparison."""
    place = pl.int_range(pl.len(), dtype=pl.Int64()).alias("$place")
    return keys.with_columns(place).select(pl.col("$place").first().over(keys.columns)).to_series().to_numpy()


def order_by(major: Numbers, minor: Numbers) -> Rows:
    """The order of some rows by a number, then by another.

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
    """Which rows differ from the one before in some of their numbers."""
    new = np.zeros(len(columns[0]), np.bool_)
    new[:1] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return new


class Slots:
    """The groups' slots, one behind the other: how a group stood before (its *base*), then each instant of its rows.

    ``keys`` and ``at`` are the groups of some rows and their instants. Each group has a row at least.

    >>> slots = Slots(pl.DataFrame({"k": [7, 8, 7]}), np.array([5, 1, 3]))
    >>> slots.groups.rows(), slots.of.tolist(), slots.at[slots.steps].tolist()
    ([(7,), (8,)], [0, 0, 0, 1, 1], [3, 5, 1])
    >>> slots.row_slots.tolist(), slots.bases.tolist(), slots.ends.tolist()
    ([2, 4, 1], [0, 3], [3, 5])
    """

    def __init__(self, keys: pl.DataFrame, at: Ordinals) -> None:
        self.row_groups, first = numbered(keys)
        """The group of each row."""
        self.groups = keys[first]
        """The keys of each group."""
        order = order_by(self.row_groups, at)
        of, at = self.row_groups[order], at[order]
        new = begins(of, at)
        self.row_slots = np.empty(len(order), np.int64)
        """The slot of each row."""
        self.row_slots[order] = np.cumsum(new) + of
        steps = np.flatnonzero(new)
        self.of = np.insert(of[steps], np.flatnonzero(begins(of[steps])), np.arange(len(first)))
        """The group of each slot."""
        self.bases = np.flatnonzero(begins(self.of))
        """The base of each group."""
        self.ends = np.append(self.bases[1:], len(self.of))
        """The slot behind the last one of each group."""
        self.is_step = np.ones(len(self.of), np.bool_)
        """Which slots are instants."""
        self.is_step[self.bases] = False
        self.at = np.zeros(len(self.of), np.int64)
        """The instant of each slot, 0 for bases."""
        self.at[self.is_step] = at[steps]

    def __len__(self) -> int:
        return len(self.of)

    @property
    def steps(self) -> Numbers:
        """The slots that are instants."""
        return np.flatnonzero(self.is_step)

    def totals(self, pieces: Sequence[tuple[Numbers, pl.DataFrame]], empty: pl.DataFrame) -> pl.DataFrame:
        """Sums in each slot, given how the groups stood (at bases) and changes of them (at steps).

        Each piece has the slots of its rows; no two rows are of one slot. ``empty`` has the columns, Int64 or Int128.
        """
        places = np.concatenate([slots for slots, _ in pieces])
        columns = (pl.concat([piece[name] for _, piece in pieces]) for name in empty.columns)
        return pl.DataFrame([self._running(places, column) for column in columns])

    def _running(self, places: Numbers, changes: pl.Series) -> pl.Series:
        """Running sums from each base, of changes at some slots. What overflows between groups comes back."""
        if not sums_fit(changes):
            place = np.full(len(self), len(changes), np.int64)
            place[places] = np.arange(len(changes))
            changes = changes.extend_constant(0, 1)[place]
            sums = changes.cum_sum()
            return sums - (sums - changes)[self.bases][self.of]
        numbers = np.zeros(len(self), np.int64)
        numbers[places] = changes.cast(pl.Int64()).to_numpy()
        totals = np.cumsum(numbers)
        before = (totals - numbers)[self.bases]
        return integers(changes.name, totals - np.repeat(before, self.ends - self.bases))


def sums_fit(numbers: pl.Series) -> bool:
    """Whether all sums of some integers are known to have 64 bits, or to be right modulo 2^64.

    >>> sums_fit(pl.Series([2**60, 5], dtype=pl.Int128)), sums_fit(pl.Series([2**63, 5], dtype=pl.Int128))
    (True, False)
    """
    if numbers.dtype != pl.Int128 or not len(numbers):
        return True
    low, high = numbers.min(), numbers.max()
    assert isinstance(low, int)
    assert isinstance(high, int)
    return max(high, -low) * len(numbers) < 2**63
