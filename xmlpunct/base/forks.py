"""Detect whether polars works in this process. In a forked process it may not.

polars computes in threads that it starts at first use. A forked process has none of its parent's threads. So if the
parent had used polars before the fork, polars waits for these threads for ever. A process that was forked before that,
or spawned, is fine.
"""

from __future__ import annotations

import os
import sys
import threading
import time

from xmlpunct.base.errors import UsageError

_SHORT, _LONG = 1.0, 5.0
"""Seconds to wait for polars in a forked process: if there is a fallback, and if there is none.

If polars works, it answers in milliseconds. The limits are long enough for a loaded machine.
"""


class _Fork:
    """A forked process. A thread tries polars, and waits for ever if polars does not work."""

    def __init__(self) -> None:
        self._works, self._first_try = threading.Event(), 0.0

    def works(self, seconds: float) -> bool:
        """Whether polars answered within ``seconds`` after the first try."""
        if not self._first_try:
            self._first_try = time.monotonic()
            threading.Thread(target=self._try, name="try polars", daemon=True).start()
        return self._works.wait(max(self._first_try + seconds - time.monotonic(), 0.0))

    def _try(self) -> None:
        import polars as pl  # already imported by the callers

        pl.DataFrame({"a": [1]}).lazy().select(pl.col("a") + 1).collect()
        self._works.set()


_fork: _Fork | None = None


def _after_fork() -> None:
    global _fork
    _fork = _Fork() if "polars" in sys.modules else None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def polars_works() -> bool:
    """Whether polars can compute in this process; it can always hold columns."""
    return _fork is None or _fork.works(_SHORT)


def need_polars() -> None:
    """Raise `UsageError` if polars would wait for ever."""
    if _fork is not None and not _fork.works(_LONG):
        raise UsageError(
            "polars does not work in a process that was forked after it was used: start the process by spawn"
            ' (multiprocessing.get_context("spawn")), or before the first read'
        )
