"""key: a declared key implies a punctuation after each tuple: no other tuple has its key."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.state import State
from xmlpunct.operators.time.late_filter import LATE, MOST, reject_late
from xmlpunct.punctuations.declared_keys import Keys
from xmlpunct.punctuations.promised import Promised, earliest
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema


class Key(Operator):
    """Emits after each tuple a punctuation that closes its key, and rejects a second tuple of the key.

    ``keys`` are sets of attributes, all NOT NULL. A late tuple also closes its key. Duplicates of keys in earlier
    slices are detected only if the operator ``remembers`` them; otherwise the operators above have received the
    punctuations. Below a guard, a duplicate is only marked, and the guard rejects it.

    - cpass(ts, ps)  = [t | t in ts, no earlier tuple has its key]
    - cprop(ts, ps)  = ps ++ [<key = t.key> | t in ts]
    - ckeep(ts, ps)  = []

    See semantics 4.15.

    >>> from xmlpunct.operators.notation import show
    >>> show(Key(Schema.parse("id INT NOT NULL, v INT"), [("id",)]), "1 5; 2 5; 1 6; P(*, 7)")
    1 5; 2 5; 1 6; P(*, 7) -> 1 5; 2 5; P(*, 7); P(1, *); P(2, *)
    """

    name = "key"
    speaks = True

    def __init__(self, schema: Schema, keys: Sequence[Sequence[str]], remembers: bool = False) -> None:
        super().__init__((schema,), schema)
        self._keys = Keys(schema, keys, Promised(schema, MOST) if remembers else None)
        self._tuples: pl.DataFrame | None = None
        """The tuples of the slice, until their punctuations are emitted."""
        if self._keys.said is not None:
            self.state = State(said=self._keys.said)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        self._tuples, schemes = tuples, self._keys.judge(tuples)
        late = schemes.is_not_null()
        if not late.any():
            return tuples
        if LATE in self.schema:
            return tuples.with_columns(earliest(tuples[LATE], late, schemes).alias(LATE))
        reject_late(self, tuples.filter(late), schemes.filter(late))
        return tuples.filter(~late)

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        tuples, self._tuples = self._tuples, None
        closed_keys = [] if tuples is None else self._keys.promises(tuples)
        return self.schema.empty(), PunctuationBatch.union([batch, *closed_keys])

    @property
    def forgotten(self) -> int:
        return 0 if self._keys.said is None else self._keys.said.forgotten
