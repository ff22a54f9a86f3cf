"""Whether polars works here: in a process that was forked, it may not.

polars computes in threads that it starts at first use. A fork has none of its parent's threads, so if the parent had
used polars, the fork waits for them for ever. A process that was forked earlier, or spawned, is fine.
"""

from __future__ import annotations

import os
import sys
import threading
import time

from xmlpunct.base.errors import UsageError

_SHORT, _LONG = 1.0, 5.0
"""How many seconds to wait for polars in a fork: where there is another way, and where there is none.

No matter of speed: polars answers in milliseconds if it works, so a loaded machine still answers in time.
"""


class _Fork:
    """A process that was forked. A thread tries polars, and waits for ever if that does not work."""

    def __init__(self) -> None:
        self._works, self._begun = threading.Event(), 0.0

    def works(self, seconds: float) -> bool:
        """Whether polars has answered, at the latest so many seconds after it was first tried."""
        if not self._begun:
            self._begun = time.monotonic()
            threading.Thread(target=self._try, name="try polars", daemon=True).start()
        return self._works.wait(max(self._begun + seconds - time.monotonic(), 0.0))

    def _try(self) -> None:
        import polars as pl  # whoever asks has it

        pl.DataFrame({"a": [1]}).lazy().select(pl.col("a") + 1).collect()
        self._works.set()


_fork: _Fork | None = None


def _forked() -> None:
    global _fork
    _fork = _Fork() if "polars" in sys.modules else None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def polars_works() -> bool:
    """Whether polars can compute in this process; it can always hold columns."""
    return _fork is None or _fork.works(_SHORT)


def need_polars() -> None:
    """Raise `UsageError` where polars would wait for ever."""
    if _fork is not None and not _fork.works(_LONG):
        raise UsageError(
            "polars does not work in a process that was forked after it was used: start the process in another way"
            ' (multiprocessing.get_context("spawn")), or before anything is read'
        )
