"""Spark's own offsets of a run, compared with the run's commit: one without the other would lose or repeat tuples."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from xmlpunct.base.errors import XmlPunctError
from xmlpunct.engine.run.checkpoint.commit import Commit

_LINES = 3
"""Of a file of offsets: its version, what Spark says of the micro-batch, and the offset of the only source."""


class SparkOffsets:
    """The offsets in the directory that Spark keeps of a streaming query: where each micro-batch ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def end(self, batch: int) -> str:
        """Where a micro-batch ends, as the source wrote it; empty if Spark does not know."""
        with suppress(OSError, UnicodeError):
            lines = (self._folder / "offsets" / str(batch)).read_text().splitlines()
            if len(lines) == _LINES:
                return lines[-1]
        return ""

    def check(self, commit: Commit) -> None:
        """Raise `XmlPunctError` if Spark's offsets do not go with a commit, because either is older or damaged."""
        is_same = commit.batch < 0 or self.end(commit.batch) == commit.offset
        if not is_same or self._last("offsets") > commit.batch + 1 or self._last("commits") > commit.batch:
            raise XmlPunctError(
                f"Spark's offsets in {self._folder} do not go with the log of the checkpoint: one of them is older, or "
                "damaged. Restore the whole checkpoint as it was at one time, together with its output, or start "
                "again with another --checkpoint and --replace"
            )

    def _last(self, name: str) -> int:
        """The last micro-batch of which Spark has a file."""
        return max((int(path.name) for path in (self._folder / name).glob("[0-9]*")), default=-1)
