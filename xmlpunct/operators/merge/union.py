"""union: each tuple of several inputs once, SQL's UNION."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xmlpunct.operators.arrangement import distinct
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.merge.merge import Merge
from xmlpunct.operators.sets.dupelim import DupElim
from xmlpunct.operators.state import State
from xmlpunct.punctuations.ownership import Ways
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema


class Union(Operator):
    """`Merge`, then `DupElim` on its tuples and punctuations.

    - cpass(ts1, ps1, ..., tsn, psn)  = δ(ts1 ++ ... ++ tsn)
    - cprop(ts1, ps1, ..., tsn, psn)  = setCombine(ps1, ..., psn)
    - ckeep                           = [t | t in δ(ts1 ++ ... ++ tsn), setNomatch(t, cprop)]

    See semantics 4.5.

    >>> from xmlpunct.operators.notation import show
    >>> x = Schema.parse("x INT")
    >>> show(Union([x, x]), "1: 1; 2; P([1,5])", "2: 2; 3; P([2,9])")
    1: 1; 2; P([1,5]) -> 1; 2
    2: 2; 3; P([2,9]) -> 3; P([2,5])
    """

    name = "union"

    def __init__(self, inputs: Sequence[Schema]) -> None:
        self._merge = Merge(inputs)
        super().__init__(self._merge.inputs, self._merge.schema)
        self._dupelim = DupElim(self.schema)
        self.state = State(**self._merge.state.parts, **self._dupelim.state.parts)

    def spread(self, ways: Ways) -> None:
        super().spread(ways)
        self._merge.spread(ways)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        return self._dupelim.step(0, self._merge.step(port, tuples))

    def reduced(self, tuples: pl.DataFrame) -> pl.DataFrame:
        return distinct(tuples)

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        # The punctuations that merge emits decide which tuples dupelim retains.
        _, punctuations = self._merge.punctuate(port, batch)
        return self._dupelim.punctuate(0, punctuations)

    def waits(self) -> list[int]:
        tuples = self._merge.alignment.waits(self._dupelim.seen.frame)
        return tuples if any(tuples) else self._merge.waits()
