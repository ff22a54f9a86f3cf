"""Alone: what one input closes by itself, as long as it holds nothing there."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from xmlpunct.base.frames import Snapshot
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.relations.sweep import Sweep
from xmlpunct.punctuations.punctuation import Punctuation, from_frame, to_frame
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import AT
from xmlpunct.types.pattern import WILDCARD

_BOUND, _SAID = "$bound", "$said"


class Alone:
    """What a ``side`` without which there is no result says of the result, ahead of the other side.

    Let it close ``<q, (,b]>``. The result has no tuple that matches q, beyond what is closed of the tuple by both,
    up to the instant before the first at which the side holds one (or up to b). This is asked anew for a q only when
    a change that matches it has been closed.
    """

    def __init__(self, schema: Schema, sweep: Sweep, side: int, instants: Instants) -> None:
        self._schema, self._sweep, self._side, self._instants = schema, sweep, side, instants
        self._at = schema.index(AT)
        self._ahead: dict[Punctuation, tuple[int, int]] = {}
        """For each q, how far it is closed, and how far that has been said."""
        self._whose, self._asked = PunctuationSet(schema), PunctuationSet(schema)
        """The keys of ``_ahead``, and those of them to be asked."""

    def add(self, batch: PunctuationBatch) -> None:
        """Take the side's punctuations."""
        for p in batch:
            patterns = list(p.patterns)
            bound, patterns[self._at] = self._instants.bound(patterns[self._at]), WILDCARD
            q = Punctuation(self._schema, patterns)
            before, said = self._ahead.get(q, (self._instants.lo - 1, self._instants.lo - 1))
            if bound > before and not q.is_empty:
                self._ahead[q] = bound, said
                self._whose.add(q)
                self._asked.add(q)

    def lose(self, tuples: pl.DataFrame) -> None:
        """Take note that changes of some tuples were closed, or the tuples themselves."""
        if tuples.height and self._ahead:
            for group in self._whose.groups():
                self._asked.update(group.matched(tuples))

    def free(self, closed: PunctuationBatch) -> Iterator[Punctuation]:
        """What is new beyond what both sides have ``closed`` in this slice."""
        both = PunctuationSet(self._schema, closed)
        for q in self._asked:
            bound, said = self._ahead[q]
            until = min(bound, self._sweep.empty_until(self._side, q, self._instants))
            if until > said:
                patterns = list(q.patterns)
                patterns[self._at] = self._instants.prefix(until)
                p = Punctuation(self._schema, patterns)
                if not both.covers(p):
                    yield p
            self._ahead[q] = bound, max(said, until)
            if until == bound:
                del self._ahead[q]
                self._whose.remove(q)
        self._asked = PunctuationSet(self._schema)

    # As a part of the state

    def __len__(self) -> int:
        return len(self._ahead)

    def snapshot(self) -> Snapshot:
        """What waits, for a checkpoint."""
        bounds = [(bound, None if said < self._instants.lo else said) for bound, said in self._ahead.values()]
        columns = pl.DataFrame(bounds, schema={_BOUND: pl.Int64(), _SAID: pl.Int64()}, orient="row")
        return {"ahead": to_frame(self._schema, self._ahead).hstack(columns)}

    def restore(self, snapshot: Snapshot) -> None:
        """The inverse of `snapshot`."""
        frame = snapshot["ahead"]
        waiting = from_frame(self._schema, frame.drop(_BOUND, _SAID))
        nothing = self._instants.lo - 1
        bounds = (
            (b, nothing if said is None else said)
            for b, said in zip(frame[_BOUND], frame[_SAID], strict=True)
        )
        self._ahead = dict(zip(waiting, bounds, strict=True))
        self._whose, self._asked = PunctuationSet(self._schema, waiting), PunctuationSet(self._schema)
