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
"""The shortest time between two updates of the line: nobody reads faster."""


class ProgressLine:
    """Shows tuples, the rate of the last seconds, state and slices on standard error, if that is a terminal.

    Until the first data arrives, or an input is idle, it shows that the run is starting.
    """

    def __init__(self, engine: str, console: Console | None = None) -> None:
        self._starting = "starting Spark" if engine == "spark" else "starting"
        self._console = console or _terminal()
        self._status: Status | None = None
        self._updated = 0.0
        self._rates = Rates()

    def __enter__(self) -> ProgressLine:
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
        """Show the progress of a run. Cheap enough to be called for every slice."""
        now = time.monotonic()
        if self._status is None or now - self._updated < REFRESH_SECONDS:
            return
        if not (stats.idle or any(i.tuples or i.rejected or i.punctuations for i in stats.inputs.values())):
            return
        self._updated = now
        tuples = sum(i.tuples for i in stats.inputs.values())
        self._rates.take(now, {"tuples": tuples})
        from rich.text import Text

        line = (
            f"{tuples:,} tuples  {self._rates['tuples']:,.0f}/s  state {stats.state_rows:,}  slices {stats.slices:,}"
            f"  results {stats.tuples_out:,}{_idle_text(stats)}"
        )
        self._status.update(Text(printable(line)))  # in a str, rich would parse brackets as markup


def _terminal() -> Console | None:
    """Standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        return None
    from rich.console import Console  # slow to import, and needed only for a terminal

    return Console(stderr=True)


def _idle_text(stats: RunStats) -> str:
    """The idle inputs that block tuples of other inputs, in descending order of these tuples."""
    idle = sorted(stats.idle, key=lambda i: -i.holds_up)
    return "".join(f"  waiting for {i.input} since {i.seconds:.0f} s: {i.holds_up:,} tuples" for i in idle)
