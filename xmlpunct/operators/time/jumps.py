"""jumps: tuples far ahead of their sender's maximum, which later tuples of the sender confirm or reject."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from xmlpunct.operators.time.access_order import AccessOrder


class Judged(NamedTuple):
    """A row that is accepted or rejected."""

    at: int
    """The row that decided it: the row itself, or a later one of its sender."""
    row: int
    surpassed: int | None
    """For a rejected row that is too far ahead, the row of the maximum that it surpassed."""


class JumpJudge:
    """Judges the rows of one sender, in their order, by ORDER BY with AHEAD.

    A row that is above the maximum by more than AHEAD is *held*, and so is any row while there is no maximum. An
    accepted row rejects the rows that are held. When ``order.after`` rows are held, the least of them becomes the
    maximum, and they are judged again. Late rows change nothing. Nulls are accepted, and change nothing.

    ``numbers`` are the values of all rows (`numbers_of`). ``maximum`` is the row of the maximum so far, or None.

    >>> judge = JumpJudge(AccessOrder("t", ahead=10, after=2), [5, 99, 7, 50, 51], 0)
    >>> judge.judge(range(1, 5))
    >>> [row for _, row, _ in judge.accepted], [row for _, row, _ in judge.rejected], judge.held, judge.maximum
    ([2, 3, 4], [1], [], 4)
    """

    def __init__(self, order: AccessOrder, numbers: Sequence[Any], maximum: int | None) -> None:
        assert order.ahead is not None
        self._order, self._numbers, self._ahead = order, numbers, order.ahead
        self.maximum = maximum
        self.held: list[int] = []
        self.accepted: list[Judged] = []
        self.rejected: list[Judged] = []

    def judge(self, rows: Iterable[int]) -> None:
        """Judge the next rows of the sender."""
        for row in rows:
            if self._numbers[row] is None:
                self.accepted.append(Judged(row, row, None))
            else:
                self._judge(row, row)

    def _judge(self, row: int, at: int) -> None:
        """Judge a row that is not null. ``at`` is the row that has just arrived."""
        number, maximum = self._numbers[row], self.maximum
        top = None if maximum is None else self._numbers[maximum]
        if top is None or _is_above(number, top + self._ahead):
            self.held.append(row)
            if len(self.held) == self._order.after:
                again, self.held = self.held, []
                self.maximum = self._least(again)
                # The least is accepted, or a row before it: fewer than ``after`` stay held.
                for held_row in again:
                    self._judge(held_row, at)
        elif self._is_late(number, top - self._order.slack):
            self.rejected.append(Judged(at, row, None))
        else:
            self.accepted.append(Judged(at, row, None))
            self.rejected += [Judged(at, held_row, maximum) for held_row in self.held]
            self.held = []
            if _is_above(number, top):
                self.maximum = row

    def _is_late(self, number: Any, limit: Any) -> bool:
        return _is_above(limit, number) or (self._order.watermark and not _is_above(number, limit))

    def _least(self, rows: Sequence[int]) -> int:
        least = rows[0]
        for row in rows[1:]:
            if _is_above(self._numbers[least], self._numbers[row]):
                least = row
        return least


def _is_above(left: Any, right: Any) -> bool:
    """Whether a number is above another; NaN is above all numbers."""
    return bool(left > right or (left != left and right == right))
