"""The sessions that something may still join, with their tuples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.base.frames import Snapshot, restore, snapshot_of
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.hash_index import Rows, ascending
from xmlpunct.operators.relations.least import least_instants
from xmlpunct.operators.relations.slots import begins, numbered, order_by
from xmlpunct.operators.time.windows.spans import Grown
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types.ordinals import Ordinals, ordinals_of, values_of
from xmlpunct.types.pattern import WILDCARD, ordinals

_SESSION, _CELL, _SIZE = "$session", "$cell", "$size"
_FIRST, _LAST = "$first", "$last"
_LOW, _HIGH = "$low", "$high"
"""Between these instants a tuple joins a session."""


@dataclass(frozen=True)
class Closed:
    """Sessions that nothing can join any more, and their tuples."""

    sessions: pl.DataFrame
    """The keys of the sessions."""
    tuples: pl.DataFrame
    firsts: Ordinals
    """The first instant of each tuple's session."""
    lasts: Ordinals
    """The last instant of each tuple's session."""


class OpenSessions:
    """The sessions of keys ``by``: tuples that follow each other by less than ``gap`` instants.

    The instants of a key lie in *cells* of ``gap`` instants. All tuples of a cell are of one session, and a session's
    cells follow each other without a gap. So a new tuple concerns the sessions of its cell and of the two beside it.
    Retained are, for each cell that has tuples, the first and the last instant and the number of the session; the
    sessions; and the tuples by session. Sessions that become one get the number of the largest.

    >>> s = Schema.parse("k STRING, ts INT NOT NULL")
    >>> sessions = OpenSessions(s, "ts", 3, ["k"])
    >>> sessions.add(s.frame([("a", 1), ("a", 5)]))
    >>> sessions.add(s.frame([("a", 3), ("a", 9)]))
    >>> sessions.ends
    [('a', 1, 5), ('a', 9, 9)]
    """

    def __init__(self, schema: Schema, timestamp: str, gap: int, by: Sequence[str]) -> None:
        self._timestamp, self._gap, self._by = timestamp, gap, list(dict.fromkeys(by))
        self._type = schema[timestamp].type
        self._reach = self._type.ordinal(self._type.lowest), self._type.ordinal(self._type.highest)
        bounds = [Attribute(name, self._type, False) for name in (_LOW, _HIGH)]
        self.schema = Schema.of([*(schema[name] for name in self._by), *bounds])
        """Keys, and between which instants a tuple joins a session."""
        self._from = [schema.index(name) for name in self._by]
        number, keys = pl.Series(_SESSION, [], pl.Int64()), self.schema.empty().select(self._by)
        self.tuples = Arrangement(schema.empty().with_columns(number), [_SESSION])
        """The tuples, with the numbers of their sessions."""
        names = _CELL, _FIRST, _LAST, _SESSION
        cells = keys.with_columns(number.alias(name) for name in names)
        self._cells = Arrangement(cells, [*self._by, _CELL])
        known = self.schema.empty().with_columns(number.alias(n) for n in (_FIRST, _LAST, _SIZE, _SESSION))
        self._sessions = Arrangement(known, [_SESSION])
        self._next = 0

    @property
    def ends(self) -> list[tuple[object, ...]]:
        """The sessions: keys, and the first and the last ordinal."""
        return sorted(self._sessions.frame.select(*self._by, _FIRST, _LAST).rows())

    # Adding

    def add(self, tuples: pl.DataFrame) -> None:
        """Take tuples."""
        if not tuples.height:
            return
        at = ordinals_of(self._type, tuples[self._timestamp])
        fresh = self._keyed(tuples, {_CELL: at // self._gap, _FIRST: at, _LAST: at})
        known = self._near(fresh)
        rows = pl.concat([known.drop(_SESSION), fresh])
        of_row, first = numbered(rows.select(self._cells.key))
        cells = rows[first]
        lows, highs = _ends(of_row, rows)
        old = np.full(len(first), -1)
        old[of_row[: known.height]] = known[_SESSION].to_numpy()
        joined = self._joined(cells, lows, highs, old)
        numbers = self._renumbered(cells, lows, highs, old, joined, joined[of_row[known.height :]])
        now = {_CELL: cells[_CELL].to_numpy(), _FIRST: lows, _LAST: highs, _SESSION: numbers[joined]}
        self._cells.append(self._keyed(cells, now))
        session = pl.Series(_SESSION, numbers[joined[of_row[known.height :]]], pl.Int64())
        self.tuples.append(tuples.with_columns(session))

    def _keyed(self, rows: pl.DataFrame, numbers: dict[str, Ordinals]) -> pl.DataFrame:
        """Some rows' keys, with columns of numbers."""
        columns = (pl.Series(name, values, pl.Int64()) for name, values in numbers.items())
        return pl.DataFrame([*(rows[name] for name in self._by), *columns])

    def _near(self, fresh: pl.DataFrame) -> pl.DataFrame:
        """Take out the cells of some tuples, and those beside them."""
        beside = [fresh.with_columns(pl.col(_CELL) + step) for step in (-1, 0, 1)] if len(self._cells) else []
        hit = [self._cells.probe(cells)[1] for cells in beside]
        return self._cells.remove(ascending(np.concatenate(hit))) if hit else self._cells.empty

    def _joined(self, cells: pl.DataFrame, lows: Ordinals, highs: Ordinals, old: Rows) -> Rows:
        """For each cell the number of the session that has it now; sessions are numbered as they lie."""
        key = numbered(cells.select(self._by))[0] if self._by else np.zeros(cells.height, np.int64)
        order = order_by(key, lows)
        key, old = key[order], old[order]
        apart = distance(highs[order][:-1], lows[order][1:]) >= np.uint64(self._gap)
        apart &= (old[1:] != old[:-1]) | (old[1:] < 0)  # the cells between two of a session are at rest
        joined = np.zeros(cells.height, np.int64)
        joined[order[1:]] = np.cumsum(apart | (key[1:] != key[:-1]))
        return joined

    def _renumbered(
        self, cells: pl.DataFrame, lows: Ordinals, highs: Ordinals, old: Rows, joined: Rows, fresh: Rows
    ) -> Rows:
        """Retain sessions as they are joined now; return their numbers.

        ``old`` are the former numbers of the cells, ``fresh`` the sessions of the tuples that came.
        """
        count = int(joined.max()) + 1
        order = np.argsort(old)
        order = order[np.flatnonzero(begins(old[order]) & (old[order] >= 0))]  # a cell of each former session
        found = self._sessions.probe(pl.DataFrame({_SESSION: old[order]}))[1]
        into, former = joined[order], self._sessions.take(found)
        self._sessions.remove(np.sort(found))
        names, sizes = former[_SESSION].to_numpy(), former[_SIZE].to_numpy()
        numbers = np.full(count, -1)
        by_size = order_by(into, sizes)
        numbers[into[by_size]] = names[by_size]
        new = np.flatnonzero(numbers < 0)
        numbers[new] = np.arange(self._next, self._next + len(new))
        self._next += len(new)
        moved = numbers[into] != names
        if moved.any():
            self._move(names[moved], numbers[into[moved]])
        ends = cells.select(pl.Series(_FIRST, lows), pl.Series(_LAST, highs))
        rows = pl.concat([former.select(_FIRST, _LAST), ends])
        firsts, lasts = _ends(np.concatenate((into, joined)), rows)
        total = np.bincount(fresh, minlength=count)
        np.add.at(total, into, sizes)
        a_cell = np.empty(count, np.int64)
        a_cell[joined] = np.arange(len(joined))
        now = {_FIRST: firsts, _LAST: lasts, _SIZE: total, _SESSION: numbers}
        sessions = self._keyed(cells[a_cell], now).with_columns(
            values_of(self._type, self._before(firsts), _LOW),
            values_of(self._type, self._behind(lasts), _HIGH),
        )
        self._sessions.append(sessions.select(self._sessions.empty.columns))
        return numbers

    def _move(self, numbers: Rows, into: Rows) -> None:
        """Give what some sessions have to others."""
        asked = pl.DataFrame({_SESSION: numbers})
        for part in (self._cells, self.tuples):
            places, rows = part.probe(asked, [_SESSION], [_SESSION])
            order = np.argsort(rows)
            moved = part.remove(rows[order])
            part.append(moved.with_columns(pl.Series(_SESSION, into[places[order]], pl.Int64())))

    def _before(self, firsts: Ordinals) -> Ordinals:
        """The first instants at which a tuple joins sessions that begin at some instants."""
        lowest, room = self._reach[0], np.uint64(self._gap - 1)
        return np.where(distance(lowest, firsts) < room, lowest, firsts - room.view(np.int64))

    def _behind(self, lasts: Ordinals) -> Ordinals:
        """The last instants at which a tuple joins sessions that end at some instants."""
        highest, room = self._reach[1], np.uint64(self._gap - 1)
        return np.where(distance(lasts, highest) < room, highest, lasts + room.view(np.int64))

    # Closing

    def close(self, grown: Iterable[Grown]) -> Closed:
        """Let the sessions go that nothing can join any more."""
        closed = PunctuationSet(self.schema, self._within(grown))
        gone = self._sessions.remove(self._sessions.matching(closed))
        if not gone.height:
            return Closed(
                gone, self.tuples.empty.drop(_SESSION), np.empty(0, np.int64), np.empty(0, np.int64)
            )
        cells = self._cells.probe(gone, [_SESSION], [_SESSION])[1]
        self._cells.remove(np.sort(cells))
        places, rows = self.tuples.probe(gone)
        order = np.argsort(rows)
        tuples, of_session = self.tuples.remove(rows[order]).drop(_SESSION), places[order]
        firsts, lasts = (gone[name].to_numpy()[of_session] for name in (_FIRST, _LAST))
        return Closed(gone, tuples, firsts, lasts)

    def _within(self, grown: Iterable[Grown]) -> Iterable[Punctuation]:
        """What matches the sessions within closed intervals."""
        lowest, highest = self._reach
        for one in grown:
            keys = [one.q.patterns[i] for i in self._from]
            for first, last in one.spans:
                low = WILDCARD if first == lowest else ordinals(self._type, first, None)
                high = WILDCARD if last == highest else ordinals(self._type, None, last)
                yield Punctuation(self.schema, [*keys, low, high])

    def least(self, asked: Sequence[Punctuation]) -> list[int]:
        """The least instant that is retained of each of some patterns of keys; if there is none, beyond all."""
        return least_instants(asked, [(self._sessions, _firsts)], self._reach[1] + 1)

    # As a part of the state

    def __len__(self) -> int:
        return 0  # the tuples count

    def snapshot(self) -> Snapshot:
        """The cells and the sessions, for a checkpoint."""
        return snapshot_of({"cells": self._cells, "sessions": self._sessions})

    def restore(self, snapshot: Snapshot) -> None:
        """Take what a snapshot retained."""
        restore({"cells": self._cells, "sessions": self._sessions}, snapshot)
        numbers = [block[_SESSION].to_numpy().max() for block in self._sessions.blocks()]
        self._next = int(max(numbers, default=-1)) + 1


def _firsts(sessions: pl.DataFrame) -> Ordinals:
    return sessions[_FIRST].to_numpy()


def _ends(groups: Rows, rows: pl.DataFrame) -> tuple[Ordinals, Ordinals]:
    """The least first and the greatest last instant of each group of some rows."""
    first, last = rows[_FIRST].to_numpy(), rows[_LAST].to_numpy()
    order = order_by(groups, first)
    begin = np.flatnonzero(begins(groups[order]))
    return first[order[begin]], np.maximum.reduceat(last[order], begin)


def distance(low: Ordinals | int, high: Ordinals | int) -> NDArray[np.uint64]:
    """How far two instants are apart, which may be more than an int64 has."""
    ends = (np.asarray(end, np.int64).view(np.uint64) for end in (high, low))
    distance: NDArray[np.uint64] = next(ends) - next(ends)
    return distance
