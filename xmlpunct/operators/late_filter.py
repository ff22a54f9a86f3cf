"""late filter, in plans called guard: rejects what comes after a punctuation that matches it, before all others."""

from __future__ import annotations

import polars as pl

from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.state import State
from xmlpunct.provenance import with_origin
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.lateness import Lateness, reason
from xmlpunct.punctuations.promised import Promised, earliest
from xmlpunct.schema import Attribute, Schema
from xmlpunct.slice import Slice
from xmlpunct.types import STRING

LATE = "$late"
MOST = 1_000_000
"""So many punctuations, or intervals of them, does it remember."""


def guarded(schema: Schema) -> Schema:
    """What a guard reads: a stream's attributes, where each tuple stood, and what it violates of its own slice."""
    return Schema.of((*with_origin(schema), Attribute(LATE, STRING)))


def marked(given: Slice, schema: Schema) -> Slice:
    """A slice of a stream, with where its tuples stood, as a guard reads it. ``schema`` is the stream's.

    Lateness inside the slice is judged here, since behind this nobody knows the order of tuples and punctuations.
    """
    whole = guarded(schema)
    late = Lateness(schema).judge(given)
    said = given.punctuations.rebase(whole, [i if i < len(schema) else None for i in range(len(whole))])
    return Slice(given.tuples.with_columns(late.alias(LATE)).select(whole.names), said)


class LateFilter(Operator):
    """Rejects the tuples that come after a punctuation of their source that matches them; passes the others on.

    - cpass(ts, ps)  = [t | t in ts, not late(t)]
    - cprop(ts, ps)  = ps
    - ckeep(ts, ps)  = []

    It reads the slices of one source, each `marked`, in the order of the source. Its memory has a limit, and it
    counts what it has ``forgotten``. How late a tuple may be it cannot know, so that it is there till the end.

    >>> from xmlpunct.operators.notation import show
    >>> x = Schema.parse("x INT")
    >>> show(LateFilter(x), "5 feed 1 10 null; P(5, *, *, *, *)", "6 feed 3 30 null; 5 feed 4 40 null")
    5 feed 1 10 null; P(5, *, *, *, *) -> 5 feed 1 10; P(5, *, *, *)
    6 feed 3 30 null; 5 feed 4 40 null -> 6 feed 3 30
    """

    name = "guard"
    ends = False

    def __init__(self, stream: Schema) -> None:
        super().__init__((guarded(stream),), with_origin(stream))
        self.stream = stream
        self._said = Promised(stream, MOST)
        self.state = State(said=self._said)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        marks = tuples[LATE]
        late = marks.is_not_null() | self._said.mask(tuples)
        tuples = tuples.drop(LATE)
        if not late.any():
            return tuples
        rejected, marks = tuples.filter(late), marks.filter(late)
        said = self._said.schemes(rejected)
        schemes = earliest(marks, said.is_not_null(), said)
        for row, scheme in zip(rejected.iter_rows(named=True), schemes, strict=True):
            self.reject(row, reason(self.stream, row, scheme))
        return tuples.filter(~late)

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        self._said.add(batch.rebase(self.stream, range(len(self.stream))))
        return self.schema.empty(), batch.unique().rebase(self.schema, range(len(self.schema)))

    @property
    def forgotten(self) -> int:
        return self._said.forgotten
