"""limit: the first n tuples, and then the end."""

from __future__ import annotations

import polars as pl

from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.state import State, StateCell
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema


class Limit(Operator):
    """Emits the first ``count`` tuples. Its input determines their order.

    - cpass(ts, ps)  = the first n of ts
    - cprop(ts, ps)  = ps; once there were n tuples, ``<*, ..., *>``
    - ckeep(ts, ps)  = []

    See semantics 4.13.

    >>> from xmlpunct.operators.notation import show
    >>> show(Limit(Schema.parse("x INT"), 2), "1; P(1)", "2; 3")
    1; P(1) -> 1; P(1)
    2; 3    -> 2; P(*)
    """

    name = "limit"
    speaks = True  # its output ends with the last tuple that it emits

    def __init__(self, schema: Schema, count: int) -> None:
        super().__init__((schema,), schema)
        self.count = count
        self._left, self._ended = StateCell(count), StateCell(False)
        self.state = State(left=self._left, ended=self._ended)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        first = tuples.head(self._left.value)
        self._left.value -= first.height
        return first

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        if self._ended.value:
            batch = PunctuationBatch()
        elif not self._left.value:
            batch = PunctuationBatch([Punctuation.everything(self.schema)])
        self._ended.value |= batch.has_end
        return self.schema.empty(), batch
