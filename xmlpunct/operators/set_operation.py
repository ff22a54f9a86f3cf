"""What intersect and difference share: two inputs compared as whole tuples, nulls being equal."""

from __future__ import annotations

import polars as pl

from xmlpunct.frames import Snapshot
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.dupelim import DupElim
from xmlpunct.operators.hash_index import Rows
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.join_keys import LEFT, RIGHT
from xmlpunct.operators.merge import merged
from xmlpunct.operators.pending import Pending
from xmlpunct.punctuations.alignment import Alignment
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.ownership import Ways
from xmlpunct.punctuations.set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.slice import without


class SetOperation(Operator):
    """Keeps both inputs' distinct tuples until the other input has closed them, and gives each result once.

    ``pending_sides`` are the inputs whose punctuations are passed on by themselves, once no retained tuple of
    that input matches them; the combinations of both inputs' punctuations are passed on always.
    """

    pending_sides: tuple[int, ...] = (LEFT, RIGHT)

    def __init__(self, left: Schema, right: Schema) -> None:
        super().__init__((left, right), merged((left, right)))
        self._stored = [Arrangement(self.schema.empty(), self.schema.names) for _ in (LEFT, RIGHT)]
        self._alignment = Alignment(self.schema, 2)
        self._pending = {side: Pending(self.schema) for side in self.pending_sides}
        self._output = DupElim(self.schema)

    def spread(self, ways: Ways) -> None:
        super().spread(ways)
        self._alignment.spread(self.ownership)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        named = tuples.rename(dict(zip(tuples.columns, self.schema.names, strict=True)))
        return self._output.step(0, self.compare(port, named.unique(maintain_order=True)))

    def compare(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        """Take new distinct tuples of an input; return results, maybe again ones given before."""
        raise NotImplementedError

    def closed_by(self, port: int, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple, whether an input has closed it."""
        return self._alignment.inputs[port].mask(tuples)

    def store(self, port: int, tuples: pl.DataFrame) -> None:
        """Retain an input's tuples, but those that the other input has closed."""
        self._stored[port].insert(without(tuples, self.closed_by(1 - port, tuples)))

    def lose(self, port: int, rows: Rows) -> pl.DataFrame:
        """Retain some of an input's tuples no longer; return them."""
        gone = self._stored[port].remove(rows)
        if port in self._pending:
            self._pending[port].lose(gone)
        return gone

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        named = batch.rename(self.schema)
        closed = self.lose(1 - port, self._stored[1 - port].matching(PunctuationSet(self.schema, named)))
        passed = self.release(1 - port, closed)
        both = self._alignment.update(port, named)
        if port in self._pending:
            self._pending[port].add(named)
        free = (pending.free([self._stored[side]]) for side, pending in self._pending.items())
        promised = PunctuationBatch.union([both, *free])
        _, promised = self._output.punctuate(0, promised)
        return passed, promised

    def release(self, port: int, closed: pl.DataFrame) -> pl.DataFrame:
        """The results among an input's retained tuples that the other has closed."""
        return self.schema.empty()

    def waits(self) -> list[int]:
        return [s.height for s in reversed(self._stored)]

    @property
    def rows(self) -> int:
        return sum(s.height for s in self._stored) + self._output.rows

    @property
    def held(self) -> int:
        return self._alignment.held + sum(map(len, self._pending.values()))

    def snapshot(self) -> Snapshot:
        left, right = (stored.snapshot(f"stored{i}") for i, stored in enumerate(self._stored))
        pending = {f"pending{i}": p.snapshot() for i, p in self._pending.items()}
        return {**left, **right, **pending, **self._alignment.snapshot(), **self._output.snapshot()}

    def restore(self, snapshot: Snapshot) -> None:
        for i, stored in enumerate(self._stored):
            stored.restore(f"stored{i}", snapshot)
        for side, pending in self._pending.items():
            pending.restore(snapshot[f"pending{side}"])
        self._alignment.restore(snapshot)
        self._output.restore(snapshot)
