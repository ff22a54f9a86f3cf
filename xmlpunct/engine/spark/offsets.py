"""Compares Spark's offsets with the run's commit: a mismatch would lose or repeat tuples."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from xmlpunct.base.errors import XmlPunctError
from xmlpunct.engine.run.checkpoint.commit import Commit

_LINES = 3
"""Lines of an offset file: version, metadata of the micro-batch, and the offset of the only source."""


class SparkOffsets:
    """The end offsets of micro-batches in Spark's checkpoint directory of a streaming query."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def end(self, batch: int) -> str:
        """The end offset of a micro-batch, as the source wrote it; empty if Spark has none."""
        with suppress(OSError, UnicodeError):
            lines = (self._folder / "offsets" / str(batch)).read_text().splitlines()
            if len(lines) == _LINES:
                return lines[-1]
        return ""

    def check(self, commit: Commit) -> None:
        """Raise `XmlPunctError` if Spark's offsets do not match a commit, because either is older or damaged."""
        is_same = commit.batch < 0 or self.end(commit.batch) == commit.offset
        if not is_same or self._last("offsets") > commit.batch + 1 or self._last("commits") > commit.batch:
            raise XmlPunctError(
                f"Spark's offsets in {self._folder} do not match the log of the checkpoint: one of them is older, or "
                "damaged. Restore the whole checkpoint as it was at one time, together with its output, or start "
                "again with another --checkpoint and --replace"
            )

    def _last(self, name: str) -> int:
        """The last micro-batch with a file in folder ``name``."""
        return max((int(path.name) for path in (self._folder / name).glob("[0-9]*")), default=-1)
