"""partial-dupelim: each tuple once a slice, before an exchange."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xmlpunct.operators.iterator import Operator
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema


class PartialDupElim(Operator):
    """Drops what comes twice in a slice, and remembers nothing.

    - step(ts)       = δ(ts)
    - cpass(ts, ps)  = []
    - cprop(ts, ps)  = ps
    - ckeep(ts, ps)  = []
    """

    name = "partial-dupelim"

    def __init__(self, schema: Schema) -> None:
        super().__init__((schema,), schema)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        return tuples.unique(maintain_order=True)

    def prop(self, port: int, punctuations: Sequence[Punctuation]) -> Sequence[Punctuation]:
        return punctuations
