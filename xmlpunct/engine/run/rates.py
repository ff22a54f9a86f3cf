"""Rates per second of growing counters."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

RATE_SECONDS = 5.0
"""Rates are averaged over this many seconds: recent, but without flicker."""


@dataclass
class Rates:
    """Growth of counters per second, over the last `RATE_SECONDS`.

    >>> rates = Rates()
    >>> rates.take(0.0, {"bids": 0}); rates.take(2.0, {"bids": 100})
    >>> rates["bids"]
    50.0
    """

    _samples: deque[tuple[float, Mapping[object, int]]] = field(default_factory=deque)

    def take(self, now: float, counts: Mapping[Any, int]) -> None:
        """Record the counts at time ``now``, in seconds."""
        self._samples.append((now, counts))
        while len(self._samples) > 2 and now - self._samples[1][0] >= RATE_SECONDS:
            self._samples.popleft()

    def __getitem__(self, key: object) -> float:
        """Growth of a counter per second; 0 before two samples are recorded."""
        (begun, first), (ended, last) = self._samples[0], self._samples[-1]
        return max(0, last.get(key, 0) - first.get(key, 0)) / (ended - begun) if ended > begun else 0.0
