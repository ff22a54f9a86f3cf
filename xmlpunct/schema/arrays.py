"""Arrays: repeated elements of a tuple, as a list of rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import polars as pl

from xmlpunct.base.errors import SchemaError
from xmlpunct.base.paths import Path, read_path
from xmlpunct.schema.attribute import Attribute, positions_by_name
from xmlpunct.types import XML, Type, Value
from xmlpunct.types.pattern import WILDCARD


@dataclass(frozen=True, repr=False, eq=False)
class ArrayType(Type):
    """An array of rows, in document order. Its only pattern is ``*``."""

    attributes: tuple[Attribute, ...]
    """The columns of its rows."""

    comparable = False

    def parse(self, text: str) -> Value:
        raise ValueError(f"{self.name} has no pattern but *")

    def accept(self, value: object) -> Value:
        if not isinstance(value, list):
            raise self._wrong(value)
        return value

    def json_column(self, values: pl.Expr) -> pl.Expr:
        items = values.list.eval(self._object()).list.join(", ")
        return pl.concat_str(pl.lit("["), items, pl.lit("]"))

    def _object(self) -> pl.Expr:
        """A polars expression: an item as a JSON object."""
        parts: list[pl.Expr] = []
        for a in self.attributes:
            value = a.type.json_column(pl.element().struct.field(a.name)).fill_null("null")
            parts += [
                pl.lit(f"{', ' if parts else '{'}{json.dumps(a.name, ensure_ascii=False)}: "),
                value,
            ]
        return pl.concat_str(*parts, pl.lit("}"))

    def __reduce__(self) -> tuple[Callable[[Iterable[Attribute]], Type], tuple[tuple[Attribute, ...]]]:
        return (array_of, (self.attributes,))


_ARRAY_TYPES: dict[tuple[Attribute, ...], ArrayType] = {}


def array_of(attributes: Iterable[Attribute]) -> ArrayType:
    """The type of arrays of rows with these columns; one object for each list of columns."""
    columns = tuple(attributes)
    type_ = _ARRAY_TYPES.get(columns)
    if type_ is None:
        if not positions_by_name(columns):
            raise SchemaError("an array needs a column")
        parts = [_column(a) for a in columns]
        dtype = pl.List(pl.Struct({a.name: a.type.dtype for a in columns}))
        new = ArrayType(f"ARRAY({', '.join(parts)})", dtype, False, None, None, columns)
        type_ = _ARRAY_TYPES.setdefault(columns, new)
    return type_


def _column(a: Attribute) -> str:
    """The declaration of an attribute."""
    path = "" if a.path == a.name else f" PATH {a.path!r}"
    domain = "" if a.domain is WILDCARD else f" CHECK {a.domain}"
    return f"{a.name} {a.type}{path}{domain}{'' if a.nullable else ' NOT NULL'}"


def path_of(attribute: Attribute) -> Path:
    """The parsed path of an attribute. Raises `SchemaError` for a malformed one."""
    try:
        return read_path(attribute.path)
    except ValueError as error:
        raise SchemaError(f"attribute {attribute.name}: {error}") from None


def check_path(attribute: Attribute, path: Path, inside: bool) -> None:
    """Raise `SchemaError` if the type of an attribute does not fit its path. ``inside``: of an array."""
    name, error = attribute.name, ""
    if path.up and inside:
        error = ".. leads out of the array"
    elif path.up and path.hops and path.hops[0].position:
        error = ".. cannot have a position"
    elif attribute.type is XML and (path.up or path.own_text or path.attribute is not None):
        error = "XML is an element of the tuple, or itself"
    elif isinstance(attribute.type, ArrayType) and (
        path.up or path.own_text or path.attribute is not None or not path.hops
    ):
        error = "the items of an array must be elements inside the tuple"
    if error:
        raise SchemaError(f"attribute {name}: PATH '{attribute.path}': {error}")
