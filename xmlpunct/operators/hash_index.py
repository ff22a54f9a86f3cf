"""The index of an arrangement: rows by the hash of their key.

It is compiled if there was a C compiler when xmlpunct was installed. Otherwise sorted runs do the same. They cost up to
1.4 times as much for small slices and 2 to 5 times for large ones (`benchmarks/scaling.py --only state large`).
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
"""One for each tuple; shape (tuples,)."""
Rows = NDArray[np.int64]
"""Numbers of rows, or places of tuples in a frame; shape (rows,)."""

USE_COMPILED = _Compiled is not None
"""Whether `hash_index` makes the compiled one. Tests take both."""


class HashIndex:
    """Rows by hash, compiled. Rows of one hash come in the order in which they were added.

    Numbers of rows (int64, not negative) must grow from one `add` to the next.

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
        """Take out rows, each with its hash; skip those that are not there."""
        self._index.remove(hashes, rows)

    def probe(self, hashes: Hashes) -> tuple[Rows, Rows]:
        """All pairs of a place in ``hashes`` and a row of that hash, by place."""
        places, rows = self._index.probe(hashes)
        return np.frombuffer(places, np.int64), np.frombuffer(rows, np.int64)

    def __len__(self) -> int:
        return len(self._index)


class SortedRuns:
    """`HashIndex` in runs sorted by hash. Each run is at least twice as long as the next.

    Removed rows are remembered until they are half of all. Then the runs are merged without them.

    >>> index = SortedRuns()
    >>> index.add(np.array([7, 9, 7], np.uint64), np.array([0, 1, 2]))
    >>> [array.tolist() for array in index.probe(np.array([8, 7], np.uint64))]
    [[1, 1], [0, 2]]
    """

    def __init__(self) -> None:
        self._runs: list[tuple[Hashes, Rows]] = []
        self._gone = np.empty(0, np.int64)

    def add(self, hashes: Hashes, rows: Rows) -> None:
        """Add rows, each under its hash."""
        if not len(rows):
            return
        order = np.lexsort((rows, hashes))
        self._runs.append((hashes[order], rows[order]))
        while len(self._runs) > 1 and len(self._runs[-2][1]) < 2 * len(self._runs[-1][1]):
            self._runs[-2:] = [self._merged(self._runs[-2:])]

    def remove(self, hashes: Hashes, rows: Rows) -> None:
        """Take out rows, each with its hash; skip those that are not there."""
        places, known = self.probe(hashes)
        self._gone = np.union1d(self._gone, known[known == rows[places]])
        if 2 * len(self._gone) > sum(len(rows) for _, rows in self._runs):
            self._runs = [self._merged(self._runs)]

    def probe(self, hashes: Hashes) -> tuple[Rows, Rows]:
        """All pairs of a place in ``hashes`` and a row of that hash, by place."""
        places, rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for run_hashes, run_rows in self._runs:
            first = np.searchsorted(run_hashes, hashes, side="left")
            counts = np.searchsorted(run_hashes, hashes, side="right") - first
            if not counts.any():
                continue
            place = np.repeat(np.arange(len(hashes)), counts)
            within = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)
            places.append(place)
            rows.append(run_rows[np.repeat(first, counts) + within])
        place, row = np.concatenate(places), np.concatenate(rows)
        if len(self._gone) and len(row):
            at = np.minimum(np.searchsorted(self._gone, row), len(self._gone) - 1)
            there = self._gone[at] != row
            place, row = place[there], row[there]
        order = np.lexsort((row, place))
        return place[order], row[order]

    def _merged(self, runs: list[tuple[Hashes, Rows]]) -> tuple[Hashes, Rows]:
        hashes = np.concatenate([hashes for hashes, _ in runs])
        rows = np.concatenate([rows for _, rows in runs])
        if len(self._gone):
            there = ~np.isin(rows, self._gone)
            self._gone = np.setdiff1d(self._gone, rows[~there], assume_unique=True)
            hashes, rows = hashes[there], rows[there]
        order = np.lexsort((rows, hashes))
        return hashes[order], rows[order]

    def __len__(self) -> int:
        return sum(len(rows) for _, rows in self._runs) - len(self._gone)


def hash_index() -> HashIndex | SortedRuns:
    """An empty index."""
    return HashIndex() if USE_COMPILED else SortedRuns()


def firsts(hashes: Hashes) -> Rows:
    """For each hash, the place of the first that is equal.

    >>> firsts(np.array([7, 9, 7], np.uint64)).tolist()
    [0, 1, 0]
    """
    if USE_COMPILED:
        return np.frombuffer(_firsts(hashes), np.int64)
    order = np.argsort(hashes, kind="stable")
    begins = np.append(True, np.diff(hashes[order]) != 0)[: len(order)]
    places = np.empty(len(order), np.int64)
    places[order] = order[begins][np.cumsum(begins) - 1]
    return places


def ascending(rows: Rows) -> Rows:
    """Rows in order, each once. (`numpy.unique` takes ten times as long where they are many.)

    >>> ascending(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    rows = np.sort(rows)
    fresh = np.ones(len(rows), np.bool_)
    np.not_equal(rows[1:], rows[:-1], out=fresh[1:])
    return rows[fresh]
