"""sort: tuples in order, released once no later tuple can sort before them."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.pending import Pending
from xmlpunct.operators.state import State
from xmlpunct.operators.time.prefix import Prefix, SortKey
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema


class Sort(Operator):
    """Sorts by ``keys``, ties by the remaining columns. Releases tuples up to the first open value of the order.

    - cpass(ts, ps)  = [t | t in ts, setMatch(t, init(ps))], sorted
    - cprop(ts, ps)  = init(ps) + [p | p in ps, setNomatch(ts', p)], with ts' the retained tuples
    - ckeep(ts, ps)  = [t | t in ts, setNomatch(t, init(ps))]

    init(ps) is the `Prefix` that ps close. If the released punctuations do not cover it, new ones are emitted: no tuple
    follows that sorts before a released one.

    See semantics 4.12.

    >>> from xmlpunct.operators.notation import show
    >>> it = Sort(Schema.parse("x INT NOT NULL CHECK (x BETWEEN 0 AND 9)"), [("x", False, False)])
    >>> show(it, "3; 1; 2", "P(2)", "P([0,1])")
    3; 1; 2  ->
    P(2)     ->
    P([0,1]) -> 1; 2; P(2); P([0,1])
    """

    name = "sort"

    def __init__(self, schema: Schema, keys: Sequence[tuple[str, bool, bool]]) -> None:
        super().__init__((schema,), schema)
        sort_keys: dict[str, SortKey] = {}
        for key in keys:
            sort_keys.setdefault(key[0], SortKey(*key))
        for name in schema.names:
            sort_keys.setdefault(name, SortKey(name))
        self.order = tuple(sort_keys.values())
        self._waiting = Arrangement(schema.empty(), schema.names)
        self._pending = Pending(schema)
        self._init, self._emitted = Prefix(schema, self.order), Prefix(schema, self.order)
        self.state = State(waiting=self._waiting, pending=self._pending, init=self._init, said=self._emitted)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        late = tuples.select(self._init.expression().alias("late"))["late"]
        if late.len() and late.any():
            for row in tuples.filter(late).iter_rows(named=True):
                self.reject(row, "too late to be sorted: tuples after it are released already")
            tuples = tuples.filter(~late)
        self._waiting.append(tuples)
        return self.schema.empty()

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        self._pending.add(batch)
        self._init.add(batch)
        released = self._waiting.remove(self._waiting.where(self._init.expression()))  # keep
        self._pending.lose(released)
        results = released.sort(
            [key.column for key in self.order],
            descending=[key.descending for key in self.order],
            nulls_last=[not key.nulls_first for key in self.order],
        )
        free = self._pending.free([self._waiting])
        self._emitted.add(free)
        return results, PunctuationBatch([*free, *self._init.extend(self._emitted)])
