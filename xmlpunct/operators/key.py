"""key: a declared key is a promise, made by each tuple: no other tuple of mine comes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.late_filter import LATE, MOST, reject_late
from xmlpunct.operators.state import State
from xmlpunct.punctuations.batch import PunctuationBatch, has_column
from xmlpunct.punctuations.promised import Promised, earliest, scheme_of
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema


class Key(Operator):
    """Promises after each tuple that none of its key comes again, and rejects a second one.

    ``keys`` are sets of attributes, all NOT NULL. A tuple that comes too late says so too. Of earlier slices it knows
    nothing, for those above it have heard its promises; unless it ``remembers``. Below a guard it marks such a tuple,
    and the guard rejects it.

    - cpass(ts, ps)  = [t | t in ts, no earlier one has its key]
    - cprop(ts, ps)  = ps ++ [<key = t.key> | t in ts]
    - ckeep(ts, ps)  = []

    >>> from xmlpunct.operators.notation import show
    >>> show(Key(Schema.parse("id INT NOT NULL, v INT"), [("id",)]), "1 5; 2 5; 1 6; P(*, 7)")
    1 5; 2 5; 1 6; P(*, 7) -> 1 5; 2 5; P(*, 7); P(1, *); P(2, *)
    """

    name = "key"
    speaks = True

    def __init__(self, schema: Schema, keys: Sequence[Sequence[str]], remembers: bool = False) -> None:
        super().__init__((schema,), schema)
        self.keys = keys
        self._came: pl.DataFrame | None = None
        """The tuples of the slice whose promises are still to be said."""
        self._said = Promised(schema, MOST) if remembers else None
        if self._said is not None:
            self.state = State(said=self._said)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        self._came = tuples
        schemes = pl.Series([None], dtype=pl.String()).new_from_index(0, tuples.height)
        if self._said is not None:
            schemes = self._said.schemes(tuples)
        for key in self.keys:
            again = ~tuples.select(pl.struct(key).is_first_distinct()).to_series()
            schemes = earliest(schemes, again, scheme_of(self.schema, map(self.schema.index, key)))
        late = schemes.is_not_null()
        if not late.any():
            return tuples
        if LATE in self.schema:
            return tuples.with_columns(earliest(tuples[LATE], late, schemes).alias(LATE))
        reject_late(self, tuples.filter(late), schemes.filter(late))
        return tuples.filter(~late)

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        said = PunctuationBatch.union([batch, *self._news()])
        return self.schema.empty(), said

    def _news(self) -> Iterator[PunctuationBatch]:
        """For each key what the tuples of the slice say."""
        came, self._came = self._came, None
        if came is None:
            return
        for key in self.keys:
            values = came.select(key).unique(maintain_order=True)
            (place, *more) = map(self.schema.index, key)
            if more or not has_column(self.schema[key[0]].type):
                rows = values.iter_rows(named=True)
                news = PunctuationBatch(Punctuation.of(self.schema, **row) for row in rows)
            else:
                news = PunctuationBatch.of_column(self.schema, place, values.to_series())
            if self._said is not None:
                self._said.add(news)
            yield news
