"""not-in: SQL's NOT IN where nulls can occur. One null on the right removes every tuple.

The nulls make it a class of its own beside `Join`, which has no result that depends on tuples of all keys.
"""

from __future__ import annotations

import polars as pl

from xmlpunct.operators.hash_index import ascending
from xmlpunct.operators.iterator import Outcome
from xmlpunct.operators.join.join_inputs import JoinInputs
from xmlpunct.operators.join.join_keys import LEFT, RIGHT, JoinKeys
from xmlpunct.operators.join.preserved import Preserved
from xmlpunct.operators.state import State, StateCell
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.slice import without


class NotIn(JoinInputs):
    """Emits a left tuple whose ``left_column`` is certainly different from all values of ``right_column``.

    A null on the right makes every comparison unknown, so no tuple is emitted. A null on the left is emitted only if
    the right input is empty. Any value may arrive on the right until it ends.

    - cpass   = [t | t in ts1, t.a <> b for all b in ts2] once the right has ended
    - ckeep1  = ts1 until then, except tuples that the right values exclude
    - ckeep2  = [b | b in δ(ts2), setNomatch(b, joinPs(ps1))], where a single null replaces all of ts2
    - cprop   = setNomatchPs(ts1', ps1)

    With a NOT NULL ``right_column``, only left tuples with a null wait for the end. All other left tuples are released
    as by an antijoin:

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
    speaks = True  # a right tuple can release a pending punctuation

    def __init__(self, left: Schema, right: Schema, left_column: str, right_column: str) -> None:
        keys = JoinKeys((left, right), [(left_column, right_column)])
        super().__init__((left, right), left, keys, None, (left, Schema.of([right[right_column]])))
        ((self._waiting,), (self._values,)) = self.retained
        self._empty, self._ended = StateCell(True), StateCell(False)
        self._until_end = right[right_column].nullable
        self._left = Preserved(LEFT, keys, left, range(len(left)), self.pending[LEFT])
        self.key_paths += self._left.key_paths
        self._all_values = JointCover(Schema.of([right[right_column]]), [0])
        self.state = State(
            **self.sides, empty=self._empty, ended=self._ended, past=self._left.past, all=self._all_values
        )

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        if port == RIGHT:
            values = tuples.select(self._values.key)
            self._exclude(values)
            self._store(without(values, self.keys.closed_by(LEFT, RIGHT, values)))
            return self.schema.empty()
        possible = tuples if self._empty.value else self._not_excluded(tuples)
        if self._ended.value:
            return possible
        if self._until_end:
            self._waiting.append(possible)
            return self.schema.empty()
        decided = self.closed_by(RIGHT, LEFT, possible)
        self._waiting.append(possible.filter(~decided))
        return possible.filter(decided)

    def _exclude(self, values: pl.DataFrame) -> None:
        """Purge the left tuples that these right values exclude."""
        if values.to_series().has_nulls():
            self._release()
        is_first, self._empty.value = self._empty.value, False
        values = pl.concat([values, self._null]) if is_first else values
        _, rows = self._waiting.probe(values, self._values.key)
        self.lose(LEFT, ascending(rows))

    def _release(self) -> pl.DataFrame:
        """Remove all left tuples; return them."""
        tuples = self._waiting.frame
        self.pending[LEFT].lose(tuples)
        self._waiting.clear()
        return tuples

    def _store(self, values: pl.DataFrame) -> None:
        """Retain right values; if one is null, only the null."""
        if self._is_unknown or values.to_series().has_nulls():
            self._values.clear()
            values = self._null
        self._values.insert(values)

    def _not_excluded(self, left: pl.DataFrame) -> pl.DataFrame:
        """The left tuples that the right values do not exclude, if the right input is not empty."""
        if self._is_unknown:
            return left.clear()
        not_null = left.drop_nulls(self._waiting.key)
        return without(not_null, self._values.has(not_null, self._waiting.key))

    @property
    def _null(self) -> pl.DataFrame:
        """One row with a null, of the values' schema."""
        return self._values.empty.clear(1)

    @property
    def _is_unknown(self) -> bool:
        """Whether a null is among the values."""
        return bool(len(self._values)) and bool(self._values.has(self._null).item())

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        met = self._left.meet(batch) if port == LEFT else None  # before both sides drop these values
        released, closed = self.schema.empty(), self.closings(port, batch)
        if port == LEFT:
            self.close(RIGHT, self.keys.to_schema(closed, self.pending[RIGHT].schema, RIGHT))  # keep
            self.pending[LEFT].add(batch)
        elif closed.has_end or self._closes_all(closed):
            self._ended.value = True
            released = self._release()
        elif not self._until_end:
            (released,) = self.close(LEFT, self.keys.to_schema(closed, self.pending[LEFT].schema, LEFT))
        self.keys.add(port, closed)
        free = self.free()[LEFT]
        if self._until_end:
            return released, free
        return released, PunctuationBatch.union([free, self._left.combined(free, closed, met)])

    def _closes_all(self, closed: PunctuationBatch) -> bool:
        """Whether the right side is certain to stay empty, because it has closed every value of its domain."""
        if self._until_end or not self._empty.value:
            return False
        schema = self._all_values.schema
        return self._all_values.add(closed.rename(schema)).has_end
