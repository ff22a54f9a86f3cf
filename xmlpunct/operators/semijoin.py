"""semijoin: the left tuples that have a partner (IN, EXISTS), or that have none (NOT EXISTS)."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xmlpunct.bundle import distinct
from xmlpunct.operators.evaluate import evaluate
from xmlpunct.operators.expression import Expression
from xmlpunct.operators.iterator import Operator, Snapshot
from xmlpunct.operators.join_keys import LEFT, RIGHT, JoinKeys
from xmlpunct.operators.table import Table
from xmlpunct.punctset import PunctuationSet
from xmlpunct.punctuation import Punctuation
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
        self._residual = None if residual is None else evaluate(residual)
        needed = set(residual.columns()) if residual is not None else set[str]()
        self._columns = [n for n in right.names if n in needed or n in self.keys.names[RIGHT]] or [_ANY]
        self._waiting, self._partners = Table(left.empty()), Table(self._needed(right.empty()))
        self._pending = [PunctuationSet(left), PunctuationSet(self.keys.schema)]
        self._closed: Sequence[Punctuation] = ()
        """What the slice at hand closes, as punctuations over k."""

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        return self._from_left(tuples) if port == LEFT else self._from_right(tuples)

    def _from_left(self, tuples: pl.DataFrame) -> pl.DataFrame:
        found = self._has_partner(tuples, self._partners.frame)
        decided = self.keys.has_null(LEFT, tuples) | self.keys.closed_by(RIGHT, LEFT, tuples)
        self._waiting.append(tuples.filter(~found & ~decided))
        return tuples.filter(~found & decided if self.anti else found)

    def _from_right(self, tuples: pl.DataFrame) -> pl.DataFrame:
        fresh = self._needed(tuples.filter(~self.keys.has_null(RIGHT, tuples))).unique(maintain_order=True)
        found = self._has_partner(self._waiting.frame, fresh)
        passed = self.schema.empty() if self.anti else self._waiting.frame.filter(found)
        self._waiting.purge(found)
        self._partners.add(without(fresh, self.keys.closed_by(LEFT, RIGHT, fresh)))
        return passed

    def _needed(self, right: pl.DataFrame) -> pl.DataFrame:
        """What finds partners: some columns, or if it needs none, that there is a tuple at all."""
        return right.with_columns(pl.lit(True).alias(_ANY)).select(self._columns)

    def pass_(self, port: int, punctuations: Sequence[Punctuation]) -> pl.DataFrame:
        self._closed = self.keys.closings(port, punctuations)
        if port == LEFT or not self.anti:
            return self.schema.empty()
        waiting = self._waiting.frame
        return waiting.filter(self.keys.among(self._closed, LEFT, waiting))

    def keep(self, port: int, punctuations: Sequence[Punctuation]) -> None:
        if port == LEFT:
            self._partners.purge(self.keys.among(self._closed, RIGHT, self._partners.frame))
            self._pending[LEFT].update(punctuations)
        else:
            self._waiting.purge(self.keys.among(self._closed, LEFT, self._waiting.frame))
            if not self.anti:
                self._pending[RIGHT].update(self._closed)
        self.keys.add(port, self._closed)

    def prop(self, port: int, punctuations: Sequence[Punctuation]) -> Sequence[Punctuation]:
        free = self._pending[LEFT].unmatched(self._waiting.frame)
        self._pending[LEFT].discard(free)
        if not self.anti:
            gone = self._pending[RIGHT].unmatched(self.keys.named(RIGHT, self._partners.frame))
            self._pending[RIGHT].discard(gone)
            return distinct([free, self.keys.moved(gone, self.schema, LEFT)])
        return free

    def _has_partner(self, left: pl.DataFrame, right: pl.DataFrame) -> pl.Series:
        """For each left tuple, whether some right one is its partner."""
        numbered = left.with_row_index(_ID)
        pairs = self.keys.pairs(numbered, right)
        if self._residual is not None:
            right_keys = zip(*self.keys.names, strict=True)
            pairs = pairs.with_columns(pl.col(k).alias(name) for k, name in right_keys)
            if self._residual.error is not None:
                pairs = self.reject_failures(pairs, self._residual.error)
            pairs = pairs.filter(self._residual.value)
        return numbered[_ID].is_in(pairs[_ID].implode())

    def waits(self) -> list[int]:
        return [self._partners.height, self._waiting.height]

    @property
    def rows(self) -> int:
        return self._waiting.height + self._partners.height

    @property
    def held(self) -> int:
        return self.keys.meeting.held + sum(map(len, self._pending))

    def snapshot(self) -> Snapshot:
        pending = {f"pending{i}": p.snapshot() for i, p in enumerate(self._pending)}
        waiting, partners = self._waiting.snapshot("waiting"), self._partners.snapshot("partners")
        return {**waiting, **partners, **pending, **self.keys.meeting.snapshot()}

    def restore(self, snapshot: Snapshot) -> None:
        self._waiting.restore("waiting", snapshot)
        self._partners.restore("partners", snapshot)
        self._pending = [
            PunctuationSet.restored(schema, snapshot[f"pending{i}"])
            for i, schema in enumerate((self.schema, self.keys.schema))
        ]
        self.keys.meeting.restore(snapshot)
