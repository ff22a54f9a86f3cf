"""union: each tuple of several inputs once, SQL's UNION."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xmlpunct.frames import Snapshot
from xmlpunct.operators.dupelim import DupElim
from xmlpunct.operators.iterator import Operator
from xmlpunct.operators.merge import Merge
from xmlpunct.punctuations.ownership import Ways
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema


class Union(Operator):
    """`Merge`, then `DupElim` on what it passes and promises.

    - cpass(ts1, ps1, ..., tsn, psn)  = δ(ts1 ++ ... ++ tsn)
    - cprop(ts1, ps1, ..., tsn, psn)  = setCombine(ps1, ..., psn)
    - ckeep                           = [t | t in δ(ts1 ++ ... ++ tsn), setNomatch(t, cprop)]
    """

    name = "union"

    def __init__(self, inputs: Sequence[Schema]) -> None:
        self._merge = Merge(inputs)
        super().__init__(self._merge.inputs, self._merge.schema)
        self._dupelim = DupElim(self.schema)
        self._promised: Sequence[Punctuation] = ()

    def spread(self, ways: Ways) -> None:
        super().spread(ways)
        self._merge.spread(ways)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        return self._dupelim.step(0, self._merge.step(port, tuples))

    def keep(self, port: int, punctuations: Sequence[Punctuation]) -> None:
        # What merge promises decides what dupelim keeps, so merge's prop comes before dupelim's keep.
        self._promised = self._merge.prop(port, punctuations)
        self._dupelim.keep(0, self._promised)

    def prop(self, port: int, punctuations: Sequence[Punctuation]) -> Sequence[Punctuation]:
        return self._promised

    def waits(self) -> list[int]:
        return self._merge.meeting.waits(self._dupelim.retained)

    @property
    def rows(self) -> int:
        return self._dupelim.rows

    @property
    def held(self) -> int:
        return self._merge.held

    def snapshot(self) -> Snapshot:
        return {**self._merge.snapshot(), **self._dupelim.snapshot()}

    def restore(self, snapshot: Snapshot) -> None:
        self._merge.restore(snapshot)
        self._dupelim.restore(snapshot)
