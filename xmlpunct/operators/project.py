"""project: new tuples computed from each tuple."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

import polars as pl

from xmlpunct.expressions.expression import Column, Expression
from xmlpunct.expressions.program import Program
from xmlpunct.operators.carriers import Carriers
from xmlpunct.operators.images import Images
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.state import State
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.ownership import Ownership, Ways
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Attribute, Schema


class Project(Operator):
    """Computes each output column by an expression over the input's columns. Duplicates stay.

    - cpass(ts, ps)  = [(e1(t), ..., en(t)) | t in ts]
    - cprop(ts, ps)  = projPs(ps)
    - ckeep(ts, ps)  = []

    projPs gives, for a punctuation, one punctuation for each choice of one carrying column per constrained
    attribute (`Carriers`; of computed ones the `Images`). An attribute that no column carries must be closed (``*``,
    or all its NOT NULL domain, by several punctuations together if need be), else the punctuation stops here:
    projected, it would be a lie.

    ``derived`` names input columns that a project below has computed, by expressions over other input columns.
    Without ``memory`` (a part of a plan that is rebuilt for every slice) only single punctuations and plain
    columns count.
    """

    name = "project"

    def __init__(
        self,
        schema: Schema,
        columns: Sequence[tuple[str, Expression]],
        derived: Iterable[tuple[str, Expression]] = (),
        memory: bool = True,
    ) -> None:
        attributes = [
            replace(schema[e.name], name=name, path=name)
            if isinstance(e, Column)
            else Attribute(name, e.type, e.nullable)
            for name, e in columns
        ]
        super().__init__((schema,), Schema.of(attributes))
        self.columns, self.memory = tuple(columns), memory
        self._sources = {name: e.name for name, e in columns if isinstance(e, Column)}
        self._carriers = Carriers(schema, columns, dict(derived), memory)
        self._joint = JointCover(schema, self._carriers.dropped)
        self._images = Images(schema, self.schema, self._carriers)
        self.state = State(joint=self._joint, **self._images.parts)

    @classmethod
    def rename(
        cls, schema: Schema, columns: Sequence[str], names: Sequence[str], memory: bool = True
    ) -> Project:
        """Some attributes of ``schema``, under new names."""
        sources = [schema[column] for column in columns]
        chosen = [(name, Column(a.type, a.nullable, a.name)) for name, a in zip(names, sources, strict=True)]
        return cls(schema, chosen, (), memory)

    def spread(self, ways: Ways) -> None:
        super().spread(ways)
        mine = [[self._sources[name] for name in way] for way in ways]
        self._joint.spread(Ownership(self.inputs[0], mine, self.sifted))

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        if 0 < len(self._sources) == len(self.columns):  # nothing is computed, only chosen
            return pl.DataFrame([tuples[source].alias(name) for name, source in self._sources.items()])
        computed, reasons = self._program.run(tuples)
        if reasons is None:
            return computed
        self.reject_failures(tuples, reasons)
        return computed.filter(reasons.is_null())

    @cached_property
    def _program(self) -> Program:
        """Made when tuples come: a planner asks for the schema of many an operator, and no more."""
        return Program(self.columns)

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        closed = self._joint.add(batch) if self.memory else batch.closing(self._carriers.carried)
        if closed.place is None:
            closed = PunctuationBatch(p for p in closed if not p.is_empty)
        return self.schema.empty(), self._projected(closed)

    def _projected(self, closed: PunctuationBatch) -> PunctuationBatch:
        """projPs, where what is said of attributes that no column carries is closed."""
        if self._carriers.places is not None:
            return closed.rebase(self.schema, self._carriers.places).unique()
        promised = dict[Punctuation, None]()
        for p in closed:
            self._images.add(p)
            for choice in self._carriers.choices(p):
                promised.update(dict.fromkeys(self._images.of(p, choice)))
        return PunctuationBatch(promised)
