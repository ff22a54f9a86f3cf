"""merge: all tuples of several inputs, SQL's UNION ALL.

Inputs with different domains make it long.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xmlpunct.base.frames import SnapshotPart
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.state import State
from xmlpunct.punctuations.alignment import Alignment
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.ownership import KeyPath
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute


class Merge(Operator):
    """Emits every tuple of every input. Columns match by position and have the first input's names.

    - cpass(ts1, ps1, ..., tsn, psn)  = ts1 ++ ... ++ tsn
    - cprop(ts1, ps1, ..., tsn, psn)  = setCombine(ps1, ..., psn)
    - ckeep                           = []

    `Alignment` retains punctuations that can still be combined with new ones.

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
        self.key_paths = [(self.alignment, None), *self._merged.key_paths]
        self.state = State(alignment=self.alignment, **self._merged.parts)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        return renamed_columns(tuples, self.schema)

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        return self.schema.empty(), self.alignment.update(port, self._merged.to_output(port, batch))

    def waits(self) -> list[int]:
        return self.alignment.waits()


class MergedInputs:
    """Several inputs, and the translation of their punctuations to the merged ``schema``, by position.

    An attribute of an input may be NOT NULL, or have a domain, although the merged attribute is not or has not. Then
    punctuations that jointly cover the input's values also close null and the values outside the domain.
    """

    def __init__(self, inputs: Sequence[Schema]) -> None:
        self.inputs, self.schema = inputs, merged_schema(inputs)
        self._joint = [
            [
                JointCover(schema, [i])
                for i, (attribute, merged_attribute) in enumerate(zip(schema, self.schema, strict=True))
                if not attribute.nullable and widens(attribute, merged_attribute)
            ]
            for schema in inputs
        ]

    @property
    def parts(self) -> dict[str, SnapshotPart]:
        """The parts of an operator's state."""
        return {
            f"joint{port}_{i}": joint
            for port, joints in enumerate(self._joint)
            for i, joint in enumerate(joints)
        }

    @property
    def key_paths(self) -> list[KeyPath]:
        """The joint covers, with each input's names of the merged attributes."""
        names = [dict(zip(self.schema.names, schema.names, strict=True)) for schema in self.inputs]
        return [(joint, names[port]) for port, joints in enumerate(self._joint) for joint in joints]

    def to_output(self, port: int, batch: PunctuationBatch) -> PunctuationBatch:
        """Punctuations of input ``port``, joint covers included, as punctuations of the merged schema."""
        for joint in self._joint[port]:
            batch = PunctuationBatch.union([batch, joint.add(batch)])
        return batch.rename(self.schema)


def widens(attribute: Attribute, merged_attribute: Attribute) -> bool:
    """Whether the merged attribute allows null where the input's attribute does not, or has another domain."""
    return (
        merged_attribute.nullable and not attribute.nullable
    ) or attribute.domain != merged_attribute.domain


def renamed_columns(tuples: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Tuples with the column names of a schema, by position."""
    names = dict(zip(tuples.columns, schema.names, strict=True))
    return tuples if all(old == new for old, new in names.items()) else tuples.rename(names)


def merged_schema(inputs: Sequence[Schema]) -> Schema:
    """The schema of a merge. An attribute has NOT NULL, or a domain, if all of several inputs declare the same.

    Raises ValueError if the inputs' attributes differ in number or type.
    """
    first = inputs[0]
    if any([a.type for a in schema] != [a.type for a in first] for schema in inputs):
        raise ValueError("the inputs of a merge have attributes of the same types in the same order")
    if len(inputs) == 1:
        return first
    attributes = []
    for column in zip(*inputs, strict=True):
        head = column[0]
        nullable = any(a.nullable for a in column)
        same_domain = all(a.domain == head.domain for a in column)
        if same_domain:
            attributes.append(Attribute(head.name, head.type, nullable, head.name, head.domain, head.default))
        else:
            attributes.append(Attribute(head.name, head.type, nullable))
    return Schema.of(attributes)
