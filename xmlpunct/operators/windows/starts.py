"""Where sessions can still begin: what prefixes promise of it once the tuples before are gone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from xmlpunct.frames import Snapshot
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.windows.pairs import pairs
from xmlpunct.punctuations.numbered import ordinals_of
from xmlpunct.punctuations.punctuation import Punctuation, covers, from_frame, to_frame
from xmlpunct.schema import Schema


class Starts:
    """Prefixes of patterns q, as long as retained tuples that q matches keep a promise below them.

    What is promised ends before the first of these tuples. Once it reaches the prefix's end, that is forgotten. Ends
    are those instants that are no more in.
    """

    def __init__(self, schema: Schema, timestamp: str, by: Sequence[str]) -> None:
        self.schema, self._timestamp, self._by = schema, timestamp, list(by)
        self._waiting: dict[Punctuation, tuple[int, int | None]] = {}
        """For each q the end of its prefix, and of what was promised last."""

    def reach(self, q: Punctuation, last: int) -> None:
        """The prefix of q has grown, and has ``last``."""
        self._waiting[q] = last + 1, self._waiting.get(q, (0, None))[1]

    def forget(self, q: Punctuation) -> None:
        """All of q is closed for ever."""
        self._waiting = {r: bounds for r, bounds in self._waiting.items() if not covers(q, r)}

    def news(self, retained: Arrangement) -> Iterator[tuple[Punctuation, int]]:
        """The last instant that is promised of each q, where that is new."""
        if not self._waiting:
            return
        type_, tuples = self.schema[self._timestamp].type, retained.frame
        first = tuples.group_by(self._by).agg(pl.col(self._timestamp).min()) if self._by else tuples
        qs = list(self._waiting)
        of_q, matched = pairs(self.schema, qs, first)
        least = np.array([end for end, _ in self._waiting.values()], np.int64)
        np.minimum.at(least, of_q, ordinals_of(type_, first[self._timestamp])[matched])
        for q, reached in zip(qs, least.tolist(), strict=True):
            end, said = self._waiting[q]
            if said is None or reached > said:
                yield q, reached - 1
            if reached == end:
                del self._waiting[q]
            else:
                self._waiting[q] = end, reached

    def __len__(self) -> int:
        return len(self._waiting)

    def snapshot(self) -> Snapshot:
        """What waits, for a checkpoint."""
        ends, said = ([pair[i] for pair in self._waiting.values()] for i in (0, 1))
        columns = [pl.Series("$end", ends, pl.Int64()), pl.Series("$said", said, pl.Int64())]
        return {"waiting": to_frame(self.schema, self._waiting).hstack(columns)}

    def restore(self, snapshot: Snapshot) -> None:
        """Take what a snapshot has."""
        frame = snapshot["waiting"]
        qs = from_frame(self.schema, frame.drop("$end", "$said"))
        self._waiting = dict(zip(qs, frame.select("$end", "$said").iter_rows(), strict=True))
