"""The base of intersect and difference: two inputs compared by whole tuples, nulls being equal."""

from __future__ import annotations

from abc import abstractmethod

import polars as pl

from xmlpunct.operators.arrangement import Arrangement, distinct
from xmlpunct.operators.iterator import Outcome
from xmlpunct.operators.join.join_keys import LEFT, RIGHT, SIDES
from xmlpunct.operators.join.two_inputs import TwoInputs
from xmlpunct.operators.merge.merge import MergedInputs, renamed_columns
from xmlpunct.operators.sets.dupelim import DupElim
from xmlpunct.operators.state import State
from xmlpunct.punctuations.alignment import Alignment
from xmlpunct.punctuations.ownership import Ways
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.slice import without


class SetOperation(TwoInputs):
    """Retains the distinct tuples of both inputs until the other input has closed them, and emits each result once.

    A punctuation of one of ``pending_sides`` is emitted without one of the other input, once no retained tuple of its
    own input matches it. Combinations of both inputs' punctuations are emitted unless they were emitted that way.
    `MergedInputs` extends an input's punctuations to values that the input never has.
    """

    pending_sides: tuple[int, ...] = (LEFT, RIGHT)

    def __init__(self, left: Schema, right: Schema) -> None:
        self._merged = MergedInputs((left, right))
        schema = self._merged.schema
        self.output = DupElim(schema)
        self.stored = [Arrangement(schema.empty(), schema.names) for _ in SIDES]
        super().__init__(
            (left, right),
            schema,
            Alignment(schema, 2),
            (schema, schema),
            [[stored] for stored in self.stored],
        )
        self.state = State(**self.sides, **self._merged.parts, **self.output.state.parts)

    def spread(self, ways: Ways) -> None:
        super().spread(ways)
        self._merged.spread(ways, self.sifted)
        self.alignment.spread(self.ownership)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        new = distinct(renamed_columns(tuples, self.schema))
        return self.output.step(0, self.compare(port, new))

    def reduced(self, tuples: pl.DataFrame) -> pl.DataFrame:
        return distinct(tuples)

    @abstractmethod
    def compare(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        """Receive distinct tuples of an input; return results, possibly including emitted ones."""

    def release(self, side: int, closed: pl.DataFrame) -> pl.DataFrame:
        """The results among the retained tuples of ``side`` that the other input has closed."""
        return closed.clear()

    def closed_by(self, port: int, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple, whether input ``port`` has closed it."""
        return self.alignment.inputs[port].mask(tuples)

    def store(self, port: int, tuples: pl.DataFrame) -> None:
        """Retain an input's tuples, except tuples that the other input has closed."""
        self.stored[port].insert(without(tuples, self.closed_by(1 - port, tuples)))

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        batch = self._merged.to_output(port, batch)
        (closed,) = self.close(1 - port, batch)  # keep
        released = self.release(1 - port, closed)
        if released.height:
            released = self.output.step(0, released)
        emitted = self._emitted_uncombined(1 - port, batch)
        combined = self.alignment.update(port, batch)
        if len(emitted):
            combined, batch = _except(emitted, combined), _except(emitted, batch)
        if port in self.pending_sides:
            self.pending[port].add(batch)
        return released, self.output.punctuate(0, PunctuationBatch.union([combined, *self.free()]))[1]

    def _emitted_uncombined(self, port: int, batch: PunctuationBatch) -> PunctuationSet:
        """Punctuations of an input that were emitted without ``batch`` and that combining with it could repeat.

        A receiver that has purged the punctuation would retain its repetition for ever. On several shards it is
        repeated, because other shards may wait for it.
        """
        emitted, received = PunctuationSet(self.schema), self.alignment.inputs[port]
        if port not in self.pending_sides or self.alignment.heeds or not len(received):
            return emitted
        waiting = self.pending[port].waiting
        if batch.place is not None and received.only(batch) and not batch.ranged:
            common = received.common(batch)
            emitted.update(common)
            emitted.discard(waiting.common(common))
        else:
            emitted.update(
                [
                    q
                    for p in batch
                    for q in received.overlapping(p)
                    if q not in waiting and not q.is_everything
                ]
            )
        return emitted


def _except(emitted: PunctuationSet, batch: PunctuationBatch) -> PunctuationBatch:
    """The punctuations of a batch that are not in ``emitted``."""
    if batch.place is not None and not batch.ranged and emitted.only(batch):
        new = PunctuationSet(emitted.schema, batch)
        new.discard(emitted.all())
        return new.all()
    return PunctuationBatch([p for p in batch if p not in emitted])
