"""OVER (PARTITION BY k ORDER BY ts ...) (relations 12): the value of each row, and the rows released at a prefix."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.oracle.aggregates import aggregate
from tests.oracle.cql.feeds import Feed, Input, canonical, instant
from tests.oracle.cql.meaning import exact
from tests.oracle.order import ranker
from tests.oracle.values import Row
from tests.oracle.windows import key, leaf
from xmlpunct.types import DOUBLE, Type

AGGREGATES = ("COUNT", "SUM", "AVG", "VAR_SAMP", "VAR_POP", "MIN", "MAX")
WHOLE = ("CUME_DIST", "PERCENT_RANK", "NTILE")
"""Functions that depend on the whole partition."""


@dataclass(frozen=True)
class Over:
    """``function(argument, n) OVER (PARTITION BY by ORDER BY order ROWS|RANGE BETWEEN start AND end)``.

    ``by``, ``order`` and ``argument`` are column positions of the input; the first of ``order`` is the timestamp.
    ``start`` and ``end`` are offsets from the current row, preceding ones negative; None is UNBOUNDED. Without
    ``has_timestamp``, the order is any, and a row is final once its partition is closed for ever.
    """

    function: str
    order: tuple[tuple[int, bool, bool], ...]
    by: tuple[int, ...] = ()
    argument: int | None = None
    n: int = 1
    unit: str = "RANGE"
    start: int | None = None
    end: int | None = 0
    distinct: bool = False
    has_timestamp: bool = True

    def values(self, input_: Input, tuples: Sequence[Row]) -> list[tuple[Row, Any, int, int]]:
        """Each row of one partition in order, with its value, its position and its timestamp."""
        names = input_.schema.names
        rank = ranker(input_.schema, [(names[i], down, first) for i, down, first in self.order])
        rows = sorted(map(canonical, tuples), key=rank)
        peers = [rank(row)[: len(self.order)] for row in rows]
        ts = [instant(input_.type, row[self.order[0][0]]) if self.has_timestamp else 0 for row in rows]
        type_ = None if self.argument is None else input_.schema.attributes[self.argument].type
        return [(row, self._value(rows, i, peers, ts, type_), i, ts[i]) for i, row in enumerate(rows)]

    def _value(
        self, rows: Sequence[Row], i: int, peers: Sequence[Any], ts: list[int], type_: Type | None
    ) -> Any:
        size, before = len(rows), sum(p < peers[i] for p in peers)
        upto = before + sum(p == peers[i] for p in peers)
        column = [1 if self.argument is None else row[self.argument] for row in rows]
        if self.function in ("LAG", "LEAD"):
            at = i + (self.n if self.function == "LEAD" else -self.n)
            return column[at] if 0 <= at < size else None
        ranks = {
            "ROW_NUMBER": i + 1,
            "RANK": before + 1,
            "DENSE_RANK": len({str(p) for p in peers if p < peers[i]}) + 1,
            "CUME_DIST": upto / size,
            "PERCENT_RANK": before / (size - 1) if size > 1 else 0.0,
            "NTILE": _tile(i, size, self.n),
        }
        if self.function in ranks:
            return ranks[self.function]
        frame = [column[j] for j in range(size) if self._holds(i, j, peers, ts)]
        if self.function in ("FIRST_VALUE", "NTH_VALUE", "LAST_VALUE"):
            at = {"FIRST_VALUE": 0, "LAST_VALUE": len(frame) - 1, "NTH_VALUE": self.n - 1}[self.function]
            return frame[at] if 0 <= at < len(frame) else None
        if type_ is DOUBLE and self.function in ("SUM", "AVG"):
            return exact(self.function, set(frame) if self.distinct else frame)
        return aggregate(self.function, self.distinct, type_, frame)

    def _holds(self, i: int, j: int, peers: Sequence[Any], ts: list[int]) -> bool:
        """Whether row j is in the frame of row i. In RANGE, CURRENT ROW means all peers."""
        if self.unit == "ROWS":
            return (self.start is None or i + self.start <= j) and (self.end is None or j <= i + self.end)
        low = self.start is None or (
            not peers[j] < peers[i] if self.start == 0 else ts[i] + self.start <= ts[j]
        )
        high = self.end is None or (not peers[i] < peers[j] if self.end == 0 else ts[j] <= ts[i] + self.end)
        return low and high

    def is_out(self, position: int, ts: int, closed: float, count: int) -> bool:
        """Whether a row is final: (,closed] is the closed prefix of its key and contains ``count`` rows."""
        if closed == math.inf:
            return True
        if not self.has_timestamp or self.function in WHOLE or ts > closed:
            return False
        if self.function == "LEAD":
            return position + self.n < count
        if self.function == "LAG" or self.function in ("ROW_NUMBER", "RANK", "DENSE_RANK"):
            return True
        if self.function == "FIRST_VALUE" and (self.start is None or self.start <= 0):
            return True
        if self.end is None:
            return False
        if self.unit == "ROWS":
            return self.end <= 0 or position + self.end < count
        return ts + max(self.end, 0) <= closed


def _tile(i: int, size: int, n: int) -> int:
    """NTILE(n): the first size % n tiles have one additional row."""
    base, remainder = divmod(size, n)
    return (
        i // (base + 1) + 1
        if i < remainder * (base + 1)
        else remainder + (i - remainder * (base + 1)) // base + 1
    )


def partitions(op: Over, tuples: Sequence[Row]) -> dict[Row, list[Row]]:
    tuples_by_key: dict[Row, list[Row]] = {}
    for t in tuples:
        tuples_by_key.setdefault(tuple(canonical(t)[i] for i in op.by), []).append(t)
    return tuples_by_key


def rows(op: Over, input_: Input, tuples: Sequence[Row]) -> Counter[Row]:
    """Each tuple with its function value."""
    keyed = partitions(op, tuples).values()
    return Counter((*row, value) for part in keyed for row, value, _, _ in op.values(input_, part))


def released(op: Over, input_: Input, feed: Feed) -> Counter[Row]:
    """The rows that must be released at a prefix."""
    closes, tuples = leaf(input_, feed)
    result: Counter[Row] = Counter()
    for k, part in partitions(op, tuples).items():
        closed = closes.bound(key(input_, tuple(input_.places.index(i) for i in op.by), k))
        values = op.values(input_, part)
        count = sum(ts <= closed for _, _, _, ts in values)
        result.update((*row, value) for row, value, i, ts in values if op.is_out(i, ts, closed, count))
    return result
