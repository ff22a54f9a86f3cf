"""Retries: the pauses between tries, and reports of tries without progress."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

PAUSES = (0.0, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
"""The seconds before each further try to connect, once a connection was lost."""
REPORT_SECONDS, MOST_REPORT_SECONDS = 2.0, 60.0
"""Time without progress until the first report; it doubles for each further report, up to the maximum."""
SETTLED_SECONDS = 60.0
"""After this time without a failure, the next failure counts as the first."""
_log = logging.getLogger("xmlpunct")


class Retries:
    """The tries of a source or an output called ``name`` since it last made progress.

    >>> retries = Retries("nats://host/orders", pauses=(0.2, 0.5))
    >>> retries.failed("the connection was lost"), retries.failed("refused"), retries.failed("refused")
    (0.2, 0.5, None)
    >>> retries.progressed()
    >>> retries.failed("refused")
    0.2
    """

    def __init__(self, name: str, pauses: Sequence[float] = PAUSES) -> None:
        self._name, self._pauses = name, pauses
        self._tries, self._failures, self._since, self._last = 0, 0, 0.0, 0.0
        self._report_at, self._is_reported = 0.0, False
        self._lock = threading.Lock()

    def failed(self, error: object) -> float | None:
        """Count a failed try; returns the seconds to wait before the next try, None after the last.

        Without progress for a while, it is reported on standard error.
        """
        self.waited(error)
        self._failures += 1
        return self._pauses[self._failures - 1] if self._failures <= len(self._pauses) else None

    def waited(self, reason: object) -> None:
        """Count and report a postponed try. It is no failure: their number is not limited."""
        with self._lock:
            now = time.monotonic()
            if not self._tries or now - self._last > SETTLED_SECONDS:
                self._tries, self._failures, self._since, self._report_at = 0, 0, now, now + REPORT_SECONDS
            self._tries, self._last = self._tries + 1, now
            if now >= self._report_at:
                self._is_reported = True
                self._report_at = now + min(now - self._since, MOST_REPORT_SECONDS)
                text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
                _log.warning(
                    "%s: still trying, without progress for %s: %s", self._name, self._spent(now), text
                )

    def progressed(self) -> None:
        """Reset the counts."""
        if not self._tries:
            return
        with self._lock:
            if self._is_reported:
                _log.warning("%s: continues after %s", self._name, self._spent(time.monotonic()))
            self._tries, self._failures, self._is_reported = 0, 0, False

    def persevere(self, act: Callable[[], None], stopped: threading.Event, error: OSError) -> None:
        """Repeat ``act`` after an ``error`` until it succeeds, unless ``stopped``. Raises the error of the last try."""
        while True:
            pause = self.failed(error)
            if pause is None:
                raise error
            if stopped.wait(pause):
                return
            try:
                act()
            except OSError as failure:
                error = failure
            else:
                return

    def _spent(self, now: float) -> str:
        return f"{now - self._since:.0f} s ({self._tries} {'try' if self._tries == 1 else 'tries'})"
