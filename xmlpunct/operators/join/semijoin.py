"""semijoin: the left tuples with a partner (IN, EXISTS); antijoin: those without (NOT EXISTS)."""

from __future__ import annotations

import numpy as np
import polars as pl

from xmlpunct.expressions.expression import Expression
from xmlpunct.operators.arrangement import distinct, row_flags
from xmlpunct.operators.hash_index import ascending
from xmlpunct.operators.iterator import Outcome
from xmlpunct.operators.join.join_inputs import JoinInputs
from xmlpunct.operators.join.join_keys import LEFT, RIGHT, Equalities, JoinKeys
from xmlpunct.operators.join.preserved import Preserved
from xmlpunct.operators.state import State
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.slice import without
from xmlpunct.types import BOOLEAN

_ANY = "$any"


class SemiJoin(JoinInputs):
    """Emits a left tuple if a right tuple agrees with it on k and satisfies ``residual``; anti: if none does.

    - cpass, semi    = [t | t in ts1, some t2 in ts2: t.k = t2.k, residual(t, t2)]
    - cpass, anti    = [t | t in ts1, no such t2, and t.k null or in joinPs(ps2)]
    - ckeep1         = [t | t in ts1, no such t2 so far, setNomatch(t.k, joinPs(ps2))]
    - ckeep2         = [t | t in ts2, setNomatch(t.k, joinPs(ps1))]
    - cprop          = setNomatchPs(ts1', ps1) ++ setCombine(ps1, joinPs(ps2)); semi: also the k-part of
      setNomatchPs(ts2', joinPs(ps2))

    Each left tuple is decided once, at its first partner or when its k is closed. ts' are the retained tuples: of a
    right tuple, only the columns that k and the residual read.

    See semantics 4.8.

    >>> from xmlpunct.operators.notation import show
    >>> bids, items = Schema.parse("item INT, price INT"), Schema.parse("id INT, name STRING")
    >>> it = SemiJoin(bids, items, [("item", "id")], anti=True)
    >>> show(it, "1: 1 10; 2 20", "2: 1 lamp; P([1,5], *)", "1: P(2, *)")
    1: 1 10; 2 20          ->
    2: 1 lamp; P([1,5], *) -> 2 20
    1: P(2, *)             -> P(2, *)
    """

    name = "semijoin"
    speaks = True  # a partner can release a pending punctuation

    def __init__(
        self,
        left: Schema,
        right: Schema,
        keys: Equalities,
        anti: bool = False,
        residual: Expression | None = None,
    ) -> None:
        k, self.anti = JoinKeys((left, right), keys), anti
        needed = {*k.names[RIGHT], *(residual.columns() if residual is not None else ())}
        partner = Schema.of(
            [a for a in right if a.name in needed] or [Attribute(_ANY, BOOLEAN, nullable=False)]
        )
        self._columns = list(partner.names)
        schema = left if anti else k.without_nulls(left, residual)
        super().__init__((left, right), schema, k, residual, (left, partner))
        ((self._waiting,), (self._partners,)) = self.retained
        names = dict(zip(*k.names, strict=True))
        self._origins = [partner.index(names[name]) if name in names else None for name in left.names]
        self._left = Preserved(LEFT, k, left, range(len(left)), self.pending[LEFT])
        self.key_paths += self._left.key_paths
        self.state = State(**self.sides, past=self._left.past)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        return self._from_left(tuples) if port == LEFT else self._from_right(tuples)

    def _from_left(self, tuples: pl.DataFrame) -> pl.DataFrame:
        bounded, unmatchable = self.bounded(LEFT, tuples)
        possible = np.flatnonzero(~unmatchable.to_numpy())
        has_partner = row_flags(possible[self.meet(LEFT, bounded[possible])[1]], tuples.height)
        decided = unmatchable | self.closed_by(RIGHT, LEFT, bounded)
        self._waiting.append(bounded.filter(~has_partner & ~decided))
        return tuples.filter(~has_partner & decided if self.anti else has_partner)

    def _from_right(self, tuples: pl.DataFrame) -> pl.DataFrame:
        partners = without(*self.bounded(RIGHT, distinct(self._partner(tuples))))
        partnered = self.lose(LEFT, ascending(self.meet(RIGHT, partners)[2]))
        self._partners.insert(without(partners, self.closed_by(LEFT, RIGHT, partners)))
        return self.schema.empty() if self.anti else partnered.select(self.schema.names)

    def _partner(self, right: pl.DataFrame) -> pl.DataFrame:
        """The columns of right tuples that k and the residual read; if they read none, a constant one."""
        return right.with_columns(pl.lit(True).alias(_ANY)).select(self._columns)

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        met = self._left.meet(batch) if port == LEFT else None  # before both sides drop these values of k
        closed, (purged,) = self.receive(port, batch)  # keep
        released = purged.select(self.schema.names) if self.anti and port == RIGHT else self.schema.empty()
        if port == LEFT:
            self.pending[LEFT].add(batch)
        elif not self.anti:
            self.pending[RIGHT].add(self.keys.to_schema(closed, self.pending[RIGHT].schema, RIGHT))
        left, partners = self.free()
        combined = self._left.combined(left, closed, met)
        punctuations = [left, partners.rebase(self.schema, self._origins), combined]
        return released, PunctuationBatch.union(punctuations).rename(self.schema)
