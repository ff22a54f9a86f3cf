"""select: the tuples for which a predicate is true."""

from __future__ import annotations

from functools import cached_property

import polars as pl

from xmlpunct.expressions.conjunctions import condition
from xmlpunct.expressions.exclusions import never, news, open_values
from xmlpunct.expressions.expression import Expression
from xmlpunct.expressions.program import non_null
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.types.interval_set import IntervalSet
from xmlpunct.types.pattern import WILDCARD, Constant, Pattern, covers


class Select(Operator):
    """Emits the tuples for which ``predicate`` is true (neither false nor null).

    - cpass(ts, ps)  = [t | t in ts, predicate(t)]
    - cprop(ts, ps)  = ps; and the end, once a punctuation matches every tuple for which the predicate can be true
    - ckeep(ts, ps)  = []

    From the start, the output is closed for tuples for which the predicate cannot be true. A column that is not null in
    any tuple for which it is true is NOT NULL in the output.

    See semantics 4.1.

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
        self.predicate, self._condition = predicate, condition(predicate)

    def opening(self) -> list[Punctuation]:
        (schema,) = self.inputs
        return [*self._to_output(PunctuationBatch(news(schema, never(schema, self.predicate))))]

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        return self.passing(tuples, self._condition)

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        batch = self._to_output(batch)
        if self._open and not batch.has_end and any(map(self._closes, batch.parts)):
            batch = PunctuationBatch.union([batch, [Punctuation.everything(self.schema)]])
        return self.schema.empty(), batch

    @cached_property
    def _open(self) -> dict[int, list[Pattern]]:
        """The values for which the predicate can be true, for each attribute that is NOT NULL in the output."""
        left = open_values(self.schema, never(self.schema, self.predicate))
        open_ = dict[int, list[Pattern]]()
        for i, a in enumerate(self.schema):
            if not a.nullable and a.type.comparable:
                values = IntervalSet(a.type, [a.reach(WILDCARD)])
                open_[i] = list(values & left[a.name] if a.name in left else values)
        return open_

    def _closes(self, part: PunctuationBatch) -> bool:
        """Whether a punctuation of ``part`` matches every tuple for which the predicate can be true."""
        if part.position is None:
            return any(all(self._has(i, p.patterns[i]) for i in p.constrained) for p in part)
        open_ = self._open.get(part.position, [])
        if not part.ranged:
            (pattern,) = open_ if len(open_) == 1 else [None]
            return isinstance(pattern, Constant) and pattern.value in part.values
        if not open_:
            return False
        (lows, highs), (firsts, lasts) = (
            part.bounds,
            IntervalSet(self.schema.attributes[part.position].type, open_).bounds,
        )
        return bool(((lows <= firsts[0]) & (highs >= lasts[-1])).any())

    def _has(self, attribute: int, pattern: Pattern) -> bool:
        """Whether a pattern matches all values of an attribute for which the predicate can be true."""
        return attribute in self._open and all(covers(pattern, values) for values in self._open[attribute])

    def _to_output(self, batch: PunctuationBatch) -> PunctuationBatch:
        """Punctuations of the input as punctuations of the output schema, which may declare NOT NULL."""
        return batch if self.schema is self.inputs[0] else batch.rename(self.schema)
