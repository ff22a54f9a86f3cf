"""negated: a relation with inserts and deletes exchanged."""

from __future__ import annotations

import polars as pl

from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import DIFF


class Negated(Operator):
    """Negates the counts of a relation. Merged with another relation, it subtracts its tuples from that.

    - cpass(ts, ps)  = [<e, t, -diff> | <e, t, diff> in ts]
    - cprop(ts, ps)  = ps
    - ckeep(ts, ps)  = []

    An antijoin is its left input merged with the negated semijoin (relations 4.8).

    >>> from xmlpunct.schema.change_columns import changes
    >>> from xmlpunct.operators.notation import show
    >>> from xmlpunct.types import INT
    >>> show(Negated(changes(Schema.parse("x INT"), INT)), "7 1 2; 7 4 -1; P(*, (,4], *)")
    7 1 2; 7 4 -1; P(*, (,4], *) -> 7 1 -2; 7 4 1; P(*, (,4], *)
    """

    name = "negated"

    def __init__(self, schema: Schema) -> None:
        super().__init__((schema,), schema)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        return tuples.with_columns(-pl.col(DIFF))

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        return self.schema.empty(), batch
