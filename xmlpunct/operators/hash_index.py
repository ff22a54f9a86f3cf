"""The index of an arrangement: rows by the hash of their key.

It is compiled if there was a C compiler when xmlpunct was installed. Otherwise sorted runs replace it. They take up to
1.4 times as long for small slices and 2 to 5 times as long for large ones (`benchmarks/scaling.py --only state large`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

try:
    from xmlpunct.operators._hash_index import HashIndex as _Compiled
    from xmlpunct.operators._hash_index import firsts as _firsts
except ImportError:
    _Compiled = None  # type: ignore[assignment, misc]

Hashes = NDArray[np.uint64]
"""The hash of each tuple; shape (tuples,)."""
Rows = NDArray[np.int64]
"""Row numbers, or positions of tuples in a frame; shape (rows,)."""

USE_COMPILED = _Compiled is not None
"""Whether `hash_index` returns the compiled index. Tests run with both."""


class HashIndex:
    """Rows by hash, compiled. Rows of one hash are in the order in which they were added.

    Row numbers (int64, not negative) must increase from one `add` to the next.

    >>> index = HashIndex()
    >>> index.add(np.array([7, 9, 7], np.uint64), np.array([0, 1, 2]))
    >>> [array.tolist() for array in index.probe(np.array([8, 7], np.uint64))]
    [[1, 1], [0, 2]]
    """

    def __init__(self) -> None:
        self._index = _Compiled()

    def add(self, hashes: Hashes, rows: Rows) -> None:
        """Add rows, each under its hash."""
        self._index.add(hashes, rows)

    def remove(self, hashes: Hashes, rows: Rows) -> None:
        """Remove rows, each with its hash; skip rows that are absent."""
        self._index.remove(hashes, rows)

    def probe(self, hashes: Hashes) -> tuple[Rows, Rows]:
        """All pairs of a position in ``hashes`` and a row of that hash, by position; shape (pairs,)."""
        positions, rows = self._index.probe(hashes)
        return np.frombuffer(positions, np.int64), np.frombuffer(rows, np.int64)

    def __len__(self) -> int:
        return len(self._index)


class SortedRuns:
    """`HashIndex` in runs sorted by hash. Each run is at least twice as long as the next.

    Removed rows are only listed until they are half of all rows. Then the runs are merged without them.

    >>> index = SortedRuns()
    >>> index.add(np.array([7, 9, 7], np.uint64), np.array([0, 1, 2]))
    >>> [array.tolist() for array in index.probe(np.array([8, 7], np.uint64))]
    [[1, 1], [0, 2]]
    """

    def __init__(self) -> None:
        self._runs: list[tuple[Hashes, Rows]] = []
        self._removed = np.empty(0, np.int64)

    def add(self, hashes: Hashes, rows: Rows) -> None:
        """Add rows, each under its hash."""
        if not len(rows):
            return
        order = np.lexsort((rows, hashes))
        self._runs.append((hashes[order], rows[order]))
        while len(self._runs) > 1 and len(self._runs[-2][1]) < 2 * len(self._runs[-1][1]):
            self._runs[-2:] = [self._merge(self._runs[-2:])]

    def remove(self, hashes: Hashes, rows: Rows) -> None:
        """Remove rows, each with its hash; skip rows that are absent."""
        positions, candidates = self.probe(hashes)
        self._removed = np.union1d(self._removed, candidates[candidates == rows[positions]])
        if 2 * len(self._removed) > sum(len(rows) for _, rows in self._runs):
            self._runs = [self._merge(self._runs)]

    def probe(self, hashes: Hashes) -> tuple[Rows, Rows]:
        """All pairs of a position in ``hashes`` and a row of that hash, by position; shape (pairs,)."""
        positions, rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for run_hashes, run_rows in self._runs:
            first = np.searchsorted(run_hashes, hashes, side="left")
            counts = np.searchsorted(run_hashes, hashes, side="right") - first
            if not counts.any():
                continue
            position = np.repeat(np.arange(len(hashes)), counts)
            within = np.arange(len(position)) - np.repeat(np.cumsum(counts) - counts, counts)
            positions.append(position)
            rows.append(run_rows[np.repeat(first, counts) + within])
        position, row = np.concatenate(positions), np.concatenate(rows)
        if len(self._removed) and len(row):
            nearest = np.minimum(np.searchsorted(self._removed, row), len(self._removed) - 1)
            is_live = self._removed[nearest] != row
            position, row = position[is_live], row[is_live]
        order = np.lexsort((row, position))
        return position[order], row[order]

    def _merge(self, runs: list[tuple[Hashes, Rows]]) -> tuple[Hashes, Rows]:
        hashes = np.concatenate([hashes for hashes, _ in runs])
        rows = np.concatenate([rows for _, rows in runs])
        if len(self._removed):
            is_live = ~np.isin(rows, self._removed)
            self._removed = np.setdiff1d(self._removed, rows[~is_live], assume_unique=True)
            hashes, rows = hashes[is_live], rows[is_live]
        order = np.lexsort((rows, hashes))
        return hashes[order], rows[order]

    def __len__(self) -> int:
        return sum(len(rows) for _, rows in self._runs) - len(self._removed)


def hash_index() -> HashIndex | SortedRuns:
    """An empty index."""
    return HashIndex() if USE_COMPILED else SortedRuns()


def firsts(hashes: Hashes) -> Rows:
    """For each hash, the position of the first equal one; shape (hashes,).

    >>> firsts(np.array([7, 9, 7], np.uint64)).tolist()
    [0, 1, 0]
    """
    if USE_COMPILED:
        return np.frombuffer(_firsts(hashes), np.int64)
    order = np.argsort(hashes, kind="stable")
    begins = np.append(True, np.diff(hashes[order]) != 0)[: len(order)]
    positions = np.empty(len(order), np.int64)
    positions[order] = order[begins][np.cumsum(begins) - 1]
    return positions


def ascending(rows: Rows) -> Rows:
    """The distinct rows in ascending order. (For many rows `numpy.unique` takes ten times as long.)

    >>> ascending(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    rows = np.sort(rows)
    is_first = np.ones(len(rows), np.bool_)
    np.not_equal(rows[1:], rows[:-1], out=is_first[1:])
    return rows[is_first]
