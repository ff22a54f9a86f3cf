"""Provenance: the position of a tuple in its source, in columns that tuples carry while an operator may reject them.

No attribute has these names, because ``$`` cannot occur in an XML name.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import INT, STRING

SOURCE, LINE, BYTE = "$source", "$line", "$byte"
ORIGIN = (Attribute(SOURCE, STRING, False), Attribute(LINE, INT, False), Attribute(BYTE, INT, False))

_Numbers = list[int] | npt.NDArray[np.int64]
"""One number per tuple; an array has shape (n,)."""


def with_origin(schema: Schema) -> Schema:
    """A schema followed by the columns of `ORIGIN`."""
    return schema if SOURCE in schema else Schema.of((*schema, *ORIGIN))


def without_origin(schema: Schema) -> Schema:
    """A schema without the columns of `ORIGIN`."""
    return Schema.of(schema.attributes[: -len(ORIGIN)]) if SOURCE in schema else schema


def is_attribute(name: str) -> bool:
    """Whether a column is an attribute, not an internal column of the engine."""
    return name[:1] != "$"


def placed(tuples: pl.DataFrame, source: str, lines: _Numbers, bytes_: _Numbers) -> pl.DataFrame:
    """Tuples with the columns of `ORIGIN`."""
    columns = [pl.Series(LINE, lines, dtype=pl.Int64()), pl.Series(BYTE, bytes_, dtype=pl.Int64())]
    return tuples.with_columns(pl.lit(source, dtype=pl.String()).alias(SOURCE), *columns)
