"""How many threads read for a run of the local engine: one or several, in turn. What comes out must be the same.

A run that is not told takes the next of `COUNTS`, not one for each core; so what is run twice, cut in other ways, or
killed and started again runs with one thread and with several. A test that fails says which they were. Runs in
processes of their own have to be told, by `Turns.options`.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

COUNTS = (1, 2, 4)
_SHOWN = 20


class Turns:
    """The numbers of threads that the runs of a test have had."""

    def __init__(self) -> None:
        self._begin, self._had = 0, list[int]()

    def begin(self, test: str) -> None:
        """A test begins. Which number is the first is up to its name."""
        self._begin, self._had = crc32(test.encode()), []

    def next(self) -> int:
        """The number of the next run."""
        self._had.append(COUNTS[(self._begin + len(self._had)) % len(COUNTS)])
        return self._had[-1]

    def options(self, command: Sequence[str]) -> list[str]:
        """The same as options, for the words of a command that runs on the local engine."""
        is_local = "local" in command and command[command.index("local") - 1] == "--engine"
        return ["--threads", str(self.next())] if is_local and "--threads" not in command else []

    def __str__(self) -> str:
        """The last numbers."""
        left_out = "... " if len(self._had) > _SHOWN else ""
        return left_out + " ".join(map(str, self._had[-_SHOWN:]))


TURNS = Turns()
