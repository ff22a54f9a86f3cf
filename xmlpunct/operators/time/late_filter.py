"""late filter, called guard in plans: rejects late tuples before other operators see them."""

from __future__ import annotations

import polars as pl

from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.state import State
from xmlpunct.punctuations.promised import Promised, earliest
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.schema.provenance import is_attribute, with_origin
from xmlpunct.slice import Slice
from xmlpunct.slice.lateness import Lateness, reason
from xmlpunct.types import STRING

LATE = "$late"
"""The column that says which punctuation of its own slice a tuple violates, if any."""
MOST = 1_000_000
"""It remembers at most so many punctuations or intervals. This bounds memory, and is no matter of speed."""


def guarded(schema: Schema) -> Schema:
    """What a guard reads: a stream's attributes, where each tuple stood, and what it violates in its own slice."""
    return Schema.of((*with_origin(schema), Attribute(LATE, STRING)))


def marked(given: Slice, schema: Schema) -> Slice:
    """A slice as a guard reads it; ``schema`` is the stream's.

    Lateness inside the slice is judged here, because later the order of tuples and punctuations is not known.
    """
    whole = guarded(schema)
    late = Lateness(schema).judge(given)
    said = given.punctuations.rebase(whole, [i if i < len(schema) else None for i in range(len(whole))])
    return Slice(given.tuples.with_columns(late.alias(LATE)).select(whole.names), said)


def reject_late(operator: Operator, tuples: pl.DataFrame, schemes: pl.Series) -> None:
    """Reject tuples that violate punctuations of these schemes."""
    schema = Schema.of(a for a in operator.schema if is_attribute(a.name))
    for row, scheme in zip(tuples.iter_rows(named=True), schemes, strict=True):
        operator.reject(row, reason(schema, row, scheme))


class LateFilter(Operator):
    """Rejects the tuples that come after a punctuation of their source that matches them; passes the others on.

    - cpass(ts, ps)  = [t | t in ts, not late(t)]
    - cprop(ts, ps)  = ps
    - ckeep(ts, ps)  = []

    It reads the slices of one source, each `marked`, in their order. Its memory has a limit: it counts what it has
    ``forgotten``. It never finishes, because a tuple may be late by any time.

    See semantics 1.4.

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
        reject_late(self, rejected, earliest(marks, said.is_not_null(), said))
        return tuples.filter(~late)

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        self._said.add(batch.rebase(self.stream, range(len(self.stream))))
        return self.schema.empty(), batch.unique().rebase(self.schema, range(len(self.schema)))

    @property
    def forgotten(self) -> int:
        return self._said.forgotten
