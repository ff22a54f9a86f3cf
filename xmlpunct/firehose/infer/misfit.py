"""The columns to declare where a tuple does not fit an inferred schema."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import Enum

from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import ArrayType, array_of
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import STRING


class Misfit(Enum):
    """How a tuple differs from an inferred column: no value, a value of another type, or several values."""

    MISSING = "missing"
    TYPE = "type"
    REPEATED = "repeated"


def fitting(columns: Iterable[Attribute], name: str, misfit: Misfit) -> Schema:
    """The columns, changed so that the tuple fits the column ``name``; ``a.b`` is column b of the array a.

    >>> from xmlpunct.schema import Schema
    >>> columns = Schema.parse("a INT NOT NULL, k STRING PATH 't/@k', n INT PATH 't/n'")
    >>> [str(a.type) for a in fitting(columns, "a", Misfit.TYPE)]
    ['STRING', 'STRING', 'INT']
    >>> repeated = fitting(columns, "k", Misfit.REPEATED)["t"]
    >>> [(a.name, a.path) for a in repeated.type.attributes]
    [('k', '@k'), ('n', 'n')]
    """
    columns = [*columns]
    column = next(a for a in columns if a.name == name or name.startswith(f"{a.name}."))
    if isinstance(column.type, ArrayType):
        inner: Iterable[Attribute] = column.type.attributes
        if misfit is Misfit.REPEATED:
            inner = fitting(inner, name.removeprefix(f"{column.name}."), misfit)
        else:
            inner = [
                a if isinstance(a.type, ArrayType) else replace(a, type=STRING, nullable=True) for a in inner
            ]
        changed = replace(column, type=array_of(Schema.of(inner)))
    elif misfit is Misfit.REPEATED:
        return _with_array(columns, column)
    else:
        changed = replace(column, nullable=True, type=column.type if misfit is Misfit.MISSING else STRING)
    return Schema.of(changed if a is column else a for a in columns)


def _with_array(columns: list[Attribute], repeated: Attribute) -> Schema:
    """The columns, with an array in place of all columns below the first step of a repeated column."""
    step, _, _ = repeated.path.partition("/")
    below = [a for a in columns if a.path == step or a.path.startswith(f"{step}/")]
    inner = [replace(a, path=a.path.removeprefix(step).removeprefix("/") or ".") for a in below]
    others = {a.name for a in columns if a not in below}
    name = step.rpartition("}")[2]
    array = Attribute(f"{name}_2" if name in others else name, array_of(Schema.of(inner)), True, step)
    replaced: dict[str, Attribute] = {}
    for a in columns:
        column = array if a in below else a
        replaced.setdefault(column.name, column)
    return Schema.of(replaced.values())
