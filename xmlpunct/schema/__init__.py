"""Schemas: the ordered, typed attributes of a stream."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import polars as pl

from xmlpunct.base.doubles import canonical_column
from xmlpunct.base.errors import SchemaError
from xmlpunct.schema.attribute import Attribute, positions_by_name
from xmlpunct.types import DOUBLE


@lru_cache(maxsize=64)
def _empty_column(dtype: pl.DataType) -> pl.Series:
    """An empty column. Cached, because polars creates it slowly, and there are few dtypes."""
    return pl.Series(dtype=dtype)


@dataclass(frozen=True)
class Schema:
    """The attributes of a stream, in order. Their names are unique.

    Parameters
    ----------
    attributes : tuple of Attribute
        The attributes, in the order of a tuple's values.

    Raises
    ------
    SchemaError
        If two attributes have the same name.

    Examples
    --------
    >>> schema = Schema.parse("sid STRING, hour INT NOT NULL")
    >>> schema.names, schema["hour"].nullable
    (('sid', 'hour'), False)
    """

    attributes: tuple[Attribute, ...]
    _indices: dict[str, int] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_indices", positions_by_name(self.attributes))

    @classmethod
    def parse(cls, text: str) -> Schema:
        """Read the column list of a CREATE STREAM, without its parentheses.

        Parameters
        ----------
        text : str
            Columns with a type each, such as ``"sid STRING, hour INT NOT NULL PATH '@hour'"``.

        Returns
        -------
        Schema

        Raises
        ------
        SqlError
            If the text is no column list; the error has the position.
        SchemaError
            If a column contradicts itself or another one.
        """
        # sqlglot takes a while to import, and few need it
        from xmlpunct.schema.column_attributes import parse_columns

        return cls(parse_columns(text))

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

    def as_written(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A tuple by column name, with null for values that the schema `hides`."""
        return {name: None if name in self and self[name].hides(v) else v for name, v in row.items()}

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
