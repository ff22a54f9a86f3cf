"""The sessions that later tuples may still join, with their tuples."""

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
from xmlpunct.operators.relations.slots import begins, group_numbers, order_by
from xmlpunct.punctuations.closed_attribute import Growth
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types.ordinals import Ordinals, ordinals_of, values_of
from xmlpunct.types.pattern import WILDCARD, ordinals

_SESSION, _CELL, _SIZE = "$session", "$cell", "$size"
_FIRST, _LAST = "$first", "$last"
_LOW, _HIGH = "$low", "$high"
"""The first and the last instant at which a tuple joins a session."""


@dataclass(frozen=True)
class ClosedSessions:
    """Sessions that no later tuple can join, and their tuples."""

    sessions: pl.DataFrame
    """The keys of the sessions."""
    tuples: pl.DataFrame
    firsts: Ordinals
    """The first instant of each tuple's session; shape (tuples,)."""
    lasts: Ordinals
    """The last instant of each tuple's session; shape (tuples,)."""


class OpenSessions:
    """The sessions of each value of ``keys``: tuples that follow each other by less than ``gap`` instants.

    The instants of a key lie in *cells* of ``gap`` instants. All tuples of a cell are of one session, and a session's
    cells are adjacent. So a new tuple concerns the sessions of its own cell and of the two adjacent cells. The state
    has, for each cell with tuples, the first and the last instant and the number of the session; the sessions; and the
    tuples by session. Sessions that merge get the number of the largest one.

    >>> s = Schema.parse("k STRING, ts INT NOT NULL")
    >>> sessions = OpenSessions(s, "ts", 3, ["k"])
    >>> sessions.add(s.frame([("a", 1), ("a", 5)]))
    >>> sessions.add(s.frame([("a", 3), ("a", 9)]))
    >>> sessions.ends
    [('a', 1, 5), ('a', 9, 9)]
    """

    def __init__(self, schema: Schema, timestamp: str, gap: int, keys: Sequence[str]) -> None:
        self._timestamp, self._gap, self._keys = timestamp, gap, list(dict.fromkeys(keys))
        self._type = schema[timestamp].type
        self._reach = self._type.ordinal(self._type.lowest), self._type.ordinal(self._type.highest)
        bounds = [Attribute(name, self._type, False) for name in (_LOW, _HIGH)]
        self.schema = Schema.of([*(schema[name] for name in self._keys), *bounds])
        """The keys, and the interval in which a tuple joins a session."""
        self._key_positions = [schema.index(name) for name in self._keys]
        number, key_columns = pl.Series(_SESSION, [], pl.Int64()), self.schema.empty().select(self._keys)
        self.tuples = Arrangement(schema.empty().with_columns(number), [_SESSION])
        """The tuples, with the numbers of their sessions."""
        names = _CELL, _FIRST, _LAST, _SESSION
        cells = key_columns.with_columns(number.alias(name) for name in names)
        self._cells = Arrangement(cells, [*self._keys, _CELL])
        sessions = self.schema.empty().with_columns(number.alias(n) for n in (_FIRST, _LAST, _SIZE, _SESSION))
        self._sessions = Arrangement(sessions, [_SESSION])
        self._next = 0

    @property
    def ends(self) -> list[tuple[object, ...]]:
        """The keys and the first and last ordinal of each session."""
        return sorted(self._sessions.frame.select(*self._keys, _FIRST, _LAST).rows())

    # Adding

    def add(self, tuples: pl.DataFrame) -> None:
        """Add tuples to their sessions; sessions without a gap between them merge."""
        if not tuples.height:
            return
        instants = ordinals_of(self._type, tuples[self._timestamp])
        new = self._with_keys(tuples, {_CELL: instants // self._gap, _FIRST: instants, _LAST: instants})
        adjacent = self._take_adjacent(new)
        rows = pl.concat([adjacent.drop(_SESSION), new])
        of_row, first = group_numbers(rows.select(self._cells.key))
        cells = rows[first]
        lows, highs = _ends(of_row, rows)
        old = np.full(len(first), -1)
        old[of_row[: adjacent.height]] = adjacent[_SESSION].to_numpy()
        session_of_cell = self._sessions_of(cells, lows, highs, old)
        session_of_tuple = session_of_cell[of_row[adjacent.height :]]
        numbers = self._merge_sessions(cells, lows, highs, old, session_of_cell, session_of_tuple)
        columns = {
            _CELL: cells[_CELL].to_numpy(),
            _FIRST: lows,
            _LAST: highs,
            _SESSION: numbers[session_of_cell],
        }
        self._cells.append(self._with_keys(cells, columns))
        session = pl.Series(_SESSION, numbers[session_of_tuple], pl.Int64())
        self.tuples.append(tuples.with_columns(session))

    def _with_keys(self, rows: pl.DataFrame, numbers: dict[str, Ordinals]) -> pl.DataFrame:
        """The keys of ``rows``, with columns of numbers."""
        columns = (pl.Series(name, values, pl.Int64()) for name, values in numbers.items())
        return pl.DataFrame([*(rows[name] for name in self._keys), *columns])

    def _take_adjacent(self, new: pl.DataFrame) -> pl.DataFrame:
        """Remove and return the cells of new tuples, and the cells adjacent to them."""
        adjacent = [new.with_columns(pl.col(_CELL) + step) for step in (-1, 0, 1)] if len(self._cells) else []
        hit = [self._cells.probe(cells)[1] for cells in adjacent]
        return self._cells.remove(ascending(np.concatenate(hit))) if hit else self._cells.empty

    def _sessions_of(self, cells: pl.DataFrame, lows: Ordinals, highs: Ordinals, old: Rows) -> Rows:
        """The session of each cell, numbered from 0 by key and time; shape (cells,).

        ``old`` has the former session numbers of the cells, -1 for none.
        """
        key = group_numbers(cells.select(self._keys))[0] if self._keys else np.zeros(cells.height, np.int64)
        order = order_by(key, lows)
        key, old = key[order], old[order]
        has_gap = distance(highs[order][:-1], lows[order][1:]) >= np.uint64(self._gap)
        has_gap &= (old[1:] != old[:-1]) | (
            old[1:] < 0
        )  # within a session, unchanged cells may lie between two
        sessions = np.zeros(cells.height, np.int64)
        sessions[order[1:]] = np.cumsum(has_gap | (key[1:] != key[:-1]))
        return sessions

    def _merge_sessions(
        self,
        cells: pl.DataFrame,
        lows: Ordinals,
        highs: Ordinals,
        old: Rows,
        session_of_cell: Rows,
        session_of_tuple: Rows,
    ) -> Rows:
        """Retain the merged sessions; return their numbers; shape (sessions,).

        ``old`` has the former session numbers of the cells, -1 for none. ``session_of_tuple`` are the sessions of the
        new tuples.
        """
        count = int(session_of_cell.max()) + 1
        order = np.argsort(old)
        order = order[np.flatnonzero(begins(old[order]) & (old[order] >= 0))]  # a cell of each former session
        former_rows = self._sessions.probe(pl.DataFrame({_SESSION: old[order]}))[1]
        into, former = session_of_cell[order], self._sessions.take(former_rows)
        self._sessions.remove(np.sort(former_rows))
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
        firsts, lasts = _ends(np.concatenate((into, session_of_cell)), rows)
        total = np.bincount(session_of_tuple, minlength=count)
        np.add.at(total, into, sizes)
        a_cell = np.empty(count, np.int64)
        a_cell[session_of_cell] = np.arange(len(session_of_cell))
        columns = {_FIRST: firsts, _LAST: lasts, _SIZE: total, _SESSION: numbers}
        sessions = self._with_keys(cells[a_cell], columns).with_columns(
            values_of(self._type, self._join_start(firsts), _LOW),
            values_of(self._type, self._join_end(lasts), _HIGH),
        )
        self._sessions.append(sessions.select(self._sessions.empty.columns))
        return numbers

    def _move(self, numbers: Rows, into: Rows) -> None:
        """Move the cells and tuples of the sessions ``numbers`` to the sessions ``into``."""
        sessions = pl.DataFrame({_SESSION: numbers})
        for part in (self._cells, self.tuples):
            positions, rows = part.probe(sessions, [_SESSION], [_SESSION])
            order = np.argsort(rows)
            moved = part.remove(rows[order])
            part.append(moved.with_columns(pl.Series(_SESSION, into[positions[order]], pl.Int64())))

    def _join_start(self, firsts: Ordinals) -> Ordinals:
        """The first instants at which a tuple joins sessions that begin at ``firsts``."""
        lowest, room = self._reach[0], np.uint64(self._gap - 1)
        return np.where(distance(lowest, firsts) < room, lowest, firsts - room.view(np.int64))

    def _join_end(self, lasts: Ordinals) -> Ordinals:
        """The last instants at which a tuple joins sessions that end at ``lasts``."""
        highest, room = self._reach[1], np.uint64(self._gap - 1)
        return np.where(distance(lasts, highest) < room, highest, lasts + room.view(np.int64))

    # Closing

    def close(self, grown: Iterable[Growth]) -> ClosedSessions:
        """Remove and return the sessions that no later tuple can join."""
        closed = PunctuationSet(self.schema, self._closed_sessions(grown))
        sessions = self._sessions.remove(self._sessions.matching(closed))
        if not sessions.height:
            return ClosedSessions(
                sessions, self.tuples.empty.drop(_SESSION), np.empty(0, np.int64), np.empty(0, np.int64)
            )
        cells = self._cells.probe(sessions, [_SESSION], [_SESSION])[1]
        self._cells.remove(np.sort(cells))
        positions, rows = self.tuples.probe(sessions)
        order = np.argsort(rows)
        tuples, of_session = self.tuples.remove(rows[order]).drop(_SESSION), positions[order]
        firsts, lasts = (sessions[name].to_numpy()[of_session] for name in (_FIRST, _LAST))
        return ClosedSessions(sessions, tuples, firsts, lasts)

    def _closed_sessions(self, grown: Iterable[Growth]) -> Iterable[Punctuation]:
        """Punctuations that match the sessions within closed intervals."""
        lowest, highest = self._reach
        for growth in grown:
            keys = [growth.outline.patterns[i] for i in self._key_positions]
            for first, last in growth.values.spans:
                low = WILDCARD if first == lowest else ordinals(self._type, first, None)
                high = WILDCARD if last == highest else ordinals(self._type, None, last)
                yield Punctuation(self.schema, [*keys, low, high])

    def least(self, keys: Sequence[Punctuation]) -> list[int]:
        """The least retained instant for each pattern of keys; if there is none, the greatest instant + 1."""
        return least_instants(keys, [(self._sessions, _firsts)], self._reach[1] + 1)

    # As a part of the state

    def __len__(self) -> int:
        return 0  # the tuples are counted by their own part

    def snapshot(self) -> Snapshot:
        """The cells and the sessions, for a checkpoint."""
        return snapshot_of({"cells": self._cells, "sessions": self._sessions})

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the cells and the sessions from a snapshot."""
        restore({"cells": self._cells, "sessions": self._sessions}, snapshot)
        numbers = [block[_SESSION].to_numpy().max() for block in self._sessions.blocks()]
        self._next = int(max(numbers, default=-1)) + 1


def _firsts(sessions: pl.DataFrame) -> Ordinals:
    return sessions[_FIRST].to_numpy()


def _ends(groups: Rows, rows: pl.DataFrame) -> tuple[Ordinals, Ordinals]:
    """The least first and the greatest last instant of each group of rows; shape (groups,)."""
    first, last = rows[_FIRST].to_numpy(), rows[_LAST].to_numpy()
    order = order_by(groups, first)
    begin = np.flatnonzero(begins(groups[order]))
    return first[order[begin]], np.maximum.reduceat(last[order], begin)


def distance(low: Ordinals | int, high: Ordinals | int) -> NDArray[np.uint64]:
    """The distance of two instants, which can exceed an int64."""
    ends = (np.asarray(end, np.int64).view(np.uint64) for end in (high, low))
    distance: NDArray[np.uint64] = next(ends) - next(ends)
    return distance
