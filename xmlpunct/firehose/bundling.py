"""Punctuations that each constrain one attribute, read as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.base.arrow_memory import integers
from xmlpunct.firehose.cells import Cells, Flags
from xmlpunct.punctuations.punctuation_batch import COLUMN_FROM, PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.types import INT, STRING, Type

Rows = NDArray[np.int64]
_WIDEST = 64
"""The most bytes of a range of two INTs, with some to spare."""


def batch_of(schema: Schema, texts_by_attribute: Sequence[Cells | None]) -> PunctuationBatch | None:
    """The punctuations whose patterns' texts are given by attribute (None: ``*``), in their order.

    None if they make no columns, or could make them only by a closer look: then they are to be read one by one.

    >>> schema = Schema.parse("item INT, bidder STRING")
    >>> texts = [Cells.of([str(i) for i in range(100)]), Cells.of(["*"] * 100)]
    >>> found = batch_of(schema, texts)
    >>> print(found[99])
    <99, *>
    """
    given = [(i, cells, _said(cells)) for i, cells in enumerate(texts_by_attribute) if cells is not None]
    if not given or (np.sum([said for _, _, said in given], axis=0) != 1).any():
        return None
    parts, at = list[PunctuationBatch](), list[Rows]()
    for place, cells, said in given:
        for rows, ranged in _forms(schema.attributes[place].type, cells, np.flatnonzero(said)):
            part = _column(schema, place, cells.take(rows), ranged)
            if part is None:
                return None
            parts.append(part)
            at.append(rows)
    count = sum(map(len, at))
    return PunctuationBatch.of_parts(parts, at) if count >= COLUMN_FROM * len(parts) else None


def _forms(type_: Type, cells: Cells, rows: Rows) -> Iterator[tuple[Rows, bool]]:
    """Those of some patterns that may be ranges, and the others."""
    if type_ is INT and len(rows):
        first = _octets(cells).take(cells.start[rows], mode="clip")
        ranged = (first == ord("[")) | (first == ord("("))
        if ranged.any():
            yield rows[ranged], True
            rows = rows[~ranged]
    if len(rows):
        yield rows, False


def _column(schema: Schema, place: int, cells: Cells, ranged: bool) -> PunctuationBatch | None:
    """The punctuations of patterns of one attribute, ranges or constants; None if they make no column."""
    attribute = schema.attributes[place]
    if ranged:
        bounds = _ranges(cells, attribute.name)
        if bounds is None or not (any(map(_ascends, bounds)) or pl.DataFrame(bounds).is_unique().all()):
            return None
        return PunctuationBatch.of_ranges(schema, place, *bounds)
    values = _constants(attribute.type, cells, attribute.name)
    if values is None or not (_ascends(values) or _is_numbered(cells) or values.n_unique() == len(values)):
        return None
    return PunctuationBatch.of_column(schema, place, values)


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
    width = int(cells.size.max())
    if (cells.size < len("[,)")).any() or width > _WIDEST:
        return None
    octets = _octets(cells)
    texts = octets.take(np.add.outer(start, np.arange(width)), mode="clip")
    comma = start + (texts == ord(",")).argmax(axis=1).astype(np.int32)
    before, after = octets[start], octets[end]
    opens, closes = (before == ord("[")) | (before == ord("(")), (after == ord("]")) | (after == ord(")"))
    if not (opens & closes & (start < comma) & (comma < end)).all():
        return None
    lows = _bounds(replace(cells, start=start + 1, size=comma - start - 1), before == ord("("), 1, name)
    highs = _bounds(replace(cells, start=comma + 1, size=end - comma - 1), after == ord(")"), -1, "high")
    if lows is None or highs is None or (lows >= highs).any():
        return None
    return lows, highs


def _bounds(cells: Cells, is_out: Flags, inwards: int, name: str) -> pl.Series | None:
    """One bound of each of some ranges, moved inwards where it is out; None if one is no plain number."""
    there = cells.size > 0
    if there.all():
        values = _integers(cells, name)
        return values if values is None else integers(name, values.to_numpy() + inwards * is_out)
    column = pl.Series(name, [None], dtype=pl.Int64).new_from_index(0, len(cells))
    rows = np.flatnonzero(there)
    moved = _bounds(cells.take(rows), is_out[rows], inwards, name) if len(rows) else column[:0]
    return moved if moved is None else column.scatter(rows, moved)


def _integers(cells: Cells, name: str) -> pl.Series | None:
    """Texts as INTs; None if one is none, or near to the ends of the type."""
    read = cells.numbers(INT, name)
    return None if read is None or read[1].any() else read[0]


def _said(cells: Cells) -> Flags:
    """Which patterns are not ``*``."""
    alone = np.flatnonzero(cells.size == 1)
    said: Flags = cells.size >= 0
    said[alone] = _octets(cells)[cells.start[alone]] != ord("*") if len(alone) else False
    return said


def _octets(cells: Cells) -> NDArray[np.uint8]:
    """The bytes that texts are in."""
    beside = len(cells) and int((cells.start + cells.size).max()) > len(cells.data)
    return np.frombuffer(cells.data + cells.side if beside else cells.data, np.uint8)


def _constants(type_: Type, cells: Cells, name: str) -> pl.Series | None:
    """The values of patterns that are plain constants; None if one is not."""
    if type_ is INT:
        return _integers(cells, name)
    if type_ is STRING:
        return cells.texts(name) if cells.are_plain else None
    return None
