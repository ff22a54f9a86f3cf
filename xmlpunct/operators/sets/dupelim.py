"""dupelim: each tuple once."""

from __future__ import annotations

import polars as pl

from xmlpunct.operators.arrangement import Arrangement, distinct
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.state import State
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema


class DupElim(Operator):
    """Emits a tuple when it arrives for the first time. Nulls are equal here, as in SQL's DISTINCT.

    - cpass(ts, ps)  = δ(ts)
    - cprop(ts, ps)  = ps
    - ckeep(ts, ps)  = [t | t in ts, setNomatch(t, ps)]

    See semantics 4.3.

    >>> from xmlpunct.operators.notation import show
    >>> show(DupElim(Schema.parse("x INT")), "1; 2; 1; null", "2; 3; null", "P(2)")
    1; 2; 1; null -> 1; 2; null
    2; 3; null    -> 3
    P(2)          -> P(2)
    """

    name = "dupelim"

    def __init__(self, schema: Schema) -> None:
        super().__init__((schema,), schema)
        self.seen = Arrangement(schema.empty(), schema.names)
        """The emitted tuples that may arrive again."""
        self.state = State(seen=self.seen)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        return self.seen.insert(tuples)

    def reduced(self, tuples: pl.DataFrame) -> pl.DataFrame:
        return distinct(tuples)

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        self.seen.remove(self.seen.matching(PunctuationSet(self.schema, batch)))  # keep
        return self.schema.empty(), batch  # prop
