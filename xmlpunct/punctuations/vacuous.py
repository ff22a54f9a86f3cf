"""Vacuous punctuations: the ones about a value that no tuple has."""

from __future__ import annotations

import numpy as np

from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.types.pattern import Pattern


def without_vacuous(batch: PunctuationBatch, position: int, absent: Pattern) -> PunctuationBatch:
    """The punctuations whose pattern at ``position`` is not ``absent``, the pattern of a value that no tuple has.

    >>> import polars as pl
    >>> from xmlpunct.schema import Schema
    >>> from xmlpunct.types.pattern import constant
    >>> s = Schema.parse("x INT")
    >>> without_vacuous(PunctuationBatch.of_column(s, 0, pl.Series([5, 6])), 0, constant(s["x"].type, 5))
    PunctuationBatch([<6>])
    """
    if batch.in_columns and all(part.position != position for part in batch.parts):
        return batch
    other = [i for i, p in enumerate(batch) if p.patterns[position] != absent]
    return batch if len(other) == len(batch) else batch.take(np.array(other, np.int64))
