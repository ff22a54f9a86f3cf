"""intersect: the tuples that are in both inputs."""

from __future__ import annotations

import polars as pl

from xmlpunct.operators.arrangement import row_flags
from xmlpunct.operators.hash_index import ascending
from xmlpunct.operators.sets.set_operation import SetOperation
from xmlpunct.slice import without


class Intersect(SetOperation):
    """Emits a tuple once it has arrived in both inputs.

    - cpass   = δ[t | t in ts1, t in ts2]
    - ckeep1  = [t | t in ts1, t not in ts2, setNomatch(t, ps2)]; ckeep2 mirrored
    - ckeep   = emitted tuples, until they are closed
    - cprop   = setCombine(ps1, ps2) ++ setNomatchPs(ts1', ps1) ++ setNomatchPs(ts2', ps2)

    Emitted tuples are retained once, for both inputs, and block no punctuation.

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
    speaks = True  # a tuple that meets its equal can release a pending punctuation

    def compare(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        new = without(tuples, self.output.seen.has(tuples))
        positions, rows = self.stored[1 - port].probe(new)
        self.lose(1 - port, ascending(rows))
        is_in_both = row_flags(positions, new.height)
        self.store(port, without(new, is_in_both))
        return new.filter(is_in_both)
