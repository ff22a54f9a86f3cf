"""project: new tuples computed from each tuple."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import product

import polars as pl

from xmlpunct.operators.evaluate import evaluate
from xmlpunct.operators.expression import Column, Expression
from xmlpunct.operators.iterator import Operator
from xmlpunct.punctuation import Punctuation
from xmlpunct.schema import Attribute, Schema


class Project(Operator):
    """Computes each output column by an expression over the input's columns. Duplicates stay.

    - cpass(ts, ps)  = [(e1(t), ..., en(t)) | t in ts]
    - cprop(ts, ps)  = projPs(ps)
    - ckeep(ts, ps)  = []

    projPs gives, for a punctuation, one punctuation for each choice of one carrying column per constrained
    attribute; a column that is a plain attribute carries it. An attribute that no column carries must be
    closed (``*``, or all its NOT NULL domain), else the punctuation stops here: projected, it would be a lie.
    """

    name = "project"

    def __init__(self, schema: Schema, columns: Sequence[tuple[str, Expression]]) -> None:
        attributes = [
            replace(schema[e.name], name=name, path=name)
            if isinstance(e, Column)
            else Attribute(name, e.type, e.nullable)
            for name, e in columns
        ]
        super().__init__((schema,), Schema.of(attributes))
        self.columns = tuple(columns)
        found = [(name, evaluate(e)) for name, e in columns]
        self._values = [e.value.alias(name) for name, e in found]
        errors = [e.error for _, e in found if e.error is not None]
        self._error = reduce(lambda a, b: pl.coalesce(a, b), errors) if errors else None
        self._carriers: list[list[int]] = [[] for _ in schema]
        for place, (_, e) in enumerate(columns):
            if isinstance(e, Column):
                self._carriers[schema.index(e.name)].append(place)

    @classmethod
    def rename(cls, schema: Schema, columns: Sequence[str], names: Sequence[str]) -> Project:
        """Some attributes of ``schema``, under new names."""
        sources = [schema[column] for column in columns]
        return cls(
            schema,
            [(name, Column(a.type, a.nullable, a.name)) for name, a in zip(names, sources, strict=True)],
        )

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        if self._error is not None:
            tuples = self.reject_failures(tuples, self._error)
        # Not select alone: constants would give one row, whatever the number of tuples.
        return tuples.with_columns(self._values).select(self.schema.names)

    def prop(self, port: int, punctuations: list[Punctuation]) -> list[Punctuation]:
        return list(dict.fromkeys(q for p in punctuations for q in self._project(p)))

    def _project(self, p: Punctuation) -> list[Punctuation]:
        constrained = [
            i
            for i in p.constrained
            if self._carriers[i] or not p.schema.attributes[i].closed_by(p.patterns[i])
        ]
        found = []
        for choice in product(*(self._carriers[i] for i in constrained)):
            source = dict(zip(choice, constrained, strict=True))
            found.append(p.rebase(self.schema, [source.get(place) for place in range(len(self.schema))]))
        return found
