"""The results of calls over a segment, and the summaries of rows that are forgotten."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.arrow import booleans, floats, integers
from xmlpunct.operators.aggregate import Accumulator
from xmlpunct.operators.over.calls import OFFSETS, RANKS, SHARES, VALUES, Call
from xmlpunct.operators.over.segment import Places, Segment
from xmlpunct.operators.over.sums import Before, Sums, is_exact, nothing
from xmlpunct.schema import Schema
from xmlpunct.types import INT

ROWS, PEERS = "$rows", "$peers"
"""How many rows of a partition are forgotten; how many groups of peers are released."""


class Values:
    """One call over the partitions of a segment.

    ``kept`` has a row per partition, with the summary of the rows before the segment: the columns that `summary` gives.
    """

    def __init__(self, call: Call, number: int, schema: Schema) -> None:
        self.call, self._schema = call, schema
        self._type = INT if call.argument is None else schema[call.argument].type
        self._a = Accumulator(call.aggregate, self._type, f"${number}")
        self._name = f"${number}.value"

    @property
    def summary(self) -> dict[str, tuple[pl.DataType, object]]:
        """The columns of the summary that it needs, with their types and values for no rows."""
        call, empty = self.call, self._schema.empty()
        if call.function in RANKS:
            return {ROWS: (pl.Int64(), 0), PEERS: (pl.Int64(), 0)}
        if not call.is_running:
            return {}
        if call.function in VALUES:
            return {ROWS: (pl.Int64(), 0), self._name: (self._type.dtype, None)}
        if is_exact(self._a):
            dtypes = {
                k: pl.String() if isinstance(v, str) else pl.Int64() for k, v in nothing(self._a).items()
            }
            return {name: (dtypes[name], value) for name, value in nothing(self._a).items()}
        partials = empty.select(self._a.partials()).schema
        return {name: (dtype, nothing(self._a)[name]) for name, dtype in partials.items()}

    def of(
        self, segment: Segment, kept: pl.DataFrame, released: Places, rows: Places
    ) -> tuple[pl.Series, pl.Series | None]:
        """The results for some rows, and which of them do not fit, if any may not.

        ``released`` has for each partition the place of its first row that was not released before.
        """
        call, group = self.call, segment.group[rows]
        if call.function in RANKS:
            return self._rank(segment, kept, released, rows), None
        if call.function in SHARES:
            return self._share(segment, rows), None
        column = None if call.argument is None else segment.rows[call.argument]
        if call.function in OFFSETS:
            at = rows + (min(call.count, 2**62) if call.function == "LEAD" else -min(call.count, 2**62))
            there = (at >= segment.starts[group]) & (at < segment.ends[group])
            assert column is not None
            found = _gathered(column, at, there)
            if call.default is None:
                return found, None
            defaults = segment.rows[call.default].gather(rows)
            return found.zip_with(booleans(there), defaults), None
        low, high = segment.frames(call.frame, rows)
        before = (kept, group) if call.is_running else None
        if call.function in VALUES:
            assert column is not None
            return self._picked(column, low, high, before), None
        if call.function in ("MIN", "MAX"):
            return self._extreme(segment, low, high, before), None
        sums = Sums(self._a, segment.rows)
        return sums.finish(*sums.over(low, high, before))

    def summarized(
        self, segment: Segment, kept: pl.DataFrame, low: Places, high: Places
    ) -> Iterable[pl.Series]:
        """The summary of each partition once its rows from ``low`` to ``high`` are forgotten too."""
        if not self.call.is_running:
            return []
        before = kept, np.arange(kept.height)
        if self.call.function in VALUES:
            column = segment.rows[str(self.call.argument)]
            return [self._picked(column, low, high, before).alias(self._name)]
        if self.call.function in ("MIN", "MAX"):
            return [self._extreme(segment, low, high, before).alias(self._name)]
        return Sums(self._a, segment.rows).kept(low, high, before).get_columns()

    def _picked(self, column: pl.Series, low: Places, high: Places, before: Before | None) -> pl.Series:
        """FIRST_VALUE, LAST_VALUE, NTH_VALUE."""
        if self.call.function == "LAST_VALUE":
            found, there = _gathered(column, high - 1, high > low), high > low
            if before is None or there.all():
                return found
            return found.zip_with(booleans(there), before[0][self._name].gather(before[1]))
        place = 0 if self.call.function == "FIRST_VALUE" else min(self.call.count, 2**62) - 1
        if before is None:
            return _gathered(column, low + place, low + place < high)
        kept, group = before
        forgotten = kept[ROWS].to_numpy()[group]
        at = low + place - forgotten
        found = _gathered(column, at, (at >= low) & (at < high))
        return found.zip_with(booleans(forgotten <= place), kept[self._name].gather(group))

    def _rank(self, segment: Segment, kept: pl.DataFrame, released: Places, rows: Places) -> pl.Series:
        """ROW_NUMBER, RANK, DENSE_RANK."""
        group = segment.group[rows]
        if self.call.function == "DENSE_RANK":
            count = np.cumsum(segment.is_first_peer)
            before = np.append(0, count)[released[group]]
            return integers("", kept[PEERS].to_numpy()[group] + count[rows] - before)
        at = rows if self.call.function == "ROW_NUMBER" else segment.peers(rows)[0]
        return integers("", kept[ROWS].to_numpy()[group] + at - segment.starts[group] + 1)

    def _share(self, segment: Segment, rows: Places) -> pl.Series:
        """CUME_DIST, PERCENT_RANK, NTILE: the whole partition is in the segment."""
        group = segment.group[rows]
        start, size = segment.starts[group], (segment.ends - segment.starts)[group]
        first, last = segment.peers(rows)
        if self.call.function == "CUME_DIST":
            return floats("", (last - start) / size)
        if self.call.function == "PERCENT_RANK":
            return floats("", (first - start) / np.maximum(size - 1, 1))
        tiles = min(self.call.count, 2**62)
        small, wide, at = size // tiles, size % tiles, rows - start
        edge = wide * (small + 1)
        tile = np.where(at < edge, at // (small + 1), wide + (at - edge) // np.maximum(small, 1))
        return integers("", tile + 1)

    def _extreme(self, segment: Segment, low: Places, high: Places, before: Before | None) -> pl.Series:
        """MIN, MAX: by the ranks of values, of which tables say the extreme of 1, 2, 4, 8... in a row."""
        column = segment.rows[str(self.call.argument)]
        values = column if before is None else pl.concat([column, before[0][self._name]])
        ranks = values.rank("dense").cast(pl.Int64).fill_null(0).to_numpy()
        least = self.call.function == "MIN"
        worst = len(values) + 1 if least else 0
        ranks = np.where(ranks == 0, worst, ranks)
        best = np.minimum if least else np.maximum
        found = _extremes(ranks[: len(column)], low, high, worst, best)
        if before is not None:
            found = best(found, ranks[len(column) :][before[1]])
        by_rank = np.zeros(len(values) + 2, np.int64)
        by_rank[ranks] = np.arange(len(ranks))
        there = (found != worst) & (found > 0)
        return _gathered(values, by_rank[found], there)


def _extremes(
    ranks: NDArray[np.int64], low: Places, high: Places, worst: int, best: np.ufunc
) -> NDArray[np.int64]:
    """The best rank of each frame, ``worst`` of an empty one."""
    found = np.full(len(low), worst, np.int64)
    lengths = high - low
    table, width = ranks, 1
    while lengths.size and width <= lengths.max():
        now = np.flatnonzero((lengths >= width) & (lengths < 2 * width))
        found[now] = best(table[low[now]], table[high[now] - width])
        table = best(table[: max(len(table) - width, 0)], table[width:])
        width *= 2
    return found


def _gathered(column: pl.Series, at: Places, there: NDArray[np.bool_]) -> pl.Series:
    """The values at some places, null where there is none."""
    if not len(column):
        return column.clear(len(at))
    found = column.gather(np.where(there, at, 0))
    return found if there.all() else found.zip_with(booleans(there), found.clear(1))
