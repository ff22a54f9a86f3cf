"""A batch of punctuations, columnar where possible. Operators exchange punctuations in this form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import overload

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.punctuations.forms import BoundColumns, FormKey, key_columns, single
from xmlpunct.punctuations.punctuation import Punctuation, from_frame, grouped_by_kinds, sort_key, to_frame
from xmlpunct.schema import Schema
from xmlpunct.types.ordinals import Ordinals, ordinal_bounds

COLUMN_FROM = 16
"""Smallest batch for which columns are faster than single punctuations (`benchmarks/scaling.py --only forms`)."""


class PunctuationBatch(Sequence[Punctuation]):
    """An ordered sequence of punctuations of one schema.

    A columnar batch has distinct punctuations, each of which constrains one attribute by a constant or a range:

    - Constants of the attribute at position ``position`` are one column without nulls (`of_column`).
    - Ranges of a numbered type (``ranged``) are two columns of inclusive bounds; null means unbounded (`of_ranges`).
    - Punctuations of several of these forms are several columnar ``parts``, one per form (`of_parts`).

    Any other batch is a list of `Punctuation` objects. ``position`` is None unless the batch is columnar with one form.
    A columnar batch creates `Punctuation` objects lazily.

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
        "_bounds",
        "_keys",
        "_objects",
        "_order",
        "_parts",
        "_schema",
        "known_columns",
        "position",
        "ranged",
    )

    def __init__(self, punctuations: Iterable[Punctuation] = ()) -> None:
        self.position: int | None = None
        self.ranged = False
        self._objects: list[Punctuation] | None = list(punctuations)
        self._schema: Schema | None = None
        self._alike: list[list[Punctuation]] | None = None
        self.known_columns: BoundColumns | None = None
        """The cached value of `columns`, or None."""
        self._keys: list[FormKey] | None = None
        self._bounds: tuple[Ordinals, Ordinals] | None = None
        self._parts: list[PunctuationBatch] = []
        self._order: list[NDArray[np.int64]] = []

    @classmethod
    def of(cls, punctuations: Iterable[Punctuation]) -> PunctuationBatch:
        """The punctuations as a batch; a batch is returned as it is."""
        return punctuations if isinstance(punctuations, PunctuationBatch) else cls(punctuations)

    @classmethod
    def of_column(cls, schema: Schema, position: int, values: pl.Series) -> PunctuationBatch:
        """A batch of constants. ``values`` has no nulls or duplicates and its type satisfies `has_column`."""
        return cls.of_keys(schema, position, None, columns=(values, values))

    @classmethod
    def of_ranges(cls, schema: Schema, position: int, lows: pl.Series, highs: pl.Series) -> PunctuationBatch:
        """A batch of distinct, canonical ranges of a numbered type."""
        return cls.of_keys(schema, position, None, ranged=True, columns=(lows, highs))

    @classmethod
    def of_keys(
        cls,
        schema: Schema,
        position: int,
        keys: list[FormKey] | None,
        objects: list[Punctuation] | None = None,
        ranged: bool = False,
        columns: BoundColumns | None = None,
    ) -> PunctuationBatch:
        """A columnar batch from `keys` or columns. ``objects`` has the punctuations if they exist already."""
        batch = cls()
        batch.position, batch.ranged, batch._schema = position, ranged, schema
        batch._keys, batch._objects, batch.known_columns = keys, objects, columns
        return batch

    @classmethod
    def of_parts(
        cls, parts: Sequence[PunctuationBatch], at: Sequence[NDArray[np.int64]] | None = None
    ) -> PunctuationBatch:
        """A batch of columnar batches with different forms.

        ``at`` has for each part the positions of its punctuations in the whole sequence (int64, shape (n,)). By default
        the parts are concatenated.

        >>> s = Schema.parse("sid STRING, hour INT")
        >>> parts = [PunctuationBatch.of_column(s, i, pl.Series(x)) for i, x in enumerate([["A", "B"], [5]])]
        >>> PunctuationBatch.of_parts(parts, [np.array([0, 2]), np.array([1])])
        PunctuationBatch([<A, *>, <*, 5>, <B, *>])
        """
        if at is None:
            ends = np.cumsum([len(part) for part in parts])
            at = [np.arange(end - len(part), end) for part, end in zip(parts, ends, strict=True)]
        nonempty = [(part, indices) for part, indices in zip(parts, at, strict=True) if len(part)]
        if len(nonempty) == 1:
            (part, indices), *_ = nonempty
            return part if (indices[1:] > indices[:-1]).all() else part.take(np.argsort(indices))
        batch = cls()
        if nonempty:
            batch._schema, batch._objects = nonempty[0][0].schema, None
            batch._parts, batch._order = map(list, zip(*nonempty, strict=True))
        return batch

    @property
    def parts(self) -> list[PunctuationBatch]:
        """The columnar parts, or the batch itself if it has none."""
        return self._parts or [self]

    @property
    def schema(self) -> Schema:
        """The schema of the punctuations. The batch must not be empty."""
        return self[0].schema if self._schema is None else self._schema

    @property
    def columns(self) -> BoundColumns:
        """The bounds of a columnar batch."""
        if self.known_columns is None:
            assert self.position is not None
            self.known_columns = key_columns(self.schema, self.position, self.keys, self.ranged)
        return self.known_columns

    @property
    def bounds(self) -> tuple[Ordinals, Ordinals]:
        """The first and last ordinals of a columnar batch of a numbered type.

        >>> s = Schema.parse("hour INT")
        >>> [bound.tolist() for bound in PunctuationBatch.of_ranges(s, 0, pl.Series([1, 7]), pl.Series([5, 9])).bounds]
        [[1, 7], [5, 9]]
        """
        if self._bounds is None:
            self._bounds = ordinal_bounds(self.schema.attributes[self.position or 0].type, *self.columns)
        return self._bounds

    @property
    def values(self) -> pl.Series:
        """The constants of a columnar batch."""
        return self.columns[0]

    @property
    def keys(self) -> list[FormKey]:
        """The constants of a columnar batch, or the `range_key` of each range."""
        if self._keys is None:
            if self.ranged:
                self._keys = np.column_stack(self.bounds).view("V16").ravel().tolist()
            else:
                self._keys = self.values.to_list()
        return self._keys

    # As a sequence

    def _punctuations(self) -> list[Punctuation]:
        if self._objects is None and self._parts:
            unordered = [*chain.from_iterable(self._parts)]
            self._objects = [*map(unordered.__getitem__, np.argsort(np.concatenate(self._order)).tolist())]
        if self._objects is None:
            assert self.position is not None
            self._objects = [single(self.schema, self.position, key, self.ranged) for key in self.keys]
        return self._objects

    @overload
    def __getitem__(self, i: int) -> Punctuation: ...
    @overload
    def __getitem__(self, i: slice) -> list[Punctuation]: ...
    def __getitem__(self, i: int | slice) -> Punctuation | list[Punctuation]:
        return self._punctuations()[i]

    def __iter__(self) -> Iterator[Punctuation]:
        return iter(self._punctuations())

    def __len__(self) -> int:
        if self._parts:
            return sum(map(len, self._parts))
        materialized = self._keys if self._objects is None else self._objects
        return self.columns[0].len() if materialized is None else len(materialized)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._punctuations() == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PunctuationBatch([{', '.join(map(str, self))}])"

    # Derived batches

    def of_some(self, keys: Iterable[FormKey]) -> PunctuationBatch:
        """The punctuations with these keys. The batch must be columnar."""
        assert self.position is not None
        return PunctuationBatch.of_keys(self.schema, self.position, list(keys), ranged=self.ranged)

    def _from_bounds(self, bounds: pl.DataFrame) -> PunctuationBatch:
        """A batch of the same form with other bounds."""
        assert self.position is not None
        columns = bounds.to_series(0), bounds.to_series(int(self.ranged))
        return PunctuationBatch.of_keys(self.schema, self.position, None, ranged=self.ranged, columns=columns)

    def take(self, positions: NDArray[np.int64]) -> PunctuationBatch:
        """The punctuations at these positions of the sequence (int64, shape (n,)).

        >>> s = Schema.parse("sid STRING, hour INT")
        >>> PunctuationBatch.of_column(s, 1, pl.Series([5, 6, 7])).take(np.array([0, 2]))
        PunctuationBatch([<*, 5>, <*, 7>])
        """
        if self.position is None:
            return PunctuationBatch(map(self._punctuations().__getitem__, positions.tolist()))
        if self._keys is not None:
            return self.of_some(map(self._keys.__getitem__, positions.tolist()))
        return self._from_bounds(self.to_columns()[positions])

    def chain(self, batches: Sequence[PunctuationBatch]) -> PunctuationBatch:
        """The concatenation of columnar batches of this form that have no punctuation in common."""
        return self._from_bounds(pl.concat([batch.to_columns() for batch in batches]))

    def is_same(self, other: PunctuationBatch) -> bool:
        """True if both batches are columnar and have equal columns or keys.

        >>> batches = [PunctuationBatch.of_column(Schema.parse("hour INT"), 0, pl.Series([5, 6])) for _ in range(2)]
        >>> batches[0].is_same(batches[1])
        True
        """
        if (self.position, self.ranged) != (other.position, other.ranged):
            return False
        if self.known_columns is None or other.known_columns is None:
            return self.position is not None and self.keys == other.keys
        return all(a.equals(b) for a, b in zip(self.columns, other.columns, strict=True))

    def to_columns(self) -> pl.DataFrame:
        """The columns as a data frame."""
        names = (f"${self.position}", f"${self.position}.high")[: 1 + self.ranged]
        return pl.DataFrame([bound.alias(name) for bound, name in zip(self.columns, names, strict=False)])

    def rebase(self, schema: Schema, positions: Sequence[int | None]) -> PunctuationBatch:
        """The punctuations over another schema. ``positions``: for each of its attributes one here; None is ``*``.

        >>> s, other = Schema.parse("sid STRING, hour INT"), Schema.parse("hour INT")
        >>> PunctuationBatch.of_column(s, 1, pl.Series([5, 6])).rebase(other, [1])
        PunctuationBatch([<5>, <6>])
        """
        if self.position is not None and positions.count(self.position) == 1:
            return self._with_position(schema, positions.index(self.position))
        if self._parts and all(positions.count(part.position) == 1 for part in self._parts):
            return PunctuationBatch.of_parts(
                [part.rebase(schema, positions) for part in self._parts], self._order
            )
        return PunctuationBatch(p.rebase(schema, positions) for p in self)

    def rename(self, schema: Schema) -> PunctuationBatch:
        """The punctuations over a schema that differs only in attribute names."""
        if self.position is not None:
            return self._with_position(schema, self.position)
        if self._parts:
            return PunctuationBatch.of_parts([part.rename(schema) for part in self._parts], self._order)
        return PunctuationBatch(Punctuation(schema, p.patterns) for p in self)

    def _with_position(self, schema: Schema, position: int) -> PunctuationBatch:
        """The same columns as patterns of another attribute."""
        return PunctuationBatch.of_keys(
            schema, position, self._keys, ranged=self.ranged, columns=self.known_columns
        )

    @staticmethod
    def concat(batches: Iterable[Sequence[Punctuation]]) -> PunctuationBatch:
        """The concatenation of several batches."""
        parts = [PunctuationBatch.of(batch) for batch in batches if len(batch)]
        if len(parts) == 1:
            return parts[0]
        combined = _combine_columnar(parts)
        if combined is not None and len(combined) == sum(map(len, parts)):
            return combined
        return PunctuationBatch(chain.from_iterable(parts))

    @staticmethod
    def union(batches: Iterable[Sequence[Punctuation]]) -> PunctuationBatch:
        """The distinct punctuations of several batches, by first occurrence."""
        parts = [PunctuationBatch.of(batch) for batch in batches if len(batch)]
        if len(parts) == 1:
            return parts[0].unique()
        combined = _combine_columnar(parts)
        if combined is not None:
            return combined
        return PunctuationBatch(dict.fromkeys(chain.from_iterable(parts)))

    def unique(self) -> PunctuationBatch:
        """The distinct punctuations."""
        return self if self.in_columns else PunctuationBatch(dict.fromkeys(self))

    @property
    def alike(self) -> list[list[Punctuation]]:
        """The punctuations, grouped by the kinds of their patterns (`grouped_by_kinds`)."""
        if self._alike is None:
            self._alike = grouped_by_kinds(self)
        return self._alike

    def possible(self) -> PunctuationBatch:
        """The punctuations that some tuple can match."""
        if self.in_columns or not any(group[0].is_empty for group in self.alike):
            return self
        return PunctuationBatch(p for p in self if not p.is_empty)

    def ordered(self) -> PunctuationBatch:
        """The distinct punctuations without the end, sorted by the first values of their patterns; ``*`` sorts last."""
        if self.position is not None:
            if len(self) < 2:
                return self
            bounds = self.to_columns()
            last = [False, True][: bounds.width]
            return self._from_bounds(bounds.sort(bounds.columns, nulls_last=last))
        if self._parts and len({part.position for part in self._parts}) == len(self._parts):
            by_position = sorted(self._parts, key=lambda part: part.position or 0)
            return PunctuationBatch.of_parts([part.ordered() for part in by_position])
        return PunctuationBatch(sorted((p for p in self.unique() if not p.is_everything), key=sort_key))

    def closing(self, positions: Iterable[int]) -> PunctuationBatch:
        """The punctuations that effectively constrain only the attributes at ``positions``: other patterns are closed.

        The paper's groupPs and joinPs. A pattern is closed if it is ``*``, or if its attribute is NOT NULL and it
        covers every value that the attribute can have.
        """
        allowed = frozenset(positions)
        if self.position in allowed:
            return self
        if self._parts:
            closing = [part.closing(allowed) for part in self._parts]
            if all(part.position is not None or not len(part) for part in closing):
                return PunctuationBatch.of_parts(closing, self._order)
        return PunctuationBatch(
            p
            for p in self
            if allowed.issuperset(p.constrained)
            or all(i in allowed or p.schema.attributes[i].closed_by(p.patterns[i]) for i in p.constrained)
        )

    def route(
        self,
        positions: Sequence[int],
        shards: Sequence[int],
        of_values: Callable[[pl.Series], Mapping[int, pl.Series]],
        of_one: Callable[[Punctuation], Mapping[int, list[Punctuation]] | None],
    ) -> dict[int, PunctuationBatch]:
        """The punctuations that each shard receives. The values at ``positions`` are the shard key of a tuple.

        ``of_values`` divides a column of shard key values. ``of_one`` divides a punctuation; None: every shard
        receives it.
        """
        if self.position is not None:
            if any(position != self.position for position in positions):
                return dict.fromkeys(shards, self)
            if not self.ranged:
                parts = of_values(self.values)
                return {shard: self._from_bounds(part.to_frame()) for shard, part in parts.items()}
        if self._parts:
            routed_parts = [part.route(positions, shards, of_values, of_one) for part in self._parts]
            receiving_shards = dict.fromkeys(chain.from_iterable(routed_parts))
            return {
                s: PunctuationBatch.concat(batch_of[s] for batch_of in routed_parts if s in batch_of)
                for s in receiving_shards
            }
        by_shard: dict[int, list[Punctuation]] = {}
        for p in self:
            divided = of_one(p)
            for shard in shards if divided is None else divided:
                by_shard.setdefault(shard, []).extend([p] if divided is None else divided[shard])
        return {shard: PunctuationBatch(shard_punctuations) for shard, shard_punctuations in by_shard.items()}

    # Properties and serialised form

    @property
    def in_columns(self) -> bool:
        """Whether the batch is columnar, with one form or several. No punctuation is then empty or the end."""
        return self.position is not None or bool(self._parts)

    @property
    def has_end(self) -> bool:
        """Whether the batch contains the end of the stream, ``<*, ..., *>``."""
        return not self.in_columns and any(group[0].is_everything for group in self.alike)

    def to_frame(self, schema: Schema) -> pl.DataFrame:
        """The punctuations as a data frame for transport and storage: the columns, or the patterns' texts."""
        return to_frame(schema, self) if self.position is None else self.to_columns()

    @classmethod
    def from_frame(cls, schema: Schema, frame: pl.DataFrame) -> PunctuationBatch:
        """The inverse of `to_frame`."""
        name = frame.columns[0] if frame.width else ""
        if name[:1] == "$" and name[1:].isdecimal():  # no attribute has such a name
            columns = frame.to_series(0), frame.to_series(-1)
            return cls.of_keys(schema, int(name[1:]), None, ranged=frame.width > 1, columns=columns)
        return cls(from_frame(schema, frame))


