"""intersect: the tuples that both inputs have."""

from __future__ import annotations

import polars as pl

from xmlpunct.operators.set_operation import SetOperation


class Intersect(SetOperation):
    """Passes a tuple once both inputs have had it.

    - cpass   = δ[t | t in ts1, t in ts2]
    - ckeep1  = [t | t in ts1, setNomatch(t, ps2)]; ckeep2 mirrored; and what was output, until promised away
    - cprop   = setCombine(ps1, ps2) ++ setNomatchPs(ts1', ps1) ++ setNomatchPs(ts2', ps2)

    >>> from xmlpunct.operators.notation import show
    >>> from xmlpunct.schema import Schema
    >>> x = Schema.parse("x INT")
    >>> show(Intersect(x, x), "1: 1; 2", "2: 2; 2; 3", "1: P([1,2])", "2: P(1)")
    1: 1; 2     ->
    2: 2; 2; 3  -> 2
    1: P([1,2]) ->
    2: P(1)     -> P(1)
    """

    name = "intersect"

    def compare(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        both = tuples.filter(self.stored[1 - port].has(tuples))
        self.store(port, tuples)
        return both
