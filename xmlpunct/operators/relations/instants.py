"""Instants: the values of a timestamp's type, on which relations change.

They are counted as *ordinals*: an INT is its own, a DATE counts in days, a TIMESTAMP in microseconds. Lengths of
windows, slides and origins are ordinals too. Columns of instants are numpy arrays of ordinals; no arithmetic here
overflows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.base.arrow_memory import Flags
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.vacuous import without_vacuous
from xmlpunct.types import Type
from xmlpunct.types.ordinals import Ordinals, ordinals_of, values_of
from xmlpunct.types.pattern import WILDCARD, Empty, Pattern, Wildcard, bounds, ordinals


@dataclass(frozen=True)
class Instants:
    """The instants T of a query (relations 2.1): all values of a type, or the values between declared bounds.

    The bounds are ordinals. *All* timestamped inputs must declare the same bound by CHECK; otherwise it is None.

    >>> from xmlpunct.types import INT
    >>> T = Instants(INT, least=0)
    >>> T.declared_below, T.lo, T.first, T.last == 2**63 - 1
    (True, 0, 0, True)
    >>> T = Instants(INT)
    >>> T.declared_below, T.first - T.lo
    (False, 1)
    """

    type: Type
    least: int | None = None
    greatest: int | None = None

    @property
    def declared_below(self) -> bool:
        """Whether T has a declared lower bound, which elements may have and before which every relation is empty."""
        return self.least is not None

    @property
    def is_bounded(self) -> bool:
        """Whether T is declared on both sides."""
        return self.least is not None and self.greatest is not None

    @property
    def lo(self) -> int:
        """LO, the first instant: of constant relations, and of the row of an aggregate without GROUP BY."""
        return self.type.ordinal(self.type.lowest) if self.least is None else self.least

    @property
    def first(self) -> int:
        """The least instant of an element: LO if it is declared, otherwise the instant after LO."""
        return self.lo if self.declared_below else self.lo + 1

    @property
    def last(self) -> int:
        """T's end. A key that is closed up to T's end is closed for ever."""
        return self.type.ordinal(self.type.highest) if self.greatest is None else self.greatest

    # Prefix punctuations

    def prefix(self, bound: int) -> Pattern:
        """The pattern ``(,bound]``: ``*`` from T's end on, ``{}`` before the type's least value.

        >>> from xmlpunct.types import INT
        >>> print(Instants(INT).prefix(5), Instants(INT, 0, 9).prefix(9))
        (,5] *
        """
        return WILDCARD if bound >= self.last else ordinals(self.type, None, bound)

    def without_lo(self, batch: PunctuationBatch, position: int) -> PunctuationBatch:
        """The punctuations of a stream with instants at ``position``, except punctuations on a formal LO alone.

        No element has a formal LO, and no user sees it.
        """
        if self.declared_below or not len(batch):
            return batch
        return without_vacuous(batch, position, self.prefix(self.lo))

    def bound(self, prefix: Pattern) -> int:
        """The inverse of `prefix`: the last instant of a prefix; for ``*`` T's end, which stands for infinity.

        >>> from xmlpunct.types import INT
        >>> T = Instants(INT, 0, 9)
        >>> [T.bound(T.prefix(bound)) for bound in (-1, 5, 9, 12)]
        [-1, 5, 9, 9]
        """
        if isinstance(prefix, Wildcard):
            return self.last
        if isinstance(prefix, Empty):
            return self.type.ordinal(self.type.lowest) - 1
        ends = bounds(prefix)
        assert ends is not None
        return min(ends[1], self.last)

    def text(self, instant: int) -> str:
        """An instant as text for a message: the start, for a formal LO."""
        is_formal = instant == self.lo and not self.declared_below
        return "the start" if is_formal else self.type.format(self.type.at(instant))

    def outside_reason(self, timestamp: str, first: int) -> str:
        """The reason why a tuple is rejected whose instant is before ``first`` or after T's end.

        >>> from xmlpunct.types import INT
        >>> Instants(INT, 0, 9).outside_reason("ts", 0)
        'ts is no instant from 0 to 9'
        """
        least, last = self.text(first), self.text(self.last)
        return f"{timestamp} is no instant from {least} to {last}"

    # Columns

    def ordinals(self, column: pl.Series) -> Ordinals:
        """The ordinals of a column of instants, shape (n,)."""
        return ordinals_of(self.type, column)

    def column(self, name: str, instants: Ordinals) -> pl.Series:
        """The inverse of `ordinals`, for instants of the type."""
        return values_of(self.type, instants, name)

    def within(self, instants: Ordinals) -> Flags:
        """Whether each instant is allowed for an element; shape (n,)."""
        return (instants >= self.first) & (instants <= self.last)

    def shift(self, instants: Ordinals, length: int) -> tuple[Ordinals, Flags]:
        """``instants + length``, and whether each is in T; outside of T it is arbitrary. ``length`` is not negative.

        >>> from xmlpunct.types import INT
        >>> shifted, within = Instants(INT, 0, 9).shift(np.array([3, 5]), 5)
        >>> shifted[within].tolist(), within.tolist()
        ([8], [True, False])
        """
        if length >= 2**64:
            return instants, np.zeros(len(instants), np.bool_)
        return self._moved(instants, np.uint64(length))

    def up(self, instants: Ordinals, slide: int, origin: int) -> tuple[Ordinals, Flags]:
        """The least ``origin + i * slide`` that is not before each instant, as `shift` gives it.

        >>> from xmlpunct.types import INT
        >>> up, within = Instants(INT, 0, 9).up(np.array([3, 4, 5, 9]), 4, 1)
        >>> up[within].tolist(), within.tolist()
        ([5, 5, 5, 9], [True, True, True, True])
        """
        if slide >= 2**63:  # at most three multiples: computed with Python integers
            exact = [up(i, slide, origin) for i in instants.tolist()]
            within = np.array([i <= self.last for i in exact], np.bool_)
            return np.array([min(i, self.last) for i in exact], np.int64), within
        remainder = (np.mod(instants, slide) - origin % slide) % slide
        return self._moved(instants, np.where(remainder, slide - remainder, 0).astype(np.uint64))

    def _moved(self, instants: Ordinals, steps: np.uint64 | NDArray[np.uint64]) -> tuple[Ordinals, Flags]:
        """Instants of T plus 64-bit steps, modulo 2^64, and whether each is in T."""
        start = instants.view(np.uint64)
        room = np.uint64(self.last % 2**64) - start
        return (start + steps).view(np.int64), steps <= room


def up(instant: int, slide: int, origin: int) -> int:
    """`Instants.up` for a single instant; the result may be after T's end.

    >>> up(-3, 4, 1), up(5, 4, 1)
    (-3, 5)
    """
    return instant + (origin - instant) % slide
