"""The segment: the rows of some partitions that are at hand, in order, and where frames begin and end in it."""

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

Places = NDArray[np.int64]
"""Places of rows in the segment, or bounds between them."""

Side = Literal["left", "right"]

GROUP, ROW = "$group", "$row"
"""The number of a row's partition; the number of the row where it is retained."""


class Segment:
    """Rows sorted by partition, then by ``order``, then by the ``ties``. Peers are equal in ``order``.

    The first column of the order, the timestamp, is of ``type_``. Of each partition the ``old`` rows are sorted, and
    come before the ``new`` ones.
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
        by = [*order, *(SortKey(name) for name in ties)]
        new = new.sort(
            [GROUP, *(key.column for key in by)],
            descending=[False, *(key.descending for key in by)],
            nulls_last=[True, *(not key.nulls_first for key in by)],
        )
        rows = pl.concat([old, new])
        whose = np.argsort(rows[GROUP].to_numpy(), kind="stable")
        self.rows = rows[whose] if old.height else new
        self.is_new: Flags = whose >= old.height
        """Which rows are new."""
        self.group: Places = self.rows[GROUP].to_numpy().astype(np.int64)
        self.starts: Places = np.searchsorted(self.group, np.arange(groups), side="left")
        self.ends: Places = np.searchsorted(self.group, np.arange(groups), side="right")
        first = np.ones(rows.height, np.bool_)
        if rows.height > 1:
            first[1:] = self.group[1:] != self.group[:-1]
            for key in order:
                column = self.rows[key.column]
                first[1:] |= column[1:].ne_missing(column[:-1]).to_numpy()
        self.is_first_peer: Flags = first
        """Which rows are the first of their peers."""
        self.instants: Ordinals = ordinals_of(type_, self.rows[order[0].column])

    def peers(self, rows: Places) -> tuple[Places, Places]:
        """Where the peers of some rows begin and end."""
        firsts = np.flatnonzero(self.is_first_peer)
        number = np.searchsorted(firsts, rows, side="right")
        return firsts[number - 1], np.append(firsts, len(self.group))[number]

    def frames(self, frame: Frame, rows: Places) -> tuple[Places, Places]:
        """Where the frames of some rows begin and end. An empty one ends where it begins."""
        starts, ends = self.starts[self.group[rows]], self.ends[self.group[rows]]
        if frame.unit == "ROWS":
            low = starts if frame.start is None else np.clip(rows + _near(frame.start), starts, ends)
            high = ends if frame.end is None else np.clip(rows + _near(frame.end) + 1, starts, ends)
        else:
            first, last = self.peers(rows)
            low = (
                starts
                if frame.start is None
                else first
                if frame.start == 0
                else self._at(rows, frame.start, "left")
            )
            high = (
                ends if frame.end is None else last if frame.end == 0 else self._at(rows, frame.end, "right")
            )
        return low, np.maximum(low, high)

    def _at(self, rows: Places, offset: int, side: Side) -> Places:
        """The place in their partitions, before (``left``) or behind equal ones, of the instants at an offset."""
        known = np.unique(self.instants)
        beyond = len(known) if offset > 0 else 0
        if abs(offset) >= 2**64:
            found = np.full(len(rows), beyond)
        else:  # modulo 2^64, so nothing overflows
            instants, steps = self.instants[rows].view(np.uint64), np.uint64(abs(offset))
            room = np.uint64(2**63 - 1) - instants if offset > 0 else instants - np.uint64(2**63)
            moved = (instants + steps if offset > 0 else instants - steps).view(np.int64)
            found = np.where(steps <= room, np.searchsorted(known, moved, side), beyond)
        width = len(known) + 1
        whole = self.group * width + np.searchsorted(known, self.instants)
        places: Places = np.searchsorted(whole, self.group[rows] * width + found)
        return places


def _near(offset: int) -> int:
    """An offset that numpy can add: there are never so many rows."""
    return max(-(2**62), min(2**62, offset))
