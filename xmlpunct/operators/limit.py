"""limit: the first n tuples, and then the end."""

from __future__ import annotations

import polars as pl

from xmlpunct.frames import Snapshot
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema


class Limit(Operator):
    """Passes the first ``count`` tuples on. Behind a sort these are the first in its order, else any.

    - cpass(ts, ps)  = the first n of ts
    - cprop(ts, ps)  = ps; once there were n tuples, ``<*, ..., *>``
    - ckeep(ts, ps)  = []
    """

    name = "limit"
    speaks = True  # the last row it lets through is the end

    def __init__(self, schema: Schema, count: int) -> None:
        super().__init__((schema,), schema)
        self.count = count
        self._left, self._ended = count, False

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        found = tuples.head(self._left)
        self._left -= found.height
        return found

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        if self._ended:
            batch = PunctuationBatch()
        elif not self._left:
            batch = PunctuationBatch([Punctuation.everything(self.schema)])
        self._ended |= batch.has_end
        return self.schema.empty(), batch

    def snapshot(self) -> Snapshot:
        return {"limit": pl.DataFrame({"left": [self._left], "ended": [self._ended]})}

    def restore(self, snapshot: Snapshot) -> None:
        self._left, self._ended = snapshot["limit"].row(0)
