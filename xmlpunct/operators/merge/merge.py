"""merge: all tuples of several inputs, SQL's UNION ALL."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xmlpunct.base.frames import Part
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.state import State
from xmlpunct.punctuations.alignment import Alignment
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.ownership import Ownership, Ways
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute


class Merge(Operator):
    """Passes every tuple of every input on. Inputs match by position; names are the first input's.

    - cpass(ts1, ps1, ..., tsn, psn)  = ts1 ++ ... ++ tsn
    - cprop(ts1, ps1, ..., tsn, psn)  = setCombine(ps1, ..., psn)
    - ckeep                           = []

    `Alignment` says which punctuations are retained.

    See semantics 4.4.

    >>> from xmlpunct.operators.notation import show
    >>> x = Schema.parse("x INT")
    >>> show(Merge([x, x]), "1: 1; 2; P([1,5])", "2: 2; P([2,9])")
    1: 1; 2; P([1,5]) -> 1; 2
    2: 2; P([2,9])    -> 2; P([2,5])
    """

    name = "merge"

    def __init__(self, inputs: Sequence[Schema], alike: bool = False) -> None:
        self._merged = MergedInputs(inputs)
        super().__init__(tuple(inputs), self._merged.schema)
        self.alignment = Alignment(self.schema, len(inputs), alike)
        self.state = State(alignment=self.alignment, **self._merged.parts)

    def spread(self, ways: Ways) -> None:
        super().spread(ways)
        self._merged.spread(ways, self.sifted)
        self.alignment.spread(self.ownership)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        return named(tuples, self.schema)

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        return self.schema.empty(), self.alignment.update(port, self._merged.said(port, batch))

    def waits(self) -> list[int]:
        return self.alignment.waits()


class MergedInputs:
    """What several inputs say, as punctuations of the ``schema`` that they are merged to, by position.

    An attribute of an input may be NOT NULL, or have a domain, that the merged one has not. Punctuations that together
    close all that the input has there close null, and what is outside the domain, too.
    """

    def __init__(self, inputs: Sequence[Schema]) -> None:
        self.inputs, self.schema = inputs, merged(inputs)
        self._joint = [
            [
                JointCover(schema, [place])
                for place, (mine, whole) in enumerate(zip(schema, self.schema, strict=True))
                if not mine.nullable and widens(mine, whole)
            ]
            for schema in inputs
        ]

    @property
    def parts(self) -> dict[str, Part]:
        """What is retained, for the state."""
        return {
            f"joint{port}_{i}": joint
            for port, joints in enumerate(self._joint)
            for i, joint in enumerate(joints)
        }

    def spread(self, ways: Ways, sifted: bool) -> None:
        """As `Operator.spread`."""
        for schema, joints in zip(self.inputs, self._joint, strict=True):
            mine = [[schema.names[self.schema.index(name)] for name in way] for way in ways]
            for joint in joints:
                joint.spread(Ownership(schema, mine, sifted))

    def said(self, port: int, batch: PunctuationBatch) -> PunctuationBatch:
        """What punctuations of an input say."""
        for joint in self._joint[port]:
            batch = PunctuationBatch.union([batch, joint.add(batch)])
        return batch.rename(self.schema)


def widens(mine: Attribute, whole: Attribute) -> bool:
    """Whether the attribute that an input's is merged to allows null where that does not, or has another domain."""
    return (whole.nullable and not mine.nullable) or mine.domain != whole.domain


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
