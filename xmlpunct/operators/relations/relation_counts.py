"""The counts of tuples in relations, at each instant."""

from __future__ import annotations

from functools import partial

import polars as pl

from xmlpunct.base.frames import SnapshotPart
from xmlpunct.operators.iterator import Outcome
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.relations.pending_prefixes import PendingPrefixes
from xmlpunct.operators.relations.sweep import Sweep, changes_of
from xmlpunct.operators.sets.count_functions import COUNT_FUNCTIONS, required_inputs
from xmlpunct.punctuations.alignment import Alignment
from xmlpunct.punctuations.ownership import KeyPath
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema


class RelationCounts:
    """Emits a tuple's change at an instant once all inputs have closed the tuple up to that instant.

    - R(τ)(e) = f(R1(τ)(e), ..., Rn(τ)(e)), for the count of each tuple e at each instant τ
    - cpass   = [<e, t, f(n) - f(m)> | m, n the counts before t and at t, f(n) != f(m), setMatch(<e, t>, ps)]
    - cprop   = ps = setCombine(ps1, ..., psn), and punctuations that one required input justifies
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
        self._pending = {side: PendingPrefixes(schema, instants) for side in required}
        """Punctuations of each input without which there is no result. The tuples of this input block them."""
        self.key_paths: list[KeyPath] = [
            (alignment, None),
            *((part, None) for part in self._pending.values()),
        ]
        pending = {f"pending{side}": pending for side, pending in self._pending.items()}
        self.parts: dict[str, SnapshotPart] = {"closed": alignment, **pending, **self._sweep.parts}

    def add(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        """Receive changes of an input; no result is certain yet."""
        self._sweep.open_changes.add(tuples, port)
        return self.schema.empty()

    def close(self, port: int, batch: PunctuationBatch) -> Outcome:
        """Receive punctuations of an input, in the output's schema; return released changes and punctuations."""
        closed = batch if self._inputs == 1 else self._alignment.update(port, batch)
        steps = self._sweep.close(closed)  # pass, keep
        before = [after - diff for after, diff in zip(steps.after, steps.diffs, strict=True)]
        diffs = self._function(steps.after) - self._function(before)
        results = changes_of(steps.tuples, diffs, self.schema.names)
        if port in self._pending:
            self._pending[port].add(batch)
        closed_results, free = PunctuationSet(self.schema, closed), list[Punctuation]()
        for side, pending in self._pending.items():
            pending.lose(steps.tuples)
            pending.lose(steps.over)
            free += pending.free(partial(self._sweep.least, side))
        propagated = [closed, [p for p in free if not closed_results.covers(p)]]
        return results, PunctuationBatch.union(propagated)

    def waits(self) -> list[int]:
        """The amount of state that waits for punctuations of each input."""
        rows = len(self._sweep.open_changes)
        return [rows] if self._inputs == 1 else [rows * bool(n) for n in self._alignment.waits()]
