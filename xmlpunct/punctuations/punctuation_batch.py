"""A batch of punctuations, in columns where possible: the form in which they travel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, overload

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.punctuations.forms import Columns, Key, columns_of, single
from xmlpunct.punctuations.punctuation import Punctuation, from_frame, to_frame
from xmlpunct.schema import Schema
from xmlpunct.types.cut_points import cuts
from xmlpunct.types.ordinals import Ordinals, ordinal_bounds
from xmlpunct.types.pattern import Wildcard

COLUMN_FROM = 16
"""From so many punctuations on, a column is quicker than one by one (`benchmarks/scaling.py --only forms`)."""


class PunctuationBatch(Sequence[Punctuation]):
    """Punctuations of one schema, in their order.

    A feed that closes item after item constrains one attribute, at ``place``, by constants. They are held as a column
    (`of_column`), each once and none null. Ranges of a numbered type are ``ranged``: two columns hold their inclusive
    bounds, null where there is none. A feed that makes promises of several such forms gives a batch of several
    ``parts`` in columns, each of a form of its own. All other punctuations are held as they are. ``place`` is None but
    for a batch of one form. A batch in columns makes its punctuations only when asked for one.

    >>> s = Schema.parse("sid STRING, hour INT")
    >>> closed = PunctuationBatch.of_column(s, 1, pl.Series([5, 6]))
    >>> closed
    PunctuationBatch([<*, 5>, <*, 6>])
    >>> closed == PunctuationBatch([Punctuation.of(s, hour=5), Punctuation.of(s, hour=6)])
    True
    >>> PunctuationBatch.of_ranges(s, 1, pl.Series([None, 7]), pl.Series([5, 9]))
    PunctuationBatch([<*, (,5]>, <*, [7,9]>])
    """

    __slots__ = (
        "_alike",
        "_at",
        "_bounds",
        "_keys",
        "_made",
        "_parts",
        "_schema",
        "known_columns",
        "place",
        "ranged",
    )

    def __init__(self, punctuations: Iterable[Punctuation] = ()) -> None:
        self.place: int | None = None
        self.ranged = False
        self._made: list[Punctuation] | None = list(punctuations)
        self._schema: Schema | None = None
        self._alike: list[list[Punctuation]] | None = None
        self.known_columns: Columns | None = None
        """Its columns, if they are made already."""
        self._keys: list[Key] | None = None
        self._bounds: tuple[Ordinals, Ordinals] | None = None
        self._parts: list[PunctuationBatch] = []
        self._at: list[NDArray[np.int64]] = []

    @classmethod
    def of(cls, punctuations: Iterable[Punctuation]) -> PunctuationBatch:
        """Some punctuations as a batch, which they may be already."""
        return punctuations if isinstance(punctuations, PunctuationBatch) else cls(punctuations)

    @classmethod
    def of_column(cls, schema: Schema, place: int, values: pl.Series) -> PunctuationBatch:
        """The batch of the constants in a column, of a type that `has_column`."""
        return cls.of_keys(schema, place, None, columns=(values, values))

    @classmethod
    def of_ranges(cls, schema: Schema, place: int, lows: pl.Series, highs: pl.Series) -> PunctuationBatch:
        """The batch of the canonical ranges of a numbered type between bounds, each once."""
        return cls.of_keys(schema, place, None, ranged=True, columns=(lows, highs))

    @classmethod
    def of_keys(
        cls,
        schema: Schema,
        place: int,
        keys: list[Key] | None,
        made: list[Punctuation] | None = None,
        ranged: bool = False,
        columns: Columns | None = None,
    ) -> PunctuationBatch:
        """The batch of some `keys` or columns, and the punctuations themselves if they are known."""
        batch = cls()
        batch.place, batch.ranged, batch._schema = place, ranged, schema
        batch._keys, batch._made, batch.known_columns = keys, made, columns
        return batch

    @classmethod
    def of_parts(
        cls, parts: Sequence[PunctuationBatch], at: Sequence[NDArray[np.int64]] | None = None
    ) -> PunctuationBatch:
        """The batch of some batches in columns, whose forms all differ.

        ``at`` has for each a place for each of its punctuations (int64, shape (n,)), by which all are in order; without
        it one part stands behind the other.

        >>> s = Schema.parse("sid STRING, hour INT")
        >>> parts = [PunctuationBatch.of_column(s, i, pl.Series(x)) for i, x in enumerate([["A", "B"], [5]])]
        >>> PunctuationBatch.of_parts(parts, [np.array([0, 2]), np.array([1])])
        PunctuationBatch([<A, *>, <*, 5>, <B, *>])
        """
        if at is None:
            ends = np.cumsum([len(part) for part in parts])
            at = [np.arange(end - len(part), end) for part, end in zip(parts, ends, strict=True)]
        some = [(part, places) for part, places in zip(parts, at, strict=True) if len(part)]
        if len(some) == 1:
            (part, places), *_ = some
            return part if (places[1:] > places[:-1]).all() else part.take(np.argsort(places))
        batch = cls()
        if some:
            batch._schema, batch._made = some[0][0].schema, None
            batch._parts, batch._at = [part for part, _ in some], [places for _, places in some]
        return batch

    @property
    def parts(self) -> list[PunctuationBatch]:
        """The batches in columns that it is made of; else itself alone."""
        return self._parts or [self]

    @property
    def schema(self) -> Schema:
        """The schema of the punctuations, of which there are some."""
        return self[0].schema if self._schema is None else self._schema

    @property
    def columns(self) -> Columns:
        """The bounds of a batch in columns."""
        if self.known_columns is None:
            assert self.place is not None
            self.known_columns = columns_of(self.schema, self.place, self.keys, self.ranged)
        return self.known_columns

    @property
    def bounds(self) -> tuple[Ordinals, Ordinals]:
        """The first and the last ordinals of a batch in columns of a numbered type.

        >>> s = Schema.parse("hour INT")
        >>> [bound.tolist() for bound in PunctuationBatch.of_ranges(s, 0, pl.Series([1, 7]), pl.Series([5, 9])).bounds]
        [[1, 7], [5, 9]]
        """
        if self._bounds is None:
            self._bounds = ordinal_bounds(self.schema.attributes[self.place or 0].type, *self.columns)
        return self._bounds

    @property
    def values(self) -> pl.Series:
        """The constants of a batch in a column."""
        return self.columns[0]

    @property
    def keys(self) -> list[Key]:
        """The constants of a batch in columns, or of each range its `range_key`, as a list."""
        if self._keys is None:
            if self.ranged:
                self._keys = np.column_stack(self.bounds).view("V16").ravel().tolist()
            else:
                self._keys = self.values.to_list()
        return self._keys

    # As a sequence

    def _all(self) -> list[Punctuation]:
        if self._made is None and self._parts:
            made = [*chain.from_iterable(self._parts)]
            self._made = [*map(made.__getitem__, np.argsort(np.concatenate(self._at)).tolist())]
        if self._made is None:
            assert self.place is not None
            self._made = [single(self.schema, self.place, key, self.ranged) for key in self.keys]
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
        if self._parts:
            return sum(map(len, self._parts))
        known = self._keys if self._made is None else self._made
        return self.columns[0].len() if known is None else len(known)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all() == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PunctuationBatch([{', '.join(map(str, self))}])"

    # Batches made of it

    def of_some(self, keys: Iterable[Key]) -> PunctuationBatch:
        """Of a batch in columns: those of some keys."""
        assert self.place is not None
        return PunctuationBatch.of_keys(self.schema, self.place, list(keys), ranged=self.ranged)

    def _of_frame(self, bounds: pl.DataFrame) -> PunctuationBatch:
        """Of a batch in columns: one of other bounds."""
        assert self.place is not None
        columns = bounds.to_series(0), bounds.to_series(int(self.ranged))
        return PunctuationBatch.of_keys(self.schema, self.place, None, ranged=self.ranged, columns=columns)

    def take(self, places: NDArray[np.int64]) -> PunctuationBatch:
        """Those at some places (int64, shape (n,)) of the sequence.

        >>> s = Schema.parse("sid STRING, hour INT")
        >>> PunctuationBatch.of_column(s, 1, pl.Series([5, 6, 7])).take(np.array([0, 2]))
        PunctuationBatch([<*, 5>, <*, 7>])
        """
        if self.place is None:
            return PunctuationBatch(map(self._all().__getitem__, places.tolist()))
        if self._keys is not None:
            return self.of_some(map(self._keys.__getitem__, places.tolist()))
        return self._of_frame(self.to_columns()[places])

    def chain(self, batches: Sequence[PunctuationBatch]) -> PunctuationBatch:
        """Of a batch in columns: some of its form, one behind the other, which have no punctuation in common."""
        return self._of_frame(pl.concat([batch.to_columns() for batch in batches]))

    def is_same(self, other: PunctuationBatch) -> bool:
        """Whether another batch is the same, where its columns or its keys tell.

        >>> s = Schema.parse("hour INT")
        >>> some, same = (PunctuationBatch.of_column(s, 0, pl.Series([5, 6])) for _ in range(2))
        >>> some.is_same(same)
        True
        """
        if (self.place, self.ranged) != (other.place, other.ranged):
            return False
        if self.known_columns is None or other.known_columns is None:
            return self.place is not None and self.keys == other.keys
        return all(mine.equals(its) for mine, its in zip(self.columns, other.columns, strict=True))

    def to_columns(self) -> pl.DataFrame:
        """Its columns as a data frame."""
        names = (f"${self.place}", f"${self.place}.high")[: 1 + self.ranged]
        return pl.DataFrame([bound.alias(name) for bound, name in zip(self.columns, names, strict=False)])

    def rebase(self, schema: Schema, places: Sequence[int | None]) -> PunctuationBatch:
        """The punctuations of another schema: for each of its attributes the pattern at a place, or ``*``.

        >>> s, other = Schema.parse("sid STRING, hour INT"), Schema.parse("hour INT")
        >>> PunctuationBatch.of_column(s, 1, pl.Series([5, 6])).rebase(other, [1])
        PunctuationBatch([<5>, <6>])
        """
        if self.place is not None and places.count(self.place) == 1:
            return self._moved(schema, places.index(self.place))
        if self._parts and all(places.count(part.place) == 1 for part in self._parts):
            return PunctuationBatch.of_parts([part.rebase(schema, places) for part in self._parts], self._at)
        return PunctuationBatch(p.rebase(schema, places) for p in self)

    def rename(self, schema: Schema) -> PunctuationBatch:
        """The punctuations of another schema, whose attributes are the same by other names."""
        if self.place is not None:
            return self._moved(schema, self.place)
        if self._parts:
            return PunctuationBatch.of_parts([part.rename(schema) for part in self._parts], self._at)
        return PunctuationBatch(Punctuation(schema, p.patterns) for p in self)

    def _moved(self, schema: Schema, place: int) -> PunctuationBatch:
        """The same columns elsewhere."""
        return PunctuationBatch.of_keys(
            schema, place, self._keys, ranged=self.ranged, columns=self.known_columns
        )

    @staticmethod
    def concat(batches: Iterable[Sequence[Punctuation]]) -> PunctuationBatch:
        """The punctuations of some batches, one behind the other."""
        parts = [PunctuationBatch.of(batch) for batch in batches if len(batch)]
        if len(parts) == 1:
            return parts[0]
        whole = _in_columns(parts)
        if whole is not None and len(whole) == sum(map(len, parts)):
            return whole
        return PunctuationBatch(chain.from_iterable(parts))

    @staticmethod
    def union(batches: Iterable[Sequence[Punctuation]]) -> PunctuationBatch:
        """The punctuations of some batches, each once, where it came first."""
        parts = [PunctuationBatch.of(batch) for batch in batches if len(batch)]
        if len(parts) == 1:
            return parts[0].unique()
        whole = _in_columns(parts)
        if whole is not None:
            return whole
        return PunctuationBatch(dict.fromkeys(chain.from_iterable(parts)))

    def unique(self) -> PunctuationBatch:
        """Each of them once."""
        return self if self.in_columns else PunctuationBatch(dict.fromkeys(self))

    @property
    def alike(self) -> list[list[Punctuation]]:
        """Its punctuations in lists, by the kinds of their patterns: each list constrains the same attributes.

        >>> s = Schema.parse("sid STRING, hour INT")
        >>> PunctuationBatch([Punctuation.of(s, hour=5), Punctuation.of(s, sid="A"), Punctuation.of(s, hour=6)]).alike
        [[Punctuation(<*, 5>), Punctuation(<*, 6>)], [Punctuation(<A, *>)]]
        """
        if self._alike is None:
            by_kinds: dict[tuple[type, ...], list[Punctuation]] = {}
            for p in self:
                by_kinds.setdefault((*map(type, p.patterns),), []).append(p)
            self._alike = list(by_kinds.values())
        return self._alike

    def possible(self) -> PunctuationBatch:
        """Those that something can match."""
        if self.in_columns or not any(some[0].is_empty for some in self.alike):
            return self
        return PunctuationBatch(p for p in self if not p.is_empty)

    def ordered(self) -> PunctuationBatch:
        """Each of them once but the end, by their patterns' first values; ``*`` comes last."""
        if self.place is not None:
            if len(self) < 2:
                return self
            bounds = self.to_columns()
            last = [False, True][: bounds.width]
            return self._of_frame(bounds.sort(bounds.columns, nulls_last=last))
        by_place = {part.place: part for part in self._parts}
        if self._parts and len(by_place) == len(self._parts):
            return PunctuationBatch.of_parts([by_place[place].ordered() for place in sorted(by_place)])  # type: ignore[type-var]
        return PunctuationBatch(sorted((p for p in self.unique() if not p.is_everything), key=_in_order))

    def closing(self, places: Iterable[int]) -> PunctuationBatch:
        """Those that say something about the attributes at ``places`` alone: every other pattern is closed.

        The paper's groupPs and joinPs. A pattern is closed if it is ``*``, or on a NOT NULL attribute covers
        every value that can come.
        """
        kept = frozenset(places)
        if self.place in kept:
            return self
        if self._parts:
            closing = [part.closing(kept) for part in self._parts]
            if all(part.place is not None or not len(part) for part in closing):
                return PunctuationBatch.of_parts(closing, self._at)
        return PunctuationBatch(
            p
            for p in self
            if kept.issuperset(p.constrained)
            or all(i in kept or p.schema.attributes[i].closed_by(p.patterns[i]) for i in p.constrained)
        )

    def route(
        self,
        places: Sequence[int],
        shards: Sequence[int],
        of_values: Callable[[pl.Series], Mapping[int, pl.Series]],
        of_one: Callable[[Punctuation], Mapping[int, list[Punctuation]] | None],
    ) -> dict[int, PunctuationBatch]:
        """What each shard has to hear. Tuples go to shards by their values at ``places``.

        ``of_values`` divides a column of such values among shards. ``of_one`` divides a punctuation; None: all of them
        hear it.
        """
        if self.place is not None:
            if any(place != self.place for place in places):
                return dict.fromkeys(shards, self)
            if not self.ranged:
                parts = of_values(self.values)
                return {shard: self._of_frame(part.to_frame()) for shard, part in parts.items()}
        if self._parts:
            each = [part.route(places, shards, of_values, of_one) for part in self._parts]
            said = dict.fromkeys(chain.from_iterable(each))
            return {s: PunctuationBatch.concat(of[s] for of in each if s in of) for s in said}
        by_shard: dict[int, list[Punctuation]] = {}
        for p in self:
            divided = of_one(p)
            for shard in shards if divided is None else divided:
                by_shard.setdefault(shard, []).extend([p] if divided is None else divided[shard])
        return {shard: PunctuationBatch(some) for shard, some in by_shard.items()}

    # What is asked of it

    @property
    def in_columns(self) -> bool:
        """Whether it is held in columns, of one form or several: each once, none of them empty or the end."""
        return self.place is not None or bool(self._parts)

    @property
    def has_end(self) -> bool:
        """Whether one of them matches everything: the end of the stream."""
        return not self.in_columns and any(some[0].is_everything for some in self.alike)

    def to_frame(self, schema: Schema) -> pl.DataFrame:
        """The punctuations as a data frame, as they travel and rest: its columns, or the patterns' texts."""
        return to_frame(schema, self) if self.place is None else self.to_columns()

    @classmethod
    def from_frame(cls, schema: Schema, frame: pl.DataFrame) -> PunctuationBatch:
        """The inverse of `to_frame`."""
        name = frame.columns[0] if frame.width else ""
        if name[:1] == "$" and name[1:].isdecimal():  # no attribute has such a name
            columns = frame.to_series(0), frame.to_series(-1)
            return cls.of_keys(schema, int(name[1:]), None, ranged=frame.width > 1, columns=columns)
        return cls(from_frame(schema, frame))


