"""A grid of values, which answers what punctuations leave open and what they close together.

Along each attribute (an `Axis`) the bounds of all patterns cut the values that can occur into cells. A pattern matches
a cell as a whole or not at all, so a finite search decides about all values. Sets of patterns are sets of bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import and_

from xmlpunct.punctuations.fused import Part
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types.cut_points import Cut
from xmlpunct.types.pattern import WILDCARD


@dataclass(frozen=True, slots=True)
class Cell:
    """Values between two places, or null; the bits of ``rows`` say which parts contain them all."""

    low: Cut | None
    high: Cut | None
    rows: int


class Axis:
    """The cells of one attribute in order of its values, given the part of it that each row has.

    They cover ``within``, by default all that the schema allows.
    """

    def __init__(
        self,
        attribute: Attribute,
        parts: Sequence[Part],
        descending: bool = False,
        nulls_first: bool = False,
        within: Part | None = None,
    ) -> None:
        self.attribute, self.descending, self.nulls_first = attribute, descending, nulls_first
        within = whole(attribute) if within is None else within
        turns: dict[Cut, int] = {}
        nulls, space = 0, 1 << len(parts)
        for cut in (cut for interval in within.intervals for cut in interval):
            turns[cut] = turns.get(cut, 0) ^ space
        for i, part in enumerate(parts):
            nulls |= part.null << i
            for low, high in part.intervals:
                turns[low] = turns.get(low, 0) ^ (1 << i)
                turns[high] = turns.get(high, 0) ^ (1 << i)
        self.cells: list[Cell] = []
        marks, rows = sorted(turns), 0
        for low, high in pairwise(marks):
            rows ^= turns[low]
            if rows & space:
                self.cells.append(Cell(low, high, rows ^ space))
        if descending:
            self.cells.reverse()
        if within.null:
            self.cells.insert(0 if nulls_first else len(self.cells), Cell(None, None, nulls))
        self.closed = -1
        """The rows that have every cell."""
        for cell in self.cells:
            self.closed &= cell.rows


def first_open(axes: Sequence[Axis], rows: int) -> list[int] | None:
    """The first place of the grid, in lexicographic order, that none of ``rows`` has; None: they have all.

    The place is a path of cells, one per axis. It ends early where no row is left.
    """
    if not axes:
        return None if rows else []
    closed = [*accumulate((axis.closed for axis in reversed(axes)), and_, initial=-1)][-2::-1]
    """For each axis the rows that have every cell of all axes behind it."""
    path, left = [0], [rows]
    while path:
        cells, behind = axes[len(path) - 1].cells, closed[len(path) - 1]
        while path[-1] < len(cells) and left[-1] & cells[path[-1]].rows & behind:
            path[-1] += 1
        if path[-1] == len(cells):  # nothing is open here: go on with the next cell of the axis before
            path.pop()
            left.pop()
            path[-1:] = [place + 1 for place in path[-1:]]
            continue
        here = left[-1] & cells[path[-1]].rows
        if not here:
            return path
        path.append(0)
        left.append(here)
    return None


def whole(attribute: Attribute) -> Part:
    """All values of an attribute that the schema allows, and null if it does."""
    return Part.of(attribute, attribute.reach(WILDCARD))
