"""The state of an operator, declared once, in parts that count, save and restore themselves."""

from __future__ import annotations

from typing import Generic, TypeVar, cast

import polars as pl

from xmlpunct.base import frames
from xmlpunct.base.frames import Snapshot, SnapshotPart
from xmlpunct.operators.arrangement import Arrangement

T = TypeVar("T")


class State:
    """Parts by name. Arrangements hold tuples; all other parts hold punctuations or a small value.

    >>> from xmlpunct.punctuations.punctuation import Punctuation
    >>> from xmlpunct.punctuations.punctuation_set import PunctuationSet
    >>> from xmlpunct.schema import Schema
    >>> s = Schema.parse("x INT")
    >>> tuples, punctuations = Arrangement(s.empty(), ["x"]), PunctuationSet(s)
    >>> state = State(tuples=tuples, punctuations=punctuations, ended=StateCell(False))
    >>> tuples.append(s.frame([(1,), (2,)]))
    >>> punctuations.add(Punctuation.of(s, x=5))
    True
    >>> state.rows, state.held
    (2, 1)
    >>> sorted(state.snapshot())
    ['ended/value', 'punctuations/set', 'tuples/0']
    """

    def __init__(self, **parts: SnapshotPart) -> None:
        self.parts = parts
        self._tuples = [part for part in parts.values() if isinstance(part, Arrangement)]
        self._other_parts = [part for part in parts.values() if not isinstance(part, Arrangement)]

    def __len__(self) -> int:
        return self.rows + self.held

    @property
    def rows(self) -> int:
        """The number of retained tuples (or groups)."""
        return sum(map(len, self._tuples))

    @property
    def held(self) -> int:
        """The number of retained punctuations."""
        return sum(map(len, self._other_parts))

    def snapshot(self) -> Snapshot:
        """The state as data frames, for a checkpoint."""
        return frames.snapshot_of(self.parts)

    def restore(self, snapshot: Snapshot) -> None:
        """Restore all parts from a snapshot."""
        frames.restore(self.parts, snapshot)


class StateCell(Generic[T]):
    """A flag, a number, or a small data frame. Its length is 0: it counts neither as tuples nor as punctuations."""

    def __init__(self, value: T) -> None:
        self.value = value

    def __len__(self) -> int:
        return 0

    def snapshot(self) -> Snapshot:
        """The value as a data frame."""
        value = self.value
        return {"value": value if isinstance(value, pl.DataFrame) else pl.DataFrame({"value": [value]})}

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the value from a snapshot."""
        frame = snapshot["value"]
        self.value = cast(T, frame if isinstance(self.value, pl.DataFrame) else frame.item())
