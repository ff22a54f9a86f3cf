"""The texts of a column, as offsets into the bytes of a split, and their conversion to values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from xmlpunct.base.arrow_memory import bitmap, from_arrow
from xmlpunct.base.forks import polars_works
from xmlpunct.firehose import native
from xmlpunct.punctuations.pattern_expressions import pattern_expression
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, XML, DecimalType, Type, Value
from xmlpunct.types.pattern import WILDCARD

CellInts = npt.NDArray[np.int64]
CellOffsets = npt.NDArray[np.int32]
CellFlags = npt.NDArray[np.bool_]

_NUMBERS: dict[Type, tuple[str, pa.DataType]] = {
    INT: ("INT", pa.int64()),
    DOUBLE: ("DOUBLE", pa.float64()),
    DATE: ("DATE", pa.date32()),
    TIMESTAMP: ("TIMESTAMP", pa.timestamp("us", "UTC")),
    BOOLEAN: ("BOOLEAN", pa.bool_()),
}

_PLAIN = re.compile("[A-Za-z0-9._:-]+")
_NO_ROWS = np.empty(0, np.int64)
FEW = 32
"""Up to this number, texts are converted faster one by one."""
SHOWN = 60
"""Maximum length of an invalid value in a message."""

# glibc returns large freed blocks to the system at once, and to allocate them again costs as much as all work here.
# After a block of less than 32 MiB was freed, glibc retains all smaller blocks.
np.empty(2**25 - 2**16, np.uint8)


@dataclass(frozen=True, slots=True)
class Cells:
    """Texts in UTF-8. Each has ``size`` bytes from offset ``start``; a size of -1 is a missing text.

    Offsets beyond the end of ``data`` continue in ``side``.

    >>> Cells.of(["ab", None, ""]).texts("x").to_list()
    ['ab', None, '']
    """

    data: bytes
    side: bytes
    start: CellOffsets
    size: CellOffsets

    @classmethod
    def of(cls, texts: Sequence[str | None]) -> Cells:
        """Cells with these texts."""
        coded = [None if text is None else text.encode("utf-8", "surrogateescape") for text in texts]
        size = np.array([-1 if text is None else len(text) for text in coded], np.int32)
        data = b"".join([text for text in coded if text is not None])
        end = np.cumsum(np.maximum(size, 0), dtype=np.int32)
        return cls(data, b"", end - np.maximum(size, 0), size)

    def __len__(self) -> int:
        return len(self.size)

    @property
    def missing(self) -> CellFlags:
        """For each cell, whether its text is missing."""
        flags: CellFlags = self.size < 0
        return flags

    def text(self, row: int) -> str:
        """The text of a cell."""
        start, size = int(self.start[row]), max(int(self.size[row]), 0)
        buffer, offset = self.data, start
        if start + size > len(self.data):
            buffer, offset = self.side, start - len(self.data)
        return buffer[offset : offset + size].decode("utf-8", "surrogateescape")

    def listed(self, none: str = "") -> list[str]:
        """All texts as a list, with ``none`` for missing texts."""
        if native.COMPILED:
            return native.strings(self._texts, none)
        return [none if size < 0 else self.text(row) for row, size in enumerate(self.size.tolist())]

    def take(self, rows: CellInts) -> Cells:
        """The cells of these rows."""
        return Cells(self.data, self.side, self.start[rows], self.size[rows])

    def and_also(self, other: Cells) -> Cells:
        """These cells followed by other cells with the same ``data``."""
        is_in_side = other.start >= len(self.data)
        start = np.where(is_in_side, other.start + len(self.side), other.start).astype(np.int32)
        size = np.concatenate([self.size, other.size])
        return Cells(self.data, self.side + other.side, np.concatenate([self.start, start]), size)

    def first(self, count: int) -> Cells:
        """The first ``count`` cells."""
        return Cells(self.data, self.side, self.start[:count], self.size[:count])

    def or_else(self, other: Cells) -> Cells:
        """These cells, with missing texts taken from ``other``. Both must have the same buffers."""
        missing = self.missing
        start, size = np.where(missing, other.start, self.start), np.where(missing, other.size, self.size)
        return Cells(self.data, self.side, start, size)

    @property
    def are_plain(self) -> bool:
        """Whether no text is missing and all consist of letters, digits and `-._:`."""
        if native.COMPILED:
            return native.are_plain(self._texts)
        return all(_PLAIN.fullmatch(text) for text in self.listed())

    def texts(self, name: str) -> pl.Series:
        """The texts as a column of strings. It does not refer to the bytes of the split."""
        if not native.COMPILED:
            missing = self.missing.tolist()
            texts = [None if no else text for text, no in zip(self.listed(), missing, strict=True)]
            return pl.Series(name, texts, dtype=pl.String())
        views, long_texts, is_full = native.views(self._texts)
        parts = [None if is_full else bitmap(~self.missing), pa.py_buffer(views)]
        if long_texts:
            parts.append(pa.py_buffer(long_texts))
        return from_arrow(name, pa.Array.from_buffers(pa.string_view(), len(self), parts))

    def numbers(self, type_: Type, name: str) -> tuple[pl.Series, CellFlags] | None:
        """The values of texts in the type's common form, as a column, and flags of all other texts, which are null.

        None if the native reader does not support the type.
        """
        if not native.COMPILED or not len(self):
            return None
        scale = integer_digits = 0
        if isinstance(type_, DecimalType):
            kind, arrow = "DECIMAL", pa.decimal128(type_.precision, type_.scale)
            scale, integer_digits = type_.scale, type_.precision - type_.scale
        elif type_ in _NUMBERS:
            kind, arrow = _NUMBERS[type_]
        else:
            return None
        width = 1 if type_ is BOOLEAN else arrow.bit_width // 8
        values, left = np.empty(len(self) * width, np.uint8), np.empty(len(self), np.bool_)
        native.numbers(self._texts, kind, scale, integer_digits, values, left)
        buffer = bitmap(values.view(np.bool_)) if type_ is BOOLEAN else pa.py_buffer(values)
        valid = bitmap(~left) if left.any() else None
        array = pa.Array.from_buffers(arrow, len(self), [valid, buffer])
        return from_arrow(name, array), left

    @property
    def _texts(self) -> tuple[bytes, bytes, CellOffsets, CellOffsets]:
        return self.data, self.side, self.start, self.size


def typed_column(
    attribute: Attribute, cells: Cells, is_needed: bool = True
) -> tuple[pl.Series, dict[int, str]]:
    """The column of an attribute's values, and faults by row (where the column is null or has the default).

    Faults are a null in a NOT NULL column without a default, a text that is not a value of the type, and a value
    outside the declared domain. A column that is not needed is only validated. If its values cannot be invalid, it
    consists of nulls.

    >>> from xmlpunct.schema import Schema
    >>> hour = Schema.parse("hour INT NOT NULL")["hour"]
    >>> values, wrong = typed_column(hour, Cells.of(["17", " 18\\n", "x", None]))
    >>> values.to_list(), sorted(wrong)
    ([17, 18, None, None], [2, 3])
    """
    name, type_, bound = attribute.name, attribute.type, attribute.domain is not WILDCARD
    if not polars_works():
        values, reasons = _one_by_one(type_, cells, name)
    elif type_ in (STRING, XML) and not is_needed and not bound:
        reasons = {}
        values = nulls(name, type_, len(cells))
    else:
        values, reasons = convert(type_, cells, name)
    wrong = {row: f"attribute {name}: {reason}" for row, reason in reasons.items()}
    if attribute.default is not None:
        values = with_default(values, attribute)
    elif not attribute.nullable:
        for row in np.flatnonzero(cells.missing).tolist():
            wrong[row] = f"attribute {name}: missing, but NOT NULL"
    if bound:
        for row in outside_domain(attribute, values):
            text = shown_text(cells.text(row))
            wrong[row] = f"attribute {name}: {text} is outside its domain {attribute.domain}"
    return values, wrong


def nulls(name: str, type_: Type, count: int) -> pl.Series:
    """A column of nulls."""
    if not polars_works():
        return pl.Series(name, [None] * count, dtype=type_.dtype)
    return pl.Series(name, [None], dtype=type_.dtype).new_from_index(0, count)


def with_default(values: pl.Series, attribute: Attribute) -> pl.Series:
    """The values, with the attribute's default for each null."""
    if polars_works():
        return values.fill_null(pl.lit(attribute.default, dtype=attribute.type.dtype))
    filled = [attribute.default if value is None else value for value in values]
    return pl.Series(values.name, filled, dtype=values.dtype)


