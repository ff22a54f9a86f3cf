"""A line of progress on the terminal."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.status import Status

from xmlpunct.engine.stats import RunStats

REFRESH_SECONDS = 0.2
"""The line changes no more often: nobody reads faster."""


class Progress:
    """Shows tuples, rate, state and slices on standard error, if that is a terminal; else nothing."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._status: Status | None = None
        self._shown = 0.0
        self._started = time.monotonic()

    def __enter__(self) -> Progress:
        if self._console.is_terminal:
            self._status = self._console.status("starting")
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def show(self, stats: RunStats) -> None:
        """Show where a run stands. It may be called for every slice."""
        now = time.monotonic()
        if self._status is None or now - self._shown < REFRESH_SECONDS:
            return
        self._shown = now
        tuples = sum(i.tuples for i in stats.inputs.values())
        rate = tuples / max(now - self._started, 0.001)
        self._status.update(
            f"{tuples:,} tuples  {rate:,.0f}/s  state {stats.state_rows:,}  slices {stats.slices:,}"
            f"  results {stats.tuples_out:,}{_waiting(stats)}"
        )


def _waiting(stats: RunStats) -> str:
    """The silent inputs that hold others up, the worst first."""
    idle = sorted(stats.idle, key=lambda i: -i.holds_up)
    return "".join(f"  waiting for {i.input} since {i.seconds:.0f} s: {i.holds_up:,} tuples" for i in idle)
