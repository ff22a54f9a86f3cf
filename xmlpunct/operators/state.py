"""The state of an operator: what it retains, declared once, in parts that count, save and restore themselves."""

from __future__ import annotations

from typing import Generic, TypeVar, cast

import polars as pl

from xmlpunct.base import frames
from xmlpunct.base.frames import Part, Snapshot
from xmlpunct.operators.arrangement import Arrangement

T = TypeVar("T")


class State:
    """Parts by name. Arrangements hold tuples, the others punctuations or a small value.

    >>> from xmlpunct.punctuations.punctuation import Punctuation
    >>> from xmlpunct.punctuations.punctuation_set import PunctuationSet
    >>> from xmlpunct.schema import Schema
    >>> s = Schema.parse("x INT")
    >>> seen, said = Arrangement(s.empty(), ["x"]), PunctuationSet(s)
    >>> state = State(seen=seen, said=said, ended=Cell(False))
    >>> seen.append(s.frame([(1,), (2,)]))
    >>> said.add(Punctuation.of(s, x=5))
    True
    >>> state.rows, state.held
    (2, 1)
    >>> sorted(state.snapshot())
    ['ended/value', 'said/set', 'seen/0']
    """

    def __init__(self, **parts: Part) -> None:
        self.parts = parts
        self._tuples = [part for part in parts.values() if isinstance(part, Arrangement)]
        self._others = [part for part in parts.values() if not isinstance(part, Arrangement)]

    def __len__(self) -> int:
        return self.rows + self.held

    @property
    def rows(self) -> int:
        """How many tuples (or groups) are retained."""
        return sum(map(len, self._tuples))

    @property
    def held(self) -> int:
        """How many punctuations are retained."""
        return sum(map(len, self._others))

    def snapshot(self) -> Snapshot:
        """All of it, for a checkpoint."""
        return frames.snapshot_of(self.parts)

    def restore(self, snapshot: Snapshot) -> None:
        """Take what a snapshot has."""
        frames.restore(self.parts, snapshot)


class Cell(Generic[T]):
    """A flag, a number, or a small data frame. It counts as nothing."""

    def __init__(self, value: T) -> None:
        self.value = value

    def __len__(self) -> int:
        return 0

    def snapshot(self) -> Snapshot:
        """The value as a data frame."""
        value = self.value
        return {"value": value if isinstance(value, pl.DataFrame) else pl.DataFrame({"value": [value]})}

    def restore(self, snapshot: Snapshot) -> None:
        """Take the value of a snapshot."""
        frame = snapshot["value"]
        self.value = cast(T, frame if isinstance(self.value, pl.DataFrame) else frame.item())
