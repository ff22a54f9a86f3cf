"""The texts of a column, as offsets into the bytes of a split."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from xmlpunct.base.arrow_memory import bitmap, from_arrow
from xmlpunct.firehose import native
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, TIMESTAMP, DecimalType, Type

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
