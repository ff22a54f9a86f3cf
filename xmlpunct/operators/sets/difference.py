"""difference: the left tuples that are not in the right input."""

from __future__ import annotations

import polars as pl

from xmlpunct.operators.hash_index import ascending
from xmlpunct.operators.join.join_keys import LEFT, RIGHT
from xmlpunct.operators.sets.set_operation import SetOperation
from xmlpunct.slice import without


class Difference(SetOperation):
    """Emits a left tuple once the right input, which does not contain it, has closed it.

    - cpass   = δ[t | t in ts1, t not in ts2, setMatch(t, ps2)]
    - ckeep1  = [t | t in ts1, t not in ts2, setNomatch(t, ps2)]
    - ckeep2  = [t | t in ts2, setNomatch(t, ps1)]; and emitted tuples, until they are closed
    - cprop   = setCombine(ps1, ps2) ++ setNomatchPs(ts1', ps1)

    See semantics 4.11.

    >>> from xmlpunct.operators.notation import show
    >>> from xmlpunct.schema import Schema
    >>> x = Schema.parse("x INT")
    >>> show(Difference(x, x), "1: 1; 2", "2: 2; P(1)", "1: P([1,2])")
    1: 1; 2     ->
    2: 2; P(1)  -> 1
    1: P([1,2]) -> P(1); P([1,2])
    """

    name = "difference"
    speaks = True  # a right tuple can release a pending punctuation
    pending_sides = (LEFT,)

    def compare(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        if port == RIGHT:
            _, rows = self.stored[LEFT].probe(tuples)
            self.lose(LEFT, ascending(rows))
            self.store(RIGHT, tuples)
            return self.schema.empty()
        unmatched = without(tuples, self.stored[RIGHT].has(tuples))
        self.store(LEFT, unmatched)
        return unmatched.filter(self.closed_by(RIGHT, unmatched))

    def release(self, side: int, closed: pl.DataFrame) -> pl.DataFrame:
        return closed if side == LEFT else super().release(side, closed)
