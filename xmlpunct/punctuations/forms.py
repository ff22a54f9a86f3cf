"""Columnar punctuations: constants or ranges of one attribute, as columns and as keys."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Any

import numpy as np
import polars as pl

from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.types import DOUBLE, Type
from xmlpunct.types.ordinals import range_columns
from xmlpunct.types.pattern import WILDCARD, Constant, Pattern, bounds, ordinals

FormKey = Any
"""A constant; the constants of several attributes; or a range's two ordinals, 16 bytes (`range_key`)."""
BoundColumns = tuple[pl.Series, pl.Series]
"""(low bounds, high bounds), a row per punctuation. For constants both are the same column."""
_ENDS = Struct("=qq")


def has_column(type_: Type) -> bool:
    """Whether Python and polars agree on which values of a type are equal."""
    return type_ is not DOUBLE


def single(schema: Schema, position: int, key: FormKey, ranged: bool) -> Punctuation:
    """The punctuation of one constant or range."""
    patterns: list[Pattern] = [WILDCARD] * len(schema)
    type_ = schema.attributes[position].type
    if ranged:
        patterns[position] = ordinals(type_, *_ENDS.unpack(key))
    else:
        patterns[position] = Constant(type_, key)
    return Punctuation(schema, patterns)


def key_columns(schema: Schema, position: int, keys: Iterable[FormKey], ranged: bool) -> BoundColumns:
    """The columns that these keys represent."""
    attribute = schema.attributes[position]
    name, dtype = attribute.name, attribute.type.dtype
    if not ranged:
        values = pl.Series(name, list(keys), dtype=dtype)
        return values, values
    ends = np.frombuffer(b"".join(keys), np.int64).reshape(-1, 2)
    return range_columns(attribute.type, ends[:, 0], ends[:, 1], name)


def range_key(p: Punctuation) -> bytes:
    """The first and last ordinal of a punctuation with one range of a numbered type, as 16 bytes."""
    ends = bounds(p.patterns[p.constrained[0]])
    assert ends is not None
    return _ENDS.pack(*ends)
