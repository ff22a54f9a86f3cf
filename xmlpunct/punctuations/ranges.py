"""Punctuations of one range each in the same attribute, found by hashing and matched by their ordinals."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import polars as pl

from xmlpunct.arrow import booleans
from xmlpunct.punctuations.batch import Key, PunctuationBatch
from xmlpunct.punctuations.constants import Members
from xmlpunct.punctuations.cuts import cuts
from xmlpunct.punctuations.intervals import Ordinals, is_numbered, ordinal_bounds, ordinals_of
from xmlpunct.punctuations.pattern import WILDCARD, Range
from xmlpunct.punctuations.punctuation import Punctuation, combine
from xmlpunct.punctuations.spans import Ends, any_has, has_any
from xmlpunct.schema import Schema

FEW = 8
"""So few punctuations are gone through sooner than sorted."""


class Ranges(Members):
    """Punctuations of ``schema`` with a range of a numbered type at ``place``, no more.

    >>> s = Schema.parse("sid STRING, hour INT")
    >>> closed = Ranges(s, 1)
    >>> for text in ("[1,5]", "[4,9]", "[20,)"):
    ...     closed.add(Punctuation.of(s, hour=text))
    >>> closed.mask(s.frame([("S1", 0), ("S1", 5), ("S2", 9), ("S2", 10)])).to_list()
    [False, True, True, False]
    """

    ranged, constant = True, False

    def __init__(self, schema: Schema, place: int) -> None:
        super().__init__(schema, (place,))
        self._type, self._in_columns = schema.attributes[place].type, True
        self._bounds: tuple[Ordinals, Ordinals] | None = None
        self._numbers: dict[Punctuation, int] = {}
        self._ends: Ends | None = None
        self._next = 0

    @staticmethod
    def form(p: Punctuation) -> int | None:
        """Where ``p`` has its one range of a numbered type; None if it is of another form."""
        if len(p.constrained) != 1:
            return None
        (place,) = p.constrained
        pattern = p.patterns[place]
        return place if isinstance(pattern, Range) and is_numbered(pattern.type) else None

    @property
    def names(self) -> tuple[str, ...]:
        """The attribute that they constrain."""
        return (self.schema.names[self.places[0]],)

    def constants(self) -> pl.DataFrame:
        """There are none."""
        raise NotImplementedError

    def at(self, places: Iterable[int]) -> list[Punctuation]:
        """There are none."""
        raise NotImplementedError

    def may_match(self, bounds: Callable[[str], tuple[Any, Any]]) -> bool:
        """Whether a tuple within bounds, given by attribute, may match any."""
        low, high = bounds(*self.names)
        if low is None:
            return False
        firsts, lasts = self.bounds
        return bool(((firsts <= self._type.ordinal(high)) & (lasts >= self._type.ordinal(low))).any())

    @property
    def bounds(self) -> tuple[Ordinals, Ordinals]:
        """The first and the last ordinals of the ranges, int64, in the members' order."""
        if self._bounds is None:
            self._bounds = ordinal_bounds(self._type, *self.columns())
        return self._bounds

    def _changed(self) -> None:
        self._columns = self._bounds = self._ends = None

    def _key(self, p: Punctuation) -> Key:
        pattern = p.patterns[self.places[0]]
        assert isinstance(pattern, Range)
        return pattern.low, pattern.high

    def __contains__(self, p: Punctuation) -> bool:
        return self._key(p) in self._members

    def add(self, p: Punctuation) -> None:
        """Take a punctuation that is not in."""
        self._columns = self._bounds = None
        self._members[self._key(p)] = p
        if self._ends is not None:
            self._put(self._ends, p)

    def discard(self, p: Punctuation) -> None:
        """Take out a punctuation that is in."""
        self._columns = self._bounds = None
        del self._members[self._key(p)]
        if self._ends is not None:
            self._ends.discard(self._numbers.pop(p), *cuts(p.patterns[self.places[0]])[0])

    def overlapping(self, p: Punctuation) -> list[Punctuation]:
        """Those that some tuple could match together with ``p``."""
        pattern = p.patterns[self.places[0]]
        if pattern is WILDCARD:
            return list(self)
        near: Iterable[Punctuation] = self
        if len(self) > FEW:
            if self._ends is None:
                self._ends, self._numbers = Ends(), {}
                for q in self:
                    self._put(self._ends, q)
            pieces = cuts(pattern)
            near = self._ends.near(pieces[0][0], pieces[-1][1])
        return [q for q in near if combine(p, q) is not None]

    def _put(self, ends: Ends, p: Punctuation) -> None:
        self._numbers[p] = self._next
        ends.add(self._next, p, *cuts(p.patterns[self.places[0]])[0])
        self._next += 1

    def mask(self, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple, whether it matches any of them."""
        column = tuples[self.names[0]]
        hit = any_has(*self.bounds, ordinals_of(self._type, column))
        return booleans(hit & column.is_not_null().to_numpy() if column.null_count() else hit)

    def _matched(self, tuples: pl.DataFrame) -> Iterable[Key]:
        column = tuples[self.names[0]].drop_nulls()
        hit = has_any(*self.bounds, np.unique(ordinals_of(self._type, column)))
        keys = list(self._members)
        return [keys[i] for i in np.flatnonzero(hit).tolist()]


def are_apart(batches: Iterable[PunctuationBatch]) -> bool:
    """Whether of the ranges of some batches, which are all of one attribute, any two are equal or do not overlap."""
    bounds = [ordinal_bounds(b.schema.attributes[b.place or 0].type, *b.columns) for b in batches if len(b)]
    if not bounds:
        return True
    firsts, lasts = (np.concatenate(ends) for ends in zip(*bounds, strict=True))
    order = np.lexsort((lasts, firsts))
    firsts, lasts = firsts[order], lasts[order]
    equal = (firsts[1:] == firsts[:-1]) & (lasts[1:] == lasts[:-1])
    return bool((equal | (firsts[1:] > lasts[:-1])).all())
