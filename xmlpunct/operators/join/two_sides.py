"""Two sides: the tuples and the punctuations that two inputs retain, each until the other input has closed them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import polars as pl

from xmlpunct.base.frames import SnapshotPart
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.hash_index import Rows
from xmlpunct.operators.pending import Pending
from xmlpunct.punctuations.alignment import Alignment
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema


class Waiting(SnapshotPart, Protocol):
    """The waiting punctuations of one side: `Pending`, or `PendingPrefixes` for changes."""

    schema: Schema

    def lose(self, tuples: pl.DataFrame) -> None: ...


W = TypeVar("W", bound=Waiting)


class TwoSides(Generic[W]):
    """Retains tuples of both sides until the other side has closed them, and punctuations until they are released.

    - ckeep1  = [t | t in ts1, setNomatch(t.k, joinPs(ps2))]; ckeep2 mirrored

    ``retained`` has each side's arrangements, ``pending`` its waiting punctuations. ``closed`` has the values that each
    side has closed. ``sides`` has all of these as parts of the state.
    """

    def __init__(
        self, closed: Alignment, pending: Sequence[W], retained: Sequence[Sequence[Arrangement]]
    ) -> None:
        self.alignment, self.retained, self.pending = closed, retained, pending
        tuples = {
            f"retained{s}_{i}": part for s, parts in enumerate(retained) for i, part in enumerate(parts)
        }
        waiting = {f"pending{s}": part for s, part in enumerate(pending)}
        self.sides: dict[str, SnapshotPart] = {"closed": closed, **tuples, **waiting}

    def close(self, side: int, closed: PunctuationBatch) -> list[pl.DataFrame]:
        """ckeep: remove a side's tuples that the other side has closed; return them."""
        closed_set = PunctuationSet(self.pending[side].schema, closed)
        return [
            self.lose(side, tuples.matching(closed_set), i) for i, tuples in enumerate(self.retained[side])
        ]

    def lose(self, side: int, rows: Rows, number: int = 0) -> pl.DataFrame:
        """Remove rows of an arrangement of a side; return them."""
        tuples = self.retained[side][number].remove(rows)
        self.pending[side].lose(tuples)
        return tuples

    def free(self: TwoSides[Pending]) -> list[PunctuationBatch]:
        """setNomatchPs: for each side, the pending punctuations that none of its retained tuples matches any more."""
        return [pending.free(tuples) for pending, tuples in zip(self.pending, self.retained, strict=True)]

    def waits(self) -> list[int]:
        """For each side, the number of retained tuples of the other side."""
        return [sum(map(len, tuples)) for tuples in reversed(self.retained)]
