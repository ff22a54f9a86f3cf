"""Backpressure: after each micro-batch the sink writes a request, which the reader reads before the next one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from xmlpunct.engine.run.durable_files import private

COMING_BYTES = 128 * 2**20
"""Maximal bytes that a micro-batch brings to the sink, because Java's heap holds several copies. Tuples that tasks
stage do not count."""


class Wish(NamedTuple):
    """``starved``: the only input to read. ``share``: bytes of the last micro-batch, as a share of `COMING_BYTES`."""

    starved: int | None = None
    share: float = 0.0

    def write(self, path: Path) -> None:
        """Write the request for the reader."""
        with open(path, "w", opener=private) as file:
            json.dump(self, file)

    @classmethod
    def read(cls, path: Path) -> Wish:
        """The last request; without one, the default."""
        try:
            starved, share = json.loads(path.read_text())
        except (OSError, ValueError, TypeError):
            return cls()
        return cls(starved, share)
