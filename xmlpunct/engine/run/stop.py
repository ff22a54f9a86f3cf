"""Ending a run early: when it is asked to, and where it grants that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Stop:
    """The wish to end a run. It is granted, by a KeyboardInterrupt, at once, or where a slice is being
    worked on, after that. Whoever asks a second time (``urgent``) does not wait for the slice.

    >>> stop = Stop()
    >>> try:
    ...     with stop.held():
    ...         stop.ask()
    ...         print("the slice is finished")
    ... except KeyboardInterrupt:
    ...     print("stopped")
    the slice is finished
    stopped
    """

    def __init__(self) -> None:
        self.asked = self.urgent = self._held = False

    def ask(self) -> None:
        """Ask the thread that calls this to stop; to be called by a signal's handler."""
        self.urgent, self.asked = self.asked, True
        if self.urgent or not self._held:
            raise KeyboardInterrupt

    @contextmanager
    def held(self) -> Iterator[None]:
        """Put off being stopped until the end of the block."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self.asked:
            raise KeyboardInterrupt
