"""pointwise: a relation in which the count of each tuple is a function of its counts in the inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.merge.merge import MergedInputs, renamed_columns
from xmlpunct.operators.relations.alone import Alone
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.relations.sweep import Counts, Sweep, changes_of
from xmlpunct.operators.state import State
from xmlpunct.punctuations.alignment import Alignment
from xmlpunct.punctuations.ownership import Ways
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema

CountFunction = Callable[[Sequence[Counts]], Counts]
"""Maps the counts of tuples in the inputs to those in the output; shape (tuples,) each."""


def _number(flags: NDArray[np.bool_]) -> Counts:
    return flags.astype(np.int64)


FUNCTIONS: dict[str, CountFunction] = {
    "changes": lambda n: n[0],
    "distinct": lambda n: _number(n[0] > 0),
    "union": lambda n: _number(np.maximum.reduce(n) > 0),
    "except": lambda n: _number((n[0] > 0) & (n[1] == 0)),
    "except all": lambda n: np.maximum(n[0] - n[1], 0),
    "intersect": lambda n: _number(np.minimum.reduce(n) > 0),
    "intersect all": np.minimum.reduce,
    "semi": lambda n: np.where(n[1] > 0, n[0], 0),
    "anti": lambda n: np.where(n[1] > 0, 0, n[0]),
}
"""``changes`` returns the canonical changes of a relation: one for each tuple and instant, and none of 0.

``semi`` and ``anti`` return all copies of the first input's tuples that are, or are not, in the second input.
"""
ALONE = {
    "except": [0], "except all": [0], "intersect": [0, 1], "intersect all": [0, 1], "semi": [0, 1], "anti": [0]
}  # fmt: skip
"""For each function, the inputs without whose tuples there is no result."""


class Pointwise(Operator):
    """Emits a tuple's change at an instant once all inputs have closed the tuple up to that instant.

    - R(τ)(e) = f(R1(τ)(e), ..., Rn(τ)(e)), for the count of each tuple e at each instant τ
    - cpass   = [<e, t, f(n) - f(m)> | m, n the counts before t and at t, f(n) != f(m), setMatch(<e, t>, ps)]
    - cprop   = ps = setCombine(ps1, ..., psn), and punctuations that one input justifies (`Alone`)
    - ckeep   = the counts of each tuple at its last closed instant, and its later changes

    See relations 4.6. Nulls are equal, and so are NaNs.

    >>> from xmlpunct.schema.change_columns import changes
    >>> from xmlpunct.operators.notation import show
    >>> from xmlpunct.types import INT
    >>> x = changes(Schema.parse("x INT"), INT)
    >>> distinct = Pointwise([x], "distinct", Instants(INT))
    >>> show(distinct, "7 1 1; 7 2 1; 7 4 -2", "P(*, (,3], *)", "P(7, *, *)")
    7 1 1; 7 2 1; 7 4 -2 ->
    P(*, (,3], *)        -> 7 1 1; P(*, (,3], *)
    P(7, *, *)           -> 7 4 -1; P(7, *, *)
    """

    name = "pointwise"

    def __init__(self, inputs: Sequence[Schema], function: str, instants: Instants) -> None:
        self._merged = MergedInputs(inputs)
        super().__init__(tuple(inputs), self._merged.schema)
        self.function, self.instants = function, instants
        self._f = FUNCTIONS[function]
        self._sweep = Sweep(self.schema, len(inputs))
        self._alignment = Alignment(self.schema, len(inputs))
        sides = ALONE.get(function, [])
        self._alone = {side: Alone(self.schema, self._sweep, side, instants) for side in sides}
        alone_parts = {f"alone{side}": alone for side, alone in self._alone.items()}
        self.state = State(
            alignment=self._alignment, **alone_parts, **self._sweep.parts, **self._merged.parts
        )

    def spread(self, ways: Ways) -> None:
        super().spread(ways)
        self._merged.spread(ways, self.sifted)
        self._alignment.spread(self.ownership)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        self._sweep.later.add(renamed_columns(tuples, self.schema), port)
        return self.schema.empty()

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        received = self._merged.to_output(port, batch)
        closed = received if len(self.inputs) == 1 else self._alignment.update(port, received)
        steps = self._sweep.close(closed)  # pass, keep
        before = [after - diff for after, diff in zip(steps.after, steps.diffs, strict=True)]
        results = changes_of(steps.tuples, self._f(steps.after) - self._f(before), self.schema.names)
        if port in self._alone:
            self._alone[port].add(received)
        one_sided: list[Punctuation] = []
        for one_side in self._alone.values():
            one_side.lose(steps.tuples)
            one_side.lose(steps.over)
            one_sided += one_side.free(closed)
        return results, PunctuationBatch.union([closed, one_sided])  # prop

    def waits(self) -> list[int]:
        rows = len(self._sweep.later)
        return [rows] if len(self.inputs) == 1 else [rows * bool(n) for n in self._alignment.waits()]
