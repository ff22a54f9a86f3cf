"""not-in: SQL's NOT IN where nulls can occur, which has no answer before its right side has ended."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xmlpunct.frames import Snapshot
from xmlpunct.operators.iterator import Operator
from xmlpunct.operators.join_keys import LEFT, RIGHT, JoinKeys
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.set import PunctuationSet
from xmlpunct.schema import Schema


class NotIn(Operator):
    """Passes a left tuple whose ``left_column`` is certainly none of the values of ``right_column``.

    A null on the right makes every comparison unknown, so nothing passes; a null on the left passes only if
    the right is empty. Anything may still turn up on the right until it ends.

    - cpass   = [t | t in ts1, t.a <> b for all b in ts2] once the right has ended
    - ckeep1  = ts1 until then, without those that cannot pass
    - ckeep2  = [b | b in δ(ts2), setNomatch(b, joinPs(ps1))], where a null alone stands for all of ts2
    - cprop   = setNomatchPs(ts1', ps1)
    """

    name = "not-in"
    speaks = True  # a right tuple that comes may free a punctuation

    def __init__(self, left: Schema, right: Schema, left_column: str, right_column: str) -> None:
        super().__init__((left, right), left)
        self.keys = JoinKeys((left, right), [(left_column, right_column)])
        self._column, self._right_column = left_column, right_column
        self._waiting = left.empty()
        self._values = right.empty().select(right_column)
        self._pending = PunctuationSet(left)
        self._empty, self._ended = True, False

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        if port == RIGHT:
            self._empty = False
            fresh = tuples.select(self._right_column)
            self._waiting = self._possible(self._waiting, fresh)
            fresh = fresh.filter(~self.keys.closed_by(LEFT, RIGHT, fresh))
            values = pl.concat([self._values, fresh]).unique(maintain_order=True)
            unknown = values.filter(pl.col(self._right_column).is_null())
            self._values = unknown if unknown.height else values
            return self.schema.empty()
        possible = tuples if self._empty else self._possible(tuples, self._values)
        if self._ended:
            return possible
        self._waiting = pl.concat([self._waiting, possible])
        return self.schema.empty()

    def pass_(self, port: int, punctuations: Sequence[Punctuation]) -> pl.DataFrame:
        if port == RIGHT and PunctuationBatch.of(punctuations).has_end:
            self._ended = True
            return self._waiting
        return self.schema.empty()

    def keep(self, port: int, punctuations: Sequence[Punctuation]) -> None:
        if self._ended:
            self._waiting = self.schema.empty()
        closed = self.keys.closings(port, punctuations)
        if port == LEFT:
            self._pending.update(punctuations)
            self._values = self._values.filter(~self.keys.among(closed, RIGHT, self._values))
        self.keys.add(port, closed)

    def prop(self, port: int, punctuations: Sequence[Punctuation]) -> Sequence[Punctuation]:
        free = self._pending.unmatched(self._waiting)
        self._pending.discard(free)
        return free

    def _possible(self, left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
        """The left tuples that the values of a right side which is not empty do not exclude."""
        values = right[self._right_column]
        if values.has_nulls():
            return left.clear()
        known = left.filter(pl.col(self._column).is_not_null())
        return known.filter(~known[self._column].is_in(values.implode()))

    def waits(self) -> list[int]:
        return [self._values.height, self._waiting.height]

    @property
    def rows(self) -> int:
        return self._waiting.height + self._values.height

    @property
    def held(self) -> int:
        return len(self._pending) + self.keys.meeting.held

    def snapshot(self) -> Snapshot:
        state = {"waiting": self._waiting, "values": self._values, **self.keys.meeting.snapshot()}
        flags = pl.DataFrame({"empty": [self._empty], "ended": [self._ended]})
        return {**state, "pending": self._pending.snapshot(), "flags": flags}

    def restore(self, snapshot: Snapshot) -> None:
        self._waiting, self._values = snapshot["waiting"], snapshot["values"]
        self._pending = PunctuationSet.restored(self.schema, snapshot["pending"])
        self._empty, self._ended = snapshot["flags"].row(0)
        self.keys.meeting.restore(snapshot)
