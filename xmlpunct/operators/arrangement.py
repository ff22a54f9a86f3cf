"""The arrangement: the tuples that an operator retains, indexed by key and by what punctuations close.

Rows are numbered as they come. They lie in *pages*: data frames that do not change. An index finds the rows of a key.
The first punctuation of constants makes one more, for the attributes that it constrains. For ranges, each page knows
the least and the greatest value of an attribute. So a slice costs what it holds, not what is retained.

A row that goes is only marked. A page is written anew when most of its rows are gone, so a slice writes a few pages at
most. A page that did not change is the same object in the next snapshot.
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
"""A page has at most so many rows: writing one anew takes milliseconds (`benchmarks/retained.py`)."""
UNINDEXED_ROWS = 512
"""An index is not worth its time for so few rows: all are compared, or merged (`benchmarks/latency.py`)."""
_SEED = secrets.randbits(63)
"""The seed of the hashes. It differs from process to process, so nobody can choose keys that collide."""
_PART = 2**17
"""Of more tuples that are mostly equal, so many at a time are made distinct: they fit into the processor's cache."""
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
        """Add tuples, with their numbers."""
        self._index.add(self.hashes(tuples), rows)

    def remove(self, tuples: pl.DataFrame, rows: Rows) -> None:
        """Take out tuples, with their numbers."""
        self._index.remove(self.hashes(tuples), rows)

    def candidates(self, tuples: pl.DataFrame) -> tuple[Rows, Rows]:
        """All pairs of a place in ``tuples`` and a row of the same hash."""
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
        self._whole: pl.DataFrame | None = empty

    def __len__(self) -> int:
        return self.height

    @property
    def height(self) -> int:
        """How many tuples are retained."""
        return sum(page.live for page in self._pages)

    @property
    def frame(self) -> pl.DataFrame:
        """All tuples, in the order in which they came."""
        if self._whole is None:
            frames = [page.alive for page in self._pages]
            self._whole = pl.concat(frames) if frames else self.empty
        return self._whole

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
        self._whole = None
        self._join_pages()

    def insert(self, tuples: pl.DataFrame) -> pl.DataFrame:
        """Add the tuples that are not there yet, each once; return them."""
        fresh = distinct(tuples)
        if self._pages:
            known, _ = self._equal(fresh, self._index(tuple(fresh.columns)))
            fresh = without(fresh, marked(known, fresh.height))
        self.append(fresh)
        return fresh

    def merge(self, fresh: pl.DataFrame, aggregations: Sequence[pl.Expr], apart: bool = False) -> None:
        """Add rows, and aggregate all rows of a key into one. ``apart``: no two fresh rows share a key.

        >>> sums = Arrangement(pl.DataFrame(schema={"k": pl.Int64, "n": pl.Int64}), ["k"])
        >>> for k in (1, 2, 1):
        ...     sums.merge(pl.DataFrame({"k": [k], "n": [1]}), [pl.col("n").sum()])
        >>> sums.frame.rows()
        [(1, 2), (2, 1)]
        """
        if 0 < self.height <= UNINDEXED_ROWS:
            known = self.frame
            self.clear()
        else:
            known = self.remove(ascending(self.probe(fresh)[1]))
        if known.height:
            fresh = pl.concat([known, fresh])
        if known.height or not apart:
            fresh = fresh.group_by(self.key, maintain_order=True).agg(aggregations)
        self.append(fresh)

    def _join_pages(self) -> None:
        """Join the last pages until each is at least twice as large as the next, or as large as may be."""
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
        """All pairs of a place in ``tuples`` and a row with the same key, by place, then by row.

        ``tuples`` have the columns ``on`` (the key's own names unless given) in the key's order. ``key`` names other
        columns than the arrangement's own key.
        """
        key = self.key if key is None else tuple(key)
        names = list(key if on is None else on)
        keys = tuples if tuples.columns == names or not names else tuples[:, names]
        if names != list(key):
            keys = keys.rename(dict(zip(names, key, strict=True)))
        return self._equal(keys, self._index(key))

    def has(self, tuples: pl.DataFrame, on: Sequence[str] | None = None) -> pl.Series:
        """For each tuple, whether one of the same key is retained."""
        return marked(self.probe(tuples, on)[0], tuples.height)

    def _equal(self, keys: pl.DataFrame, index: Index) -> tuple[Rows, Rows]:
        """The pairs of an index's candidates whose keys are equal."""
        places, rows = index.candidates(keys)
        if not len(rows) or not index.names:
            return places, rows
        mine, theirs = keys[places], self.take(rows, index.names)
        if mine.equals(theirs):
            return places, rows
        same = _equal_rows(mine, theirs)
        return places[same], rows[same]

    def take(self, rows: Rows, names: Sequence[str] | None = None) -> pl.DataFrame:
        """The tuples of some rows, in their order; of their columns only ``names`` if given."""
        columns = self.empty.columns if names is None else list(names)
        if not len(rows):
            return self.empty if names is None else self.empty[:, columns]
        firsts = [page.first for page in self._pages]
        low = bisect_right(firsts, int(rows.min())) - 1
        if low + 1 == len(firsts) or int(rows.max()) < firsts[low + 1]:
            page = self._pages[low]
            frame = page.frame if columns == page.frame.columns else page.frame[:, columns]
            places = page.places(rows)
            first, last = int(places[0]), int(places[-1])
            if (
                last - first + 1 == len(places) and (places[1:] > places[:-1]).all()
            ):  # one run: nothing is copied
                return frame[first : last + 1]
            return frame[places]
        at = np.searchsorted(np.array(firsts), rows, side="right") - 1
        order = np.argsort(at, kind="stable")
        cuts = np.flatnonzero(np.diff(at[order])) + 1
        parts = []
        for some in np.split(order, cuts):
            page = self._pages[int(at[some[0]])]
            parts.append(page.frame[:, columns][page.places(rows[some])])
        back = np.empty(len(rows), np.int64)
        back[order] = np.arange(len(rows))
        return pl.concat(parts, rechunk=True)[back]

    def where(self, condition: pl.Expr) -> Rows:
        """The rows for which a condition is true, in order."""
        hit = condition.fill_null(False).alias("$hit")
        pieces = [page.rows[page.alive.with_columns(hit)["$hit"].to_numpy()] for page in self._pages]
        return np.concatenate(pieces) if pieces else _NONE

    def matching(self, closed: PunctuationSet) -> Rows:
        """The rows that match any of some punctuations, in order."""
        pieces = [rows for group in closed.groups() for rows in self._matching(group)]
        return _NONE if not pieces else pieces[0] if len(pieces) == 1 else ascending(np.concatenate(pieces))

    def _matching(self, group: PunctuationIndex) -> list[Rows]:
        """The rows that match a group, in pieces."""
        if isinstance(group, Constants) and (index := self._index_of(group)) is not None:
            _, rows = self._equal(group.constants(), index)
            return [np.sort(rows)]
        near = [part for page in self._pages for part in page.near(group)]
        return [rows[group.mask(tuples).to_numpy()] for tuples, rows in near]

    def blocked(self, waiting: PunctuationSet) -> PunctuationSet:
        """Those of some punctuations that a tuple matches."""
        blocked = PunctuationSet(waiting.schema)
        for group in waiting.groups():
            if isinstance(group, Constants) and (index := self._index_of(group)) is not None:
                places, _ = self._equal(group.constants(), index)
                blocked.update(group.all().take(ascending(places)))
            else:
                known = len(blocked)
                for tuples, _ in (part for page in self._pages for part in page.near(group)):
                    blocked.update(group.matched(tuples))
                    if len(blocked) == known + len(group):
                        break
        return blocked

    def pages(self) -> Iterator[pl.DataFrame]:
        """All tuples, page by page."""
        return (page.alive for page in self._pages)

    def blocks(self) -> Iterator[pl.DataFrame]:
        """All tuples, in pieces that cost little."""
        for frame in self.pages():
            for at in range(0, frame.height, BLOCK_ROWS):
                yield frame[at : at + BLOCK_ROWS]

    def _index_of(self, group: Constants) -> Index | None:
        """The index of the attributes that a group of constants constrains, made if it is worth it."""
        names = group.names
        if names not in self._indexes and self.height <= UNINDEXED_ROWS:
            return None
        return self._index(names)

    def _index(self, names: tuple[str, ...]) -> Index:
        """The index of some columns, made if there is none."""
        if names not in self._indexes:
            index = self._indexes[names] = Index(names)
            for page in self._pages:
                index.add(page.alive, page.rows)
        return self._indexes[names]

    # Removing

    def remove(self, rows: Rows) -> pl.DataFrame:
        """Let some rows go, which are in order and each once; return their tuples."""
        gone = self.take(rows)
        if not len(rows):
            return gone
        for index in self._indexes.values():
            index.remove(gone, rows)
        firsts = np.array([page.first for page in self._pages])
        at = np.searchsorted(firsts, rows, side="right") - 1
        for number in ascending(at).tolist():
            page = self._pages[number]
            page.mark(rows[at == number])
            if 0 < 2 * page.live < page.frame.height:
                self._pages[number] = Page.of(page.alive, page.rows)
        self._pages = [page for page in self._pages if page.live]
        self._whole = None
        return gone

    def clear(self) -> None:
        """Let all rows go."""
        self._pages, self._whole = [], self.empty
        self._indexes = {}

    # Checkpoints

    def snapshot(self) -> Snapshot:
        """The pages, each by its first row, and which rows are gone."""
        pages = {str(page.first): page.frame for page in self._pages}
        return pages | {f"{p.first}.dead": p.marks for p in self._pages if p.marks is not None}

    def restore(self, snapshot: Snapshot) -> None:
        """Take the tuples of a snapshot."""
        self.clear()
        for first in sorted(int(key) for key in snapshot if key.isdecimal()):
            page = Page(snapshot[str(first)], first)
            dead = snapshot.get(f"{first}.dead")
            if dead is not None:
                page.mark(page.rows[dead.to_series().to_numpy()])
            self._pages.append(page)
            self._next = page.last + 1
        self._whole = None


