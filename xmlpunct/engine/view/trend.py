"""The counters of a run over time: recent rates, rates since its start, and the times of made punctuations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xmlpunct.engine.run.rates import Rates

MAX_POINTS = 120
"""Maximum number of points of a history: about one for each two pixels of its chart."""


@dataclass(frozen=True)
class HistoryPoint:
    """Totals at a time: seconds since the run began, tuples read and written, and tuples retained then."""

    seconds: float
    tuples_in: int
    tuples_out: int
    state_rows: int


@dataclass
class Trend:
    """The counters of a run at earlier times.

    ``history`` covers the whole run: if it has `MAX_POINTS` points, every second one is dropped.

    >>> trend = Trend()
    >>> for second in range(500): trend.add_point(HistoryPoint(second, 10 * second, 0, 0))
    >>> len(trend.history) < MAX_POINTS, trend.history[0].seconds, trend.history[-1].seconds
    (True, 0, 496)
    """

    rates: Rates = field(default_factory=Rates)
    history: list[HistoryPoint] = field(default_factory=list)
    _interval: float = 1.0
    _made: dict[str, tuple[int, float]] = field(default_factory=dict)

    def add_point(self, point: HistoryPoint) -> None:
        """Add a point, unless the last one is too recent."""
        if self.history and point.seconds - self.history[-1].seconds < self._interval:
            return
        self.history.append(point)
        if len(self.history) == MAX_POINTS:
            self._interval *= 2
            del self.history[1::2]

    def made_times(self, timestamp: float, made: Mapping[str, int]) -> dict[str, float]:
        """For each input, the time at which its number of made punctuations last grew."""
        for name, count in made.items():
            if count > self._made.get(name, (0, 0.0))[0]:
                self._made[name] = (count, timestamp)
        return {name: last for name, (_, last) in self._made.items()}
