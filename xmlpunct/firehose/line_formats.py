"""Slices as lines of text: common code of all writers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import polars as pl

from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.slice import Slice

_FEW = 500
"""Fewer lines than this are joined faster in Python."""

_BOUNDS = ("low", "high")
_RANGE = pl.concat_str(
    pl.when(pl.col("low").is_null()).then(pl.lit("(")).otherwise(pl.lit("[")),
    pl.col("low").cast(pl.String()).fill_null(""),
    pl.lit(","),
    pl.col("high").cast(pl.String()).fill_null(""),
    pl.when(pl.col("high").is_null()).then(pl.lit(")")).otherwise(pl.lit("]")),
)
"""The pattern of a range of whole numbers."""


class Lines(Protocol):
    """Punctuations as lines of an output format."""

    def punctuation(self, p: Punctuation) -> str:
        """The line of a punctuation."""

    def around(self, position: int) -> tuple[str, str]:
        """The text before and after the pattern, for a punctuation that constrains only the attribute at a position."""


def line(parts: Iterable[pl.Expr]) -> pl.Expr:
    """A polars expression: the line of a tuple, the concatenation of ``parts``, none of them null."""
    return pl.concat_str(*parts, pl.lit("\n")).alias("line")


def lines(slice_: Slice, of_tuple: pl.Expr, form: Lines) -> bytes:
    """The lines of a slice. ``of_tuple`` is the expression of a tuple's line.

    Punctuations (except ``<*, ..., *>``) are written at their positions among the tuples if the slice has these
    (``before``), else at the end.
    """
    texts = slice_.tuples.with_columns(of_tuple)[
        "line"
    ]  # with_columns keeps the height of a frame without columns
    if not slice_.before:
        return (_concatenate(texts) + _punctuation_text(slice_.punctuations, form)).encode()
    pieces, position = [], 0
    for row, p in zip(slice_.before, slice_.punctuations, strict=True):
        if row > position:
            pieces.append(_concatenate(texts[position:row]))
            position = row
        if not p.is_everything:
            pieces.append(form.punctuation(p))
    if position < len(texts):
        pieces.append(_concatenate(texts[position:]))
    return "".join(pieces).encode()


def tuple_lines(slice_: Slice, of_tuple: pl.Expr) -> list[str]:
    """The line of each tuple of a slice."""
    return slice_.tuples.with_columns(of_tuple)["line"].to_list()


def punctuation_lines(slice_: Slice, form: Lines) -> list[str]:
    """The line of each punctuation of a slice that this format can express, except ``<*, ..., *>``."""
    return [text for p in slice_.punctuations if not p.is_everything and (text := form.punctuation(p))]


def _concatenate(texts: pl.Series) -> str:
    """The concatenation of lines."""
    return "".join(texts.to_list()) if len(texts) < _FEW else str(texts.str.join("").item())


def _punctuation_text(batch: PunctuationBatch, form: Lines) -> str:
    """The lines of a batch of punctuations."""
    if len(batch.parts) > 1:
        return "".join(_punctuation_text(part, form) for part in batch.parts)
    if batch.position is None or batch.columns[0].dtype != pl.Int64():
        return "".join(form.punctuation(p) for p in batch if not p.is_everything)
    before, after = map(pl.lit, form.around(batch.position))
    numbers = pl.DataFrame([bound.alias(name) for bound, name in zip(batch.columns, _BOUNDS, strict=True)])
    pattern = _RANGE if batch.ranged else pl.col("low")
    return str(numbers.select(pl.concat_str(before, pattern, after).str.join("")).item())
