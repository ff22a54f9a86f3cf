"""The arrangement: the tuples that an operator retains, indexed by key and by the attributes that punctuations close.

Rows are numbered in the order in which they arrive. They lie in *pages*: data frames that do not change. An index finds
the rows of a key. The first punctuation of constants adds an index of the attributes that it constrains. For ranges,
each page has the least and the greatest value of an attribute. So the cost of a slice depends on its own size, not on
the size of the state.

A removed row is only marked. A page is rewritten when most of its rows are removed, so a slice writes a few pages at
most. An unchanged page is the same object in the next snapshot.
"""

from __future__ import annotations

import secrets
from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.base.arrow_memory import booleans
from xmlpunct.base.frames import Snapshot
from xmlpunct.operators.hash_index import Hashes, Rows, ascending, firsts, hash_index
from xmlpunct.operators.page import BLOCK_ROWS, Page
from xmlpunct.punctuations.constant_index import Constants
from xmlpunct.punctuations.punctuation_index import PunctuationIndex
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.slice import without

PAGE_ROWS = 2**17
"""The most rows of a page: rewriting one takes milliseconds (`benchmarks/retained.py`)."""
UNINDEXED_ROWS = 512
"""Up to this number of rows, all are compared, or merged, without an index (`benchmarks/latency.py`)."""
_SEED = secrets.randbits(63)
"""The seed of the hashes. It differs from process to process, so nobody can choose keys that collide."""
_CHUNK_ROWS = 2**17
"""The chunk size in which many, mostly equal tuples are deduplicated: a chunk fits into the processor's cache."""
_NONE = np.empty(0, np.int64)