def _combine_columnar(batches: Sequence[PunctuationBatch]) -> PunctuationBatch | None:
    """The distinct punctuations of columnar batches as one columnar batch; None if that is not possible."""
    if not all(batch.in_columns for batch in batches):
        return None
    by_form: dict[tuple[int | None, bool], list[PunctuationBatch]] = {}
    positions: dict[tuple[int | None, bool], list[NDArray[np.int64]]] = {}
    start = 0
    for batch in batches:
        order = np.concatenate(batch._order) if batch._parts else np.arange(len(batch))
        ranks = start + np.argsort(np.argsort(order)) if batch._parts else start + order
        for part in batch.parts:
            form = part.position, part.ranged
            by_form.setdefault(form, []).append(part)
            positions.setdefault(form, []).append(ranks[: len(part)])
            ranks = ranks[len(part) :]
        start += len(batch)
    distinct = [_combine_form(parts) for parts in by_form.values()]
    return PunctuationBatch.of_parts(
        [combined for combined, _ in distinct],
        [np.concatenate(positions[form])[first] for form, (_, first) in zip(by_form, distinct, strict=True)],
    )


def _combine_form(parts: Sequence[PunctuationBatch]) -> tuple[PunctuationBatch, NDArray[np.int64]]:
    """The distinct punctuations of columnar batches of one form, as one batch, and the first row of each of them."""
    count = sum(map(len, parts))
    if len(parts) == 1:
        return parts[0], np.arange(count)
    if count < COLUMN_FROM:
        first_rows = dict[FormKey, int]()
        for row, key in enumerate(chain.from_iterable(batch.keys for batch in parts)):
            first_rows.setdefault(key, row)
        return parts[0].of_some(first_rows), np.array([*first_rows.values()])
    rows = pl.concat([batch.to_columns() for batch in parts]).with_row_index("row")
    rows = rows.unique(rows.columns[1:], keep="first", maintain_order=True)
    return parts[0]._from_bounds(rows.drop("row")), rows["row"].to_numpy().astype(np.int64)
