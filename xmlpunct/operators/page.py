"""A page of an arrangement: a data frame that does not change, with a mask of removed rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.base.arrow_memory import booleans
from xmlpunct.operators.hash_index import Rows
from xmlpunct.punctuations.punctuation_index import PunctuationIndex

BLOCK_ROWS = 2**12
"""The rows that are compared with a range at a time (`benchmarks/scaling.py --only state forms`)."""

Bounds = tuple[Any, Any]
"""The least and the greatest value of a column, NaN being the greatest; None if all are null."""


class Page:
    """Rows in the order of their numbers: ``first``, ``first + 1``..., or ``numbers`` if there are gaps."""

    __slots__ = ("_bounds", "_marks", "dead", "first", "frame", "last", "live", "numbers")

    def __init__(self, frame: pl.DataFrame, first: int, numbers: Rows | None = None) -> None:
        self.frame, self.numbers = frame, numbers
        self.first = first if numbers is None else int(numbers[0])
        self.last = first + frame.height - 1 if numbers is None else int(numbers[-1])
        self.live = frame.height
        self.dead: NDArray[np.bool_] | None = None
        """True for removed rows; shape (frame.height,). None if there are none."""
        self._bounds: dict[tuple[str, int | None], Bounds] = {}
        self._marks: pl.DataFrame | None = None

    @classmethod
    def of(cls, frame: pl.DataFrame, rows: Rows) -> Page:
        """A page of ``frame``, whose rows have the numbers ``rows``."""
        is_consecutive = int(rows[-1]) - int(rows[0]) + 1 == len(rows)
        return cls(frame, int(rows[0]), None if is_consecutive else rows)

    def positions(self, rows: Rows) -> Rows:
        """The positions in ``frame`` of rows of this page, by their numbers."""
        return rows - self.first if self.numbers is None else np.searchsorted(self.numbers, rows)

    @property
    def rows(self) -> Rows:
        """The numbers of the live rows."""
        numbers = np.arange(self.first, self.last + 1) if self.numbers is None else self.numbers
        return numbers if self.dead is None else numbers[~self.dead]

    @property
    def alive(self) -> pl.DataFrame:
        """The live rows."""
        return self.frame if self.dead is None else self.frame.filter(booleans(~self.dead))

    def candidate_blocks(self, group: PunctuationIndex) -> Iterator[tuple[pl.DataFrame, Rows]]:
        """The live tuples and row numbers of each block that may match a punctuation of the group."""
        if not group.may_match(self._bounds_of):
            return
        is_one_block = self.frame.height <= BLOCK_ROWS
        for at in range(0, self.frame.height, BLOCK_ROWS):

            def bounds(name: str, at: int = at) -> Bounds:
                return self._bounds_of(name, at)

            if is_one_block or group.may_match(bounds):
                tuples = self.frame[at : at + BLOCK_ROWS]
                rows = np.arange(self.first + at, self.first + at + tuples.height)
                rows = rows if self.numbers is None else self.numbers[at : at + BLOCK_ROWS]
                is_live = None if self.dead is None else ~self.dead[at : at + BLOCK_ROWS]
                if is_live is None or is_live.all():
                    yield tuples, rows
                elif is_live.any():
                    yield tuples.filter(booleans(is_live)), rows[is_live]

    def _bounds_of(self, name: str, block: int | None = None) -> Bounds:
        """The least and the greatest value of an attribute in the page or a block, removed rows included."""
        bounds = self._bounds.get((name, block))
        if bounds is None:
            column = self.frame[name] if block is None else self.frame[name][block : block + BLOCK_ROWS]
            bounds = self._bounds[name, block] = _bounds(column)
        return bounds

    def mark(self, rows: Rows) -> None:
        """Mark live rows as removed."""
        if self.dead is None:
            self.dead = np.zeros(self.frame.height, np.bool_)
        self.dead[self.positions(rows)] = True
        self.live -= len(rows)
        self._marks = None

    @property
    def marks(self) -> pl.DataFrame | None:
        """The mask of removed rows as a data frame; the same object until more rows are removed."""
        if self._marks is None and self.dead is not None:
            self._marks = pl.DataFrame({"dead": self.dead})
        return self._marks


def _bounds(column: pl.Series) -> Bounds:
    if column.dtype.is_float() and column.is_nan().any():
        least = column.fill_nan(None).min()
        return float("nan") if least is None else least, float("nan")
    return column.min(), column.max()
