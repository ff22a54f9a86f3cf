"""Columnar batches: each punctuation constrains one attribute. Functions that make such batches and ask them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import compress

import numpy as np

from xmlpunct.punctuations.forms import FormKey, has_column, range_key
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.types.interval_set import IntervalSet
from xmlpunct.types.ordinals import is_numbered
from xmlpunct.types.pattern import WILDCARD, Constant


def columnar(punctuations: Sequence[Punctuation]) -> PunctuationBatch:
    """A batch of the punctuations: columnar if they are distinct and each has a columnar form, else of objects.

    >>> from xmlpunct.schema import Schema
    >>> s = Schema.parse("sid STRING, hour INT")
    >>> batch = columnar([Punctuation.of(s, **patterns) for patterns in ({"hour": 5}, {"sid": "S1"}, {"hour": 6})])
    >>> batch, [part.keys for part in batch.parts]
    (PunctuationBatch([<*, 5>, <S1, *>, <*, 6>]), [[5, 6], ['S1']])
    """
    batch = PunctuationBatch.of(punctuations)
    if batch.in_columns or not len(batch):
        return batch
    forms: dict[tuple[int, bool], tuple[dict[FormKey, Punctuation], list[int]]] = {}
    for row, p in enumerate(batch):
        if p.form is None or len(p.constrained) != 1:
            return batch
        kind, (position,) = p.form[0], p.constrained
        type_, pattern = p.schema.attributes[position].type, p.patterns[position]
        if kind > 1 or not (is_numbered(type_) if kind else has_column(type_)):
            return batch
        by_key, rows = forms.setdefault((position, bool(kind)), ({}, []))
        by_key[pattern.value if isinstance(pattern, Constant) else range_key(p)] = p
        rows.append(row)
    if any(len(by_key) < len(rows) for by_key, rows in forms.values()):
        return batch
    parts = [
        PunctuationBatch.of_keys(batch.schema, position, list(by_key), list(by_key.values()), is_ranged)
        for (position, is_ranged), (by_key, _) in forms.items()
    ]
    return PunctuationBatch.of_parts(parts, [np.array(rows) for _, rows in forms.values()])


def constraining_beyond(batch: PunctuationBatch, positions: Collection[int]) -> PunctuationBatch:
    """The punctuations that constrain an attribute that is not at ``positions``, and the end.

    >>> from xmlpunct.schema import Schema
    >>> s = Schema.parse("sid STRING, hour INT")
    >>> constraining_beyond(PunctuationBatch([Punctuation.of(s, hour=5), Punctuation.of(s, sid="S1")]), [0])
    PunctuationBatch([<*, 5>])
    """
    if batch.in_columns:
        kept = [part.position not in positions for part in batch.parts]
        return batch if all(kept) else PunctuationBatch.of_parts([*compress(batch.parts, kept)])
    return PunctuationBatch(p for p in batch if p.is_everything or not set(p.constrained) <= set(positions))


def closed_values(batch: PunctuationBatch) -> IntervalSet:
    """The values of a columnar batch.

    >>> from xmlpunct.schema import Schema
    >>> s = Schema.parse("sid STRING, hour INT")
    >>> import polars as pl
    >>> print(closed_values(PunctuationBatch.of_column(s, 1, pl.Series([8, 5, 6]))))
    [5,6] 8
    """
    assert batch.position is not None
    values = IntervalSet(batch.schema.attributes[batch.position].type)
    if batch.ranged:
        values.add_ranges(*batch.columns)
    else:
        values.add_values(batch.values)
    return values


def closes_all(batch: PunctuationBatch) -> bool:
    """Whether a punctuation of a columnar batch may close all values of its attribute; False is certain.

    >>> from xmlpunct.schema import Schema
    >>> s = Schema.parse("hour INT NOT NULL")
    >>> import polars as pl
    >>> [closes_all(PunctuationBatch.of_ranges(s, 0, pl.Series([low]), pl.Series([9]))) for low in (None, 5)]
    [False, False]
    """
    attribute = batch.schema.attributes[batch.position or 0]
    if attribute.domain is not WILDCARD:
        return True
    if attribute.nullable or not batch.ranged:
        return False
    firsts, lasts = batch.bounds
    lowest, highest = attribute.ends
    return bool(((firsts == lowest) & (lasts == highest)).any())


def are_apart(batches: Iterable[PunctuationBatch]) -> bool:
    """Whether any two ranges of these batches, all of one attribute, are equal or disjoint."""
    bounds = [batch.bounds for batch in batches if len(batch)]
    if not bounds:
        return True
    firsts, lasts = (np.concatenate(ends) for ends in zip(*bounds, strict=True))
    order = np.lexsort((lasts, firsts))
    firsts, lasts = firsts[order], lasts[order]
    equal = (firsts[1:] == firsts[:-1]) & (lasts[1:] == lasts[:-1])
    return bool((equal | (firsts[1:] > lasts[:-1])).all())


def widest(batch: PunctuationBatch) -> PunctuationBatch:
    """The punctuations of a batch without the ranges that another range of the same columnar part contains.

    >>> import polars as pl
    >>> from xmlpunct.schema import Schema
    >>> s = Schema.parse("sid STRING, hour INT")
    >>> widest(PunctuationBatch.of_ranges(s, 1, pl.Series([None, None, 5]), pl.Series([6, 7, 9])))
    PunctuationBatch([<*, (,7]>, <*, [5,9]>])
    """
    if not any(part.ranged for part in batch.parts):
        return batch
    return PunctuationBatch.concat([_widest_ranges(part) if part.ranged else part for part in batch.parts])


def _widest_ranges(batch: PunctuationBatch) -> PunctuationBatch:
    firsts, lasts = batch.bounds
    order = np.lexsort((~lasts, firsts))
    farthest = np.maximum.accumulate(lasts[order])
    is_widest = np.ones(len(order), np.bool_)
    is_widest[1:] = farthest[1:] > farthest[:-1]
    return batch if is_widest.all() else batch.take(np.sort(order[is_widest]))
