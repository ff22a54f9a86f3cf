"""Schemas: the ordered, typed attributes of a stream."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import polars as pl

from xmlpunct.base import column_lists
from xmlpunct.base.doubles import canonical_column
from xmlpunct.base.errors import SchemaError
from xmlpunct.types import DOUBLE, Type
from xmlpunct.types.pattern import (
    WILDCARD,
    Empty,
    Pattern,
    Values,
    Wildcard,
    bounds,
    covers,
    intersect,
    interval,
)


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of a stream.

    ``path`` is the position of its value in the XML element: a child (``sid``), a nested child (``a/b``) or an XML
    attribute (``@id``, ``a/@id``). The default is the child with the name of the attribute. The reader refuses a
    malformed path. ``domain`` is the pattern of the allowed values (``*``: all); a declared one makes the attribute NOT
    NULL.
    """

    name: str
    type: Type
    nullable: bool = True
    path: str = ""
    domain: Pattern = WILDCARD

    def __post_init__(self) -> None:
        if not self.path:
            object.__setattr__(self, "path", self.name)
        if isinstance(self.domain, Empty):
            raise SchemaError(f"attribute {self.name}: no value satisfies its CHECK")
        if self.domain is not WILDCARD:
            object.__setattr__(self, "nullable", False)

    def reach(self, pattern: Pattern) -> Pattern:
        """The values of ``pattern`` that a tuple of this schema can have."""
        if self.nullable:
            return pattern
        all_values = interval(self.type, None, None, False, False)
        return intersect(pattern, self.domain if self.domain is not WILDCARD else all_values)

    def closed_by(self, pattern: Pattern) -> bool:
        """Whether ``pattern`` matches every value that this attribute can have.

        True for ``*``; for ``(,)`` if the attribute is NOT NULL; and for a pattern that covers a declared domain.
        """
        return isinstance(pattern, Wildcard) or covers(pattern, self.reach(WILDCARD))

    @property
    def ends(self) -> tuple[int, int]:
        """The ordinals of the least and the greatest value that this attribute can have. The type is discrete.

        >>> Schema.parse("n INT CHECK (n IN (3, 5, 9)), m INT CHECK (m BETWEEN 0 AND 6)")["n"].ends
        (3, 9)
        """
        if isinstance(self.domain, Values):
            return self.type.ordinal(self.domain.members[0]), self.type.ordinal(self.domain.members[-1])
        ordinals = bounds(self.domain)
        return ordinals or (self.type.ordinal(self.type.lowest), self.type.ordinal(self.type.highest))

    def weakened(self) -> Attribute:
        """The same attribute without NOT NULL and domain (the null-supplied side of an outer join)."""
        return replace(self, nullable=True, domain=WILDCARD)


@lru_cache(maxsize=64)
def _empty_column(dtype: pl.DataType) -> pl.Series:
    """An empty column. Cached, because polars creates it slowly, and there are few dtypes."""
    return pl.Series(dtype=dtype)


@dataclass(frozen=True)
class Schema:
    """The attributes of a stream, in order.

    >>> Schema.parse("sid STRING, hour INT NOT NULL, id INT PATH '@id'").names
    ('sid', 'hour', 'id')
    """

    attributes: tuple[Attribute, ...]
    _indices: dict[str, int] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        indices = {a.name: i for i, a in enumerate(self.attributes)}
        if len(indices) != len(self.attributes):
            double = next(a.name for i, a in enumerate(self.attributes) if indices[a.name] != i)
            raise SchemaError(f"two attributes are named {double}")
        object.__setattr__(self, "_indices", indices)

    @classmethod
    def parse(cls, text: str) -> Schema:
        """Read the column list of a CREATE STREAM (without its parentheses).

        Raises `SqlError` where it cannot be read and `SchemaError` where it makes no sense.
        """
        schema: Schema = column_lists.read(text)
        return schema

    @classmethod
    def of(cls, attributes: Iterable[Attribute]) -> Schema:
        """A schema from its attributes."""
        return cls(tuple(attributes))

    def without_nulls(self, names: Collection[str] | None) -> Schema:
        """The schema with some attributes NOT NULL (None: all of them).

        >>> s = Schema.parse("sid STRING, hour INT")
        >>> [a.name for a in s.without_nulls(["hour"]) if a.nullable]
        ['sid']
        """
        changed = {a.name for a in self if a.nullable and (names is None or a.name in names)}
        return (
            Schema.of(replace(a, nullable=False) if a.name in changed else a for a in self)
            if changed
            else self
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The attributes' names, in order."""
        return tuple(a.name for a in self.attributes)

    @cached_property
    def dtypes(self) -> dict[str, pl.DataType]:
        """The polars schema of this schema's tuples."""
        return {a.name: a.type.dtype for a in self.attributes}

    def index(self, name: str) -> int:
        """The index of the attribute with a name. Raises `SchemaError` if there is none."""
        try:
            return self._indices[name]
        except KeyError:
            raise SchemaError(f"no attribute {name}: there are {', '.join(self.names)}") from None

    @cached_property
    def _empty(self) -> pl.DataFrame:
        return pl.DataFrame([_empty_column(a.type.dtype).alias(a.name) for a in self.attributes])

    def empty(self) -> pl.DataFrame:
        """A data frame without tuples."""
        return self._empty.clone()  # built once: every slice needs several

    def frame(self, tuples: Iterable[tuple[object, ...]]) -> pl.DataFrame:
        """Tuples in schema order as a data frame."""
        frame = pl.DataFrame(list(tuples), schema=self.dtypes, orient="row")
        return frame.with_columns(canonical_column(frame[a.name]) for a in self if a.type is DOUBLE)

    def texts(self, tuples: pl.DataFrame) -> pl.DataFrame:
        """Tuples as texts in XML Schema's form (null stays null)."""
        return tuples.select(a.type.format_column(pl.col(a.name)).alias(a.name) for a in self)

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def __getitem__(self, name: str) -> Attribute:
        return self.attributes[self.index(name)]

    def __contains__(self, name: object) -> bool:
        return name in self._indices

    def __reduce__(self) -> tuple[type[Schema], tuple[tuple[Attribute, ...]]]:
        return (Schema, (self.attributes,))
