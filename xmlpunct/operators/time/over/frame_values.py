"""The results of calls over a segment, and the summaries of dropped rows."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.base.arrow_memory import Flags, booleans, floats, integers
from xmlpunct.operators.group.aggregate import accumulator
from xmlpunct.operators.time.over.calls import OFFSETS, RANKS, SHARES, VALUES, WindowCall
from xmlpunct.operators.time.over.frame_sums import Before, Sums, empty_summary
from xmlpunct.operators.time.over.segment import RowPositions, Segment
from xmlpunct.schema import Schema
from xmlpunct.types import INT

ROWS, PEERS = "$rows", "$peers"
"""The number of dropped rows of a partition; the number of its released groups of peers."""


class FrameValues:
    """One call over the partitions of a segment.

    ``summaries`` has a row per partition, which summarizes rows that are in every frame but not in the segment: the
    rows before the segment, or with ``slides`` the rows that stay in the frame. `summary` defines its columns.
    """

    def __init__(self, call: WindowCall, number: int, schema: Schema, slides: bool = False) -> None:
        self.call, self._schema = call, schema
        self._has_summary = call.is_running or slides
        self._type = INT if call.argument is None else schema[call.argument].type
        self._a = accumulator(call.aggregate, self._type, f"${number}", schema)
        self._name = f"${number}.value"

    @property
    def summary(self) -> dict[str, tuple[pl.DataType, object]]:
        """The columns of its summary, with their dtypes and their values for no rows."""
        call, empty = self.call, self._schema.empty()
        if call.function in RANKS:
            return {ROWS: (pl.Int64(), 0), PEERS: (pl.Int64(), 0)}
        if not self._has_summary:
            return {}
        if call.function in VALUES:
            return {ROWS: (pl.Int64(), 0), self._name: (self._type.dtype, None)}
        return empty_summary(self._a, empty)

    def of(
        self, segment: Segment, summaries: pl.DataFrame, released: RowPositions, rows: RowPositions
    ) -> tuple[pl.Series, pl.Series | None]:
        """The results for ``rows``, and whether each is outside the range of its type (None: none can be).

        ``released`` has, for each partition, the position of its first row that was not released before.
        """
        call, group = self.call, segment.group[rows]
        if call.function in RANKS:
            return self._rank(segment, summaries, released, rows), None
        if call.function in SHARES:
            return self._share(segment, rows), None
        column = None if call.argument is None else segment.rows[call.argument]
        if call.function in OFFSETS:
            positions = rows + (
                min(call.count, 2**62) if call.function == "LEAD" else -min(call.count, 2**62)
            )
            exists = (positions >= segment.starts[group]) & (positions < segment.ends[group])
            assert column is not None
            values = _gather(column, positions, exists)
            if call.default is None:
                return values, None
            defaults = segment.rows[call.default].gather(rows)
            return values.zip_with(booleans(exists), defaults), None
        low, high = segment.frames(call.frame, rows)
        before = (summaries, group) if self._has_summary else None
        if call.function in VALUES:
            assert column is not None
            return self._frame_value(column, low, high, before), None
        if call.function in ("MIN", "MAX"):
            return self._extreme(segment, low, high, before), None
        sums = Sums(self._a, segment.rows)
        return sums.finish(*sums.over(low, high, before))

    def summarize(
        self, segment: Segment, summaries: pl.DataFrame, low: RowPositions, high: RowPositions
    ) -> Iterable[pl.Series]:
        """The summary of each partition with its rows from ``low`` to ``high`` added.

        If ``high`` is before ``low``, the rows between are removed.
        """
        if not self._has_summary:
            return []
        before = summaries, np.arange(summaries.height)
        if self.call.function in VALUES:
            column = segment.rows[str(self.call.argument)]
            return [self._frame_value(column, low, high, before).alias(self._name)]
        if self.call.function in ("MIN", "MAX"):
            return [self._extreme(segment, low, high, before).alias(self._name)]
        return Sums(self._a, segment.rows).summary(low, high, before).get_columns()

    def _frame_value(
        self, column: pl.Series, low: RowPositions, high: RowPositions, before: Before | None
    ) -> pl.Series:
        """FIRST_VALUE, LAST_VALUE, NTH_VALUE."""
        if self.call.function == "LAST_VALUE":
            values, exists = _gather(column, high - 1, high > low), high > low
            if before is None or exists.all():
                return values
            return values.zip_with(booleans(exists), before[0][self._name].gather(before[1]))
        index = 0 if self.call.function == "FIRST_VALUE" else min(self.call.count, 2**62) - 1
        if before is None:
            return _gather(column, low + index, low + index < high)
        summaries, group = before
        dropped = summaries[ROWS].to_numpy()[group]
        positions = low + index - dropped
        values = _gather(column, positions, (positions >= low) & (positions < high))
        return values.zip_with(booleans(dropped <= index), summaries[self._name].gather(group))

    def _rank(
        self, segment: Segment, summaries: pl.DataFrame, released: RowPositions, rows: RowPositions
    ) -> pl.Series:
        """ROW_NUMBER, RANK, DENSE_RANK."""
        group = segment.group[rows]
        if self.call.function == "DENSE_RANK":
            count = np.cumsum(segment.is_first_peer)
            before = np.append(0, count)[released[group]]
            return integers("", summaries[PEERS].to_numpy()[group] + count[rows] - before)
        positions = rows if self.call.function == "ROW_NUMBER" else segment.peers(rows)[0]
        return integers("", summaries[ROWS].to_numpy()[group] + positions - segment.starts[group] + 1)

    def _share(self, segment: Segment, rows: RowPositions) -> pl.Series:
        """CUME_DIST, PERCENT_RANK, NTILE; the segment contains the whole partition."""
        group = segment.group[rows]
        start, size = segment.starts[group], (segment.ends - segment.starts)[group]
        first, last = segment.peers(rows)
        if self.call.function == "CUME_DIST":
            return floats("", (last - start) / size)
        if self.call.function == "PERCENT_RANK":
            return floats("", (first - start) / np.maximum(size - 1, 1))
        tiles = min(self.call.count, 2**62)
        small, wide, positions = size // tiles, size % tiles, rows - start
        edge = wide * (small + 1)
        tile = np.where(
            positions < edge, positions // (small + 1), wide + (positions - edge) // np.maximum(small, 1)
        )
        return integers("", tile + 1)

    def _extreme(
        self, segment: Segment, low: RowPositions, high: RowPositions, before: Before | None
    ) -> pl.Series:
        """MIN, MAX: a range-maximum query over the ranks of the values."""
        column = segment.rows[str(self.call.argument)]
        values = column if before is None else pl.concat([column, before[0][self._name]])
        ranks = self._ranks(values)
        highest = _range_maxima(ranks[: len(column)], low, high)
        if before is not None:
            highest = np.maximum(highest, ranks[len(column) :][before[1]])
        by_rank = np.zeros(len(values) + 1, np.int64)
        by_rank[ranks] = np.arange(len(ranks))
        return _gather(values, by_rank[highest], highest > 0)

    def _ranks(self, values: pl.Series) -> NDArray[np.int64]:
        """The ranks of values for MIN or MAX: the best value has the highest rank, null has 0."""
        ranks = values.rank("dense", descending=self.call.function == "MIN")
        return ranks.cast(pl.Int64).fill_null(0).to_numpy()

    def is_best(self, segment: Segment) -> Flags:
        """For MIN or MAX: whether each row is better than all later rows of its partition; shape (rows,)."""
        ranks = self._ranks(segment.rows[str(self.call.argument)])
        ranked = ranks + (len(segment.starts) - segment.group) * (
            len(ranks) + 1
        )  # ranks of different partitions do not overlap
        later_best = np.maximum.accumulate(ranked[::-1])[::-1]
        best: Flags = (ranks > 0) & (ranked > np.append(later_best[1:], 0))
        return best


def _range_maxima(ranks: NDArray[np.int64], low: RowPositions, high: RowPositions) -> NDArray[np.int64]:
    """The highest rank of each frame, 0 for an empty one; by tables of the highest of 1, 2, 4, 8... ranks."""
    highest = np.zeros(len(low), np.int64)
    lengths = high - low
    table, width = ranks, 1
    while lengths.size and width <= lengths.max():
        frames = np.flatnonzero((lengths >= width) & (lengths < 2 * width))
        highest[frames] = np.maximum(table[low[frames]], table[high[frames] - width])
        table = np.maximum(table[: max(len(table) - width, 0)], table[width:])
        width *= 2
    return highest


def _gather(column: pl.Series, positions: RowPositions, exists: NDArray[np.bool_]) -> pl.Series:
    """The values at ``positions``, null where there is none."""
    if not len(column):
        return column.clear(len(positions))
    values = column.gather(np.where(exists, positions, 0))
    return values if exists.all() else values.zip_with(booleans(exists), values.clear(1))
