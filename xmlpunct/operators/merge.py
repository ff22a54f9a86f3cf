"""merge: all tuples of several inputs, SQL's UNION ALL."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.state import State
from xmlpunct.punctuations.alignment import Alignment
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.ownership import Ways
from xmlpunct.schema import Attribute, Schema


class Merge(Operator):
    """Passes every tuple of every input on. Inputs match by position; names are the first input's.

    - cpass(ts1, ps1, ..., tsn, psn)  = ts1 ++ ... ++ tsn
    - cprop(ts1, ps1, ..., tsn, psn)  = setCombine(ps1, ..., psn)
    - ckeep                           = []

    `Alignment` says which punctuations are retained.

    >>> from xmlpunct.operators.notation import show
    >>> x = Schema.parse("x INT")
    >>> show(Merge([x, x]), "1: 1; 2; P([1,5])", "2: 2; P([2,9])")
    1: 1; 2; P([1,5]) -> 1; 2
    2: 2; P([2,9])    -> 2; P([2,5])
    """

    name = "merge"

    def __init__(self, inputs: Sequence[Schema], alike: bool = False) -> None:
        super().__init__(tuple(inputs), merged(inputs))
        self.alignment = Alignment(self.schema, len(inputs), alike)
        self.state = State(alignment=self.alignment)

    def spread(self, ways: Ways) -> None:
        super().spread(ways)
        self.alignment.spread(self.ownership)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        return named(tuples, self.schema)

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        return self.schema.empty(), self.alignment.update(port, batch.rename(self.schema))

    def waits(self) -> list[int]:
        return self.alignment.waits()


def named(tuples: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Tuples under the names of a schema, which match by position."""
    names = dict(zip(tuples.columns, schema.names, strict=True))
    return tuples if all(old == new for old, new in names.items()) else tuples.rename(names)


def merged(inputs: Sequence[Schema]) -> Schema:
    """The schema of a merge: NOT NULL and a domain hold where every input declares them alike.

    Raises ValueError where the inputs' attributes differ in number or type.
    """
    first = inputs[0]
    if any([a.type for a in schema] != [a.type for a in first] for schema in inputs):
        raise ValueError("the inputs of a merge have attributes of the same types in the same order")
    attributes = []
    for column in zip(*inputs, strict=True):
        head = column[0]
        nullable = any(a.nullable for a in column)
        alike = all(a.domain == head.domain for a in column)
        if alike:
            attributes.append(Attribute(head.name, head.type, nullable, head.name, head.domain))
        else:
            attributes.append(Attribute(head.name, head.type, nullable))
    return Schema.of(attributes)
