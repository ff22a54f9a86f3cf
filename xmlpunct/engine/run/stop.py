"""Ending a run early, after the current slice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Stop:
    """A request to end a run, which raises KeyboardInterrupt: at once, or at the end of a slice in progress.
    A second request (``urgent``) interrupts the slice.

    >>> stop = Stop()
    >>> try:
    ...     with stop.deferred():
    ...         stop.ask()
    ...         print("the slice is finished")
    ... except KeyboardInterrupt:
    ...     print("stopped")
    the slice is finished
    stopped
    """

    def __init__(self) -> None:
        self.asked = self.urgent = self._deferred = False

    def ask(self) -> None:
        """Request the calling thread to stop; called by a signal handler."""
        self.urgent, self.asked = self.asked, True
        if self.urgent or not self._deferred:
            raise KeyboardInterrupt

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Defer a stop to the end of the block."""
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False
        if self.asked:
            raise KeyboardInterrupt
