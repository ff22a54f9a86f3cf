"""A line of progress on the terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from xmlpunct.base.printable import printable
from xmlpunct.engine.run.rates import Rates
from xmlpunct.engine.run.stats import RunStats

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

REFRESH_SECONDS = 0.2
"""The line changes no more often: nobody reads faster."""


class Progress:
    """Shows tuples, the rate of the last seconds, state and slices on standard error, if that is a terminal.

    Until something has come, or an input is found idle, it says what is being started.
    """

    def __init__(self, engine: str, console: Console | None = None) -> None:
        self._starting = "starting Spark" if engine == "spark" else "starting"
        self._console = console or _terminal()
        self._status: Status | None = None
        self._shown = 0.0
        self._rates = Rates()

    def __enter__(self) -> Progress:
        if self._console is not None and self._console.is_terminal:
            self._status = self._console.status(self._starting)
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
        if not (stats.idle or any(i.tuples or i.rejected or i.punctuations for i in stats.inputs.values())):
            return
        self._shown = now
        tuples = sum(i.tuples for i in stats.inputs.values())
        self._rates.take(now, {"tuples": tuples})
        from rich.text import Text

        line = (
            f"{tuples:,} tuples  {self._rates['tuples']:,.0f}/s  state {stats.state_rows:,}  slices {stats.slices:,}"
            f"  results {stats.tuples_out:,}{_waiting(stats)}"
        )
        self._status.update(Text(printable(line)))  # of a str, rich would take what is in brackets for markup


def _terminal() -> Console | None:
    """Standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        return None
    from rich.console import Console  # which is of no use elsewhere, and takes a while to import

    return Console(stderr=True)


def _waiting(stats: RunStats) -> str:
    """The silent inputs that hold others up, the worst first."""
    idle = sorted(stats.idle, key=lambda i: -i.holds_up)
    return "".join(f"  waiting for {i.input} since {i.seconds:.0f} s: {i.holds_up:,} tuples" for i in idle)
