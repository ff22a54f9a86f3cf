"""Punctuations of constants in the same attributes, found and matched by hashing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from operator import or_
from typing import Any

import polars as pl

from xmlpunct.frames import join
from xmlpunct.punctuations.batch import Columns, Key, PunctuationBatch, columns_of, has_column, single
from xmlpunct.punctuations.pattern import WILDCARD, Constant
from xmlpunct.punctuations.punctuation import Punctuation, Tuple, combine
from xmlpunct.schema import Schema
from xmlpunct.types import DOUBLE

FEW = 8
"""If there are more than so many punctuations per tuple, tuples are looked up, else the two are joined."""
LITTLE = 100
"""So few tuples are looked up, however many punctuations there are."""
VERY_FEW = 4
"""With so few punctuations, tuples are compared with one after the other."""


class Members:
    """Punctuations of one form, found by their keys: those that come in columns are made when somebody asks."""

    ranged = False

    def __init__(self, schema: Schema, places: Sequence[int]) -> None:
        self.schema, self.places = schema, tuple(places)
        self._members: dict[Key, Punctuation | None] = {}
        self._in_columns = False
        self._columns: Columns | None = None
        """The members' columns, if they are made already."""

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Punctuation]:
        return (self._member(key) for key in list(self._members))

    def columns(self) -> Columns:
        """The columns of members that can be in columns, in their order."""
        if self._columns is None:
            self._columns = columns_of(self.schema, self.places[0], list(self._members), self.ranged)
        return self._columns

    def _changed(self) -> None:
        """Forget what was found out about the members."""

    def _matched(self, tuples: pl.DataFrame) -> Iterable[Key]:
        """The keys of those that some tuple matches."""
        raise NotImplementedError

    def all(self) -> PunctuationBatch:
        """All of them."""
        return self._batch(list(self._members))

    def _batch(self, keys: list[Key]) -> PunctuationBatch:
        """Some of them, by their keys: in columns, if they can be."""
        if not self._in_columns:
            return PunctuationBatch(map(self._member, keys))
        made = [p for key in keys if (p := self._members[key]) is not None]
        known = made if len(made) == len(keys) else None
        columns = self._columns if len(keys) == len(self._members) else None
        return PunctuationBatch.of_keys(self.schema, self.places[0], keys, known, self.ranged, columns)

    def _member(self, key: Key) -> Punctuation:
        found = self._members[key]
        if found is None:
            found = self._members[key] = single(self.schema, self.places[0], key, self.ranged)
        return found

    def extend(self, batch: PunctuationBatch) -> PunctuationBatch:
        """Take the punctuations of a batch in columns; those that are new."""
        columns = batch.known_columns
        if self._members:
            columns = None
            fresh = [key for key in batch.keys if key not in self._members]
            batch = batch if len(fresh) == len(batch) else batch.of_some(fresh)
        self._changed()
        self._members.update(dict.fromkeys(batch.keys))
        self._columns = columns
        return batch

    def common(self, batch: PunctuationBatch) -> PunctuationBatch:
        """Those of a batch in columns that are in."""
        known = [key for key in batch.keys if key in self._members]
        return batch if len(known) == len(batch) else batch.of_some(known)

    def remove(self, batch: PunctuationBatch) -> None:
        """Take out the punctuations of a batch in columns; those that are not in are passed over."""
        self._changed()
        if len(batch) == len(self._members) and all(map(self._members.__contains__, batch.keys)):
            self._members = {}
        for key in batch.keys if self._members else ():
            self._members.pop(key, None)

    def matched(self, tuples: pl.DataFrame) -> list[Punctuation]:
        """Those that some tuple matches."""
        return [self._member(key) for key in self._matched(tuples)]

    def unmatched(self, tuples: pl.DataFrame) -> PunctuationBatch:
        """Those that no tuple matches."""
        stuck = set(self._matched(tuples))
        return self._batch([key for key in self._members if key not in stuck])


