"""Punctuations of constants in the same attributes, found and matched by hashing."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xmlpunct.patterns import WILDCARD, Constant
from xmlpunct.punctuation import Punctuation, Tuple, combine
from xmlpunct.schema import Schema
from xmlpunct.types import DOUBLE

FEW = 8
"""If there are more than so many punctuations per tuple, tuples are looked up, else the two are joined."""


class Constants:
    """Punctuations of ``schema`` with constants at ``places``, no more.

    >>> s = Schema.parse("item INT, buyer STRING")
    >>> closed = Constants(s, [0])
    >>> for item in (1, 2, 5):
    ...     closed.add((item,), Punctuation.of(s, item=item))
    >>> closed.mask(s.frame([(1, "A"), (3, "B"), (5, "A")])).to_list()
    [True, False, True]
    """

    def __init__(self, schema: Schema, places: Sequence[int]) -> None:
        self.schema, self.places = schema, tuple(places)
        self._types = [schema.attributes[i].type for i in places]
        self._names = [schema.names[i] for i in places]
        self._members: dict[Tuple, Punctuation] = {}
        self._parts: dict[tuple[int, ...], dict[Tuple, dict[Punctuation, None]]] = {}
        self._frame: pl.DataFrame | None = None

    def __len__(self) -> int:
        return len(self._members)

    def add(self, key: Tuple, p: Punctuation) -> None:
        """Take a punctuation and its `Punctuation.constants`."""
        self._frame = None
        self._members[key] = p
        for places, found in self._parts.items():
            found.setdefault(p.keys(places), {})[p] = None

    def discard(self, key: Tuple, p: Punctuation) -> None:
        """Take out a punctuation that is in."""
        self._frame = None
        del self._members[key]
        for places, found in self._parts.items():
            alike = found[p.keys(places)]
            del alike[p]
            if not alike:
                del found[p.keys(places)]

    def overlapping(self, p: Punctuation) -> list[Punctuation]:
        """Those that some tuple could match together with ``p``."""
        if p.constrained == self.places and p.constants is not None:
            known, key = self.places, p.constants
        else:
            known = tuple([i for i in self.places if isinstance(p.patterns[i], Constant)])
            key = p.keys(known)
        if known == self.places:
            q = self._members.get(key)
            return [] if q is None else [q]
        near = self._part(known).get(key, {}) if known else self._members.values()
        if all(p.patterns[i] is WILDCARD for i in self.places if i not in known):
            return list(near)
        return [q for q in near if combine(p, q) is not None]

    def mask(self, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple, whether it matches any of them."""
        if len(self._members) > FEW * tuples.height:
            keys = self._keys(tuples.select(self._names))
            return pl.Series([key in self._members for key in keys], dtype=pl.Boolean)
        frame = self._constants()
        if len(self._names) == 1:
            return tuples[self._names[0]].is_in(frame[self._names[0]].implode()).fill_null(False)
        rows = tuples.select(self._names).with_row_index("$row")
        found = rows.join(frame, on=self._names, how="semi")["$row"]
        hit = pl.Series("hit", [False]).new_from_index(0, tuples.height)
        return hit.scatter(found, True) if found.len() else hit

    def matched(self, tuples: pl.DataFrame) -> list[Punctuation]:
        """Those that some tuple matches."""
        values = tuples.select(self._names).unique()
        if len(self._members) <= FEW * values.height:
            values = values.join(self._constants(), on=self._names, how="semi")
        return [p for key in self._keys(values) if (p := self._members.get(key)) is not None]

    def _keys(self, values: pl.DataFrame) -> list[Tuple]:
        """What to look tuples up by."""
        if DOUBLE not in self._types:
            return values.rows()
        return [
            tuple([None if v is None else t.key(v) for t, v in zip(self._types, row, strict=True)])
            for row in values.iter_rows()
        ]

    def _constants(self) -> pl.DataFrame:
        if self._frame is None:
            self._frame = pl.DataFrame(
                pl.Series(
                    name,
                    [p.patterns[i].value for p in self._members.values()],  # type: ignore[attr-defined]
                    dtype=type_.dtype,
                )
                for i, name, type_ in zip(self.places, self._names, self._types, strict=True)
            )
        return self._frame

    def _part(self, places: tuple[int, ...]) -> dict[Tuple, dict[Punctuation, None]]:
        """The members by what they say of some of the attributes."""
        if places not in self._parts:
            found: dict[Tuple, dict[Punctuation, None]] = {}
            for p in self._members.values():
                found.setdefault(p.keys(places), {})[p] = None
            self._parts[places] = found
        return self._parts[places]
