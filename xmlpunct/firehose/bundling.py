"""Punctuations that each close one value of the same attribute, read as a column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from xmlpunct.arrow import integers
from xmlpunct.firehose.cells import Cells, Flags
from xmlpunct.punctuations.batch import COLUMN_FROM, PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.types import INT, STRING, Type

_FIRST = np.zeros(1, np.int64)


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
        return None
    said = [i for i, cells in known if not _open(cells)]
    if len(said) != 1:
        return None
    attribute, cells = schema.attributes[said[0]], texts_by_attribute[said[0]]
    if cells is None or len(cells) < COLUMN_FROM:
        return None
    if attribute.type is INT and cells.text(0)[:1] in "[(":
        bounds = _ranges(cells, attribute.name)
        if bounds is None or not (_ascends(bounds[0]) or pl.DataFrame(bounds).is_unique().all()):
            return None
        return PunctuationBatch.of_ranges(schema, said[0], *bounds)
    values = _constants(attribute.type, cells, attribute.name)
    if values is None or not (_ascends(values) or _is_numbered(cells) or values.n_unique() == len(values)):
        return None
    return PunctuationBatch.of_column(schema, said[0], values)


def _is_numbered(cells: Cells) -> bool:
    """A quick yes for texts: whether they are numbers that ascend, so that all differ."""
    numbers = _integers(cells, "") if cells.text(0).isdecimal() else None
    return numbers is not None and _ascends(numbers)


def _ascends(values: pl.Series) -> bool:
    """A quick yes: whether each value is above the one before it, so that each is there once."""
    if not values.dtype.is_integer() or values.null_count():
        return False
    numbers = values.to_numpy()
    return bool((numbers[1:] > numbers[:-1]).all())


def _ranges(cells: Cells, name: str) -> tuple[pl.Series, pl.Series] | None:
    """The bounds of patterns that are ranges of INT, which are in, or null for none; None if one is not."""
    start, end = cells.start, cells.start + cells.size - 1
    if (cells.size < len("[,)")).any():
        return None
    buffer = cells.data if int(end.max()) < len(cells.data) else cells.data + cells.side
    octets = np.frombuffer(buffer, np.uint8)
    first = int(start.min())
    commas = (first + np.flatnonzero(octets[first : int(end.max())] == ord(","))).astype(np.int32)
    comma = commas[np.minimum(commas.searchsorted(start), len(commas) - 1)] if len(commas) else end
    before, after = octets[start], octets[end]
    opens, closes = (before == ord("[")) | (before == ord("(")), (after == ord("]")) | (after == ord(")"))
    if not (opens & closes & (start < comma) & (comma < end)).all():
        return None
    lows = _bounds(Cells(buffer, b"", start + 1, comma - start - 1), before == ord("("), 1, name)
    highs = _bounds(Cells(buffer, b"", comma + 1, end - comma - 1), after == ord(")"), -1, "high")
    if lows is None or highs is None or (lows >= highs).any():
        return None
    return lows, highs


def _bounds(cells: Cells, is_out: Flags, inwards: int, name: str) -> pl.Series | None:
    """One bound of each of some ranges, moved inwards where it is out; None if one is no plain number."""
    there = cells.size > 0
    known = cells if there.all() else cells.take(np.flatnonzero(there))
    values = _integers(known, name)
    if values is None or known is cells:
        return values if values is None else integers(name, values.to_numpy() + inwards * is_out)
    column = pl.Series(name, [None], dtype=pl.Int64).new_from_index(0, len(cells))
    moved = integers(name, values.to_numpy() + inwards * is_out[there])
    return column.scatter(np.flatnonzero(there), moved) if len(moved) else column


def _integers(cells: Cells, name: str) -> pl.Series | None:
    """Texts as INTs; None if one is none, or near to the ends of the type."""
    read = cells.numbers(INT, name)
    return None if read is None or read[1].any() else read[0]


def _open(cells: Cells | None) -> bool:
    """Whether all patterns are ``*``."""
    if cells is not None and len(cells) and cells.size[0] >= 0 and cells.text(0) != "*":
        return False  # which is soon seen
    return cells is None or bool(cells.missing.all() or (cells.texts("") == "*").all())


def _constants(type_: Type, cells: Cells, name: str) -> pl.Series | None:
    """The values of patterns that are plain constants; None if one is not."""
    if type_ is INT:
        return _integers(cells, name)
    if type_ is STRING:
        return cells.texts(name) if cells.are_plain else None
    return None