def marked(places: Rows, height: int) -> pl.Series:
    """For each of so many tuples, whether its place is among some.

    >>> marked(np.array([0, 0]), 2).to_list()
    [True, False]
    """
    flags = np.zeros(height, np.bool_)
    flags[places] = True
    return booleans(flags)


def distinct(tuples: pl.DataFrame) -> pl.DataFrame:
    """Each tuple once, where it stands first. Nulls are equal, NaN equals itself.

    >>> distinct(pl.DataFrame({"a": [5, None, 5, None]})).rows()
    [(5,), (None,)]
    """
    if tuples.height < 2 * _PART or _distinct(tuples.head(_PART)).height > _PART / 2:
        return _distinct(tuples)
    return _distinct(pl.concat(_distinct(part) for part in tuples.iter_slices(_PART)))


def _distinct(tuples: pl.DataFrame) -> pl.DataFrame:
    """`distinct` of all tuples at once."""
    if tuples.height < 2 or not tuples.width:
        return tuples.head(1)
    first, place = firsts(tuples.hash_rows(_SEED).to_numpy()), np.arange(tuples.height)
    again = np.flatnonzero(first != place)
    if not len(again):
        return tuples
    if not tuples[again].equals(tuples[first[again]]):  # two that differ have the same hash
        return tuples.unique(maintain_order=True, keep="first")
    return tuples[np.flatnonzero(first == place)]


def _equal_rows(some: pl.DataFrame, others: pl.DataFrame) -> NDArray[np.bool_]:
    """Which rows of two frames are equal; shape (rows,)."""
    same = np.ones(some.height, np.bool_)
    for mine, theirs in zip(some.iter_columns(), others.iter_columns(), strict=True):
        same &= mine.eq_missing(theirs).to_numpy()
    return same
