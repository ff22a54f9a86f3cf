"""Calls of functions with OVER: the rows that each reads, when a row is final, and which rows are retained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from xmlpunct.operators.group.aggregate import EXTREMES, SUMS, Aggregate
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import DOUBLE, INT

AGGREGATES = (*SUMS, *EXTREMES)
VALUES = ("FIRST_VALUE", "LAST_VALUE", "NTH_VALUE")
"""Functions that pick a value of the frame."""
OFFSETS = ("LAG", "LEAD")
RANKS = ("ROW_NUMBER", "RANK", "DENSE_RANK")
SHARES = ("CUME_DIST", "PERCENT_RANK", "NTILE")
"""Functions that depend on the number of rows in the whole partition."""
FRAMED = (*AGGREGATES, *VALUES)
FUNCTIONS = (*FRAMED, *OFFSETS, *RANKS, *SHARES)


class Release(NamedTuple):
    """When a row is final: once it is closed (``closed``), and is followed by ``following`` closed rows (``rows``) or
    instants (``range``); or once its partition is closed for ever (``end``)."""

    kind: str
    following: int = 0


CLOSED, END = Release("closed"), Release("end")


@dataclass(frozen=True)
class Frame:
    """The rows from ``start`` to ``end``, offsets from the current row, preceding ones negative (None: UNBOUNDED).

    ROWS counts rows. RANGE counts instants, and includes all peers of a row.
    """

    unit: str = "RANGE"
    start: int | None = None
    end: int | None = 0

    @property
    def has_current(self) -> bool:
        """Whether the current row is always in it."""
        return (self.start is None or self.start <= 0) and (self.end is None or self.end >= 0)

    def __str__(self) -> str:
        return f"{self.unit} BETWEEN {_bound(self.start, 'PRECEDING')} AND {_bound(self.end, 'FOLLOWING')}"


@dataclass(frozen=True)
class WindowCall:
    """``function(argument)``, called ``name`` in the output.

    ``count`` is the offset of LAG and LEAD, the position of NTH_VALUE or the number of tiles. ``default`` is the
    column that LAG and LEAD return if that row does not exist. Only `FRAMED` functions have a frame.
    """

    function: str
    name: str
    argument: str | None = None
    count: int = 1
    default: str | None = None
    frame: Frame = Frame()

    @property
    def columns(self) -> list[str]:
        """The input columns that it reads."""
        return [column for column in (self.argument, self.default) if column is not None]

    @property
    def aggregate(self) -> Aggregate:
        """The same function as an aggregate over a group."""
        return Aggregate(self.function, self.argument, False, self.name)

    @property
    def is_running(self) -> bool:
        """Whether its frame begins with the partition, so that it needs a summary of dropped rows."""
        return self.function in FRAMED and self.frame.start is None

    @property
    def is_remembered(self) -> bool:
        """Whether later rows of a partition depend on earlier ones, at any distance in time."""
        return self.is_running or self.rows_before > 0 or self.function in RANKS

    @property
    def is_sliding(self) -> bool:
        """Whether its frame ends at the current instant and begins a fixed time before it."""
        return self.frame.unit == "RANGE" and (self.frame.start or 0) < 0 and self.frame.end == 0

    @property
    def goes_by_ties(self) -> bool:
        """Whether rows that are equal in ORDER BY get different results."""
        if self.function in AGGREGATES:
            return self.frame.unit == "ROWS" and (self.frame.start, self.frame.end) != (None, None)
        return self.function not in ("RANK", "DENSE_RANK", "CUME_DIST", "PERCENT_RANK")

    @property
    def release(self) -> Release:
        """When a row's result is final."""
        frame = self.frame
        if self.function in SHARES:
            return END
        if self.function == "LEAD":
            return Release("rows", self.count) if self.count else CLOSED
        if self.function == "LAG" or self.function in RANKS:
            return CLOSED
        if self.function == "FIRST_VALUE" and frame.has_current:
            return CLOSED
        if frame.end is None:
            return END
        return CLOSED if frame.end <= 0 else Release(frame.unit.lower(), frame.end)

    @property
    def rows_before(self) -> int:
        """The number of rows before the current one that must be retained."""
        if self.function == "LAG":
            return self.count
        return self._preceding if self.function in FRAMED and self.frame.unit == "ROWS" else 0

    @property
    def instants_before(self) -> int:
        """The number of instants before the current one whose rows must be retained."""
        return self._preceding if self.function in FRAMED and self.frame.unit == "RANGE" else 0

    @property
    def _preceding(self) -> int:
        start, end = self.frame.start, self.frame.end
        return max(0, -(start or 0), -(end or 0))

    def attribute(self, schema: Schema) -> Attribute:
        """The attribute of its result. Raises ValueError if the function does not exist."""
        if self.function in (*RANKS, "NTILE"):
            return Attribute(self.name, INT, nullable=False)
        if self.function in SHARES:
            return Attribute(self.name, DOUBLE, nullable=False)
        if self.function in AGGREGATES:
            return self.aggregate.attribute(schema, self.frame.has_current)
        assert self.argument is not None
        source = schema[self.argument]
        if self.function in OFFSETS:
            nullable = source.nullable or self.default is None or schema[self.default].nullable
        else:
            nullable = source.nullable or self.function == "NTH_VALUE" or not self.frame.has_current
        return Attribute(self.name, source.type, nullable)

    def __str__(self) -> str:
        arguments = [self.argument or "*" * (self.function == "COUNT")]
        arguments += [str(self.count)] * (self.function in (*OFFSETS, "NTH_VALUE", "NTILE"))
        arguments += [] if self.default is None else [self.default]
        return f"{self.function}({', '.join(filter(None, arguments))})"


def _bound(offset: int | None, unbounded: str) -> str:
    if offset is None:
        return f"UNBOUNDED {unbounded}"
    return f"{abs(offset)} {'PRECEDING' if offset < 0 else 'FOLLOWING'}" if offset else "CURRENT ROW"
