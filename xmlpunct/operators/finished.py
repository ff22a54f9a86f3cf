"""finished: what is left of an operator that has promised that nothing will come from it any more."""

from __future__ import annotations

import polars as pl

from xmlpunct.frames import Snapshot
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.state import State
from xmlpunct.punctuations.batch import PunctuationBatch

FINISHED = "$finished"
"""The name of its state, which no part of an operator's has."""


class Finished(Operator):
    """Stands in the place of ``operator``: no tuple that still comes in matters to anybody, and none is retained.

    An inner join has finished with the first of its inputs of which nothing waits for a partner, say. Where there is
    one shard, punctuations do not matter either. On one of several they do: the others may not have finished, and
    what is about this shard's values it alone can say. So it goes on saying what the operator does with nothing
    retained.

    >>> from xmlpunct.operators.notation import show
    >>> from xmlpunct.schema import Schema
    >>> from xmlpunct.operators.dupelim import DupElim
    >>> show(Finished(DupElim(Schema.parse("x INT"))), "1; 2; P(1)")
    1; 2; P(1) ->
    """

    def __init__(self, operator: Operator) -> None:
        super().__init__(operator.inputs, operator.schema)
        self.name, self.number = operator.name, operator.number
        self._operator = operator if operator.ownership else None
        self.state = State(**{FINISHED: _Remains(operator.state if operator.ownership else State())})

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        return self.schema.empty()

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        promised = PunctuationBatch()
        if self._operator is not None:
            _, promised = self._operator.punctuate(port, batch)
        if promised.has_end:
            promised = PunctuationBatch(p for p in promised if not p.is_everything)
        return self.schema.empty(), promised


class _Remains:
    """The state of an operator that has finished. None of it counts: nobody waits for it."""

    def __init__(self, state: State) -> None:
        self._state = state

    def __len__(self) -> int:
        return 0

    def snapshot(self) -> Snapshot:
        return {"finished": pl.DataFrame(), **self._state.snapshot()}

    def restore(self, snapshot: Snapshot) -> None:
        self._state.restore(snapshot)
