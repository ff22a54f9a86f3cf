"""Texts as places in a buffer, and what numpy can make of many of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from xmlpunct.arrow import bitmap, from_arrow
from xmlpunct.firehose import loops

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

FEW = 40
"""So few texts are quicker one by one."""
PAD = 64
"""So many bytes more than its texts a buffer has at its beginning and at its end."""

_WORD = 8
_INLINE = 12
"""Arrow keeps texts up to this size beside their length."""

_ZEROS, _CARRY, _HIGH = (np.uint64(0x0101010101010101 * byte) for byte in (ord("0"), 0x76, 0x80))
_HEADS = np.array([(1 << 8 * n) - 1 for n in range(_WORD + 1)], np.uint64)
"""By n, the mask of a word's first n bytes."""


# glibc hands large pieces of freed memory back at once, and fetching them again costs as much as all else here.
# It keeps what is smaller than the largest piece it has seen freed, if that was less than 32 MiB.
np.empty(2**25 - 2**16, np.uint8)


def gather(buffer: bytes, at: Ints, width: int) -> Words:
    """The ``width`` bytes from each place on, as rows of little-endian words; ``width`` is a multiple of 8."""
    windows = np.ndarray((len(buffer) - width + 1,), f"V{width}", buffer, 0, (1,))
    return windows[at].view("<u8").reshape(len(at), width // _WORD)


def first_bytes(count: Ints) -> Words:
    """The mask of the first bytes of a word: none of them for a count below 0, all from 8 on."""
    return _HEADS.take(count, mode="clip")


@dataclass(slots=True)
class Cells:
    """Texts in UTF-8: ``size`` bytes of ``buffer`` from ``start`` on each; a size of -1 is no text at all.

    ``head`` holds their first bytes in two words, with anything behind the text; it is found when it is
    not given.

    >>> Cells.of(["ab", None, ""]).texts("x").to_list()
    ['ab', None, '']
    """

    buffer: bytes
    start: Ints
    size: Ints
    head: tuple[Words, Words] | None = None

    @classmethod
    def of(cls, texts: Sequence[str | None]) -> Cells:
        """These texts."""
        joined = "".join([text for text in texts if text is not None])
        coded = joined.encode("utf-8", "surrogateescape")
        if len(coded) == len(joined):
            sizes = [-1 if text is None else len(text) for text in texts]
        else:
            sizes = [-1 if t is None else len(t.encode("utf-8", "surrogateescape")) for t in texts]
        size = np.array(sizes, np.int64)
        end = np.cumsum(np.maximum(size, 0)) + PAD
        return cls(b"".join((bytes(PAD), coded, bytes(PAD))), end - np.maximum(size, 0), size)

    def __len__(self) -> int:
        return len(self.size)

    @property
    def missing(self) -> Flags:
        """Which ones are no text."""
        found: Flags = self.size < 0
        return found

    def words(self) -> tuple[Words, Words]:
        """The first 16 bytes of each."""
        if self.head is None:
            found = gather(self.buffer, self.start, 2 * _WORD)
            self.head = found[:, 0], found[:, 1]
        return self.head

    def text(self, row: int) -> str:
        """One text."""
        start = int(self.start[row])
        return self.buffer[start : start + max(int(self.size[row]), 0)].decode("utf-8", "surrogateescape")

    def listed(self) -> list[str]:
        """All of them, one by one; empty where there is no text."""
        if loops.COMPILED:
            return loops.strings(self.buffer, self.start, self.size)
        if len(self) < FEW:
            places = zip(self.start.tolist(), self.size.tolist(), strict=True)
            return [self.buffer[at : at + max(n, 0)].decode("utf-8", "surrogateescape") for at, n in places]
        return [text or "" for text in self.texts("").to_list()]

    def take(self, rows: Ints) -> Cells:
        """Some of them."""
        return Cells(self.buffer, self.start[rows], self.size[rows])

    def texts(self, name: str) -> pl.Series:
        """All of them as a column of strings, which keeps nothing of the buffer."""
        count = len(self)
        if not count:
            return pl.Series(name, dtype=pl.String())
        least, most = int(self.size.min()), int(self.size.max())
        valid = None if least >= 0 else bitmap(self.size >= 0)
        if loops.COMPILED:
            long = self.size[self.size > _INLINE].sum() if most > _INLINE else 0
            views, rest = np.empty((count, 2), "<u8"), np.empty(long, np.uint8)
            loops.views(self.buffer, self.start, self.size, views, rest)
            parts = [valid, pa.py_buffer(views), *([pa.py_buffer(rest)] if long else [])]
            return from_arrow(name, pa.Array.from_buffers(pa.string_view(), count, parts))
        parts = [valid, pa.py_buffer(self._views(least, most))]
        if most <= _INLINE:
            return from_arrow(name, pa.Array.from_buffers(pa.string_view(), count, parts))
        parts.append(pa.py_buffer(self.buffer))
        found = pa.Array.from_buffers(pa.string_view(), count, parts).cast(pa.large_string())
        return from_arrow(name, found)

    def _views(self, least: int, most: int) -> Words:
        """The texts as Arrow's views, in which long ones are places in the buffer."""
        first, second = self.words()
        views = np.empty((len(self), 2), "<u8")
        size = np.maximum(self.size, 0) if least < 0 else self.size
        head = first & first_bytes(size)
        views[:, 0] = size.view(np.uint64) | (head << np.uint64(32))
        views[:, 1] = head >> np.uint64(32)
        if most > _WORD:
            views[:, 1] |= (second & first_bytes(self.size - _WORD)) << np.uint64(32)
        if most > _INLINE:
            long = self.size > _INLINE
            views[long, 1] = self.start[long].astype(np.uint64) << np.uint64(32)
        return views

    def integers(self) -> tuple[Ints, Flags]:
        """The values of those that are 1 to 15 decimal digits, maybe behind a sign; and which ones are not."""
        if not len(self):
            return np.empty(0, np.int64), np.empty(0, np.bool_)
        if loops.COMPILED:
            values, wrong = np.empty(len(self), np.int64), np.empty(len(self), np.bool_)
            loops.integers(self.buffer, self.start, self.size, values, wrong)
            return values, wrong
        first, second = self.words()
        values, wrong = _unsigned(first, second, self.size)
        if wrong.any():
            lead = first & np.uint64(0xFF)
            signed = np.flatnonzero(wrong & ((lead == ord("-")) | (lead == ord("+"))) & (self.size > 1))
            if len(signed):
                shifted = (first[signed] >> np.uint64(8)) | (second[signed] << np.uint64(56))
                found = _unsigned(shifted, second[signed] >> np.uint64(8), self.size[signed] - 1)
                values[signed], wrong[signed] = found
                values[wrong | (lead == ord("-"))] *= -1
        return values, wrong


def _unsigned(first: Words, second: Words, size: Ints) -> tuple[Ints, Flags]:
    """The numbers that 1 to 15 digits spell in two words, and which ones are none."""
    least, most = int(size.min()), int(size.max())
    if most <= _WORD:
        digits, wrong = _few_digits(first, size) if 2 * most <= _WORD else _digits(first, size)
        values = digits.view(np.int64)
    else:
        rest = np.clip(size - _WORD, 0, _WORD)
        high, wrong = _digits(first, np.minimum(size, _WORD))
        low, wrong_low = _digits(second, rest)
        values = high.view(np.int64) * _TENS[rest] + low.view(np.int64)
        wrong |= wrong_low & (size > _WORD)
    if least < 1 or most >= 2 * _WORD:
        wrong |= (size < 1) | (size >= 2 * _WORD)
    return values, wrong


_TENS = 10 ** np.arange(_WORD + 1, dtype=np.int64)


def _digits(words: Words, size: Ints) -> tuple[Words, Flags]:
    """The numbers that the first ``size`` (at most 8) bytes of words spell, and which ones are none."""
    shift = (np.int64(64) - (size << 3)).view(np.uint64)
    digits, wrong = _nibbles(words << shift, _ZEROS << shift)
    digits = (digits * np.uint64(10 * 2**8 + 1)) >> np.uint64(8)
    digits = ((digits & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(100 * 2**16 + 1)) >> np.uint64(16)
    digits = ((digits & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(10000 * 2**32 + 1)) >> np.uint64(32)
    return digits, wrong


def _few_digits(words: Words, size: Ints) -> tuple[Words, Flags]:
    """`_digits` for at most 4 bytes, in half the time."""
    shift = np.uint32(32) - (size.astype(np.uint32) << np.uint32(3))
    digits, wrong = _nibbles(words.astype(np.uint32) << shift, _ZEROS.astype(np.uint32) << shift)
    digits = (digits * np.uint32(10 * 2**8 + 1)) >> np.uint32(8)
    digits = ((digits & np.uint32(0x00FF00FF)) * np.uint32(100 * 2**16 + 1)) >> np.uint32(16)
    return digits.astype(np.uint64), wrong


def _nibbles(words: npt.NDArray[Any], zeros: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Flags]:
    """Each byte of words less that of ``zeros``, and which words have a byte that is no digit."""
    kind = words.dtype.type
    digits = words ^ zeros
    return digits, (((digits + _CARRY.astype(kind)) | digits) & _HIGH.astype(kind)) != 0


def joined(cells: Sequence[Cells], more: Sequence[str | None], order: Ints) -> list[Cells]:
    """Rows of cells, given by slot and in one buffer, and ``more`` rows, given one after the other, in an order."""
    other, width = Cells.of(more), len(cells)
    if not width:
        return []
    buffer = cells[0].buffer + other.buffer
    shift = len(cells[0].buffer)
    found = []
    for slot, given in enumerate(cells):
        start = np.concatenate((given.start, other.start[slot::width] + shift))[order]
        size = np.concatenate((given.size, other.size[slot::width]))[order]
        found.append(Cells(buffer, start, size))
    return found
