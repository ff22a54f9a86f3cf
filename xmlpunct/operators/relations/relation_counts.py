"""The counts of tuples in relations, at each instant."""

from __future__ import annotations

import polars as pl

from xmlpunct.base.frames import SnapshotPart
from xmlpunct.operators.iterator import Outcome
from xmlpunct.operators.relations.alone import Alone
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.relations.sweep import Sweep, changes_of
from xmlpunct.operators.sets.count_functions import COUNT_FUNCTIONS, required_inputs
from xmlpunct.punctuations.alignment import Alignment
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema


class RelationCounts:
    """Emits a tuple's change at an instant once all inputs have closed the tuple up to that instant.

    - R(τ)(e) = f(R1(τ)(e), ..., Rn(τ)(e)), for the count of each tuple e at each instant τ
    - cpass   = [<e, t, f(n) - f(m)> | m, n the counts before t and at t, f(n) != f(m), setMatch(<e, t>, ps)]
    - cprop   = ps = setCombine(ps1, ..., psn), and punctuations that one input justifies (`Alone`)
    - ckeep   = the counts of each tuple at its last closed instant, and its later changes

    >>> from xmlpunct.operators.notation import show
    >>> from xmlpunct.operators.sets.pointwise import Pointwise
    >>> from xmlpunct.schema.change_columns import changes
    >>> from xmlpunct.types import INT
    >>> distinct = Pointwise([changes(Schema.parse("x INT"), INT)], "distinct", Instants(INT))
    >>> show(distinct, "7 1 1; 7 2 1; 7 4 -2", "P(*, (,3], *)", "P(7, *, *)")
    7 1 1; 7 2 1; 7 4 -2 ->
    P(*, (,3], *)        -> 7 1 1; P(*, (,3], *)
    P(7, *, *)           -> 7 4 -1; P(7, *, *)
    """

    def __init__(self, schema: Schema, function: str, alignment: Alignment, instants: Instants) -> None:
        self.schema, self._alignment, self._inputs = schema, alignment, len(alignment.inputs)
        self._function = COUNT_FUNCTIONS[function]
        self._sweep = Sweep(schema, self._inputs)
        required = required_inputs(function, self._inputs)
        self._alone = {side: Alone(schema, self._sweep, side, instants) for side in required}
        alone_parts = {f"alone{side}": alone for side, alone in self._alone.items()}
        self.parts: dict[str, SnapshotPart] = {"closed": alignment, **alone_parts, **self._sweep.parts}

    def add(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        """Receive changes of an input; no result is certain yet."""
        self._sweep.later.add(tuples, port)
        return self.schema.empty()

    def close(self, port: int, batch: PunctuationBatch) -> Outcome:
        """Receive punctuations of an input, in the output's schema; return released changes and punctuations."""
        closed = batch if self._inputs == 1 else self._alignment.update(port, batch)
        steps = self._sweep.close(closed)  # pass, keep
        before = [after - diff for after, diff in zip(steps.after, steps.diffs, strict=True)]
        diffs = self._function(steps.after) - self._function(before)
        results = changes_of(steps.tuples, diffs, self.schema.names)
        if port in self._alone:
            self._alone[port].add(batch)
        one_sided: list[Punctuation] = []
        for one_side in self._alone.values():
            one_side.lose(steps.tuples)
            one_side.lose(steps.over)
            one_sided += one_side.free(closed)
        return results, PunctuationBatch.union([closed, one_sided])  # prop

    def waits(self) -> list[int]:
        """The amount of state that waits for punctuations of each input."""
        rows = len(self._sweep.later)
        return [rows] if self._inputs == 1 else [rows * bool(n) for n in self._alignment.waits()]
