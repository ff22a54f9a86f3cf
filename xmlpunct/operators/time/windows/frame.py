"""The windows of TUMBLE and HOP over a timestamp, and the windows that a closed interval closes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xmlpunct.base.arrow_memory import Flags
from xmlpunct.types import Type
from xmlpunct.types.durations import epoch, in_words
from xmlpunct.types.ordinals import Ordinals
from xmlpunct.types.pattern import EMPTY, WILDCARD, Pattern, ordinals


@dataclass(frozen=True)
class HoppingWindows:
    """The windows [w, w + size) for all w = origin + j * slide, in ordinals of ``type``. TUMBLE: slide = size.

    >>> from xmlpunct.types import INT
    >>> hop = HoppingWindows(INT, slide=5, size=10)
    >>> hop.down(12), hop.up(12)
    (10, 15)
    >>> print(*hop.closed((7, 27)), *hop.closed((7, 18)))
    [6,19] [16,29] {} {}
    """

    type: Type
    slide: int
    size: int
    origin: int = 0

    def __str__(self) -> str:
        parts = [f"by {in_words(self.type, self.slide)}"]
        if self.size != self.slide:
            parts.append(f"size {in_words(self.type, self.size)}")
        if self.origin != epoch(self.type):
            parts.append(f"origin {self.type.format(self.type.at(self.origin))}")
        return ", ".join(parts)

    def up(self, instant: int) -> int:
        """The begin of the first window that does not begin before an instant."""
        return instant + (self.origin - instant) % self.slide

    def down(self, instant: int) -> int:
        """The begin of the last window that does not begin after an instant."""
        return instant - (instant - self.origin) % self.slide

    def fits(self, first: int, last: int) -> bool:
        """Whether the windows of all instants from ``first`` to ``last`` lie within the range of the type.

        >>> from datetime import date
        >>> from xmlpunct.types import DATE
        >>> week = HoppingWindows(DATE, slide=7, size=7)
        >>> week.fits(DATE.ordinal(date(2000, 1, 1)), DATE.ordinal(date(9999, 1, 1)))
        True
        >>> week.fits(DATE.ordinal(date(2000, 1, 1)), DATE.ordinal(DATE.highest))
        False
        """
        low, high = (self.type.ordinal(end) for end in (self.type.lowest, self.type.highest))
        return low <= self.up(first - self.size + 1) and self.down(last) + self.size <= high

    def windows(self, instants: Ordinals) -> tuple[Ordinals | None, Ordinals, Ordinals, Flags | None]:
        """For each instant the windows that contain it, in ascending order.

        Returns four arrays of shape (windows,): the positions of the instants (None: each has one window), the begins,
        the ends, and a mask of windows outside the range of the type (None: no window is). The begins and ends of those
        are arbitrary.
        """
        offset = np.mod(np.mod(instants, self.slide) - self.origin % self.slide, self.slide)
        positions: Ordinals | None = None
        if self.slide != self.size:
            counts = np.maximum((self.size - offset + self.slide - 1) // self.slide, 0)
            positions = np.repeat(np.arange(len(instants)), counts)
            following = np.cumsum(counts)[positions] - np.arange(len(positions)) - 1
            instants, offset = instants[positions], offset[positions] + following * self.slide
        room_before, room_after = self._distances(instants)
        misfits = (offset.view(np.uint64) > room_before) | ((self.size - offset).view(np.uint64) > room_after)
        starts = instants - offset
        return positions, starts, starts + self.size, misfits if misfits.any() else None

    def _distances(self, instants: Ordinals) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """The distances of instants from the ends of the type, which can exceed an int64; shape (instants,)."""
        low, high = (
            np.uint64(self.type.ordinal(end) % 2**64) for end in (self.type.lowest, self.type.highest)
        )
        return instants.view(np.uint64) - low, high - instants.view(np.uint64)

    def closed(self, span: tuple[int, int]) -> tuple[Pattern, Pattern]:
        """The closed values of window_start and of window_end, if all instants of ``span`` are closed.

        The windows within the span are closed, and so are all values between them and the adjacent windows. There are
        no instants, and no windows, outside the range of the type.
        """
        lowest, highest = self.type.ordinal(self.type.lowest), self.type.ordinal(self.type.highest)
        first = None if span[0] == lowest else self.up(span[0])
        last = None if span[1] == highest else self.down(span[1] + 1 - self.size)
        if first is not None and last is not None and first > last:  # no window lies within the span
            return EMPTY, EMPTY
        low = None if first is None else first - self.slide + 1
        high = None if last is None else last + self.slide - 1
        return self._values(low, high, 0), self._values(low, high, self.size)

    def _values(self, low: int | None, high: int | None, shift: int) -> Pattern:
        if low is None and high is None:
            return WILDCARD
        return ordinals(
            self.type, None if low is None else low + shift, None if high is None else high + shift
        )
