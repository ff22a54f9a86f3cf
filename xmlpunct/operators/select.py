"""select: the tuples for which a predicate is true."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xmlpunct.operators.absent import never, news
from xmlpunct.operators.evaluate import evaluate
from xmlpunct.operators.expression import Expression
from xmlpunct.operators.iterator import Operator
from xmlpunct.punctuation import Punctuation
from xmlpunct.schema import Schema


class Select(Operator):
    """Passes a tuple on if ``predicate`` is true of it (neither false nor null).

    - cpass(ts, ps)  = [t | t in ts, predicate(t)]
    - cprop(ts, ps)  = ps
    - ckeep(ts, ps)  = []

    From the start: no tuple comes for which the predicate cannot be true.
    """

    name = "select"

    def __init__(self, schema: Schema, predicate: Expression) -> None:
        super().__init__((schema,), schema)
        self.predicate = predicate
        self._test = evaluate(predicate)

    def opening(self) -> list[Punctuation]:
        return news(self.schema, never(self.schema, self.predicate))

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        if self._test.error is not None:
            tuples = self.reject_failures(tuples, self._test.error)
        return tuples.filter(self._test.value)

    def prop(self, port: int, punctuations: Sequence[Punctuation]) -> Sequence[Punctuation]:
        return punctuations
