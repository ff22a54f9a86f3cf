"""Pacing: which source to read next, and how much."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

FIRST_BYTES = 64 * 2**10
"""The first slice, in bytes: small, so that the first result comes soon (`benchmarks/latency.py`)."""
MOST_BYTES = 4 * 2**20
"""The largest slice, in bytes. `benchmarks/warehouse.py` tells what others cost."""
COLUMN_BYTES = 512
"""The fixed cost of a column, as bytes that could be read in that time (`tests/engine/test_wide_streams.py`)."""
PATIENCE = 8
"""So many turns of the others, for each that is ready, one is passed over while endless inputs are read."""
SLICE_SECONDS = 0.1
"""A slice that takes longer makes the next one smaller, so that others are served (`benchmarks/latency.py`)."""


def first_bytes(columns: int) -> int:
    """How much the first slice takes of streams with so many columns."""
    return min(max(FIRST_BYTES, COLUMN_BYTES * columns), MOST_BYTES)


class Progressing(Protocol):
    """What pacing needs to know of a reader. Sizes are in bytes; None: endless or unknown."""

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
    """Of those that are ready, the one that most of what is retained waits for.

    Among equals it is the one with the largest part still to read, so that finite inputs all end together;
    one of unknown size counts as not read at all. Then it is the one whose last ``turn`` was longest ago. What is
    endless may be wanted always: then that one has a turn, too, once in a while.
    """
    candidates = sorted(ready, key=turn)

    def urgency(candidate: T) -> tuple[int, float]:
        at = reader(candidate)
        left = 1.0 if not at.bytes_total or at.remaining is None else at.remaining / at.bytes_total
        return waits(candidate), left

    most, first = max(candidates, key=urgency), candidates[0]
    waited = turn(candidates[-1]) - turn(first)
    return first if reader(most).bytes_total is None and waited > PATIENCE * len(candidates) else most


class Pace:
    """How many bytes the next slice takes: a fixed number, or one that follows what there is to do.

    It starts with ``first``, and is never less, nor more than ``most``. While there is always more to read, slices
    become two or four times as large as long as they take less than ``seconds`` or half of that, and shrink if they
    take more than twice as long, which no slice does for having grown. Where there is nothing to read they shrink too:
    what comes next is to be seen soon.
    """

    def __init__(
        self,
        fixed: int | None,
        first: int = FIRST_BYTES,
        most: int = MOST_BYTES,
        seconds: float = SLICE_SECONDS,
    ) -> None:
        self.bytes = fixed or first
        self._least, self._most = (fixed, fixed) if fixed else (first, most)
        self._seconds = seconds
        self._last: float | None = None

    def pause(self) -> None:
        """Note that there was nothing to read: waiting is not being slow."""
        self.bytes = max(self.bytes // 2, self._least)
        self._last = None

    def measure(self, share: float = 0.0) -> None:
        """Note that a slice was read, and which share it gave of what one should give at most.

        The next one is not to give more than all of it, however small it has to be.
        """
        now = time.monotonic()
        if self._last is not None:
            taken, times = now - self._last, 1.0
            if taken < self._seconds:
                times = 4 if taken < self._seconds / 2 else 2
            elif taken > 2 * self._seconds:
                times = 0.5
            if share * times > 1 and self._least < self._most:
                times = 1 / share
                self._least = max(min(self._least, int(self.bytes * times)), 1)
            self.bytes = min(max(int(self.bytes * times), self._least), self._most)
        self._last = now
