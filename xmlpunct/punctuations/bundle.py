"""Punctuations in a column: how a feed that closes item after item gets from one end to the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import overload

import polars as pl

from xmlpunct.punctuations.pattern import WILDCARD, Constant, Pattern
from xmlpunct.punctuations.punctuation import Punctuation, from_frame, to_frame
from xmlpunct.schema import Schema
from xmlpunct.types import DOUBLE, Type, Value

FEW = 16
"""So few punctuations are quicker one by one."""


class Bundle(Sequence[Punctuation]):
    """Punctuations with a constant in the attribute at ``place`` and ``*`` in all others.

    ``values`` are the constants, each once and none of them null. A bundle is the sequence of these punctuations,
    made when somebody asks for one; who can do with the column is spared that. The type must be one that
    `can_bundle`.

    >>> s = Schema.parse("sid STRING, hour INT")
    >>> closed = Bundle(s, 1, pl.Series([5, 6]))
    >>> [str(p) for p in closed]
    ['<*, 5>', '<*, 6>']
    """

    __slots__ = ("_keys", "_made", "_values", "place", "schema")

    def __init__(self, schema: Schema, place: int, values: pl.Series) -> None:
        self.schema, self.place = schema, place
        self._values: pl.Series | None = values
        self._keys: list[Value] | None = None
        self._made: list[Punctuation] | None = None

    @classmethod
    def of_keys(
        cls, schema: Schema, place: int, keys: list[Value], made: list[Punctuation] | None = None
    ) -> Bundle:
        """The bundle of some `keys`, and the punctuations themselves if they are known."""
        found = cls.__new__(cls)
        found.schema, found.place = schema, place
        found._values, found._keys, found._made = None, keys, made
        return found

    @property
    def values(self) -> pl.Series:
        """The constants, as a column."""
        if self._values is None:
            self._values = column(self.schema, self.place, self.keys)
        return self._values

    @property
    def keys(self) -> list[Value]:
        """The constants, as a list."""
        if self._keys is None:
            self._keys = self.values.to_list()
        return self._keys

    def of(self, keys: Iterable[Value]) -> Bundle:
        """Those of some keys."""
        return Bundle.of_keys(self.schema, self.place, list(keys))

    def _all(self) -> list[Punctuation]:
        if self._made is None:
            self._made = [single(self.schema, self.place, value) for value in self.keys]
        return self._made

    @overload
    def __getitem__(self, i: int) -> Punctuation: ...
    @overload
    def __getitem__(self, i: slice) -> list[Punctuation]: ...
    def __getitem__(self, i: int | slice) -> Punctuation | list[Punctuation]:
        return self._all()[i]

    def __iter__(self) -> Iterator[Punctuation]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._keys) if self._values is None and self._keys is not None else self.values.len()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all() == list(other)

    __hash__ = None  # type: ignore[assignment]


def can_bundle(type_: Type) -> bool:
    """Whether values of a type are equal where Python and polars say so."""
    return type_ is not DOUBLE


def single(schema: Schema, place: int, value: Value) -> Punctuation:
    """The punctuation of one constant."""
    patterns: list[Pattern] = [WILDCARD] * len(schema)
    patterns[place] = Constant(schema.attributes[place].type, value)
    return Punctuation(schema, patterns)


def column(schema: Schema, place: int, keys: Iterable[Value]) -> pl.Series:
    """The constants of some keys."""
    attribute = schema.attributes[place]
    return pl.Series(attribute.name, list(keys), dtype=attribute.type.dtype)


def rebased(
    punctuations: Sequence[Punctuation], schema: Schema, places: Sequence[int | None]
) -> Sequence[Punctuation]:
    """Punctuations of another schema: for each of its attributes the pattern at a place, or ``*``."""
    if isinstance(punctuations, Bundle) and places.count(punctuations.place) == 1:
        return _moved(punctuations, schema, places.index(punctuations.place))
    return [p.rebase(schema, places) for p in punctuations]


def _moved(bundle: Bundle, schema: Schema, place: int) -> Bundle:
    """The same constants elsewhere."""
    found = Bundle.of_keys(schema, place, [])
    found._values, found._keys = bundle._values, bundle._keys
    return found


def renamed(punctuations: Sequence[Punctuation], schema: Schema) -> Sequence[Punctuation]:
    """Punctuations of another schema, whose attributes are the same by other names."""
    if isinstance(punctuations, Bundle):
        return _moved(punctuations, schema, punctuations.place)
    return [Punctuation(schema, p.patterns) for p in punctuations]


def chained(parts: Iterable[Sequence[Punctuation]]) -> Sequence[Punctuation]:
    """The punctuations of some sequences, one behind the other."""
    found = [part for part in parts if len(part)]
    if len(found) == 1:
        return found[0]
    bundle = _as_one(found)
    if bundle is not None and bundle.values.n_unique() == len(bundle):
        return bundle
    return list(chain.from_iterable(found))


def distinct(parts: Iterable[Sequence[Punctuation]]) -> Sequence[Punctuation]:
    """The punctuations of some sequences, each once."""
    found = [part for part in parts if len(part)]
    if len(found) == 1 and isinstance(found[0], Bundle):
        return found[0]
    bundle = _as_one(found)
    if bundle is not None:
        return Bundle(bundle.schema, bundle.place, bundle.values.unique(maintain_order=True))
    return list(dict.fromkeys(chain.from_iterable(found)))


def _as_one(parts: Sequence[Sequence[Punctuation]]) -> Bundle | None:
    """Bundles of one attribute behind one another, though a constant may be there twice. None: they are none."""
    bundles = [part for part in parts if isinstance(part, Bundle)]
    if not bundles or len(bundles) < len(parts) or len({bundle.place for bundle in bundles}) > 1:
        return None
    first = bundles[0]
    return Bundle(first.schema, first.place, pl.concat([bundle.values.alias("") for bundle in bundles]))


def has_end(punctuations: Sequence[Punctuation]) -> bool:
    """Whether one of them matches everything: the end of the stream."""
    return not isinstance(punctuations, Bundle) and any(p.is_everything for p in punctuations)


def stored(schema: Schema, punctuations: Sequence[Punctuation]) -> pl.DataFrame:
    """Punctuations as a data frame, which for a bundle is its column."""
    if isinstance(punctuations, Bundle):
        return punctuations.values.alias(f"${punctuations.place}").to_frame()
    return to_frame(schema, punctuations)


def loaded(schema: Schema, frame: pl.DataFrame) -> Sequence[Punctuation]:
    """The inverse of `stored`."""
    name = frame.columns[0] if frame.width == 1 else ""
    if name[:1] == "$" and name[1:].isdecimal():
        return Bundle(schema, int(name[1:]), frame.to_series())
    return from_frame(schema, frame)
