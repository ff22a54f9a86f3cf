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
from xmlpunct.slice.lateness import Lateness, late_reason
from xmlpunct.types import STRING

LATE = "$late"
"""The column with the kind of punctuation of its own slice that a tuple violates, if any."""
MOST = 1_000_000
"""The most punctuations or intervals that a guard retains. This bounds memory, and does not affect speed."""


def guard_schema(schema: Schema) -> Schema:
    """The schema that a guard reads: a stream's attributes, each tuple's position in the input, and `LATE`."""
    return Schema.of((*with_origin(schema), Attribute(LATE, STRING)))


def guarded_slice(slice_: Slice, schema: Schema) -> Slice:
    """A slice as a guard reads it; ``schema`` is the stream's.

    Lateness within the slice is judged here, because the slice loses the order of its tuples and punctuations.
    """
    output = guard_schema(schema)
    late = Lateness(schema).judge(slice_)
    sources = [i if i < len(schema) else None for i in range(len(output))]
    punctuations = slice_.punctuations.rebase(output, sources)
    return Slice(slice_.tuples.with_columns(late.alias(LATE)).select(output.names), punctuations)


def reject_late(operator: Operator, tuples: pl.DataFrame, schemes: pl.Series) -> None:
    """Reject tuples; ``schemes`` are the kinds of punctuations that they violate."""
    schema = Schema.of(a for a in operator.schema if is_attribute(a.name))
    for row, scheme in zip(tuples.iter_rows(named=True), schemes, strict=True):
        operator.reject(row, late_reason(schema, row, scheme))


class LateFilter(Operator):
    """Rejects late tuples, which arrive after a punctuation of their source that matches them.

    - cpass(ts, ps)  = [t | t in ts, not late(t)]
    - cprop(ts, ps)  = ps
    - ckeep(ts, ps)  = []

    It reads the slices of one source, each a `guarded_slice`, in their order. Its state is limited: it counts the
    punctuations that were ``forgotten``. It never finishes, because a tuple can be late by any time.

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
        super().__init__((guard_schema(stream),), with_origin(stream))
        self.stream = stream
        self._received = Promised(stream, MOST)
        self.state = State(said=self._received)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        marks = tuples[LATE]
        late = marks.is_not_null() | self._received.mask(tuples)
        tuples = tuples.drop(LATE)
        if not late.any():
            return tuples
        rejected, marks = tuples.filter(late), marks.filter(late)
        schemes = self._received.schemes(rejected)
        reject_late(self, rejected, earliest(marks, schemes.is_not_null(), schemes))
        return tuples.filter(~late)

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        self._received.add(batch.rebase(self.stream, range(len(self.stream))))
        return self.schema.empty(), batch.unique().rebase(self.schema, range(len(self.schema)))

    @property
    def forgotten(self) -> int:
        return self._received.forgotten
