"""project: new tuples computed from each tuple."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from xmlpunct.expressions.expression import Absent, Column, Expression
from xmlpunct.operators.carriers import Carriers
from xmlpunct.operators.columns import Columns
from xmlpunct.operators.images import Images
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.state import State
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.ownership import Ownership, Ways
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema


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
        derived: Iterable[tuple[str, Expression]] = (),
        memory: bool = True,
    ) -> None:
        self._columns, self._memory = Columns(schema, columns), memory
        super().__init__((schema,), self._columns.schema)
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
        mine = [[self._columns.chosen[name] for name in way] for way in ways]
        self._joint.spread(Ownership(self.inputs[0], mine, self.sifted))

    def opening(self) -> list[Punctuation]:
        """Where a side of an outer join is absent its keys have no values: no pair is to come."""
        absent = [name for name, e in self._columns.columns if isinstance(e, Absent)]
        return [Punctuation.of(self.schema, **{name: "(,)"}) for name in absent]

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        computed, reasons = self._columns.of(tuples)
        if reasons is None:
            return computed
        self.reject_failures(tuples, reasons)
        return computed.filter(reasons.is_null())

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        closed = self._joint.add(batch) if self._memory else batch.closing(self._carriers.carried)
        return self.schema.empty(), self._projected(closed.possible())

    def _projected(self, closed: PunctuationBatch) -> PunctuationBatch:
        """projPs, where what is said of attributes that no column carries is closed."""
        if self._carriers.places is not None:
            return closed.rebase(self.schema, self._carriers.places).unique()
        return PunctuationBatch.union([self._images_of(part) for part in closed.parts])

    def _images_of(self, closed: PunctuationBatch) -> PunctuationBatch:
        """What punctuations of one form say of the output."""
        carriers = [] if closed.place is None else self._carriers.by_attribute[closed.place]
        if len(carriers) == 1 and carriers[0][1] is None:
            places = [closed.place if i == carriers[0][0] else None for i in range(len(self.schema))]
            return closed.rebase(self.schema, places)
        promised = dict[Punctuation, None]()
        for p in closed:
            self._images.add(p)
            for choice in self._carriers.choices(p):
                promised.update(dict.fromkeys(self._images.of(p, choice)))
        return PunctuationBatch(promised)
