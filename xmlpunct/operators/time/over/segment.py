"""The segment: retained and new rows of several partitions, in order, and the bounds of frames in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.base.arrow_memory import Flags
from xmlpunct.operators.time.over.calls import Frame
from xmlpunct.operators.time.prefix import SortKey
from xmlpunct.types import Type
from xmlpunct.types.ordinals import Ordinals, ordinals_of

RowPositions = NDArray[np.int64]
"""Positions of rows in the segment, or bounds between them; shape (n,)."""

Side = Literal["left", "right"]

GROUP, ROW = "$group", "$row"
"""The number of a row's partition; the row's number in its arrangement."""


class Segment:
    """Rows sorted by partition, then by ``order``, then by the ``ties``. Peers are equal in ``order``.

    The first column of the order, the timestamp, is of ``type_``. The ``old`` rows of each partition are sorted, and
    precede its ``new`` rows.
    """

    def __init__(
        self,
        old: pl.DataFrame,
        new: pl.DataFrame,
        groups: int,
        order: Sequence[SortKey],
        ties: Sequence[str],
        type_: Type,
    ) -> None:
        sort_keys = [*order, *(SortKey(name) for name in ties)]
        new = new.sort(
            [GROUP, *(key.column for key in sort_keys)],
            descending=[False, *(key.descending for key in sort_keys)],
            nulls_last=[True, *(not key.nulls_first for key in sort_keys)],
        )
        rows = pl.concat([old, new])
        order_by_group = np.argsort(rows[GROUP].to_numpy(), kind="stable")
        self.rows = rows[order_by_group] if old.height else new
        self.is_new: Flags = order_by_group >= old.height
        """Whether each row is new; shape (rows,)."""
        self.group: RowPositions = self.rows[GROUP].to_numpy().astype(np.int64)
        self.starts: RowPositions = np.searchsorted(self.group, np.arange(groups), side="left")
        self.ends: RowPositions = np.searchsorted(self.group, np.arange(groups), side="right")
        first = np.ones(rows.height, np.bool_)
        if rows.height > 1:
            first[1:] = self.group[1:] != self.group[:-1]
            for key in order:
                column = self.rows[key.column]
                first[1:] |= column[1:].ne_missing(column[:-1]).to_numpy()
        self.is_first_peer: Flags = first
        """Whether each row is the first of its peers; shape (rows,)."""
        self.instants: Ordinals = ordinals_of(type_, self.rows[order[0].column])

    def peers(self, rows: RowPositions) -> tuple[RowPositions, RowPositions]:
        """The bounds of the peers of ``rows``."""
        firsts = np.flatnonzero(self.is_first_peer)
        number = np.searchsorted(firsts, rows, side="right")
        return firsts[number - 1], np.append(firsts, len(self.group))[number]

    def frames(self, frame: Frame, rows: RowPositions) -> tuple[RowPositions, RowPositions]:
        """The bounds of the frames of ``rows``. The bounds of an empty frame are equal."""
        starts, ends = self.starts[self.group[rows]], self.ends[self.group[rows]]
        if frame.unit == "ROWS":
            low = starts if frame.start is None else np.clip(rows + _limit_offset(frame.start), starts, ends)
            high = ends if frame.end is None else np.clip(rows + _limit_offset(frame.end) + 1, starts, ends)
        else:
            first, last = self.peers(rows)
            low = (
                starts
                if frame.start is None
                else first
                if frame.start == 0
                else self._offset_positions(rows, frame.start, "left")
            )
            high = (
                ends
                if frame.end is None
                else last
                if frame.end == 0
                else self._offset_positions(rows, frame.end, "right")
            )
        return low, np.maximum(low, high)

    def _offset_positions(self, rows: RowPositions, offset: int, side: Side) -> RowPositions:
        """The positions of the instants at an offset from ``rows``, before (``left``) or after equal ones."""
        instants = np.unique(self.instants)
        limit = len(instants) if offset > 0 else 0
        if abs(offset) >= 2**64:
            ranks = np.full(len(rows), limit)
        else:  # modulo 2^64, so nothing overflows
            bits, steps = self.instants[rows].view(np.uint64), np.uint64(abs(offset))
            room = np.uint64(2**63 - 1) - bits if offset > 0 else bits - np.uint64(2**63)
            shifted = (bits + steps if offset > 0 else bits - steps).view(np.int64)
            ranks = np.where(steps <= room, np.searchsorted(instants, shifted, side), limit)
        width = len(instants) + 1
        group_ranks = self.group * width + np.searchsorted(instants, self.instants)
        positions: RowPositions = np.searchsorted(group_ranks, self.group[rows] * width + ranks)
        return positions


def _limit_offset(offset: int) -> int:
    """An offset, limited to a range that numpy can add; there are never more rows."""
    return max(-(2**62), min(2**62, offset))
