"""project: new tuples computed from each tuple."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product

import polars as pl

from xmlpunct.expressions.exclusions import outside
from xmlpunct.expressions.expression import Column, Expression
from xmlpunct.expressions.monotone import Monotone
from xmlpunct.expressions.program import Program
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.state import State
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.cuts import cuts
from xmlpunct.punctuations.fused import Fused
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.ownership import Ownership, Ways
from xmlpunct.punctuations.pattern import EMPTY, WILDCARD, Pattern
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Attribute, Schema

Carrier = tuple[int, Monotone | None]
"""An output column that tells an attribute's value: the attribute itself, or a monotone expression of it."""


class Project(Operator):
    """Computes each output column by an expression over the input's columns. Duplicates stay.

    - cpass(ts, ps)  = [(e1(t), ..., en(t)) | t in ts]
    - cprop(ts, ps)  = projPs(ps)
    - ckeep(ts, ps)  = []

    projPs gives, for a punctuation, one punctuation for each choice of one carrying column per constrained
    attribute. An attribute that no column carries must be closed (``*``, or all its NOT NULL domain, by several
    punctuations together if need be), else the punctuation stops here: projected, it would be a lie. A plain
    column carries its attribute. A monotone expression carries its one attribute by the images of *fused*
    patterns: 3600 seconds that close one by one close ``ts / 3600 = 1`` together. What of an image is new goes out.

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
        self._sources: list[tuple[str, str]] | None = None
        if columns and all(isinstance(e, Column) for _, e in columns):
            self._sources = [(e.name, name) for name, e in columns if isinstance(e, Column)]
        self._carriers = self._find_carriers(dict(derived))
        self._fusing = {i for i, found in enumerate(self._carriers) if any(m for _, m in found)}
        self._carried = [i for i, found in enumerate(self._carriers) if found]
        dropped = [i for i, found in enumerate(self._carriers) if not found]
        self._joint = JointCover(schema, dropped)
        self._places: list[int | None] | None = None
        """For each output attribute the one it carries, where that is all there is to carrying."""
        if not self._fusing and all(len(found) <= 1 for found in self._carriers):
            origins = {place: i for i, found in enumerate(self._carriers) for place, _ in found}
            self._places = [origins.get(place) for place in range(len(self.schema))]
        self._said = {i: Fused(schema) for i in sorted(self._fusing)}
        self._given = {place: Fused(self.schema) for place in self._image_places()}
        said = {f"said{i}": said for i, said in self._said.items()}
        given = {f"given{place}": given for place, given in self._given.items()}
        self.state = State(joint=self._joint, **said, **given)

    def _find_carriers(self, derived: dict[str, Expression]) -> list[list[Carrier]]:
        schema = self.inputs[0]
        carriers: list[list[Carrier]] = [[] for _ in schema]
        for place, (_, e) in enumerate(self.columns):
            if isinstance(e, Column):
                carriers[schema.index(e.name)].append((place, None))
                e = derived.get(e.name, e)
            if self.memory and (monotone := Monotone.of(e)) is not None:
                carriers[schema.index(monotone.source)].append((place, monotone))
        return carriers

    def _image_places(self) -> list[int]:
        return sorted({place for found in self._carriers for place, m in found if m is not None})

    @classmethod
    def rename(
        cls, schema: Schema, columns: Sequence[str], names: Sequence[str], memory: bool = True
    ) -> Project:
        """Some attributes of ``schema``, under new names."""
        sources = [schema[column] for column in columns]
        found = [(name, Column(a.type, a.nullable, a.name)) for name, a in zip(names, sources, strict=True)]
        return cls(schema, found, (), memory)

    def spread(self, ways: Ways) -> None:
        super().spread(ways)
        sources = {name: e.name for name, e in self.columns if isinstance(e, Column)}
        mine = [[sources[name] for name in way] for way in ways]
        self._joint.spread(Ownership(self.inputs[0], mine, self.sifted))

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        if self._sources is not None:  # nothing is computed, only chosen
            return pl.DataFrame([tuples[source].alias(name) for source, name in self._sources])
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
        return self.schema.empty(), self._promised(batch)

    def _promised(self, batch: PunctuationBatch) -> PunctuationBatch:
        closed = self._joint.add(batch) if self.memory else batch.closing(self._carried)
        if self._places is not None and closed.place is not None:
            return closed.rebase(self.schema, self._places)
        projected = (q for p in closed if not p.is_empty for q in self._project(p))
        return PunctuationBatch(dict.fromkeys(projected))

    def _project(self, p: Punctuation) -> list[Punctuation]:
        if self._places is not None:
            return [p.rebase(self.schema, self._places)]
        constrained = [i for i in p.constrained if self._carriers[i]]
        for i in self._fusing.intersection(constrained):
            self._said[i].add(p, i)
        found: list[Punctuation] = []
        for choice in product(*(self._carriers[i] for i in constrained)):
            by = dict(zip(constrained, choice, strict=True))
            fused = [i for i, (_, monotone) in by.items() if monotone is not None]
            if not fused:
                source = {place: i for i, (place, _) in by.items()}
                found.append(p.rebase(self.schema, [source.get(k) for k in range(len(self.schema))]))
            elif len({place for place, _ in choice}) == len(choice):
                found += (q for i in fused for q in self._images(p, by, i))
        return found

    def _images(self, p: Punctuation, by: dict[int, Carrier], fused: int) -> list[Punctuation]:
        """What ``p``, fused in one attribute with those that agree elsewhere, newly says about the output."""
        attributes, said = self.inputs[0].attributes, self._said[fused]
        row = (fused, (*p.patterns[:fused], WILDCARD, *p.patterns[fused + 1 :]))
        touched = said.values(row).overlapping(p.patterns[fused])
        pieces: list[list[tuple[int, Pattern]]] = []
        for i, (place, monotone) in by.items():
            if i == fused or monotone is None:
                continue
            pieces.append([(place, monotone.image(attributes[i], *part)) for part in cuts(p.patterns[i])])
        plain = [(place, p.patterns[i]) for i, (place, monotone) in by.items() if monotone is None]
        at, monotone = by[fused]
        assert monotone is not None
        images = [monotone.image(attributes[fused], *interval) for interval in touched.intervals()]
        found = []
        for others in product(*pieces):
            patterns: list[Pattern] = [WILDCARD] * len(self.schema)
            for place, pattern in (*plain, *others):
                patterns[place] = pattern
            if EMPTY not in patterns:
                found += [q for image in images for q in self._fresh(patterns, at, image)]
        return found

    def _fresh(self, patterns: list[Pattern], at: int, image: Pattern) -> list[Punctuation]:
        """What has not been said yet of an image, beside these patterns."""
        found, given = [], self._given[at]
        for pattern in given.missing(at, [*patterns[:at], image, *patterns[at + 1 :]]):
            whole = Punctuation(self.schema, [*patterns[:at], pattern, *patterns[at + 1 :]])
            given.add(whole, at)
            found.append(whole)
        return found


class Scan(Project):
    """Reads attributes of a stream. Of those with a declared domain no other value ever comes."""

    name = "scan"

    def opening(self) -> list[Punctuation]:
        return [p for a in self.schema for p in outside(self.schema, a.name, a.domain)]
