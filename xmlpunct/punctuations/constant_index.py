"""A hash index of punctuations that have constants only."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

import polars as pl

from xmlpunct.base.frames import any_of, join
from xmlpunct.punctuations.forms import FormKey, has_column
from xmlpunct.punctuations.punctuation import Punctuation, Signature, Tuple, combine
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_index import PunctuationIndex
from xmlpunct.schema import Schema
from xmlpunct.types import DOUBLE
from xmlpunct.types.pattern import WILDCARD, Constant

PER_TUPLE = 8
"""With more punctuations per tuple than this, tuples are looked up one by one; with fewer, a join is faster.

A join goes through all punctuations, a look-up through all tuples (`benchmarks/scaling.py --only equality`).
"""
LITTLE = 100
"""Largest slice whose tuples are always looked up: a join takes three times as long (`benchmarks/retained.py`)."""
VERY_FEW = 4
"""Largest number of punctuations that are compared with the column one by one: `is_in` takes longer
(`benchmarks/punctuations.py`)."""


class Constants(PunctuationIndex):
    """A hash index of punctuations that have constants only.

    >>> s = Schema.parse("item INT, buyer STRING")
    >>> closed = Constants(s, [0])
    >>> [closed.add(Punctuation.of(s, item=item)) for item in (1, 2, 5)]
    [True, True, True]
    >>> closed.mask(s.frame([(1, "A"), (3, "B"), (5, "A")])).to_list()
    [True, False, True]
    >>> closed.matched(s.frame([(2, "A"), (2, "B"), (3, "B")]))
    PunctuationBatch([<2, *>])
    """

    def __init__(
        self, schema: Schema, constant_positions: Sequence[int] = (), range_position: int = -1
    ) -> None:
        super().__init__(schema, constant_positions, range_position)
        self._types = [schema.attributes[i].type for i in constant_positions]
        self._is_single_column = len(self.positions) == 1
        self.in_columns = self._is_single_column and has_column(self._types[0])
        self._parts: dict[Signature, dict[Tuple, dict[Punctuation, None]]] = {}
        """Cache of `_part`."""
        self._frame: pl.DataFrame | None = None

    def _key(self, p: Punctuation) -> FormKey:
        constants = p.constants
        return constants[0] if self._is_single_column and constants is not None else constants

    def _on_add(self, p: Punctuation) -> None:
        self._frame = None
        for positions, by_key in self._parts.items():
            by_key.setdefault(p.keys(positions), {})[p] = None

    def _on_remove(self, p: Punctuation) -> None:
        self._frame = None
        for positions, by_key in self._parts.items():
            members = by_key[p.keys(positions)]
            del members[p]
            if not members:
                del by_key[p.keys(positions)]

    def _on_batch_change(self, batch: PunctuationBatch, is_added: bool) -> None:
        self._frame, self._parts = None, {}

    def constants(self) -> pl.DataFrame:
        """The constants, one row per punctuation of `all`.

        >>> s = Schema.parse("hour INT, sid STRING")
        >>> closed = Constants(s, [0, 1])
        >>> closed.add(Punctuation.of(s, hour=5, sid="S1"))
        True
        >>> closed.constants().rows()
        [(5, 'S1')]
        """
        if self._frame is None:
            if self.in_columns:
                self._frame = self.all().values.alias(self.names[0]).to_frame()
            else:
                self._frame = pl.DataFrame(
                    pl.Series(name, [p.patterns[i].value for p in self], dtype=type_.dtype)  # type: ignore[attr-defined]
                    for i, name, type_ in zip(self.positions, self.names, self._types, strict=True)
                )
        return self._frame

    def mask(self, tuples: pl.DataFrame) -> pl.Series:
        names = self.names
        if tuples.height <= LITTLE or len(self) > PER_TUPLE * tuples.height:
            members = self._members
            return pl.Series([key in members for key in self._keys(tuples.select(names))], dtype=pl.Boolean)
        frame = self.constants()
        if self._is_single_column:
            column, constants = tuples[names[0]], frame.to_series()
            if len(constants) > VERY_FEW:
                hit = column.is_in(constants.implode())
            else:
                hit = reduce(or_, (column == constants[i : i + 1] for i in range(len(constants))))
            return hit.fill_null(False) if column.null_count() else hit
        rows = tuples.select(names).with_row_index("$row")
        hits = join(rows, frame, names, "semi")["$row"]
        hit = any_of([], tuples.height)
        return hit.scatter(hits, True) if hits.len() else hit

    def matched(self, tuples: pl.DataFrame) -> PunctuationBatch:
        values = tuples.select(self.names).unique()
        if len(self) <= PER_TUPLE * values.height:
            values = join(values, self.constants(), self.names, "semi")
            if self.in_columns and self._by_key is None:
                return PunctuationBatch.of_column(self.schema, self.positions[0], values.to_series())
        members = self._members
        return self._of_keys([key for key in self._keys(values) if key in members])

    def _keys(self, values: pl.DataFrame) -> list[FormKey]:
        """The key of each tuple, for look-up in the index."""
        if DOUBLE not in self._types:
            return values.to_series().to_list() if self._is_single_column else list(values.rows())
        keys = [
            tuple([None if v is None else t.key(v) for t, v in zip(self._types, row, strict=True)])
            for row in values.iter_rows()
        ]
        return [key for (key,) in keys] if self._is_single_column else keys

    def overlapping(self, p: Punctuation) -> list[Punctuation]:
        if p.constrained == self.positions and p.constants is not None:
            known_positions, key = self.positions, p.constants
        else:
            known_positions = tuple([i for i in self.positions if isinstance(p.patterns[i], Constant)])
            key = p.keys(known_positions)
        if known_positions == self.positions:
            member = key[0] if self._is_single_column else key
            return [self._member(member)] if member in self._members else []
        candidates = self._part(known_positions).get(key, {}) if known_positions else self
        if all(p.patterns[i] is WILDCARD for i in self.positions if i not in known_positions):
            return list(candidates)
        return [q for q in candidates if combine(p, q) is not None]

    def _part(self, positions: Signature) -> dict[Tuple, dict[Punctuation, None]]:
        """The punctuations by their constants at a subset of the positions."""
        if positions not in self._parts:
            by_key: dict[Tuple, dict[Punctuation, None]] = {}
            for p in self:
                by_key.setdefault(p.keys(positions), {})[p] = None
            self._parts[positions] = by_key
        return self._parts[positions]
