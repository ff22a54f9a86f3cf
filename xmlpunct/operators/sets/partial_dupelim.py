"""partial-dupelim: each tuple once a slice, before an exchange."""

from __future__ import annotations

import polars as pl

from xmlpunct.operators.arrangement import distinct
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema


class PartialDupElim(Operator):
    """Drops duplicates within a slice, without state.

    - step(ts)       = δ(ts)
    - cpass(ts, ps)  = []
    - cprop(ts, ps)  = ps
    - ckeep(ts, ps)  = []

    >>> from xmlpunct.operators.notation import show
    >>> show(PartialDupElim(Schema.parse("x INT")), "1; 2; 1", "1; P(1)")
    1; 2; 1 -> 1; 2
    1; P(1) -> 1; P(1)
    """

    name = "partial-dupelim"

    def __init__(self, schema: Schema) -> None:
        super().__init__((schema,), schema)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        return distinct(tuples)

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        return self.schema.empty(), batch
