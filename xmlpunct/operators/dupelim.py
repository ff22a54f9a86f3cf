"""dupelim: each tuple once."""

from __future__ import annotations

import polars as pl

from xmlpunct.operators.iterator import Operator, Snapshot
from xmlpunct.punctset import PunctuationSet
from xmlpunct.punctuation import Punctuation
from xmlpunct.schema import Schema


class DupElim(Operator):
    """Passes a tuple on when it comes for the first time. Nulls are equal here, as in SQL's DISTINCT.

    - cpass(ts, ps)  = δ(ts)
    - cprop(ts, ps)  = ps
    - ckeep(ts, ps)  = [t | t in ts, setNomatch(t, ps)]
    """

    name = "dupelim"

    def __init__(self, schema: Schema) -> None:
        super().__init__((schema,), schema)
        self._seen = schema.empty()

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        fresh = tuples.unique(maintain_order=True)
        if self._seen.height:
            fresh = fresh.join(
                self._seen, on=fresh.columns, how="anti", nulls_equal=True, maintain_order="left"
            )
            self._seen = pl.concat([self._seen, fresh])
        else:
            self._seen = fresh
        return fresh

    def keep(self, port: int, punctuations: list[Punctuation]) -> None:
        closed = PunctuationSet(self.schema, punctuations).mask(self._seen)
        if closed.any():
            self._seen = self._seen.filter(~closed)

    def prop(self, port: int, punctuations: list[Punctuation]) -> list[Punctuation]:
        return punctuations

    @property
    def retained(self) -> pl.DataFrame:
        """The tuples that may come again."""
        return self._seen

    @property
    def rows(self) -> int:
        return self._seen.height

    def snapshot(self) -> Snapshot:
        return {"seen": self._seen}

    def restore(self, snapshot: Snapshot) -> None:
        self._seen = snapshot["seen"]