class Index:
    """The rows of an arrangement by the values of some columns."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self._index = hash_index()

    def hashes(self, tuples: pl.DataFrame) -> Hashes:
        """The hashes of tuples that have the columns."""
        if not self.names:
            return np.zeros(tuples.height, np.uint64)
        keys = tuples if tuples.columns == self.names else tuples[:, self.names]
        return keys.hash_rows(_SEED).to_numpy()

    def add(self, tuples: pl.DataFrame, rows: Rows) -> None:
        """Add tuples under their row numbers."""
        self._index.add(self.hashes(tuples), rows)

    def remove(self, tuples: pl.DataFrame, rows: Rows) -> None:
        """Remove tuples under their row numbers."""
        self._index.remove(self.hashes(tuples), rows)

    def candidates(self, tuples: pl.DataFrame) -> tuple[Rows, Rows]:
        """All pairs of a position in ``tuples`` and a row of the same hash; two arrays of shape (pairs,)."""
        return self._index.probe(self.hashes(tuples))


class Arrangement:
    """Tuples with the columns of ``empty``, by the columns ``key``. Nulls are equal, NaN equals itself.

    >>> from xmlpunct.schema import Schema
    >>> s = Schema.parse("sid STRING, hour INT")
    >>> seen = Arrangement(s.empty(), s.names)
    >>> seen.insert(s.frame([("S1", 5), ("S2", 5), ("S1", 5)])).rows()
    [('S1', 5), ('S2', 5)]
    >>> seen.insert(s.frame([("S1", 5), ("S1", 6)])).rows()
    [('S1', 6)]
    >>> from xmlpunct.punctuations.punctuation import Punctuation
    >>> seen.remove(seen.matching(PunctuationSet(s, [Punctuation.of(s, hour=5)]))).rows()
    [('S1', 5), ('S2', 5)]
    >>> seen.frame.rows()
    [('S1', 6)]
    """

    def __init__(self, empty: pl.DataFrame, key: Sequence[str]) -> None:
        self.empty, self.key = empty, tuple(key)
        self._pages: list[Page] = []
        self._next = 0
        self._indexes: dict[tuple[str, ...], Index] = {}
        """The indexes in use, by the names of their columns."""
        self._frame: pl.DataFrame | None = empty

    def __len__(self) -> int:
        return self.height

    @property
    def height(self) -> int:
        """The number of retained tuples."""
        return sum(page.live for page in self._pages)

    @property
    def frame(self) -> pl.DataFrame:
        """All tuples, in the order in which they arrived."""
        if self._frame is None:
            frames = [page.alive for page in self._pages]
            self._frame = pl.concat(frames) if frames else self.empty
        return self._frame

    # Adding

    def append(self, tuples: pl.DataFrame) -> None:
        """Add tuples."""
        if not tuples.height:
            return
        rows = np.arange(self._next, self._next + tuples.height)
        for index in self._indexes.values():
            index.add(tuples, rows)
        for at in range(0, tuples.height, PAGE_ROWS):
            part = tuples[at : at + PAGE_ROWS] if tuples.height > PAGE_ROWS else tuples
            self._pages.append(Page(part, self._next + at))
        self._next += tuples.height
        self._frame = None
        self._join_pages()

    def insert(self, tuples: pl.DataFrame) -> pl.DataFrame:
        """Add the tuples that are not retained yet, each once; return them."""
        new = distinct(tuples)
        if self._pages:
            positions, _ = self._equal(new, self._index(tuple(new.columns)))
            new = without(new, row_flags(positions, new.height))
        self.append(new)
        return new

    def merge(self, tuples: pl.DataFrame, aggregations: Sequence[pl.Expr], is_distinct: bool = False) -> None:
        """Add rows, and aggregate all rows of a key into one. ``is_distinct``: no two of ``tuples`` share a key.

        >>> sums = Arrangement(pl.DataFrame(schema={"k": pl.Int64, "n": pl.Int64}), ["k"])
        >>> for k in (1, 2, 1):
        ...     sums.merge(pl.DataFrame({"k": [k], "n": [1]}), [pl.col("n").sum()])
        >>> sums.frame.rows()
        [(1, 2), (2, 1)]
        """
        if 0 < self.height <= UNINDEXED_ROWS:
            old = self.frame
            self.clear()
        else:
            old = self.remove(ascending(self.probe(tuples)[1]))
        if old.height:
            tuples = pl.concat([old, tuples])
        if old.height or not is_distinct:
            tuples = tuples.group_by(self.key, maintain_order=True).agg(aggregations)
        self.append(tuples)

    def _join_pages(self) -> None:
        """Join the last pages until each is at least twice as large as the next, or of the greatest size."""
        while len(self._pages) > 1:
            before, last = self._pages[-2:]
            if before.live >= 2 * last.live or before.live + last.live > PAGE_ROWS:
                return
            frame = pl.concat([before.alive, last.alive], rechunk=True)
            rows = np.concatenate((before.rows, last.rows))
            self._pages[-2:] = [Page.of(frame, rows)]

    # Finding

    def probe(
        self, tuples: pl.DataFrame, on: Sequence[str] | None = None, key: Sequence[str] | None = None
    ) -> tuple[Rows, Rows]:
        """All pairs of a position in ``tuples`` and a row with the same key, by position, then by row; shape (pairs,).

        ``tuples`` have the columns ``on`` (default: the names of the key) in the key's order. ``key`` replaces the
        arrangement's own key.
        """
        key = self.key if key is None else tuple(key)
        names = list(key if on is None else on)
        keys = tuples if tuples.columns == names or not names else tuples[:, names]
        if names != list(key):
            keys = keys.rename(dict(zip(names, key, strict=True)))
        return self._equal(keys, self._index(key))

    def has(self, tuples: pl.DataFrame, on: Sequence[str] | None = None) -> pl.Series:
        """For each tuple, whether a tuple of the same key is retained."""
        return row_flags(self.probe(tuples, on)[0], tuples.height)

    def _equal(self, keys: pl.DataFrame, index: Index) -> tuple[Rows, Rows]:
        """The pairs of an index's candidates whose keys are equal, not only their hashes."""
        positions, rows = index.candidates(keys)
        if not len(rows) or not index.names:
            return positions, rows
        probe_keys, row_keys = keys[positions], self.take(rows, index.names)
        if probe_keys.equals(row_keys):
            return positions, rows
        is_equal = _equal_rows(probe_keys, row_keys)
        return positions[is_equal], rows[is_equal]

    def take(self, rows: Rows, names: Sequence[str] | None = None) -> pl.DataFrame:
        """The tuples of ``rows``, in their order; all columns, or ``names``."""
        columns = self.empty.columns if names is None else list(names)
        if not len(rows):
            return self.empty if names is None else self.empty[:, columns]
        firsts = [page.first for page in self._pages]
        low = bisect_right(firsts, int(rows.min())) - 1
        if low + 1 == len(firsts) or int(rows.max()) < firsts[low + 1]:
            page = self._pages[low]
            frame = page.frame if columns == page.frame.columns else page.frame[:, columns]
            positions = page.positions(rows)
            first, last = int(positions[0]), int(positions[-1])
            if (
                last - first + 1 == len(positions) and (positions[1:] > positions[:-1]).all()
            ):  # consecutive rows: a view, without a copy
                return frame[first : last + 1]
            return frame[positions]
        page_numbers = np.searchsorted(np.array(firsts), rows, side="right") - 1
        order = np.argsort(page_numbers, kind="stable")
        cuts = np.flatnonzero(np.diff(page_numbers[order])) + 1
        parts = []
        for in_page in np.split(order, cuts):
            page = self._pages[int(page_numbers[in_page[0]])]
            parts.append(page.frame[:, columns][page.positions(rows[in_page])])
        inverse = np.empty(len(rows), np.int64)
        inverse[order] = np.arange(len(rows))
        return pl.concat(parts, rechunk=True)[inverse]

    def where(self, condition: pl.Expr) -> Rows:
        """The rows for which a condition is true, in order."""
        hit = condition.fill_null(False).alias("$hit")
        pieces = [page.rows[page.alive.with_columns(hit)["$hit"].to_numpy()] for page in self._pages]
        return np.concatenate(pieces) if pieces else _NONE

    def matching(self, closed: PunctuationSet) -> Rows:
        """The rows that match a punctuation of ``closed``, in order."""
        pieces = [rows for group in closed.groups() for rows in self._matching(group)]
        return _NONE if not pieces else pieces[0] if len(pieces) == 1 else ascending(np.concatenate(pieces))

    def _matching(self, group: PunctuationIndex) -> list[Rows]:
        """The rows that match a group of punctuations, in several arrays."""
        if isinstance(group, Constants) and (index := self._index_of(group)) is not None:
            _, rows = self._equal(group.constants(), index)
            return [np.sort(rows)]
        blocks = [block for page in self._pages for block in page.candidate_blocks(group)]
        return [rows[group.mask(tuples).to_numpy()] for tuples, rows in blocks]

    def blocked(self, waiting: PunctuationSet) -> PunctuationSet:
        """The punctuations of ``waiting`` that a retained tuple matches."""
        blocked = PunctuationSet(waiting.schema)
        for group in waiting.groups():
            if isinstance(group, Constants) and (index := self._index_of(group)) is not None:
                positions, _ = self._equal(group.constants(), index)
                blocked.update(group.all().take(ascending(positions)))
            else:
                count = len(blocked)
                for tuples, _ in (block for page in self._pages for block in page.candidate_blocks(group)):
                    blocked.update(group.matched(tuples))
                    if len(blocked) == count + len(group):
                        break
        return blocked

    def pages(self) -> Iterator[pl.DataFrame]:
        """All tuples, page by page."""
        return (page.alive for page in self._pages)

    def blocks(self) -> Iterator[pl.DataFrame]:
        """All tuples, in blocks of at most `BLOCK_ROWS`."""
        for frame in self.pages():
            for at in range(0, frame.height, BLOCK_ROWS):
                yield frame[at : at + BLOCK_ROWS]

    def _index_of(self, group: Constants) -> Index | None:
        """The index of the attributes that a group of constants constrains; None if there are too few rows."""
        names = group.names
        if names not in self._indexes and self.height <= UNINDEXED_ROWS:
            return None
        return self._index(names)

    def _index(self, names: tuple[str, ...]) -> Index:
        """The index of the columns ``names``, created on first use."""
        if names not in self._indexes:
            index = self._indexes[names] = Index(names)
            for page in self._pages:
                index.add(page.alive, page.rows)
        return self._indexes[names]

    # Removing

    def remove(self, rows: Rows) -> pl.DataFrame:
        """Remove rows, which are ascending and distinct; return their tuples."""
        removed = self.take(rows)
        if not len(rows):
            return removed
        for index in self._indexes.values():
            index.remove(removed, rows)
        firsts = np.array([page.first for page in self._pages])
        page_numbers = np.searchsorted(firsts, rows, side="right") - 1
        for number in ascending(page_numbers).tolist():
            page = self._pages[number]
            page.mark(rows[page_numbers == number])
            if 0 < 2 * page.live < page.frame.height:
                self._pages[number] = Page.of(page.alive, page.rows)
        self._pages = [page for page in self._pages if page.live]
        self._frame = None
        return removed

    def clear(self) -> None:
        """Remove all rows."""
        self._pages, self._frame = [], self.empty
        self._indexes = {}

    # Checkpoints

    def snapshot(self) -> Snapshot:
        """The pages, each by its first row number, and masks of removed rows."""
        pages = {str(page.first): page.frame for page in self._pages}
        return pages | {f"{p.first}.dead": p.marks for p in self._pages if p.marks is not None}

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the tuples from a snapshot."""
        self.clear()
        for first in sorted(int(key) for key in snapshot if key.isdecimal()):
            page = Page(snapshot[str(first)], first)
            dead = snapshot.get(f"{first}.dead")
            if dead is not None:
                page.mark(page.rows[dead.to_series().to_numpy()])
            self._pages.append(page)
            self._next = page.last + 1
        self._frame = None


def row_flags(positions: Rows, height: int) -> pl.Series:
    """A Boolean series of length ``height``, true at ``positions``.

    >>> row_flags(np.array([0, 0]), 2).to_list()
    [True, False]
    """
    flags = np.zeros(height, np.bool_)
    flags[positions] = True
    return booleans(flags)


def distinct(tuples: pl.DataFrame) -> pl.DataFrame:
    """Each tuple once, at its first position. Nulls are equal, NaN equals itself.

    >>> distinct(pl.DataFrame({"a": [5, None, 5, None]})).rows()
    [(5,), (None,)]
    """
    if tuples.height < 2 * _CHUNK_ROWS or _distinct(tuples.head(_CHUNK_ROWS)).height > _CHUNK_ROWS / 2:
        return _distinct(tuples)
    return _distinct(pl.concat(_distinct(part) for part in tuples.iter_slices(_CHUNK_ROWS)))


def _distinct(tuples: pl.DataFrame) -> pl.DataFrame:
    """`distinct` of all tuples at once."""
    if tuples.height < 2 or not tuples.width:
        return tuples.head(1)
    first, position = firsts(tuples.hash_rows(_SEED).to_numpy()), np.arange(tuples.height)
    duplicates = np.flatnonzero(first != position)
    if not len(duplicates):
        return tuples
    if not tuples[duplicates].equals(tuples[first[duplicates]]):  # a collision: unequal tuples of one hash
        return tuples.unique(maintain_order=True, keep="first")
    return tuples[np.flatnonzero(first == position)]


def _equal_rows(left: pl.DataFrame, right: pl.DataFrame) -> NDArray[np.bool_]:
    """Whether row i of both frames is equal, for each i; shape (rows,)."""
    is_equal = np.ones(left.height, np.bool_)
    for left_column, right_column in zip(left.iter_columns(), right.iter_columns(), strict=True):
        is_equal &= left_column.eq_missing(right_column).to_numpy()
    return is_equal
