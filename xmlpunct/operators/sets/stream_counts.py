"""The counts of tuples in streams: 0 or 1, so tuples are retained without a count and without an instant."""

from __future__ import annotations

import polars as pl

from xmlpunct.base.frames import SnapshotPart
from xmlpunct.operators.arrangement import Arrangement, distinct, row_flags
from xmlpunct.operators.hash_index import ascending
from xmlpunct.operators.iterator import Outcome
from xmlpunct.operators.join.join_keys import LEFT, SIDES
from xmlpunct.operators.join.two_sides import TwoSides
from xmlpunct.operators.pending import Pending
from xmlpunct.operators.sets.count_functions import has_result, required_inputs
from xmlpunct.punctuations.alignment import Alignment
from xmlpunct.punctuations.ownership import KeyPath
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.slice import without


class StreamCounts:
    """Emits each tuple once, as soon as no later tuple can remove it from the result.

    - ckeep = emitted tuples, until they are closed

    If no input is required, the first arrival decides, and nothing else is retained. Otherwise the operator
    *compares* two inputs, and retains a tuple of either until the other input has closed it (`TwoSides`):

    - cpass = δ[t | t in ts1, f(1, 0), t not in ts2, setMatch(t, ps2)] ++ δ[t | f(1, 1), t in ts1, t in ts2]; mirrored
    - ckeep1 = [t | t in ts1, setNomatch(t, ps2)], without [t | t in ts2] if input 1 is required; ckeep2 mirrored
    - cprop = setCombine(ps1, ps2) ++ setNomatchPs(ts1', ps1) if input 1 is required; mirrored

    Emitted tuples are retained once, for all inputs, and block no punctuation.
    """

    def __init__(self, schema: Schema, function: str, alignment: Alignment) -> None:
        self.schema, self._alignment = schema, alignment
        inputs = len(alignment.inputs)
        self._required = required_inputs(function, inputs)
        self.compares = bool(self._required)
        self._emits_met = self.compares and has_result(function, 1, 1)
        self._emits_unmet = [
            self.compares and has_result(function, side == LEFT, side != LEFT) for side in SIDES
        ]
        self._emitted = Arrangement(schema.empty(), schema.names)
        sides = SIDES if self.compares else ()
        retained = [[Arrangement(schema.empty(), schema.names)] for _ in sides]
        self._sides = TwoSides(alignment, [Pending(schema) for _ in sides], retained)
        self.key_paths: list[KeyPath] = [(alignment, None)]
        self.parts: dict[str, SnapshotPart] = {**self._sides.sides, "emitted": self._emitted}

    def add(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        """Receive tuples of an input; return results."""
        return self._compare(port, distinct(tuples)) if self.compares else self._emitted.insert(tuples)

    def _compare(self, port: int, new: pl.DataFrame) -> pl.DataFrame:
        """Receive distinct tuples of one of two inputs; return results."""
        other, is_required = 1 - port, port in self._required
        if is_required and len(self._emitted):
            new = without(new, self._emitted.has(new))
        positions, rows = self._sides.retained[other][0].probe(new)
        is_met = row_flags(positions, new.height)
        if other in self._required:
            self._sides.lose(other, ascending(rows))
        unmet = without(new, is_met) if is_required else new
        is_closed = self._alignment.inputs[other].mask(unmet)
        self._sides.retained[port][0].insert(without(unmet, is_closed))
        results = new.filter(is_met) if self._emits_met else new.clear()
        if self._emits_unmet[port]:
            results = unmet.filter(is_closed)
        self._emitted.append(results)
        return results

    def close(self, port: int, batch: PunctuationBatch) -> Outcome:
        """Receive punctuations of an input, in the output's schema; return released tuples and punctuations."""
        released = self.schema.empty()
        if self.compares:
            released, batch = self._close_compared(port, batch)
        elif len(self._alignment.inputs) > 1:
            batch = self._alignment.update(port, batch)
        self._emitted.remove(self._emitted.matching(PunctuationSet(self.schema, batch)))  # keep
        return released, batch  # prop

    def _close_compared(self, port: int, batch: PunctuationBatch) -> Outcome:
        sides, other = self._sides, 1 - port
        (closed,) = sides.close(other, batch)  # keep
        released = self._emitted.insert(closed) if self._emits_unmet[other] else closed.clear()  # pass
        uncombined = self._emitted_uncombined(other, batch)
        combined = self._alignment.update(port, batch)
        if len(uncombined):
            combined, batch = _except(uncombined, combined), _except(uncombined, batch)
        if port in self._required:
            sides.pending[port].add(batch)
        return released, PunctuationBatch.union([combined, *sides.free()])

    def _emitted_uncombined(self, side: int, batch: PunctuationBatch) -> PunctuationSet:
        """Punctuations of an input that were emitted without ``batch`` and that combining with it could repeat.

        A receiver that has purged the punctuation would retain its repetition for ever. On several shards it is
        repeated, because other shards may wait for it.
        """
        emitted, received = PunctuationSet(self.schema), self._alignment.inputs[side]
        if side not in self._required or self._alignment.ownership or not len(received):
            return emitted
        waiting = self._sides.pending[side].waiting
        if batch.position is not None and received.only(batch) and not batch.ranged:
            common = received.common(batch)
            emitted.update(common)
            emitted.discard(waiting.common(common))
        else:
            overlapping = [q for p in batch for q in received.overlapping(p)]
            emitted.update([q for q in overlapping if q not in waiting and not q.is_everything])
        return emitted

    def waits(self) -> list[int]:
        """The amount of state that waits for punctuations of each input."""
        if self.compares:
            return self._sides.waits()
        if len(self._alignment.inputs) == 1:
            return [0]
        tuples = self._alignment.waits(self._emitted.frame)
        return tuples if any(tuples) else self._alignment.waits()


def _except(emitted: PunctuationSet, batch: PunctuationBatch) -> PunctuationBatch:
    """The punctuations of a batch that are not in ``emitted``."""
    if batch.position is not None and not batch.ranged and emitted.only(batch):
        new = PunctuationSet(emitted.schema, batch)
        new.discard(emitted.all())
        return new.all()
    return PunctuationBatch([p for p in batch if p not in emitted])
