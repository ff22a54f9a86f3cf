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

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status
    from rich.text import Text

    from xmlpunct.engine.run.stats import RunStats
    from xmlpunct.firehose.slice_reader import SliceReader

REFRESH_SECONDS = 0.2
"""The shortest time between two updates of the line: nobody reads faster."""
QUIET_SECONDS = 1.0
"""The time after results on the same terminal in which the line stays hidden."""


class ProgressLine:
    """Shows the tuples read, and the rate of the last seconds, on standard error, if that is a terminal.

    For a run, the line also has state, slices and results. Until the first data arrives, or an input is idle, it shows
    the ``sources``, that Spark is starting, or `RunStats.activity`.
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
        if not self._is_due():
            return
        if not (stats.idle or any(i.tuples or i.rejected or i.punctuations for i in stats.inputs.values())):
            if stats.activity and self._status is not None:
                self._status.update(stats.activity)
            return
        self._draw(
            sum(i.tuples for i in stats.inputs.values()),
            f"  state {stats.state_rows:,}  slices {stats.slices:,}  results {stats.tuples_out:,}"
            f"{_share_of_run(stats)}{_idle_text(stats)}",
        )

    def show_reading(self, reader: SliceReader, tuples: int) -> None:
        """Show the progress of one reader, after a number of tuples. Cheap enough to be called for every slice."""
        if tuples and self._is_due():
            self._draw(tuples, _share_text(reader.bytes_read, reader.remaining))

    def _is_due(self) -> bool:
        """True if the line is, or can be, on the terminal, and was not updated just now."""
        now = time.monotonic()
        if self._status is None and (self._stdout is None or now - self._hidden < QUIET_SECONDS):
            return False
        if now - self._updated < REFRESH_SECONDS:
            return False
        self._updated = now
        return True

    def _draw(self, tuples: int, rest: str) -> None:
        self._rates.take(self._updated, {"tuples": tuples})
        from rich.text import Text

        line = f"{tuples:,} tuples  {self._rates['tuples']:,.0f}/s{rest}"
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


def _share_of_run(stats: RunStats) -> str:
    """The share of the inputs that was read, if their sizes are known."""
    if stats.engine != "local" or stats.gauges is None:
        return ""
    unread = list(stats.gauges.behind().values())
    total = None if None in unread else sum(size or 0 for size in unread)
    return _share_text(sum(i.bytes for i in stats.inputs.values()), total)


def _share_text(read: int, unread: int | None) -> str:
    """The share of the bytes that was read; empty if their number is unknown."""
    return "" if not read or unread is None else f"  read {read / (read + unread):.0%}"


def _idle_text(stats: RunStats) -> str:
    """The idle inputs that block tuples of other inputs, in descending order of these tuples."""
    idle = sorted(stats.idle, key=lambda i: -i.holds_up)
    return "".join(f"  waiting for {i.input} since {i.seconds:.0f} s: {i.holds_up:,} tuples" for i in idle)
