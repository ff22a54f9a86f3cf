"""Punctuations that each close one value of the same attribute, read as a column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from xmlpunct.firehose.cells import Cells
from xmlpunct.punctuations.batch import COLUMN_FROM, PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.types import INT, STRING, Type

_FIRST = np.zeros(1, np.int64)
_RANGE = r"^([\[(])(-?[0-9]{1,18})?,(-?[0-9]{1,18})?([\])])$"
"""A text that is a range of INT whose bounds are far from the ends of the type."""
_PLAIN = "^[A-Za-z0-9_.:-]+$"
"""A text that as a pattern is a constant of type STRING, and the same text."""


def batch_of(schema: Schema, texts_by_attribute: Sequence[Cells | None]) -> PunctuationBatch | None:
    """The punctuations whose patterns' texts are given by attribute (None: ``*``), in their order.

    None if they make no column, or could make one only by a closer look: then they are to be read one by one.

    >>> schema = Schema.parse("item INT, bidder STRING")
    >>> texts = [Cells.of([str(i) for i in range(100)]), Cells.of(["*"] * 100)]
    >>> found = batch_of(schema, texts)
    >>> print(found[99])
    <99, *>
    """
    known = [*enumerate(texts_by_attribute)]
    if sum(cells is not None and len(cells) > 0 and not _open(cells.take(_FIRST)) for _, cells in known) > 1:
        return None  # which is soon seen
    said = [i for i, cells in known if not _open(cells)]
    if len(said) != 1:
        return None
    attribute, cells = schema.attributes[said[0]], texts_by_attribute[said[0]]
    if cells is None or len(cells) < COLUMN_FROM:
        return None
    if attribute.type is INT and cells.text(0)[:1] in "[(":
        bounds = _ranges(cells, attribute.name)
        if bounds is None or bounds.n_unique() < bounds.height:
            return None
        return PunctuationBatch.of_ranges(schema, said[0], *bounds)
    values = _constants(attribute.type, cells, attribute.name)
    if values is None or values.n_unique() < len(values):
        return None
    return PunctuationBatch.of_column(schema, said[0], values)


def _ranges(cells: Cells, name: str) -> pl.DataFrame | None:
    """The bounds of patterns that are plain ranges of INT, which are in, or null for none; None if one is not."""
    found = cells.texts(name).str.extract_groups(_RANGE).struct.unnest()
    before, low, high, after = found.get_columns()
    if before.null_count():
        return None
    # polars has "" for a group that took no part
    lows, highs = (text.replace("", None).cast(pl.Int64) for text in (low, high))
    lows, highs = lows + (before == "(").cast(pl.Int64), highs - (after == ")").cast(pl.Int64)
    if (lows >= highs).any():
        return None
    return pl.DataFrame({"low": lows, "high": highs})


def _open(cells: Cells | None) -> bool:
    """Whether all patterns are ``*``."""
    return cells is None or all(text == "*" for text in cells.listed("*"))


def _constants(type_: Type, cells: Cells, name: str) -> pl.Series | None:
    """The values of patterns that are plain constants; None if one is not."""
    if type_ is STRING:
        texts = cells.texts(name)
        return texts if not texts.null_count() and texts.str.contains(_PLAIN).all() else None
    read = cells.numbers(type_, name) if type_ is INT else None
    return None if read is None or read[1].any() else read[0]
