"""What intersect and difference share: two inputs compared as whole tuples, nulls being equal."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xmlpunct.frames import Snapshot
from xmlpunct.operators.arrangement import Arrangement, distinct
from xmlpunct.operators.dupelim import DupElim
from xmlpunct.operators.hash_index import Rows
from xmlpunct.operators.iterator import Operator
from xmlpunct.operators.join_keys import LEFT, RIGHT
from xmlpunct.operators.merge import merged
from xmlpunct.operators.pending import Pending
from xmlpunct.punctuations.alignment import Alignment
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.ownership import Ways
from xmlpunct.punctuations.punctuation import Punctuation
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
        self._meeting = Alignment(self.schema, 2)
        self._pending = {side: Pending(self.schema) for side in self.pending_sides}
        self._output = DupElim(self.schema)
        self._promised: Sequence[Punctuation] = ()

    def spread(self, ways: Ways) -> None:
        super().spread(ways)
        self._meeting.spread(self.ownership)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        named = tuples.rename(dict(zip(tuples.columns, self.schema.names, strict=True)))
        return self._output.step(0, self.compare(port, distinct(named)))

    def compare(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        """Take new distinct tuples of an input; return results, maybe again ones given before."""
        raise NotImplementedError

    def closed_by(self, port: int, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple, whether an input has closed it."""
        return self._meeting.inputs[port].mask(tuples)

    def store(self, port: int, tuples: pl.DataFrame) -> None:
        """Retain an input's tuples, but those that the other input has closed."""
        self._stored[port].insert(without(tuples, self.closed_by(1 - port, tuples)))

    def lose(self, port: int, rows: Rows) -> None:
        """Retain some of an input's tuples no longer."""
        gone = self._stored[port].remove(rows)
        if port in self._pending:
            self._pending[port].lose(gone)

    def keep(self, port: int, punctuations: Sequence[Punctuation]) -> None:
        named = PunctuationBatch.of(punctuations).rename(self.schema)
        self.lose(1 - port, self._stored[1 - port].matching(PunctuationSet(self.schema, named)))
        both = self._meeting.update(port, named)
        if port in self._pending:
            self._pending[port].add(named)
        free = (pending.free([self._stored[side]]) for side, pending in self._pending.items())
        self._promised = PunctuationBatch.union([both, *free])
        # What is promised decides what duplicate elimination may forget, so it is known before prop.
        self._output.keep(0, self._promised)

    def prop(self, port: int, punctuations: Sequence[Punctuation]) -> Sequence[Punctuation]:
        return self._promised

    def waits(self) -> list[int]:
        return [s.height for s in reversed(self._stored)]

    @property
    def rows(self) -> int:
        return sum(s.height for s in self._stored) + self._output.rows

    @property
    def held(self) -> int:
        return self._meeting.held + sum(map(len, self._pending.values()))

    def snapshot(self) -> Snapshot:
        left, right = (stored.snapshot(f"stored{i}") for i, stored in enumerate(self._stored))
        pending = {f"pending{i}": p.snapshot() for i, p in self._pending.items()}
        return {**left, **right, **pending, **self._meeting.snapshot(), **self._output.snapshot()}

    def restore(self, snapshot: Snapshot) -> None:
        for i, stored in enumerate(self._stored):
            stored.restore(f"stored{i}", snapshot)
        for side, pending in self._pending.items():
            pending.restore(snapshot[f"pending{side}"])
        self._meeting.restore(snapshot)
        self._output.restore(snapshot)
