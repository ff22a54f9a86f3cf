"""Punctuations that wait until no retained tuple matches them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from xmlpunct.base.frames import Snapshot
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema


class Pending:
    """The paper's setNomatchPs over the retained tuples, computed only for the punctuations that a slice concerns.

    A retained tuple blocks the punctuations that it matches. So only two kinds can be *free*: new punctuations, and
    punctuations that a lost tuple matches, which is no longer retained. Columnar batches stay columnar here. Prefixes
    of instants are freed step by step (`PendingPrefixes`).

    >>> s = Schema.parse("item INT, price INT")
    >>> bids = Arrangement(s.empty(), ["item"])
    >>> bids.append(s.frame([(1, 10), (2, 20)]))
    >>> pending = Pending(s)
    >>> pending.add(PunctuationBatch([Punctuation.of(s, item=1), Punctuation.of(s, item=3)]))
    >>> [str(p) for p in pending.free([bids])]
    ['<3, *>']
    >>> pending.lose(bids.remove(bids.matching(PunctuationSet(s, [Punctuation.of(s, item=1)]))))
    >>> [str(p) for p in pending.free([bids])]
    ['<1, *>']
    """

    def __init__(self, schema: Schema) -> None:
        self.schema, self.waiting = schema, PunctuationSet(schema)
        """All punctuations that wait."""
        self._new: list[PunctuationBatch] = []
        self._lost: list[pl.DataFrame] = []

    def add(self, batch: PunctuationBatch) -> None:
        """Receive punctuations. One that waits already is asked again."""
        self.waiting.update(batch)
        self._new.append(batch)

    def remove(self, punctuations: Iterable[Punctuation]) -> None:
        """Remove punctuations; ignore any that do not wait."""
        self.waiting.discard(punctuations)

    def lose(self, tuples: pl.DataFrame) -> None:
        """Record that tuples are no longer retained."""
        if tuples.height and len(self.waiting):
            self._lost.append(tuples)

    def asked(self) -> PunctuationSet:
        """The punctuations that may be free: those received, or matched by a lost tuple, since the last call."""
        asked = PunctuationSet(self.schema)
        for batch in self._new:
            asked.update(batch)
        for tuples in self._lost:
            for group in self.waiting.groups():
                asked.update(group.matched(tuples))
        self._new, self._lost = [], []
        return asked

    def free(self, retained: Sequence[Arrangement]) -> PunctuationBatch:
        """The punctuations that no retained tuple matches. They are removed."""
        if not any(map(len, retained)):
            self._new, self._lost = [], []
            free = self.waiting.all()
        else:
            asked = self.asked()
            for arrangement in retained:
                asked.discard(arrangement.blocked(asked).all())
            free = asked.all()
        self.waiting.discard(free)
        return free

    def __len__(self) -> int:
        return len(self.waiting)

    def snapshot(self) -> Snapshot:
        """The punctuations, for a checkpoint."""
        return self.waiting.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the punctuations of a snapshot."""
        self.waiting.restore(snapshot)
        self._new, self._lost = [], []