class Constants(Members):
    """Punctuations of ``schema`` with constants at ``places``, no more.

    >>> s = Schema.parse("item INT, buyer STRING")
    >>> closed = Constants(s, [0])
    >>> for item in (1, 2, 5):
    ...     closed.add((item,), Punctuation.of(s, item=item))
    >>> closed.mask(s.frame([(1, "A"), (3, "B"), (5, "A")])).to_list()
    [True, False, True]
    """

    def __init__(self, schema: Schema, places: Sequence[int]) -> None:
        super().__init__(schema, places)
        self._types = [schema.attributes[i].type for i in places]
        self._names = [schema.names[i] for i in places]
        self._alone = len(self.places) == 1
        self._in_columns = self._alone and has_column(self._types[0])
        self._parts: dict[tuple[int, ...], dict[Tuple, dict[Punctuation, None]]] = {}
        self._frame: pl.DataFrame | None = None

    constant = True

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes that they constrain."""
        return tuple(self._names)

    def constants(self) -> pl.DataFrame:
        """The constants, a row for each punctuation."""
        return self._constants()

    def at(self, places: Iterable[int]) -> list[Punctuation]:
        """Those at some places of `constants`."""
        keys = list(self._members)
        return [self._member(keys[i]) for i in places]

    def may_match(self, bounds: Callable[[str], tuple[Any, Any]]) -> bool:
        """Whether a tuple within bounds, given by attribute, may match any."""
        return True

    def __contains__(self, p: Punctuation) -> bool:
        return p.constants is not None and self._key(p.constants) in self._members

    def _key(self, constants: Tuple) -> Key:
        return constants[0] if self._alone else constants

    def _changed(self) -> None:
        self._columns, self._frame, self._parts = None, None, {}

    def add(self, constants: Tuple, p: Punctuation) -> None:
        """Take a punctuation and its `Punctuation.constants`."""
        self._columns = self._frame = None
        self._members[self._key(constants)] = p
        for places, found in self._parts.items():
            found.setdefault(p.keys(places), {})[p] = None

    def discard(self, constants: Tuple, p: Punctuation) -> None:
        """Take out a punctuation that is in."""
        self._columns = self._frame = None
        del self._members[self._key(constants)]
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
            return [self._member(self._key(key))] if self._key(key) in self._members else []
        near = self._part(known).get(key, {}) if known else self
        if all(p.patterns[i] is WILDCARD for i in self.places if i not in known):
            return list(near)
        return [q for q in near if combine(p, q) is not None]

    def mask(self, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple, whether it matches any of them."""
        if tuples.height <= LITTLE or len(self._members) > FEW * tuples.height:
            keys = self._keys(tuples.select(self._names))
            return pl.Series([key in self._members for key in keys], dtype=pl.Boolean)
        frame = self._constants()
        if self._alone:
            column, constants = tuples[self._names[0]], frame.to_series()
            if len(constants) > VERY_FEW:
                hit = column.is_in(constants.implode())
            else:
                hit = reduce(or_, (column == constants[i : i + 1] for i in range(len(constants))))
            return hit.fill_null(False) if column.null_count() else hit
        rows = tuples.select(self._names).with_row_index("$row")
        found = join(rows, frame, self._names, "semi")["$row"]
        hit = pl.Series("hit", [False]).new_from_index(0, tuples.height)
        return hit.scatter(found, True) if found.len() else hit

    def _matched(self, tuples: pl.DataFrame) -> list[Key]:
        """The constants of those that some tuple matches."""
        values = tuples.select(self._names).unique()
        if len(self._members) <= FEW * values.height:
            values = join(values, self._constants(), self._names, "semi")
        return [key for key in self._keys(values) if key in self._members]

    def _keys(self, values: pl.DataFrame) -> list[Key]:
        """What to look tuples up by."""
        if DOUBLE not in self._types:
            return values.to_series().to_list() if self._alone else list(values.rows())
        return [
            self._key(tuple([None if v is None else t.key(v) for t, v in zip(self._types, row, strict=True)]))
            for row in values.iter_rows()
        ]

    def _constants(self) -> pl.DataFrame:
        if self._frame is None:
            if self._in_columns:
                self._frame = self.columns()[0].alias(self._names[0]).to_frame()
            else:
                self._frame = pl.DataFrame(
                    pl.Series(name, [p.patterns[i].value for p in self], dtype=type_.dtype)  # type: ignore[attr-defined]
                    for i, name, type_ in zip(self.places, self._names, self._types, strict=True)
                )
        return self._frame

    def _part(self, places: tuple[int, ...]) -> dict[Tuple, dict[Punctuation, None]]:
        """The members by what they say of some of the attributes."""
        if places not in self._parts:
            found: dict[Tuple, dict[Punctuation, None]] = {}
            for p in self:
                found.setdefault(p.keys(places), {})[p] = None
            self._parts[places] = found
        return self._parts[places]
