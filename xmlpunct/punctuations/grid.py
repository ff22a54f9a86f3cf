"""A grid of values: decides which values a set of punctuations closes together and which stay open.

Along each attribute (an `Axis`) the bounds of all patterns divide the possible values into cells. A pattern matches all
of a cell or none of it, so a finite search decides about all values. Sets of patterns are bit sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import and_

from xmlpunct.schema.attribute import Attribute
from xmlpunct.types.cut_points import Cut, Interval, cuts, ends
from xmlpunct.types.pattern import WILDCARD, Pattern, Wildcard


@dataclass(frozen=True, slots=True)
class Part:
    """Some values of one attribute: intervals in ascending order, and whether null is among them."""

    intervals: tuple[Interval, ...]
    null: bool

    @classmethod
    def of(cls, attribute: Attribute, pattern: Pattern) -> Part:
        """The values that a pattern matches."""
        if isinstance(pattern, Wildcard):
            return cls((ends(attribute.type),), True)
        return cls(tuple(cuts(pattern)), False)


NULL = Part((), True)
"""Null alone, which no pattern describes."""


@dataclass(frozen=True, slots=True)
class Cell:
    """An interval between two cut points, or null. ``rows`` is the bit set of parts that contain it."""

    low: Cut | None
    high: Cut | None
    rows: int


class Axis:
    """The cells of one attribute in value order. ``parts`` has the values that each row of the grid matches.

    The cells cover ``within``, by default all values that the schema allows.
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
        """The rows that match every cell."""
        for cell in self.cells:
            self.closed &= cell.rows


def first_open(axes: Sequence[Axis], rows: int) -> list[int] | None:
    """The lexicographically first point of the grid that no row of ``rows`` matches; None if they match all points.

    The point is a list of cell indexes, one per axis. It is shorter if no row matches its prefix.
    """
    if not axes:
        return None if rows else []
    closed = [*accumulate((axis.closed for axis in reversed(axes)), and_, initial=-1)][-2::-1]
    """For each axis the rows that match every cell of all later axes."""
    path, left = [0], [rows]
    while path:
        cells, later_closed = axes[len(path) - 1].cells, closed[len(path) - 1]
        while path[-1] < len(cells) and left[-1] & cells[path[-1]].rows & later_closed:
            path[-1] += 1
        if path[-1] == len(cells):  # no open point below: continue with the next cell of the previous axis
            path.pop()
            left.pop()
            path[-1:] = [cell + 1 for cell in path[-1:]]
            continue
        remaining = left[-1] & cells[path[-1]].rows
        if not remaining:
            return path
        path.append(0)
        left.append(remaining)
    return None


def whole(attribute: Attribute) -> Part:
    """All values of an attribute that the schema allows, and null if it does."""
    return Part.of(attribute, attribute.reach(WILDCARD))
