"""Pacing: which source to read next, and how much."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

FIRST_BYTES = 64 * 2**10
MOST_BYTES = 4 * 2**20
SLICE_SECONDS = 0.1


class Progressing(Protocol):
    """What pacing needs to know of a reader. Sizes are in bytes; None: endless or unknown."""

    @property
    def bytes_total(self) -> int | None: ...
    @property
    def remaining(self) -> int | None: ...


T = TypeVar("T")


def starved(
    candidates: Sequence[T], reader: Callable[[T], Progressing], waits: Callable[[T], int]
) -> T | None:
    """The candidate that most of what is retained waits for.

    Among equals it is the one with the largest part still to read, so that finite inputs all end together;
    one of unknown size counts as not read at all. Then it is the first.
    """

    def urgency(candidate: T) -> tuple[int, float]:
        at = reader(candidate)
        left = 1.0 if not at.bytes_total or at.remaining is None else at.remaining / at.bytes_total
        return waits(candidate), left

    return max(candidates, key=urgency, default=None)


class Pace:
    """How many bytes the next slice takes: a fixed number, or one that follows the time slices take."""

    def __init__(self, fixed: int | None) -> None:
        self.fixed, self.bytes = fixed, fixed or FIRST_BYTES
        self._last: float | None = None

    def pause(self) -> None:
        """Note that there was nothing to read: waiting is not being slow."""
        self._last = None

    def measure(self) -> None:
        """Note that a slice was read. Slices grow while they are quick, and shrink when they are slow."""
        now = time.monotonic()
        if self.fixed is None and self._last is not None:
            quick = now - self._last < SLICE_SECONDS
            self.bytes = min(self.bytes * 2, MOST_BYTES) if quick else max(self.bytes // 2, FIRST_BYTES)
        self._last = now