def outside_domain(attribute: Attribute, values: pl.Series) -> list[int]:
    """The rows whose values are outside the declared domain."""
    if polars_works():
        inside = values.to_frame().select(pattern_expression(attribute.name, attribute.domain)).to_series()
        return (values.is_not_null() & ~inside).arg_true().to_list()
    matches = attribute.domain.matches
    return [row for row, value in enumerate(values) if value is not None and not matches(value)]


def convert(type_: Type, cells: Cells, name: str) -> tuple[pl.Series, dict[int, str]]:
    """The values of texts in XML Schema's form, exactly as ``type_.read`` converts each, and faults by row."""
    if type_ in (STRING, XML):
        return cells.texts(name), {}
    read = cells.numbers(type_, name)
    if read is None:
        return _convert(type_, cells, name)
    values, left = read
    rows = np.flatnonzero(left & ~cells.missing) if left.any() else _NO_ROWS
    if not len(rows):
        return values, {}
    slow_values, reasons = _convert(type_, cells.take(rows), name)
    return values.scatter(rows, slow_values), {int(rows[row]): reason for row, reason in reasons.items()}


def _convert(type_: Type, cells: Cells, name: str) -> tuple[pl.Series, dict[int, str]]:
    if len(cells) <= FEW:
        return _one_by_one(type_, cells, name)
    texts = cells.texts(name)
    values = type_.read_column(texts)
    wrong: dict[int, str] = {}
    if values.null_count() > texts.null_count():
        for row in (values.is_null() & texts.is_not_null()).arg_true().to_list():
            _, wrong[row] = _read(type_, texts[row])
    return values, wrong


def _one_by_one(type_: Type, cells: Cells, name: str) -> tuple[pl.Series, dict[int, str]]:
    values: list[Value] = []
    wrong: dict[int, str] = {}
    for row, (text, missing) in enumerate(zip(cells.listed(), cells.missing.tolist(), strict=True)):
        value, reason = (None, "") if missing else _read(type_, text)
        if reason:
            wrong[row] = reason
        values.append(value)
    return pl.Series(name, values, dtype=type_.dtype), wrong


def _read(type_: Type, text: str) -> tuple[Value, str]:
    """The value of a text and "", or None and the reason why the text is invalid."""
    try:
        return type_.read(text), ""
    except ValueError as error:
        reason = str(error)
        return None, reason if len(reason) <= 2 * SHOWN else f"{shown_text(text)} is not of type {type_}"


def shown_text(text: str) -> str:
    """A text for a message: quoted and shortened."""
    return repr(text if len(text) <= SHOWN else text[:SHOWN] + "...")
