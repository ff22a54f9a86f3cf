"""project: new tuples computed from each tuple.

COALESCE makes it long: its punctuations are those of several alternatives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import polars as pl

from xmlpunct.base.frames import SnapshotPart
from xmlpunct.expressions.exclusions import only_within
from xmlpunct.expressions.expression import Absent, Column, Expression, Literal, NullIf
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.merge.merge import MergedInputs
from xmlpunct.operators.state import State
from xmlpunct.operators.tuple.alternatives import alternatives
from xmlpunct.operators.tuple.carriers import Carriers
from xmlpunct.operators.tuple.images import Images
from xmlpunct.operators.tuple.output_columns import OutputColumns
from xmlpunct.punctuations.alignment import Alignment
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.ownership import KeyPath
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.vacuous import without_vacuous
from xmlpunct.schema import Schema
from xmlpunct.types import pattern as pt


class Project(Operator):
    """Computes each output column by an expression over the input's columns. Duplicates are not removed.

    - cpass(ts, ps)  = [(e1(t), ..., en(t)) | t in ts]
    - cprop(ts, ps)  = projPs(ps)
    - ckeep(ts, ps)  = []

    projPs maps a punctuation to one punctuation for each choice of one carrying column per constrained attribute
    (`Carriers`, with `Images` for computed columns). An attribute that no column carries must be closed: ``*``, or its
    whole NOT NULL domain, possibly by several punctuations together. Otherwise the punctuation is not propagated:
    projected, it would be false.

    A column COALESCE(a, b) is a in the tuples in which a is not null, and b in all other tuples. A punctuation holds
    for the column if it holds for both (`alternatives`). So projPs is the setCombine of both.

    ``derived`` has the expressions, over other input columns, of input columns that a project below has computed.
    ``together`` lists columns whose COALESCEs take their values from the same side.
    A project that is rebuilt for every slice does not combine punctuations, and only plain columns carry them. Then
    ``within`` is the input's schema; its domains are the values that a select below leaves open.

    See semantics 4.2.

    >>> from xmlpunct.operators.notation import show
    >>> show(Project.rename(Schema.parse("x INT, y INT"), ["y"], ["z"]), "1 7; 2 7", "P(1, 7)", "P(*, 7)")
    1 7; 2 7 -> 7; 7
    P(1, 7)  ->
    P(*, 7)  -> P(7)
    """

    name = "project"
    tuplewise = True

    def __init__(
        self,
        schema: Schema,
        columns: Sequence[tuple[str, Expression]],
        derived: Sequence[tuple[str, Expression]] = (),
        within: Schema | None = None,
        together: Iterable[Sequence[str]] = (),
    ) -> None:
        follows = dict(derived)
        self._columns, self._within = OutputColumns(schema, columns), within
        super().__init__((schema,), self._columns.schema)
        self._carriers = Carriers(schema, columns, follows, within is None)
        self._joint = JointCover(schema, self._carriers.dropped)
        self._images = Images(schema, self.schema, self._carriers)
        self._absent = [
            (i, pt.constant(e.type, e.value)) for i, (_, e) in enumerate(columns) if isinstance(e, NullIf)
        ]
        """The pattern of each value that is null in the output, with the position of its column."""
        parts: dict[str, SnapshotPart] = {"joint": self._joint, **self._images.parts}
        chosen = alternatives(columns, follows, together) if within is None else []
        self._ways = [Project(schema.without_nulls(way.non_null), way.columns, derived) for way in chosen]
        self._null = [way.null for way in chosen]
        if self._ways:
            self._merged = MergedInputs([_narrow_schema(way) for way in self._ways])
            self._alignment = Alignment(self._merged.schema, len(self._ways))
            parts = {"alignment": self._alignment, **self._merged.parts}
            for i, way in enumerate(self._ways):
                parts |= {f"way{i}_{name}": part for name, part in way.state.parts.items()}
        self.key_paths = [*self._key_paths(self._columns.chosen)]
        self.state = State(**parts)

    @classmethod
    def rename(
        cls, schema: Schema, columns: Sequence[str], names: Sequence[str], within: Schema | None = None
    ) -> Project:
        """Attributes of ``schema``, under new names."""
        sources = [schema[column] for column in columns]
        chosen = [(name, Column(a.type, a.nullable, a.name)) for name, a in zip(names, sources, strict=True)]
        return cls(schema, chosen, (), within)

    def _key_paths(self, chosen: Mapping[str, str]) -> Iterator[KeyPath]:
        """``chosen`` has the input's name of each attribute that can hold a partition value."""
        yield self._joint, chosen
        for way in self._ways:
            yield from way._key_paths(chosen)
        if self._ways:
            yield from self._merged.key_paths
            yield self._alignment, None

    def opening(self) -> list[Punctuation]:
        """Punctuations on the keys of an absent side of an outer join, which are null in all tuples.

        For COALESCE, each alternative adds the values that its argument never has.
        """
        absent = [name for name, e in self._columns.columns if isinstance(e, Absent)]
        punctuations = [Punctuation.of(self.schema, **{name: "(,)"}) for name in absent]
        for port, schema in enumerate(self._merged.inputs if self._ways else ()):
            way = self._ways[port]
            impossible = [p for a in schema for p in only_within(schema, a.name, a.domain)]
            nulls = [name for name, source in way._columns.chosen.items() if source in self._null[port]]
            impossible += [Punctuation.of(schema, **{name: "(,)"}) for name in nulls]
            punctuations += self._combine(port, PunctuationBatch([*impossible, *way.opening()]))
        return punctuations

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        computed, reasons = self._columns.of(tuples)
        if reasons is None:
            return computed
        self.reject_failures(tuples, reasons)
        return computed.filter(reasons.is_null())

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        if self._ways:
            combined = [
                self._combine(port, way.punctuate(0, batch.rename(way.inputs[0]))[1])
                for port, way in enumerate(self._ways)
            ]
            return self.schema.empty(), PunctuationBatch.union(combined)
        if self._within is None:
            closed = self._joint.add(batch)
        else:
            closed = batch.rename(self._within).closing(self._carriers.carried).rename(self.inputs[0])
        projected = self._project(closed.possible())
        for position, absent in self._absent:
            projected = without_vacuous(projected, position, absent)
        return self.schema.empty(), projected

    def _combine(self, port: int, batch: PunctuationBatch) -> PunctuationBatch:
        """setCombine of all alternatives, after alternative ``port`` has emitted ``batch``."""
        batch = batch.rename(self._merged.inputs[port])
        return self._alignment.update(port, self._merged.to_output(port, batch)).rename(self.schema)

    def _project(self, closed: PunctuationBatch) -> PunctuationBatch:
        """projPs, for punctuations that close all values of the attributes that no column carries."""
        if self._carriers.origins is not None:
            return closed.rebase(self.schema, self._carriers.origins).unique()
        return PunctuationBatch.union([self._images_of(part) for part in closed.parts])

    def _images_of(self, closed: PunctuationBatch) -> PunctuationBatch:
        """The output punctuations for punctuations of one form."""
        carriers = [] if closed.position is None else self._carriers.by_attribute[closed.position]
        if len(carriers) == 1 and carriers[0][1] is None:
            origins = [closed.position if i == carriers[0][0] else None for i in range(len(self.schema))]
            return closed.rebase(self.schema, origins)
        punctuations = dict[Punctuation, None]()
        for p in closed:
            self._images.add(p)
            for choice in self._carriers.choices(p):
                punctuations.update(dict.fromkeys(self._images.of(p, choice)))
        return PunctuationBatch(punctuations)


def _narrow_schema(project: Project) -> Schema:
    """The schema of a project's output. The domain of a constant column is its value."""
    constants = {
        name: pt.constant(e.type, e.value)
        for name, e in project._columns.columns
        if isinstance(e, Literal) and e.value is not None and e.type.comparable
    }
    return Schema.of(replace(a, domain=constants.get(a.name, a.domain)) for a in project.schema)
