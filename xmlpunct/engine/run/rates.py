"""How fast a run goes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

RATE_SECONDS = 5.0
"""A rate is that of the last seconds, so that it follows what happens and does not flicker."""


@dataclass
class Rates:
    """How fast counts grow, over the last `RATE_SECONDS`.

    >>> rates = Rates()
    >>> rates.take(0.0, {"bids": 0}); rates.take(2.0, {"bids": 100})
    >>> rates["bids"]
    50.0
    """

    _seen: deque[tuple[float, Mapping[object, int]]] = field(default_factory=deque)

    def take(self, now: float, counts: Mapping[Any, int]) -> None:
        """Take the counts at a time, in seconds."""
        self._seen.append((now, counts))
        while len(self._seen) > 2 and now - self._seen[1][0] >= RATE_SECONDS:
            self._seen.popleft()

    def __getitem__(self, key: object) -> float:
        """The growth of a count per second; 0 as long as nothing is known."""
        (begun, first), (ended, last) = self._seen[0], self._seen[-1]
        return max(0, last.get(key, 0) - first.get(key, 0)) / (ended - begun) if ended > begun else 0.0
