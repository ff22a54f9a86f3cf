"""select: the tuples for which a predicate is true."""

from __future__ import annotations

import polars as pl

from xmlpunct.expressions.exclusions import never, news
from xmlpunct.expressions.expression import Expression
from xmlpunct.expressions.program import compiled, non_null
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema


class Select(Operator):
    """Passes a tuple on if ``predicate`` is true of it (neither false nor null).

    - cpass(ts, ps)  = [t | t in ts, predicate(t)]
    - cprop(ts, ps)  = ps
    - ckeep(ts, ps)  = []

    From the start: no tuple comes for which the predicate cannot be true. Columns that are not null wherever it is true
    are NOT NULL in the output.

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
        super().__init__((schema,), schema.without_nulls(non_null(predicate).true))
        self.predicate = predicate

    def opening(self) -> list[Punctuation]:
        (given,) = self.inputs
        return [*self._renamed(PunctuationBatch(news(given, never(given, self.predicate))))]

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        return self.passing(tuples, compiled(self.predicate))

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        return self.schema.empty(), self._renamed(batch)

    def _renamed(self, batch: PunctuationBatch) -> PunctuationBatch:
        """Punctuations of the input as ones of the output, which may declare NOT NULL."""
        return batch if self.schema is self.inputs[0] else batch.rename(self.schema)
