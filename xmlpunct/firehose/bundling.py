"""Reads punctuations that each constrain one attribute as a columnar batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.base.arrow_memory import integers
from xmlpunct.firehose.cells import CellFlags, Cells
from xmlpunct.punctuations.punctuation_batch import COLUMN_FROM, PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.types import INT, STRING, Type

RowNumbers = NDArray[np.int64]
_WIDEST = 64
"""An upper bound for the length of a range of two INTs, in bytes."""


def batch_of(schema: Schema, texts_by_attribute: Sequence[Cells | None]) -> PunctuationBatch | None:
    """A columnar batch from the texts of patterns, by attribute (None: all are ``*``).

    None if the batch is not columnar, or if that cannot be decided quickly. Then the punctuations must be read one by
    one.

    >>> schema = Schema.parse("item INT, bidder STRING")
    >>> texts = [Cells.of([str(i) for i in range(100)]), Cells.of(["*"] * 100)]
    >>> batch = batch_of(schema, texts)
    >>> print(batch[99])
    <99, *>
    """
    constrained = [
        (i, cells, _is_constrained(cells)) for i, cells in enumerate(texts_by_attribute) if cells is not None
    ]
    if not constrained or (np.sum([flags for _, _, flags in constrained], axis=0) != 1).any():
        return None
    parts, row_lists = list[PunctuationBatch](), list[RowNumbers]()
    for position, cells, flags in constrained:
        for rows, ranged in _forms(schema.attributes[position].type, cells, np.flatnonzero(flags)):
            part = _column(schema, position, cells.take(rows), ranged)
            if part is None:
                return None
            parts.append(part)
            row_lists.append(rows)
    count = sum(map(len, row_lists))
    return PunctuationBatch.of_parts(parts, row_lists) if count >= COLUMN_FROM * len(parts) else None


def _forms(type_: Type, cells: Cells, rows: RowNumbers) -> Iterator[tuple[RowNumbers, bool]]:
    """The rows whose patterns may be ranges (True), and the remaining rows (False)."""
    if type_ is INT and len(rows):
        first = _buffer(cells).take(cells.start[rows], mode="clip")
        ranged = (first == ord("[")) | (first == ord("("))
        if ranged.any():
            yield rows[ranged], True
            rows = rows[~ranged]
    if len(rows):
        yield rows, False


def _column(schema: Schema, position: int, cells: Cells, ranged: bool) -> PunctuationBatch | None:
    """A batch of ranges or constants of one attribute; None if it is not columnar."""
    attribute = schema.attributes[position]
    if ranged:
        bounds = _ranges(cells, attribute.name)
        if bounds is None or not (any(map(_ascends, bounds)) or pl.DataFrame(bounds).is_unique().all()):
            return None
        return PunctuationBatch.of_ranges(schema, position, *bounds)
    values = _constants(attribute.type, cells, attribute.name)
    if values is None or not (_ascends(values) or _is_numbered(cells) or values.n_unique() == len(values)):
        return None
    return PunctuationBatch.of_column(schema, position, values)


def _is_numbered(cells: Cells) -> bool:
    """True only if the texts are ascending numbers, and therefore distinct. False is inconclusive."""
    numbers = _integers(cells, "") if cells.text(0).isdecimal() else None
    return numbers is not None and _ascends(numbers)


def _ascends(values: pl.Series) -> bool:
    """True only if the values are strictly ascending, and therefore distinct. False is inconclusive."""
    if not values.dtype.is_integer() or values.null_count():
        return False
    numbers = values.to_numpy()
    return bool((numbers[1:] > numbers[:-1]).all())


def _ranges(cells: Cells, name: str) -> tuple[pl.Series, pl.Series] | None:
    """The inclusive bounds of ranges of INT, null if unbounded; None if a pattern is not a range."""
    start, end = cells.start, cells.start + cells.size - 1
    width = int(cells.size.max())
    if (cells.size < len("[,)")).any() or width > _WIDEST:
        return None
    octets = _buffer(cells)
    texts = octets.take(np.add.outer(start, np.arange(width)), mode="clip")
    comma = start + (texts == ord(",")).argmax(axis=1).astype(np.int32)
    first_octets, last_octets = octets[start], octets[end]
    opens, closes = (
        (first_octets == ord("[")) | (first_octets == ord("(")),
        (last_octets == ord("]")) | (last_octets == ord(")")),
    )
    if not (opens & closes & (start < comma) & (comma < end)).all():
        return None
    lows = _bounds(replace(cells, start=start + 1, size=comma - start - 1), first_octets == ord("("), 1, name)
    highs = _bounds(
        replace(cells, start=comma + 1, size=end - comma - 1), last_octets == ord(")"), -1, "high"
    )
    if lows is None or highs is None or (lows >= highs).any():
        return None
    return lows, highs


def _bounds(cells: Cells, is_out: CellFlags, inwards: int, name: str) -> pl.Series | None:
    """The low or high bounds of ranges, made inclusive where they are exclusive; None if one is not a plain number."""
    has_bound = cells.size > 0
    if has_bound.all():
        values = _integers(cells, name)
        return values if values is None else integers(name, values.to_numpy() + inwards * is_out)
    column = pl.Series(name, [None], dtype=pl.Int64).new_from_index(0, len(cells))
    rows = np.flatnonzero(has_bound)
    moved = _bounds(cells.take(rows), is_out[rows], inwards, name) if len(rows) else column[:0]
    return moved if moved is None else column.scatter(rows, moved)


def _integers(cells: Cells, name: str) -> pl.Series | None:
    """Texts as INTs; None if one is not an INT or is close to the limits of the type."""
    read = cells.numbers(INT, name)
    return None if read is None or read[1].any() else read[0]


def _is_constrained(cells: Cells) -> CellFlags:
    """For each pattern, whether it is not ``*``."""
    single_octet_rows = np.flatnonzero(cells.size == 1)
    flags: CellFlags = cells.size >= 0
    flags[single_octet_rows] = (
        _buffer(cells)[cells.start[single_octet_rows]] != ord("*") if len(single_octet_rows) else False
    )
    return flags


def _buffer(cells: Cells) -> NDArray[np.uint8]:
    """The bytes that contain the texts."""
    uses_side = len(cells) and int((cells.start + cells.size).max()) > len(cells.data)
    return np.frombuffer(cells.data + cells.side if uses_side else cells.data, np.uint8)


def _constants(type_: Type, cells: Cells, name: str) -> pl.Series | None:
    """The values of patterns that are plain constants; None if a pattern is not."""
    if type_ is INT:
        return _integers(cells, name)
    if type_ is STRING:
        return cells.texts(name) if cells.are_plain else None
    return None