def _in_columns(batches: Sequence[PunctuationBatch]) -> PunctuationBatch | None:
    """Batches in columns as one, which has each key once; None if some are not."""
    if not all(batch.in_columns for batch in batches):
        return None
    by_form: dict[tuple[int | None, bool], list[PunctuationBatch]] = {}
    for part in chain.from_iterable(batch.parts for batch in batches):
        by_form.setdefault((part.place, part.ranged), []).append(part)
    wholes = [*map(_of_one_form, by_form.values())]
    if len(wholes) < 2:
        return wholes[0] if wholes else None
    if sum(map(len, wholes)) < sum(map(len, batches)):
        return None  # nobody knows which came first
    at: dict[tuple[int | None, bool], list[NDArray[np.int64]]] = {form: [] for form in by_form}
    start = 0
    for batch in batches:
        ranks = np.argsort(np.argsort(np.concatenate(batch._at))) if batch._parts else np.arange(len(batch))
        first = 0
        for part in batch.parts:
            at[part.place, part.ranged].append(start + ranks[first : first + len(part)])
            first += len(part)
        start += len(batch)
    return PunctuationBatch.of_parts(wholes, [np.concatenate(places) for places in at.values()])


def _of_one_form(parts: Sequence[PunctuationBatch]) -> PunctuationBatch:
    """Batches of one form in columns as one, each key once."""
    if len(parts) == 1:
        return parts[0]
    if sum(map(len, parts)) < COLUMN_FROM:
        return parts[0].of_some(dict.fromkeys(chain.from_iterable(batch.keys for batch in parts)))
    return parts[0]._of_frame(pl.concat([b.to_columns() for b in parts]).unique(maintain_order=True))


def _in_order(p: Punctuation) -> tuple[Any, ...]:
    return tuple(
        (1,) if isinstance(q, Wildcard) else (0, cuts(q)[:1], cuts(q)[-1:], str(q)) for q in p.patterns
    )
