"""Number of reader threads of a local run: one or several, in turn. Results must be equal.

A run without ``--threads`` takes the next of `COUNTS`, not one thread per core. So a run that is repeated, sliced
differently or restarted uses different thread counts. A failing test reports them. Runs in processes of their own take
the option from `Turns.options`.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

COUNTS = (1, 2, 4)
_SHOWN = 20


class Turns:
    """Thread counts of the runs of a test."""

    def __init__(self) -> None:
        self._begin, self._had = 0, list[int]()

    def begin(self, test: str) -> None:
        """Start a test. Its name determines the first number."""
        self._begin, self._had = crc32(test.encode()), []

    def next(self) -> int:
        """The number of the next run."""
        self._had.append(COUNTS[(self._begin + len(self._had)) % len(COUNTS)])
        return self._had[-1]

    def options(self, command: Sequence[str]) -> list[str]:
        """The next number as options, if the command runs on the local engine."""
        is_local = "local" in command and command[command.index("local") - 1] == "--engine"
        return ["--threads", str(self.next())] if is_local and "--threads" not in command else []

    def __str__(self) -> str:
        """The last numbers."""
        left_out = "... " if len(self._had) > _SHOWN else ""
        return left_out + " ".join(map(str, self._had[-_SHOWN:]))


TURNS = Turns()
