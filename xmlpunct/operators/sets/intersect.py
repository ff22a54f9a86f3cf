"""intersect: the tuples that both inputs have."""

from __future__ import annotations

import polars as pl

from xmlpunct.operators.arrangement import marked
from xmlpunct.operators.hash_index import ascending
from xmlpunct.operators.sets.set_operation import SetOperation
from xmlpunct.slice import without


class Intersect(SetOperation):
    """Passes a tuple once both inputs have had it.

    - cpass   = δ[t | t in ts1, t in ts2]
    - ckeep1  = [t | t in ts1, t not in ts2, setNomatch(t, ps2)]; ckeep2 mirrored
    - ckeep   = what was output, until promised away
    - cprop   = setCombine(ps1, ps2) ++ setNomatchPs(ts1', ps1) ++ setNomatchPs(ts2', ps2)

    What was output is known once, for both sides, so it stands in no punctuation's way.

    See semantics 4.10.

    >>> from xmlpunct.operators.notation import show
    >>> from xmlpunct.schema import Schema
    >>> x = Schema.parse("x INT")
    >>> show(Intersect(x, x), "1: 1; 2", "2: 2; 2; 3", "1: P([1,2])", "2: P(1)")
    1: 1; 2     ->
    2: 2; 2; 3  -> 2
    1: P([1,2]) ->
    2: P(1)     -> P(1); P([1,2])
    """

    name = "intersect"
    speaks = True  # a tuple that meets its like may free a punctuation

    def compare(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        fresh = without(tuples, self.output.seen.has(tuples))
        met, had = self.stored[1 - port].probe(fresh)
        self.lose(1 - port, ascending(had))
        is_both = marked(met, fresh.height)
        self.store(port, without(fresh, is_both))
        return fresh.filter(is_both)
