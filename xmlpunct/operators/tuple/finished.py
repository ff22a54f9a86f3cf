"""finished: the replacement of an operator whose output has ended."""

from __future__ import annotations

import polars as pl

from xmlpunct.base.frames import Snapshot
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.state import State
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch

FINISHED = "$finished"
"""The name of its state. No part of another operator's state has it."""


class Finished(Operator):
    """Replaces ``operator``, drops all tuples and retains none.

    For example, an inner join has finished when one input has ended and none of its tuples waits for a partner. On a
    single shard, punctuations no longer matter either. On several shards they do: another shard may not have finished,
    and only this shard can close its own values. So the operator, without state, still propagates punctuations.

    >>> from xmlpunct.operators.notation import show
    >>> from xmlpunct.schema import Schema
    >>> from xmlpunct.operators.sets.pointwise import Pointwise
    >>> show(Finished(Pointwise([Schema.parse("x INT")], "distinct")), "1; 2; P(1)")
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
        punctuations = PunctuationBatch()
        if self._operator is not None:
            _, punctuations = self._operator.punctuate(port, batch)
        if punctuations.has_end:
            punctuations = PunctuationBatch(p for p in punctuations if not p.is_everything)
        return self.schema.empty(), punctuations


class _Remains:
    """The state of an operator that has finished. Its length is 0: it is not counted."""

    def __init__(self, state: State) -> None:
        self._state = state

    def __len__(self) -> int:
        return 0

    def snapshot(self) -> Snapshot:
        return {"finished": pl.DataFrame(), **self._state.snapshot()}

    def restore(self, snapshot: Snapshot) -> None:
        self._state.restore(snapshot)
