"""select: the tuples for which a predicate is true."""

from __future__ import annotations

import polars as pl

from xmlpunct.expressions.conjunctions import condition
from xmlpunct.expressions.exclusions import never, news
from xmlpunct.expressions.expression import Expression
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema


class Select(Operator):
    """Passes a tuple on if ``predicate`` is true of it (neither false nor null).

    - cpass(ts, ps)  = [t | t in ts, predicate(t)]
    - cprop(ts, ps)  = ps
    - ckeep(ts, ps)  = []

    From the start: no tuple comes for which the predicate cannot be true.

    >>> from xmlpunct.operators.notation import show
    >>> from xmlpunct.expressions.expression import Column, Literal
    >>> from xmlpunct.expressions.functions import call
    >>> from xmlpunct.types import INT
    >>> big = call(">", Column(INT, True, "x"), Literal(INT, False, 2))
    >>> show(Select(Schema.parse("x INT"), big), "1; 3; P([1,5])")
    1; 3; P([1,5]) -> 3; P([1,5])
    """

    name = "select"
    tuplewise = True

    def __init__(self, schema: Schema, predicate: Expression) -> None:
        super().__init__((schema,), schema)
        self.predicate, self._condition = predicate, condition(predicate)

    def opening(self) -> list[Punctuation]:
        return news(self.schema, never(self.schema, self.predicate))

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        return self.passing(tuples, self._condition)

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        return self.schema.empty(), batch
