"""not-in: SQL's NOT IN where nulls can occur, which has no answer before its right side has ended."""

from __future__ import annotations

import polars as pl

from xmlpunct.operators.iterator import Operator, Snapshot
from xmlpunct.operators.join_keys import LEFT, RIGHT
from xmlpunct.punctset import PunctuationSet
from xmlpunct.punctuation import Punctuation, from_frame, to_frame
from xmlpunct.schema import Schema


class NotIn(Operator):
    """Passes a left tuple whose ``left_column`` is certainly none of the values of ``right_column``.

    A null on the right makes every comparison unknown, so nothing passes; a null on the left passes only if
    the right is empty. Anything may still turn up on the right until it ends.

    - cpass   = [t | t in ts1, t.a <> b for all b in ts2] once the right has ended
    - ckeep1  = ts1 until then, without those that cannot pass; ckeep2 = δ(ts2)
    - cprop   = setNomatchPs(ts1', ps1)
    """

    name = "not-in"

    def __init__(self, left: Schema, right: Schema, left_column: str, right_column: str) -> None:
        super().__init__((left, right), left)
        if left[left_column].type != right[right_column].type:
            raise ValueError(f"{left_column} and {right_column} are not of one type: CAST one of them")
        self._column, self._right_column = left_column, right_column
        self._waiting = left.empty()
        self._values = right.empty().select(pl.col(right_column).alias("value"))
        self._pending = PunctuationSet(left)
        self._ended = False

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        if port == RIGHT:
            fresh = tuples.select(pl.col(self._right_column).alias("value"))
            self._values = pl.concat([self._values, fresh]).unique(maintain_order=True)
            self._waiting = self._possible(self._waiting)
            return self.schema.empty()
        possible = self._possible(tuples)
        if self._ended:
            return possible
        self._waiting = pl.concat([self._waiting, possible])
        return self.schema.empty()

    def pass_(self, port: int, punctuations: list[Punctuation]) -> pl.DataFrame:
        if port == RIGHT and any(p.is_everything for p in punctuations):
            self._ended = True
            return self._waiting
        return self.schema.empty()

    def keep(self, port: int, punctuations: list[Punctuation]) -> None:
        if self._ended:
            self._waiting = self.schema.empty()
        if port == LEFT:
            self._pending.update(punctuations)

    def prop(self, port: int, punctuations: list[Punctuation]) -> list[Punctuation]:
        free = self._pending.unmatched(self._waiting)
        self._pending.discard(free)
        return free

    def _possible(self, left: pl.DataFrame) -> pl.DataFrame:
        """The left tuples that nothing on the right excludes so far."""
        values = self._values["value"]
        if not values.len():
            return left
        if values.has_nulls():
            return left.clear()
        known = left.filter(pl.col(self._column).is_not_null())
        return known.filter(~known[self._column].is_in(values.implode()))

    def waits(self) -> list[int]:
        return [0, self._waiting.height]

    @property
    def rows(self) -> int:
        return self._waiting.height + self._values.height

    @property
    def held(self) -> int:
        return len(self._pending)

    def snapshot(self) -> Snapshot:
        state = {"waiting": self._waiting, "values": self._values}
        ended = pl.DataFrame({"ended": [self._ended]})
        return {**state, "pending": to_frame(self.schema, self._pending), "ended": ended}

    def restore(self, snapshot: Snapshot) -> None:
        self._waiting, self._values = snapshot["waiting"], snapshot["values"]
        self._pending = PunctuationSet(self.schema, from_frame(self.schema, snapshot["pending"]))
        self._ended = snapshot["ended"].item()
