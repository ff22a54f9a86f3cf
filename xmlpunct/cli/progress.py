"""A line of progress on the terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO, cast

from xmlpunct.base.printable import printable
from xmlpunct.base.secrets import hide
from xmlpunct.engine.run.rates import Rates
from xmlpunct.engine.run.stats import RunStats

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status
    from rich.text import Text

REFRESH_SECONDS = 0.2
"""The shortest time between two updates of the line: nobody reads faster."""
QUIET_SECONDS = 1.0
"""The time after results on the same terminal in which the line stays hidden."""


class ProgressLine:
    """Shows tuples, the rate of the last seconds, state and slices on standard error, if that is a terminal.

    Until the first data arrives, or an input is idle, it shows the ``sources``, that Spark is starting, or
    `RunStats.activity`.
    Results on the same terminal hide the line until no more have come for a moment.
    """

    def __init__(self, engine: str, console: Console | None = None, sources: str = "") -> None:
        self._starting = "starting Spark" if engine == "spark" else f"reading {printable(hide(sources))}"
        self._console = console or _terminal()
        self._status: Status | None = None
        self._updated = self._hidden = 0.0
        self._rates = Rates()
        self._lock = threading.Lock()
        self._stdout: TextIO | None = None

    def __enter__(self) -> ProgressLine:
        if self._console is not None and self._console.is_terminal:
            if sys.stdout is not None and sys.stdout.isatty():
                self._stdout = sys.stdout
                sys.stdout = cast(TextIO, _SharedOutput(sys.stdout, self._hide))
            from rich.text import Text

            self._start(Text(self._starting))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hide()
        if self._stdout is not None:
            sys.stdout = self._stdout

    def _start(self, line: str | Text) -> None:
        assert self._console is not None
        self._status = self._console.status(line)
        self._status.start()

    def _hide(self) -> None:
        """Erase the line. On a shared terminal, `show` draws it again later."""
        with self._lock:
            self._hidden = time.monotonic()
            if self._status is not None:
                self._status.stop()
                self._status = None

    def show(self, stats: RunStats) -> None:
        """Show the progress of a run. Cheap enough to be called for every slice."""
        now = time.monotonic()
        if self._status is None and (self._stdout is None or now - self._hidden < QUIET_SECONDS):
            return
        if now - self._updated < REFRESH_SECONDS:
            return
        self._updated = now
        if not (stats.idle or any(i.tuples or i.rejected or i.punctuations for i in stats.inputs.values())):
            if stats.activity and self._status is not None:
                self._status.update(stats.activity)
            return
        tuples = sum(i.tuples for i in stats.inputs.values())
        self._rates.take(now, {"tuples": tuples})
        from rich.text import Text

        line = (
            f"{tuples:,} tuples  {self._rates['tuples']:,.0f}/s  state {stats.state_rows:,}  slices {stats.slices:,}"
            f"  results {stats.tuples_out:,}{_share_text(stats)}{_idle_text(stats)}"
        )
        text = Text(printable(line))  # in a str, rich would parse brackets as markup
        with self._lock:
            if self._status is None:
                self._start(text)
            else:
                self._status.update(text)


class _SharedOutput:
    """Standard output on the terminal of the line: each write of bytes hides the line first."""

    def __init__(self, stdout: TextIO, hide: Callable[[], None]) -> None:
        self._stdout, self._hide = stdout, hide
        self.buffer = self

    def write(self, data: bytes) -> int:
        self._hide()
        return self._stdout.buffer.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stdout, name)


def _terminal() -> Console | None:
    """Standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        return None
    from rich.console import Console  # slow to import, and needed only for a terminal

    return Console(stderr=True)


@contextmanager
def activity(text: str) -> Iterator[None]:
    """Show the current step of a command on standard error, if that is a terminal; erase the line at the end."""
    console = _terminal()
    if console is None:
        yield
        return
    from rich.text import Text

    with console.status(Text(printable(hide(text)))):
        yield


def _share_text(stats: RunStats) -> str:
    """The share of the inputs that was read, if their sizes are known."""
    if stats.engine != "local" or stats.gauges is None:
        return ""
    unread, read = list(stats.gauges.behind().values()), sum(i.bytes for i in stats.inputs.values())
    if not read or any(size is None for size in unread):
        return ""
    return f"  read {read / (read + sum(size or 0 for size in unread)):.0%}"


def _idle_text(stats: RunStats) -> str:
    """The idle inputs that block tuples of other inputs, in descending order of these tuples."""
    idle = sorted(stats.idle, key=lambda i: -i.holds_up)
    return "".join(f"  waiting for {i.input} since {i.seconds:.0f} s: {i.holds_up:,} tuples" for i in idle)
