"""What intersect and difference share: two inputs compared as whole tuples, nulls being equal."""

from __future__ import annotations

from abc import abstractmethod

import polars as pl

from xmlpunct.operators.arrangement import Arrangement, distinct
from xmlpunct.operators.iterator import Outcome
from xmlpunct.operators.join.join_keys import LEFT, RIGHT, SIDES
from xmlpunct.operators.join.two_inputs import TwoInputs
from xmlpunct.operators.merge.merge import MergedInputs, named
from xmlpunct.operators.sets.dupelim import DupElim
from xmlpunct.operators.state import State
from xmlpunct.punctuations.alignment import Alignment
from xmlpunct.punctuations.ownership import Ways
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.slice import without


class SetOperation(TwoInputs):
    """Keeps both inputs' distinct tuples until the other input has closed them, and gives each result once.

    ``pending_sides`` are the inputs whose punctuations are passed on by themselves, once no retained tuple of
    that input matches them; the combinations of both inputs' punctuations are passed on unless that said so before.
    `MergedInputs` has what an input's punctuations say of values that it never has.
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
        fresh = distinct(named(tuples, self.schema))
        return self.output.step(0, self.compare(port, fresh))

    def reduced(self, tuples: pl.DataFrame) -> pl.DataFrame:
        return distinct(tuples)

    @abstractmethod
    def compare(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        """Take new distinct tuples of an input; return results, maybe again ones given before."""

    def release(self, side: int, closed: pl.DataFrame) -> pl.DataFrame:
        """The results among a side's retained tuples that the other one has closed."""
        return closed.clear()

    def closed_by(self, port: int, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple, whether an input has closed it."""
        return self.alignment.inputs[port].mask(tuples)

    def store(self, port: int, tuples: pl.DataFrame) -> None:
        """Retain an input's tuples, but those that the other input has closed."""
        self.stored[port].insert(without(tuples, self.closed_by(1 - port, tuples)))

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        batch = self._merged.said(port, batch)
        (closed,) = self.close(1 - port, batch)  # keep
        passed = self.release(1 - port, closed)
        if passed.height:
            passed = self.output.step(0, passed)
        earlier = self._passed(1 - port, batch)
        both = self.alignment.update(port, batch)
        if len(earlier):
            both, batch = _beyond(earlier, both), _beyond(earlier, batch)
        if port in self.pending_sides:
            self.pending[port].add(batch)
        return passed, self.output.punctuate(0, PunctuationBatch.union([both, *self.free()]))[1]

    def _passed(self, port: int, batch: PunctuationBatch) -> PunctuationSet:
        """What an input said that was passed on by itself and could be again, combined with ``batch``.

        Who had it once and has forgotten it would retain it for ever. On several shards others may wait for it.
        """
        passed, said = PunctuationSet(self.schema), self.alignment.inputs[port]
        if port not in self.pending_sides or self.alignment.heeds or not len(said):
            return passed
        waiting = self.pending[port].waiting
        if batch.place is not None and said.only(batch) and not batch.ranged:
            met = said.common(batch)
            passed.update(met)
            passed.discard(waiting.common(met))
        else:
            passed.update(
                [q for p in batch for q in said.overlapping(p) if q not in waiting and not q.is_everything]
            )
        return passed


def _beyond(earlier: PunctuationSet, batch: PunctuationBatch) -> PunctuationBatch:
    """What of a batch was not said earlier, in the same words."""
    if batch.place is not None and not batch.ranged and earlier.only(batch):
        news = PunctuationSet(earlier.schema, batch)
        news.discard(earlier.all())
        return news.all()
    return PunctuationBatch([p for p in batch if p not in earlier])
