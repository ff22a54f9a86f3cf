"""semijoin: the left tuples that have a partner (IN, EXISTS), or that have none (NOT EXISTS)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from xmlpunct.arrow import booleans
from xmlpunct.expressions.expression import Expression
from xmlpunct.expressions.program import compiled
from xmlpunct.frames import Snapshot
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.hash_index import Rows
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.join_keys import LEFT, RIGHT, JoinKeys
from xmlpunct.operators.pending import Pending
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.slice import without

_ID, _ANY = "$id", "$any"


class SemiJoin(Operator):
    """Passes a left tuple if some right one agrees with it on k and satisfies ``residual``; anti: if none does.

    - cpass, semi    = [t | t in ts1, some t2 in ts2: t.k = t2.k, residual(t, t2)]
    - cpass, anti    = [t | t in ts1, no such t2, and t.k null or in joinPs(ps2)]
    - ckeep1         = [t | t in ts1, no such t2 so far, setNomatch(t.k, joinPs(ps2))]
    - ckeep2         = [t | t in ts2, setNomatch(t.k, joinPs(ps1))]
    - cprop          = setNomatchPs(ts1', ps1); semi: also the k-part of setNomatchPs(ts2', joinPs(ps2))

    Each left tuple is decided once, at its first partner or when its k is closed; ts' is what is retained.
    """

    name = "semijoin"
    speaks = True  # a partner that comes may free a punctuation

    def __init__(
        self,
        left: Schema,
        right: Schema,
        keys: Sequence[tuple[str, str]],
        anti: bool = False,
        residual: Expression | None = None,
    ) -> None:
        super().__init__((left, right), left)
        self.keys, self.anti = JoinKeys((left, right), keys), anti
        self._residual = residual
        needed = set(residual.columns()) if residual is not None else set[str]()
        self._columns = [n for n in right.names if n in needed or n in self.keys.names[RIGHT]] or [_ANY]
        self._needed = Schema.of(right[n] for n in self._columns if n != _ANY)
        self._waiting = Arrangement(left.empty(), self.keys.names[LEFT])
        self._partners = Arrangement(self._partner(right.empty()), self.keys.names[RIGHT])
        self._pending, self._partnered = Pending(left), Pending(self._needed)
        """Punctuations of the left input, and of the right one's k, that wait."""

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        return self._from_left(tuples) if port == LEFT else self._from_right(tuples)

    def _from_left(self, tuples: pl.DataFrame) -> pl.DataFrame:
        places, rows = self._partners.probe(tuples, self.keys.names[LEFT])
        found = np.zeros(tuples.height, np.bool_)
        found[places[self._passing(tuples[places], self._partners.take(rows))]] = True
        has_partner, null = booleans(found), self.keys.has_null(LEFT, tuples)
        decided = null | self.keys.closed_by(RIGHT, LEFT, tuples)
        self._waiting.append(tuples.filter(~has_partner & ~decided))
        return tuples.filter(~has_partner & decided if self.anti else has_partner)

    def _from_right(self, tuples: pl.DataFrame) -> pl.DataFrame:
        fresh = self._partner(without(tuples, self.keys.has_null(RIGHT, tuples))).unique(maintain_order=True)
        places, rows = self._waiting.probe(fresh, self.keys.names[RIGHT])
        found = np.unique(rows[self._passing(self._waiting.take(rows), fresh[places])])
        passed = self._waiting.remove(found)
        self._pending.lose(passed)
        self._partners.insert(without(fresh, self.keys.closed_by(LEFT, RIGHT, fresh)))
        return self.schema.empty() if self.anti else passed

    def _partner(self, right: pl.DataFrame) -> pl.DataFrame:
        """What finds partners: some columns, or if it needs none, that there is a tuple at all."""
        return right.with_columns(pl.lit(True).alias(_ANY)).select(self._columns)

    def _passing(self, left: pl.DataFrame, right: pl.DataFrame) -> Rows:
        """The places of the pairs of a left and a right tuple that satisfy the residual."""
        if self._residual is None or not left.height:
            return np.arange(left.height)
        right = right.drop(name for name in right.columns if name in left.columns)
        pairs = left.hstack(right.get_columns()).with_row_index(_ID)
        return self.passing(pairs, compiled(self._residual))[_ID].to_numpy().astype(np.int64)

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        passed, closed = self.schema.empty(), self.keys.closings(port, batch)
        if port == LEFT:
            gone = PunctuationSet(self._needed, self._of_partners(closed))
            self._partnered.lose(self._partners.remove(self._partners.matching(gone)))  # keep
            self._pending.add(batch)
        else:
            ended = PunctuationSet(self.schema, self.keys.moved(closed, self.schema, LEFT))
            alone = self._waiting.remove(self._waiting.matching(ended))  # keep
            self._pending.lose(alone)
            if self.anti:
                passed = alone
            else:
                self._partnered.add(self._of_partners(closed))
        self.keys.add(port, closed)
        return passed, self._promised()

    def _promised(self) -> PunctuationBatch:
        free = self._pending.free([self._waiting])
        if self.anti:
            return free
        names = dict(zip(*self.keys.names, strict=True))
        places = [self._needed.index(names[name]) if name in names else None for name in self.schema.names]
        return PunctuationBatch.union(
            [free, self._partnered.free([self._partners]).rebase(self.schema, places)]
        )

    def _of_partners(self, over: PunctuationBatch) -> PunctuationBatch:
        """Punctuations over k as ones of what finds partners."""
        keys = self.keys.names[RIGHT]
        places = [keys.index(name) if name in keys else None for name in self._needed.names]
        return over.rebase(self._needed, places)

    def waits(self) -> list[int]:
        return [self._partners.height, self._waiting.height]

    @property
    def rows(self) -> int:
        return self._waiting.height + self._partners.height

    @property
    def held(self) -> int:
        return self.keys.alignment.held + len(self._pending) + len(self._partnered)

    def snapshot(self) -> Snapshot:
        pending = {"pending": self._pending.snapshot(), "partnered": self._partnered.snapshot()}
        waiting, partners = self._waiting.snapshot("waiting"), self._partners.snapshot("partners")
        return {**waiting, **partners, **pending, **self.keys.alignment.snapshot()}

    def restore(self, snapshot: Snapshot) -> None:
        self._waiting.restore("waiting", snapshot)
        self._partners.restore("partners", snapshot)
        self._pending.restore(snapshot["pending"])
        self._partnered.restore(snapshot["partnered"])
        self.keys.alignment.restore(snapshot)
