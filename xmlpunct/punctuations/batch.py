"""A batch of punctuations: how they get from one end to the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, overload

import polars as pl

from xmlpunct.punctuations.cuts import cuts
from xmlpunct.punctuations.pattern import WILDCARD, Constant, Pattern, Wildcard
from xmlpunct.punctuations.punctuation import Punctuation, from_frame, to_frame
from xmlpunct.schema import Schema
from xmlpunct.types import DOUBLE, Type, Value

COLUMN_FROM = 16
"""So many punctuations are read sooner as a column than one by one."""


class PunctuationBatch(Sequence[Punctuation]):
    """Punctuations of one schema, in their order.

    Those of a feed that closes item after item, each with a constant in the attribute at ``place`` and ``*`` in all
    others, are held as a column of these constants (`of_column`): each is once in it, and none is null. Otherwise
    ``place`` is None, and the punctuations are held themselves. A batch in a column is the sequence of its
    punctuations too, made when somebody asks for one; who can do with the column is spared that.

    >>> s = Schema.parse("sid STRING, hour INT")
    >>> closed = PunctuationBatch.of_column(s, 1, pl.Series([5, 6]))
    >>> closed
    PunctuationBatch([<*, 5>, <*, 6>])
    >>> closed == PunctuationBatch([Punctuation.of(s, hour=5), Punctuation.of(s, hour=6)])
    True
    """

    __slots__ = ("_keys", "_made", "_schema", "_values", "place")

    def __init__(self, punctuations: Iterable[Punctuation] = ()) -> None:
        self.place: int | None = None
        self._made: list[Punctuation] | None = list(punctuations)
        self._schema: Schema | None = None
        self._values: pl.Series | None = None
        self._keys: list[Value] | None = None

    @classmethod
    def of(cls, punctuations: Iterable[Punctuation]) -> PunctuationBatch:
        """Some punctuations as a batch, which they may be already."""
        return punctuations if isinstance(punctuations, PunctuationBatch) else cls(punctuations)

    @classmethod
    def of_column(cls, schema: Schema, place: int, values: pl.Series) -> PunctuationBatch:
        """The batch of the constants in a column, of a type that `has_column`."""
        made = cls()
        made.place, made._made, made._schema, made._values = place, None, schema, values
        return made

    @classmethod
    def of_keys(
        cls, schema: Schema, place: int, keys: list[Value], made: list[Punctuation] | None = None
    ) -> PunctuationBatch:
        """The batch of some `keys`, and the punctuations themselves if they are known."""
        found = cls()
        found.place, found._made, found._schema, found._keys = place, made, schema, keys
        return found

    @property
    def schema(self) -> Schema:
        """The schema of the punctuations, of which there are some."""
        return self[0].schema if self._schema is None else self._schema

    @property
    def values(self) -> pl.Series:
        """The constants of a batch in a column."""
        if self._values is None:
            assert self.place is not None
            self._values = column(self.schema, self.place, self.keys)
        return self._values

    @property
    def keys(self) -> list[Value]:
        """The constants of a batch in a column, as a list."""
        if self._keys is None:
            self._keys = self.values.to_list()
        return self._keys

    # As a sequence

    def _all(self) -> list[Punctuation]:
        if self._made is None:
            assert self.place is not None
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
        known = self._keys if self._made is None else self._made
        return self.values.len() if known is None else len(known)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all() == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PunctuationBatch([{', '.join(map(str, self))}])"

    # What is made of it

    def of_some(self, keys: Iterable[Value]) -> PunctuationBatch:
        """Of a batch in a column: those of some keys."""
        assert self.place is not None
        return PunctuationBatch.of_keys(self.schema, self.place, list(keys))

    def rebase(self, schema: Schema, places: Sequence[int | None]) -> PunctuationBatch:
        """The punctuations of another schema: for each of its attributes the pattern at a place, or ``*``.

        >>> s, other = Schema.parse("sid STRING, hour INT"), Schema.parse("hour INT")
        >>> PunctuationBatch.of_column(s, 1, pl.Series([5, 6])).rebase(other, [1])
        PunctuationBatch([<5>, <6>])
        """
        if self.place is not None and places.count(self.place) == 1:
            return self._moved(schema, places.index(self.place))
        return PunctuationBatch(p.rebase(schema, places) for p in self)

    def rename(self, schema: Schema) -> PunctuationBatch:
        """The punctuations of another schema, whose attributes are the same by other names."""
        if self.place is not None:
            return self._moved(schema, self.place)
        return PunctuationBatch(Punctuation(schema, p.patterns) for p in self)

    def _moved(self, schema: Schema, place: int) -> PunctuationBatch:
        """The same constants elsewhere."""
        found = PunctuationBatch.of_keys(schema, place, [])
        found._values, found._keys = self._values, self._keys
        return found

    @staticmethod
    def concat(batches: Iterable[Sequence[Punctuation]]) -> PunctuationBatch:
        """The punctuations of some batches, one behind the other."""
        found = [batch for batch in batches if len(batch)]
        if len(found) == 1:
            return PunctuationBatch.of(found[0])
        values = _one_column(found)
        if values is not None and values.n_unique() == len(values):
            first = PunctuationBatch.of(found[0])
            assert first.place is not None
            return PunctuationBatch.of_column(first.schema, first.place, values)
        return PunctuationBatch(chain.from_iterable(found))

    @staticmethod
    def union(batches: Iterable[Sequence[Punctuation]]) -> PunctuationBatch:
        """The punctuations of some batches, each once, where it came first."""
        found = [batch for batch in batches if len(batch)]
        if len(found) == 1:
            return PunctuationBatch.of(found[0]).unique()
        values = _one_column(found)
        if values is not None:
            first = PunctuationBatch.of(found[0])
            assert first.place is not None
            return PunctuationBatch.of_column(first.schema, first.place, values.unique(maintain_order=True))
        return PunctuationBatch(dict.fromkeys(chain.from_iterable(found)))

    def unique(self) -> PunctuationBatch:
        """Each of them once."""
        return self if self.place is not None else PunctuationBatch(dict.fromkeys(self))

    def ordered(self) -> PunctuationBatch:
        """Each of them once but the end, by their patterns' first values; ``*`` comes last."""
        if self.place is not None:
            return PunctuationBatch.of_column(self.schema, self.place, self.values.sort())
        return PunctuationBatch(sorted((p for p in self.unique() if not p.is_everything), key=_in_order))

    def closing(self, places: Iterable[int]) -> PunctuationBatch:
        """Those that say something about the attributes at ``places`` alone: every other pattern is closed.

        The paper's groupPs and joinPs. A pattern is closed if it is ``*``, or on a NOT NULL attribute covers
        every value that can come.
        """
        kept = frozenset(places)
        if self.place in kept:
            return self
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
        """What each shard has to hear: what is about tuples that go there by their values at ``places``.

        ``of_values`` divides a column of such values among shards; ``of_one`` a punctuation, or says None: it is for
        all of them.
        """
        if self.place is not None:
            if any(place != self.place for place in places):
                return dict.fromkeys(shards, self)
            parts = of_values(self.values)
            return {
                shard: PunctuationBatch.of_column(self.schema, self.place, part)
                for shard, part in parts.items()
            }
        found: dict[int, list[Punctuation]] = {}
        for p in self:
            divided = of_one(p)
            for shard in shards if divided is None else divided:
                found.setdefault(shard, []).extend([p] if divided is None else divided[shard])
        return {shard: PunctuationBatch(said) for shard, said in found.items()}

    # What is asked of it

    @property
    def has_end(self) -> bool:
        """Whether one of them matches everything: the end of the stream."""
        return self.place is None and any(p.is_everything for p in self)

    def to_frame(self, schema: Schema) -> pl.DataFrame:
        """The punctuations as a data frame, as they travel and rest: a column of constants, or one of each
        attribute's patterns."""
        if self.place is not None:
            return self.values.alias(f"${self.place}").to_frame()
        return to_frame(schema, self)

    @classmethod
    def from_frame(cls, schema: Schema, frame: pl.DataFrame) -> PunctuationBatch:
        """The inverse of `to_frame`."""
        name = frame.columns[0] if frame.width == 1 else ""
        if name[:1] == "$" and name[1:].isdecimal():
            return cls.of_column(schema, int(name[1:]), frame.to_series())
        return cls(from_frame(schema, frame))


def has_column(type_: Type) -> bool:
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


def _one_column(batches: Sequence[Sequence[Punctuation]]) -> pl.Series | None:
    """The constants of batches in columns of one attribute, a constant maybe twice. None: they are something else."""
    found = [PunctuationBatch.of(batch) for batch in batches]
    places = {batch.place for batch in found}
    if len(places) != 1 or None in places:
        return None
    return pl.concat([batch.values.alias("") for batch in found])


def _in_order(p: Punctuation) -> tuple[Any, ...]:
    return tuple((1,) if isinstance(q, Wildcard) else (0, cuts(q)[:1], str(q)) for q in p.patterns)
