"""Prefix punctuations that wait until no retained tuple matches them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import polars as pl

from xmlpunct.base.frames import Snapshot
from xmlpunct.operators.pending import Pending
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.relations.prefixes import with_at, without_at
from xmlpunct.punctuations.ownership import ANYTHING
from xmlpunct.punctuations.punctuation import Punctuation, from_frame, to_frame
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import AT

Least = Callable[[Sequence[Punctuation]], Sequence[int]]
"""For each punctuation, the least instant of the retained tuples that match it; after T's end if there are none."""

_BOUND, _EMITTED = "$bound", "$emitted"


class PendingPrefixes:
    """The punctuations ``<q, $at=(,b]>`` of an input of changes, each emitted up to the first retained instant.

    Let s be the least instant of the retained tuples that match q. Then ``<q, $at=(,min(b, s - 1)]>`` is *free*. Later
    tuples that match q are after b, so a punctuation that is free up to b does not wait again.

    >>> from xmlpunct.schema.change_columns import changes
    >>> from xmlpunct.types import INT
    >>> s = changes(Schema.parse("x INT"), INT)
    >>> pending = PendingPrefixes(s, Instants(INT))
    >>> pending.add([Punctuation.parse(s, "<*, (,5], *>")])
    >>> [str(p) for p in pending.free(lambda qs: [3] * len(qs))]
    ['<*, (,2], *>']
    >>> pending.lose(s.frame([(7, 3, 1)]))
    >>> [str(p) for p in pending.free(lambda qs: [9] * len(qs))]
    ['<*, (,5], *>']
    """

    def __init__(self, schema: Schema, instants: Instants) -> None:
        self.schema, self.instants = schema, instants
        self._pending = Pending(schema)
        """The waiting punctuations, with ``*`` for their instants."""
        self._bounds: dict[Punctuation, tuple[int, int]] = {}
        """For each q its b, and the last instant up to which it was free; both are equal if it does not wait."""
        self._purge_from = 64
        self._at, self._all_tuples = schema.index(AT), Punctuation.everything(schema)
        self._none = instants.lo - 1, instants.lo - 1
        self.ownership = ANYTHING

    def add(self, punctuations: Iterable[Punctuation]) -> None:
        """Receive punctuations."""
        received, all_emitted = [], self._all_emitted
        for p in punctuations:
            q, bound = without_at(p), self.instants.bound(p.patterns[self._at])
            old, emitted = self._bounds.get(q, self._none)
            is_implied = bound <= all_emitted and not self.ownership.needs(q)
            if bound > old and not is_implied and not q.is_empty:
                self._bounds[q] = bound, emitted
                received.append(q)
        self._pending.add(PunctuationBatch(received))

    def lose(self, tuples: pl.DataFrame) -> None:
        """Record that tuples are no longer retained, or are retained from a later instant on."""
        self._pending.lose(tuples)

    def touch(self, patterns: Iterable[Punctuation]) -> None:
        """Record that tuples that match any of these patterns may be retained from a later instant on."""
        if self._bounds:
            for q in patterns:
                self._pending.add(PunctuationBatch(self._pending.waiting.overlapping(q)))

    def free(self, least: Least) -> list[Punctuation]:
        """The punctuations that are free now, among new ones and those that lost or touched tuples match."""
        waiting, all_emitted = self._pending.waiting, self._all_emitted
        asked = [q for q in self._pending.asked() if q in waiting]
        free, done = [], []
        for q, first in zip(asked, least(asked) if asked else (), strict=True):
            bound, emitted = self._bounds[q]
            reached = min(bound, first - 1)
            if reached > emitted and (reached > all_emitted or self.ownership.needs(q)):
                free.append(with_at(q, self.instants.prefix(reached)))
            self._bounds[q] = bound, max(emitted, reached)
            if reached == bound:
                done.append(q)
                if bound == self.instants.last and not q.is_everything:
                    del self._bounds[q]
        self._pending.remove(done)
        self._purge()
        return free

    def is_waiting(self, p: Punctuation) -> bool:
        """Whether a punctuation is not free up to its bound."""
        return without_at(p) in self._pending.waiting

    def remove(self, punctuations: PunctuationBatch) -> None:
        """Remove punctuations without a bound, which are free."""
        if self._bounds:
            self._pending.remove(punctuations)
            for q in punctuations:
                self._bounds.pop(q, None)

    @property
    def _all_emitted(self) -> int:
        """The last instant up to which the punctuation of all tuples was free."""
        return self._bounds.get(self._all_tuples, self._none)[1]

    def _purge(self) -> None:
        """Remove punctuations that the punctuation of all tuples implies and that do not wait."""
        all_emitted = self._all_emitted
        if all_emitted == self.instants.last:
            self._bounds, self._pending = {self._all_tuples: (all_emitted, all_emitted)}, Pending(self.schema)
        elif len(self._bounds) > self._purge_from:
            waiting, bounds = self._pending.waiting, self._bounds.items()
            self._bounds = {
                q: ends for q, ends in bounds if q in waiting or ends[0] > all_emitted or q.is_everything
            }
            self._purge_from = 2 * len(self._bounds) + 64

    # As a part of the state

    def __len__(self) -> int:
        return 0 if self._all_emitted == self.instants.last else len(self._bounds)

    def snapshot(self) -> Snapshot:
        """The punctuations and their bounds, for a checkpoint."""
        # the ordinal before T's first instant may need more than 64 bits
        ends = [(b, None if emitted < self.instants.lo else emitted) for b, emitted in self._bounds.values()]
        columns = pl.DataFrame(ends, schema={_BOUND: pl.Int64(), _EMITTED: pl.Int64()}, orient="row")
        return {"prefixes": to_frame(self.schema, self._bounds).hstack(columns)}

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the punctuations of a snapshot."""
        frame = snapshot["prefixes"]
        emitted = frame[_EMITTED].to_list()
        ends = zip(frame[_BOUND], [self._none[1] if e is None else e for e in emitted], strict=True)
        self._bounds = dict(zip(from_frame(self.schema, frame.drop(_BOUND, _EMITTED)), ends, strict=True))
        self._pending = Pending(self.schema)
        self._pending.waiting.update(q for q, (bound, emitted) in self._bounds.items() if emitted < bound)
