"""What the sink wants of the reader: it says so behind each micro-batch, and the reader looks before the next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from xmlpunct.engine.run.durable_files import private

COMING_BYTES = 128 * 2**20
"""More should not come to the sink in a micro-batch: Java's heap holds it several times over. What tasks write does not
come there."""


class Wish(NamedTuple):
    """``starved``: the input to be read alone. ``share``: how much came, of what should at most."""

    starved: int | None = None
    share: float = 0.0

    def write(self, path: Path) -> None:
        """Leave it for the reader."""
        with open(path, "w", opener=private) as file:
            json.dump(self, file)

    @classmethod
    def read(cls, path: Path) -> Wish:
        """What was written last; where nothing was, nothing is wanted."""
        try:
            starved, share = json.loads(path.read_text())
        except (OSError, ValueError, TypeError):
            return cls()
        return cls(starved, share)
