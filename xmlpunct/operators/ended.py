"""ended: what is left of an operator that has promised that nothing will come from it any more."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xmlpunct.operators.iterator import Operator, Snapshot
from xmlpunct.punctuation import Punctuation

ENDED = "$ended"
"""Its name in a snapshot, which no operator's state has."""


class Ended(Operator):
    """Stands in the place of ``operator``: whatever still comes in matters to nobody, and nothing is retained.

    An inner join has ended with the first of its inputs of which nothing waits for a partner, say.
    """

    def __init__(self, operator: Operator) -> None:
        super().__init__(operator.inputs, operator.schema)
        self.name, self.number = operator.name, operator.number

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        return self.schema.empty()

    def prop(self, port: int, punctuations: Sequence[Punctuation]) -> Sequence[Punctuation]:
        return []

    def snapshot(self) -> Snapshot:
        return {ENDED: pl.DataFrame()}
