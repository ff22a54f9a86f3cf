"""Pacing: which source to read next, and how much."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

FIRST_BYTES = 64 * 2**10
"""The first slice, in bytes: small, so that the first result comes soon (`benchmarks/latency.py`)."""
MOST_BYTES = 4 * 2**20
"""The largest slice, in bytes. `benchmarks/warehouse.py` measures other sizes."""
COLUMN_BYTES = 512
"""The fixed cost of a column, as bytes that could be read in that time (`tests/engine/test_wide_streams.py`)."""
PATIENCE = 8
"""While endless inputs are read, another ready input waits at most this number of turns for each ready input."""
SLICE_SECONDS = 0.1
"""A slice that takes longer makes the next one smaller, so that other inputs have a turn (`benchmarks/latency.py`)."""


def first_bytes(columns: int) -> int:
    """The size of the first slice of streams with this number of columns, in bytes."""
    return min(max(FIRST_BYTES, COLUMN_BYTES * columns), MOST_BYTES)


class Progressing(Protocol):
    """The progress of a reader. Sizes are in bytes; None: endless or unknown."""

    @property
    def bytes_total(self) -> int | None: ...
    @property
    def remaining(self) -> int | None: ...


T = TypeVar("T")


def starved(
    ready: Sequence[T],
    reader: Callable[[T], Progressing],
    waits: Callable[[T], int],
    turn: Callable[[T], int],
) -> T:
    """The ready candidate that most retained tuples wait for (``waits``).

    Of several, it is the one with the largest share still to read, so that finite inputs end together; an input of
    unknown size counts as unread. Of several, it is the one whose last ``turn`` was longest ago. Retained tuples may
    wait for an endless input for ever. So after `PATIENCE` turns the candidate that has waited longest has one, too.
    """
    candidates = sorted(ready, key=turn)

    def urgency(candidate: T) -> tuple[int, float]:
        at = reader(candidate)
        left = 1.0 if not at.bytes_total or at.remaining is None else at.remaining / at.bytes_total
        return waits(candidate), left

    urgent, first = max(candidates, key=urgency), candidates[0]
    waited = turn(candidates[-1]) - turn(first)
    return first if reader(urgent).bytes_total is None and waited > PATIENCE * len(candidates) else urgent


class Pace:
    """The size of the next slice in bytes: ``fixed``, or adapted to the time that slices take.

    It starts with ``first``, and is at most ``largest``. A slice that takes less than ``seconds`` doubles the size of
    the next one, and one that takes less than half of that quadruples it. A slice that takes more than twice
    ``seconds`` halves it, and so does a pause without input, so that the next tuples are processed soon.
    """

    def __init__(
        self,
        fixed: int | None,
        first: int = FIRST_BYTES,
        largest: int = MOST_BYTES,
        seconds: float = SLICE_SECONDS,
    ) -> None:
        self.bytes = fixed or first
        self._least, self._largest = (fixed, fixed) if fixed else (first, largest)
        self._seconds = seconds
        self._last: float | None = None

    def pause(self) -> None:
        """Note that there was no input. The wait does not count as processing time."""
        self.bytes = max(self.bytes // 2, self._least)
        self._last = None

    def measure(self, share: float = 0.0) -> None:
        """Note that a slice was read. ``share``: its part of the largest output that a slice should have.

        The next slice is made so small that its output does not exceed it.
        """
        time_now = time.monotonic()
        if self._last is not None:
            duration, times = time_now - self._last, 1.0
            if duration < self._seconds:
                times = 4 if duration < self._seconds / 2 else 2
            elif duration > 2 * self._seconds:
                times = 0.5
            if share * times > 1 and self._least < self._largest:
                times = 1 / share
                self._least = max(min(self._least, int(self.bytes * times)), 1)
            self.bytes = min(max(int(self.bytes * times), self._least), self._largest)
        self._last = time_now
