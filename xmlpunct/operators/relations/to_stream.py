"""ISTREAM, DSTREAM and RSTREAM: a relation as a stream. Each has an emitter, which makes the file long."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import polars as pl

from xmlpunct.base.frames import SnapshotPart
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.relations.open_changes import OpenChanges
from xmlpunct.operators.relations.prefixes import closed_bounds
from xmlpunct.operators.relations.repeated import Repeated
from xmlpunct.operators.state import State, StateCell
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.schema.change_columns import AT, tuple_of


class ToStream(Operator):
    """Emits elements of a relation once the relation is closed up to their instants.

    - ISTREAM: <e, t> as often as e is inserted at t, that is R(t) - R(t-1)
    - DSTREAM: <e, t> as often as e is deleted at t, that is R(t-1) - R(t)
    - RSTREAM: <e, t> for every e in R(t), at every instant t, or at multiples of ``every``
    - cpass   = the elements with setMatch(<e, t>, ps)
    - cprop   = ps, with t for the instant of a change, except punctuations about a formal LO alone
    - ckeep   = changes that are not closed; for RSTREAM also the current tuples

    No element has the instant LO, unless T has a declared lower bound (relations 2.1, relations 4.9).

    An RSTREAM that is not ``transient`` would repeat for ever the tuples that are never deleted. Unless T is bounded,
    it emits the states from the first change to the last one, up to the closed prefix of all tuples together.

    >>> from xmlpunct.schema.change_columns import changes
    >>> from xmlpunct.operators.notation import show
    >>> from xmlpunct.types import INT
    >>> x = changes(Schema.parse("x INT"), INT)
    >>> show(ToStream(x, "istream", "ts", Instants(INT)), "7 1 2; 7 4 -1", "P(*, (,4], *)")
    7 1 2; 7 4 -1 ->
    P(*, (,4], *) -> 7 1; 7 1; P(*, (,4])
    >>> show(ToStream(x, "rstream", "ts", Instants(INT), every=2), "7 1 2; 7 4 -1; 7 5 -1", "P(*, (,4], *)")
    7 1 2; 7 4 -1; 7 5 -1 ->
    P(*, (,4], *)         -> 7 2; 7 2; 7 4; P(*, (,4])
    """

    def __init__(
        self,
        schema: Schema,
        kind: str,
        timestamp: str,
        instants: Instants,
        every: int | None = None,
        origin: int = 0,
        transient: bool = True,
    ) -> None:
        tuple_schema = tuple_of(schema)
        super().__init__((schema,), Schema.of((*tuple_schema, Attribute(timestamp, instants.type, False))))
        self.name, self.instants, self._timestamp = kind, instants, timestamp
        self._at = len(tuple_schema)
        self._sources = [*(schema.index(name) for name in tuple_schema.names), schema.index(AT)]
        self._open_changes = OpenChanges(schema)
        self._emitter: _Emitter
        if kind != "rstream":
            self._emitter = _Deltas(self._open_changes, instants, 1 if kind == "istream" else -1)
        elif transient or instants.is_bounded:
            self._emitter = _States(self._open_changes, instants, every or 1, origin)
        else:
            self._emitter = repeating = _Repeating(self._open_changes, instants, every or 1, origin)
            self.key_paths = [(repeating.joint, None)]
        self.state = State(open_changes=self._open_changes, **self._emitter.parts)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        self._open_changes.add(tuples)
        return self.schema.empty()

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        elements, punctuations = self._emitter.emit(batch)
        results = elements.rename({AT: self._timestamp})[:, self.schema.names]
        return results, self.instants.without_lo(
            punctuations.rebase(self.schema, self._sources).unique(), self._at
        )

    def waits(self) -> list[int]:
        return [len(self._open_changes)]


class _Emitter(ABC):
    """Selects the elements of the stream, and its punctuations."""

    parts: dict[str, SnapshotPart]

    def __init__(self, open_changes: OpenChanges, instants: Instants) -> None:
        self.open_changes, self.instants = open_changes, instants
        self.parts = {}

    @abstractmethod
    def emit(self, batch: PunctuationBatch) -> tuple[pl.DataFrame, PunctuationBatch]:
        """The new elements, as tuples with instants; and the punctuations, over the schema of changes."""


class _Deltas(_Emitter):
    """The inserted (sign 1) or deleted (-1) tuples."""

    def __init__(self, open_changes: OpenChanges, instants: Instants, sign: int) -> None:
        super().__init__(open_changes, instants)
        self._sign = sign

    def emit(self, batch: PunctuationBatch) -> tuple[pl.DataFrame, PunctuationBatch]:
        closed = self.open_changes.close(PunctuationSet(self.open_changes.schema, batch))
        copies = closed[self.open_changes.diffs[0]].to_numpy() * self._sign
        copies[~self.instants.within(self.instants.ordinals(closed[AT]))] = 0
        return closed[np.repeat(np.arange(closed.height), np.maximum(copies, 0))], batch


class _States(_Emitter):
    """The tuples at each instant, each tuple up to its last closed instant."""

    def __init__(self, open_changes: OpenChanges, instants: Instants, every: int, origin: int) -> None:
        super().__init__(open_changes, instants)
        self._repeated = Repeated(open_changes, instants, every, origin)
        self.parts = {"there": self._repeated}

    def emit(self, batch: PunctuationBatch) -> tuple[pl.DataFrame, PunctuationBatch]:
        closed = self.open_changes.close(PunctuationSet(self.open_changes.schema, batch))
        elements = self._repeated.emit(
            closed, self._repeated.due(batch), lambda tuples: closed_bounds(batch, tuples, self.instants)
        )
        return elements, batch


class _Repeating(_Emitter):
    """The tuples at each instant from the first change to the last change that is closed for all tuples together."""

    def __init__(self, open_changes: OpenChanges, instants: Instants, every: int, origin: int) -> None:
        super().__init__(open_changes, instants)
        schema = open_changes.schema
        self._all_tuples = Punctuation.everything(schema)
        self._at = schema.index(AT)
        self.joint = JointCover(schema, [i for i in range(len(schema)) if i != self._at])
        self._repeated = Repeated(open_changes, instants, every, origin)
        self._begun = StateCell(False)
        """Whether there was a change after LO."""
        self.parts = {"joint": self.joint, "there": self._repeated, "begun": self._begun}

    def emit(self, batch: PunctuationBatch) -> tuple[pl.DataFrame, PunctuationBatch]:
        prefixes = self.joint.add(batch)
        if not len(prefixes):
            return self.open_changes.empty, prefixes
        bound = max(self.instants.bound(p.patterns[self._at]) for p in prefixes)
        closed = self.open_changes.close(PunctuationSet(self.open_changes.schema, prefixes))
        instants = self.instants.ordinals(closed[AT])
        changed = instants[self.instants.within(instants)]
        last = int(changed.max()) if len(changed) else self.instants.lo
        begin = self.instants.first if self._begun.value or not len(changed) else int(changed.min())
        self._begun.value = self._begun.value or bool(len(changed))
        due = self._repeated.due(self._up_to(last)) if len(changed) else self._repeated.none
        elements = self._repeated.emit(
            closed, due, lambda tuples: np.full(tuples.height, last, np.int64), begin
        )
        if self._begun.value and bound < self.instants.last:
            return elements, self._up_to(last) if len(changed) else PunctuationBatch()
        if bound == self.instants.last:
            self._repeated.clear()
        return elements, self._up_to(bound)

    def _up_to(self, bound: int) -> PunctuationBatch:
        """The punctuation that closes all tuples up to an instant."""
        patterns = list(self._all_tuples.patterns)
        patterns[self._at] = self.instants.prefix(bound)
        return PunctuationBatch([Punctuation(self.open_changes.schema, patterns)])
