"""not-in: SQL's NOT IN where nulls can occur. One null on the right removes every tuple."""

from __future__ import annotations

import polars as pl

from xmlpunct.operators.hash_index import ascending
from xmlpunct.operators.iterator import Outcome
from xmlpunct.operators.join.join_inputs import JoinInputs
from xmlpunct.operators.join.join_keys import LEFT, RIGHT, JoinKeys
from xmlpunct.operators.join.preserved import Preserved
from xmlpunct.operators.state import Cell, State
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.ownership import Ways
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.slice import without


class NotIn(JoinInputs):
    """Passes a left tuple whose ``left_column`` is certainly none of the values of ``right_column``.

    A null on the right makes every comparison unknown, so nothing passes; a null on the left passes only if
    the right is empty. Anything may still turn up on the right until it ends.

    - cpass   = [t | t in ts1, t.a <> b for all b in ts2] once the right has ended
    - ckeep1  = ts1 until then, without those that cannot pass
    - ckeep2  = [b | b in δ(ts2), setNomatch(b, joinPs(ps1))], where a null alone stands for all of ts2
    - cprop   = setNomatchPs(ts1', ps1)

    With a NOT NULL ``right_column``, only left tuples with a null wait for the end. Others are released as by an
    antijoin:

    - cpass   = also [t | t in ts1, t.a <> b for all b in ts2, t.a in joinPs(ps2)]
    - ckeep1  = also without [t | t.a in joinPs(ps2)]
    - cprop   = also setCombine(ps1, joinPs(ps2))

    See semantics 4.9.

    >>> from xmlpunct.operators.notation import show
    >>> x, y = Schema.parse("x INT"), Schema.parse("y INT")
    >>> show(NotIn(x, y, "x", "y"), "1: 1; 2; null", "2: 1; P([1,2])", "2: P(*)")
    1: 1; 2; null  ->
    2: 1; P([1,2]) ->
    2: P(*)        -> 2
    """

    name = "not-in"
    speaks = True  # a right tuple that comes may free a punctuation

    def __init__(self, left: Schema, right: Schema, left_column: str, right_column: str) -> None:
        keys = JoinKeys((left, right), [(left_column, right_column)])
        super().__init__((left, right), left, keys, None, (left, Schema.of([right[right_column]])))
        ((self._waiting,), (self._values,)) = self.retained
        self._empty, self._ended = Cell(True), Cell(False)
        self._until_end = right[right_column].nullable
        self._left = Preserved(LEFT, keys, left, range(len(left)), self.pending[LEFT])
        self._all_values = JointCover(Schema.of([right[right_column]]), [0])
        self.state = State(
            **self.sides, empty=self._empty, ended=self._ended, past=self._left.past, all=self._all_values
        )

    def spread(self, ways: Ways) -> None:
        super().spread(ways)
        self._left.spread(ways, self.ownership, self.sifted)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        if port == RIGHT:
            fresh = tuples.select(self._values.key)
            self._exclude(fresh)
            self._store(without(fresh, self.keys.closed_by(LEFT, RIGHT, fresh)))
            return self.schema.empty()
        possible = tuples if self._empty.value else self._possible(tuples)
        if self._ended.value:
            return possible
        if self._until_end:
            self._waiting.append(possible)
            return self.schema.empty()
        decided = self.closed_by(RIGHT, LEFT, possible)
        self._waiting.append(possible.filter(~decided))
        return possible.filter(decided)

    def _exclude(self, fresh: pl.DataFrame) -> None:
        """Let the left tuples go that cannot pass beside these values."""
        if fresh.to_series().has_nulls():
            self._release()
        first, self._empty.value = self._empty.value, False
        values = pl.concat([fresh, self._null]) if first else fresh
        _, rows = self._waiting.probe(values, self._values.key)
        self.lose(LEFT, ascending(rows))

    def _release(self) -> pl.DataFrame:
        """Let all left tuples go; return them."""
        tuples = self._waiting.frame
        self.pending[LEFT].lose(tuples)
        self._waiting.clear()
        return tuples

    def _store(self, fresh: pl.DataFrame) -> None:
        """Retain values, or if one of them is null, that alone."""
        if self._is_unknown or fresh.to_series().has_nulls():
            self._values.clear()
            fresh = self._null
        self._values.insert(fresh)

    def _possible(self, left: pl.DataFrame) -> pl.DataFrame:
        """The left tuples that the values of a right side which is not empty do not exclude."""
        if self._is_unknown:
            return left.clear()
        known = left.drop_nulls(self._waiting.key)
        return without(known, self._values.has(known, self._waiting.key))

    @property
    def _null(self) -> pl.DataFrame:
        """A null among the values."""
        return self._values.empty.clear(1)

    @property
    def _is_unknown(self) -> bool:
        """Whether a null is among the values."""
        return bool(len(self._values)) and bool(self._values.has(self._null).item())

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        met = self._left.meet(batch) if port == LEFT else None  # both sides may forget these values next
        passed, closed = self.schema.empty(), self.closings(port, batch)
        if port == LEFT:
            self.close(RIGHT, self.keys.moved(closed, self.pending[RIGHT].schema, RIGHT))  # keep
            self.pending[LEFT].add(batch)
        elif closed.has_end or self._closes_all(closed):
            self._ended.value = True
            passed = self._release()
        elif not self._until_end:
            (passed,) = self.close(LEFT, self.keys.moved(closed, self.pending[LEFT].schema, LEFT))
        self.keys.add(port, closed)
        free = self.free()[LEFT]
        if self._until_end:
            return passed, free
        return passed, PunctuationBatch.union([free, self._left.combined(free, closed, met)])

    def _closes_all(self, closed: PunctuationBatch) -> bool:
        """Whether the right side is known to stay empty, because it has closed every value that it can have."""
        if self._until_end or not self._empty.value:
            return False
        schema = self._all_values.schema
        return self._all_values.add(closed.rename(schema)).has_end
