"""ISTREAM, DSTREAM and RSTREAM: a relation as a stream."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import polars as pl

from xmlpunct.base.frames import Part
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.relations.bounds import closed_bounds
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.relations.open_changes import Later
from xmlpunct.operators.relations.repeated import Repeated
from xmlpunct.operators.state import Cell, State
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.ownership import Ownership, Ways
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.schema.change_columns import AT, tuple_of


class ToStream(Operator):
    """Gives elements of a relation once the relation is closed up to their instants.

    - ISTREAM: <e, t> as often as e comes at t, that is R(t) - R(t-1)
    - DSTREAM: <e, t> as often as e goes at t, that is R(t-1) - R(t)
    - RSTREAM: <e, t> for every e in R(t), at every instant t, or at those that are multiples of ``every``
    - cpass   = those of them that setMatch(<e, t>, ps)
    - cprop   = ps, with t for the instant of a change
    - ckeep   = changes that are not closed; for RSTREAM also the tuples there are

    No element is of LO, unless T is declared below (relations 2.1, relations 4.9).

    An RSTREAM that is not ``transient`` would repeat for ever what nothing ends. Unless T is bounded it tells the
    states from the first change to the last one, which takes the closed prefix of all tuples together.

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
        kept = tuple_of(schema)
        super().__init__((schema,), Schema.of((*kept, Attribute(timestamp, instants.type, False))))
        self.name, self.instants, self._timestamp = kind, instants, timestamp
        self._places = [*(schema.index(name) for name in kept.names), schema.index(AT)]
        self._later = Later(schema)
        self._teller: _Teller
        if kind != "rstream":
            self._teller = _Deltas(self._later, instants, 1 if kind == "istream" else -1)
        elif transient or instants.is_bounded:
            self._teller = _States(self._later, instants, every or 1, origin)
        else:
            self._teller = _Repeating(self._later, instants, every or 1, origin)
        self.state = State(later=self._later, **self._teller.parts)

    def spread(self, ways: Ways) -> None:
        super().spread(ways)
        if isinstance(self._teller, _Repeating):
            self._teller.joint.spread(Ownership(self.inputs[0], ways, self.sifted))

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        self._later.add(tuples)
        return self.schema.empty()

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        elements, told = self._teller.tell(batch)
        passed = elements.rename({AT: self._timestamp})[:, self.schema.names]
        return passed, told.rebase(self.schema, self._places).unique()

    def waits(self) -> list[int]:
        return [len(self._later)]


class _Teller(ABC):
    """Which elements of a relation a stream has, and what is promised of them."""

    parts: dict[str, Part]

    def __init__(self, later: Later, instants: Instants) -> None:
        self.later, self.instants = later, instants
        self.parts = {}

    @abstractmethod
    def tell(self, batch: PunctuationBatch) -> tuple[pl.DataFrame, PunctuationBatch]:
        """Elements, with their instants as those of changes, and the punctuations of changes that they keep."""


class _Deltas(_Teller):
    """What comes (sign 1) or goes (-1)."""

    def __init__(self, later: Later, instants: Instants, sign: int) -> None:
        super().__init__(later, instants)
        self._sign = sign

    def tell(self, batch: PunctuationBatch) -> tuple[pl.DataFrame, PunctuationBatch]:
        closed = self.later.close(PunctuationSet(self.later.schema, batch))
        copies = closed[self.later.diffs[0]].to_numpy() * self._sign
        copies[~self.instants.within(self.instants.ordinals(closed[AT]))] = 0
        return closed[np.repeat(np.arange(closed.height), np.maximum(copies, 0))], batch


class _States(_Teller):
    """What there is at each instant, of each tuple as far as it is closed."""

    def __init__(self, later: Later, instants: Instants, every: int, origin: int) -> None:
        super().__init__(later, instants)
        self._repeated = Repeated(later, instants, every, origin)
        self.parts = {"there": self._repeated}

    def tell(self, batch: PunctuationBatch) -> tuple[pl.DataFrame, PunctuationBatch]:
        closed = self.later.close(PunctuationSet(self.later.schema, batch))
        told = self._repeated.tell(
            closed, self._repeated.due(batch), lambda tuples: closed_bounds(batch, tuples, self.instants)
        )
        return told, batch


class _Repeating(_Teller):
    """What there is at each instant from the first change to the last that is closed, of all tuples together."""

    def __init__(self, later: Later, instants: Instants, every: int, origin: int) -> None:
        super().__init__(later, instants)
        schema = later.schema
        self._everything = Punctuation.everything(schema)
        self._at = schema.index(AT)
        self.joint = JointCover(schema, [i for i in range(len(schema)) if i != self._at])
        self._repeated = Repeated(later, instants, every, origin)
        self._begun = Cell(False)
        """Whether there was a change behind LO."""
        self.parts = {"joint": self.joint, "there": self._repeated, "begun": self._begun}

    def tell(self, batch: PunctuationBatch) -> tuple[pl.DataFrame, PunctuationBatch]:
        known = self.joint.add(batch)
        if not len(known):
            return self.later.empty, known
        bound = max(self.instants.bound(p.patterns[self._at]) for p in known)
        closed = self.later.close(PunctuationSet(self.later.schema, known))
        instants = self.instants.ordinals(closed[AT])
        changed = instants[self.instants.within(instants)]
        last = int(changed.max()) if len(changed) else self.instants.lo
        begin = self.instants.first if self._begun.value or not len(changed) else int(changed.min())
        self._begun.value = self._begun.value or bool(len(changed))
        due = self._repeated.due(self._up_to(last)) if len(changed) else self._repeated.none
        told = self._repeated.tell(closed, due, lambda tuples: np.full(tuples.height, last, np.int64), begin)
        if self._begun.value and bound < self.instants.last:
            return told, self._up_to(last) if len(changed) else PunctuationBatch()
        if bound == self.instants.last:
            self._repeated.clear()
        return told, self._up_to(bound)

    def _up_to(self, bound: int) -> PunctuationBatch:
        """That all tuples are closed up to an instant."""
        patterns = list(self._everything.patterns)
        patterns[self._at] = self.instants.prefix(bound)
        return PunctuationBatch([Punctuation(self.later.schema, patterns)])
