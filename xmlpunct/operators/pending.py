"""Punctuations that wait until no retained tuple matches them."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xmlpunct.base.frames import Snapshot
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema


class Pending:
    """The paper's setNomatchPs over what is retained, asked only for what a slice touches.

    A retained tuple blocks the punctuations that it matches. So only new punctuations can be free, and those that
    matched a tuple which is gone.

    >>> from xmlpunct.punctuations.punctuation import Punctuation
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
        """Those that wait, with the new ones."""
        self._fresh: list[PunctuationBatch] = []
        self._gone: list[pl.DataFrame] = []

    def add(self, batch: PunctuationBatch) -> None:
        """Take new punctuations."""
        self._fresh.append(self.waiting.update(batch))

    def lose(self, tuples: pl.DataFrame) -> None:
        """Take note that tuples are retained no longer."""
        if tuples.height and len(self.waiting):
            self._gone.append(tuples)

    def free(self, retained: Sequence[Arrangement]) -> PunctuationBatch:
        """Those that no retained tuple matches any more. They wait no longer."""
        fresh, gone = self._fresh, self._gone
        self._fresh, self._gone = [], []
        if not len(self.waiting):
            return PunctuationBatch()
        if not any(map(len, retained)):
            free = self.waiting.all()
        else:
            asked = PunctuationSet(self.schema)
            for punctuations in fresh:
                asked.update(punctuations)
            for tuples in gone:
                for group in self.waiting.groups():
                    asked.update(group.matched(tuples))
            for arrangement in retained:
                asked.discard(arrangement.blocked(asked).all())
            free = asked.all()
        self.waiting.discard(free)
        return free

    def __len__(self) -> int:
        return len(self.waiting)

    def snapshot(self) -> Snapshot:
        """Those that wait, for a checkpoint."""
        return self.waiting.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """The inverse of `snapshot`."""
        self.waiting.restore(snapshot)
        self._fresh, self._gone = [], []
