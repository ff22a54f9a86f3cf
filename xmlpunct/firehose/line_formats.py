"""Slices as lines: what all writers share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import polars as pl

from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.slice import Slice

_FEW = 500
"""So few lines are joined sooner one by one."""

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
    """How a form of output says a punctuation in a line."""

    def punctuation(self, p: Punctuation) -> str:
        """The line of a punctuation."""

    def around(self, place: int) -> tuple[str, str]:
        """What stands around a pattern of numbers in the line of a punctuation that says no more, of the attribute at a
        place."""


def line(parts: Iterable[pl.Expr]) -> pl.Expr:
    """A polars expression: the line of a tuple, the concatenation of ``parts``, none of them null."""
    return pl.concat_str(*parts, pl.lit("\n")).alias("line")


def lines(given: Slice, of_tuple: pl.Expr, form: Lines) -> bytes:
    """The lines of a slice, where ``of_tuple`` is that of a tuple.

    The lines of its punctuations (none for ``<*, ..., *>``) stand where the punctuations stood, if the slice
    remembers that, else at the end.
    """
    found = given.tuples.with_columns(of_tuple)["line"]  # one for each tuple, though it may have no columns
    if not given.before:
        return (_joined(found) + _said(given.punctuations, form)).encode()
    pieces, at = [], 0
    for place, p in zip(given.before, given.punctuations, strict=True):
        if place > at:
            pieces.append(_joined(found[at:place]))
            at = place
        if not p.is_everything:
            pieces.append(form.punctuation(p))
    if at < len(found):
        pieces.append(_joined(found[at:]))
    return "".join(pieces).encode()


def tuple_lines(given: Slice, of_tuple: pl.Expr) -> list[str]:
    """The line of each tuple of a slice."""
    return given.tuples.with_columns(of_tuple)["line"].to_list()


def punctuation_lines(given: Slice, form: Lines) -> list[str]:
    """The line of each punctuation of a slice that says anything in this form, but for ``<*, ..., *>``."""
    return [text for p in given.punctuations if not p.is_everything and (text := form.punctuation(p))]


def _joined(found: pl.Series) -> str:
    """Lines, one behind the other."""
    return "".join(found.to_list()) if len(found) < _FEW else str(found.str.join("").item())


def _said(batch: PunctuationBatch, form: Lines) -> str:
    """The lines of some punctuations."""
    if len(batch.parts) > 1:
        return "".join(_said(part, form) for part in batch.parts)
    if batch.place is None or batch.columns[0].dtype != pl.Int64():
        return "".join(form.punctuation(p) for p in batch if not p.is_everything)
    before, after = map(pl.lit, form.around(batch.place))
    numbers = pl.DataFrame([bound.alias(name) for bound, name in zip(batch.columns, _BOUNDS, strict=True)])
    pattern = _RANGE if batch.ranged else pl.col("low")
    return str(numbers.select(pl.concat_str(before, pattern, after).str.join("")).item())
