"""pointwise: DISTINCT, UNION, INTERSECT and EXCEPT: a tuple's count is a function of its counts in the inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from xmlpunct.operators.arrangement import distinct
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.merge.merge import MergedInputs, renamed_columns
from xmlpunct.operators.sets.stream_counts import StreamCounts
from xmlpunct.operators.state import State
from xmlpunct.punctuations.alignment import Alignment
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema

if TYPE_CHECKING:
    from xmlpunct.operators.relations.instants import Instants
    from xmlpunct.operators.relations.relation_counts import RelationCounts

STREAM_NAMES = {
    "distinct": "dupelim",
    "union": "union",
    "intersect": "intersect",
    "except": "difference",
}
"""The names of the operators on streams, by function."""


class Pointwise(Operator):
    """Emits a tuple once its count in the output, a ``function`` of its counts in the inputs, is certain.

    - R(e) = f(R1(e), ..., Rn(e)), for the count of each tuple e (`COUNT_FUNCTIONS`); nulls are equal, and so are NaNs
    - cprop = setCombine(ps1, ..., psn), and punctuations that one required input justifies (`required_inputs`)

    In a stream, counts are 0 or 1 and never decrease, and the result has each tuple once (`StreamCounts`; semantics
    4.3, 4.5, 4.10 and 4.11). A relation is a stream of changes, with counts at ``instants``; its changes are emitted
    once all inputs have closed the tuple up to their instant (`RelationCounts`; relations 4.6).

    >>> from xmlpunct.operators.notation import show
    >>> x = Schema.parse("x INT")
    >>> show(Pointwise([x], "distinct"), "1; 2; 1; null", "2; 3; null", "P(2)")
    1; 2; 1; null -> 1; 2; null
    2; 3; null    -> 3
    P(2)          -> P(2)
    >>> show(Pointwise([x, x], "union"), "1: 1; 2; P([1,5])", "2: 2; 3; P([2,9])")
    1: 1; 2; P([1,5]) -> 1; 2
    2: 2; 3; P([2,9]) -> 3; P([2,5])
    >>> show(Pointwise([x, x], "intersect"), "1: 1; 2", "2: 2; 2; 3", "1: P([1,2])", "2: P(1)")
    1: 1; 2     ->
    2: 2; 2; 3  -> 2
    1: P([1,2]) ->
    2: P(1)     -> P(1); P([1,2])
    >>> show(Pointwise([x, x], "except"), "1: 1; 2", "2: 2; P(1)", "1: P([1,2])")
    1: 1; 2     ->
    2: 2; P(1)  -> 1
    1: P([1,2]) -> P(1); P([1,2])
    """

    name = "pointwise"

    def __init__(self, inputs: Sequence[Schema], function: str, instants: Instants | None = None) -> None:
        self._merged = MergedInputs(inputs)
        super().__init__(tuple(inputs), self._merged.schema)
        self.function, self.instants = function, instants
        alignment = Alignment(self.schema, len(inputs))
        self._counts: StreamCounts | RelationCounts
        if instants is None:
            self.name = STREAM_NAMES[function]
            self._counts = StreamCounts(self.schema, function, alignment)
            self.speaks = (
                self._counts.compares
            )  # a tuple that meets its equal can release a pending punctuation
        else:
            from xmlpunct.operators.relations.relation_counts import RelationCounts

            self._counts = RelationCounts(self.schema, function, alignment, instants)
        self.key_paths = [*self._counts.key_paths, *self._merged.key_paths]
        self.state = State(**self._counts.parts, **self._merged.parts)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        return self._counts.add(port, renamed_columns(tuples, self.schema))

    def reduced(self, tuples: pl.DataFrame) -> pl.DataFrame:
        return distinct(tuples) if self.instants is None else tuples

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        return self._counts.close(port, self._merged.to_output(port, batch))

    def waits(self) -> list[int]:
        return self._counts.waits()
