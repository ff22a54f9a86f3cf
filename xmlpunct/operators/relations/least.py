"""The least instant that is retained of what a pattern matches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.hash_index import Rows
from xmlpunct.operators.relations.spans import least_within
from xmlpunct.punctuations.constant_index import Constants
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_index import PunctuationIndex
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.types.ordinals import Ordinals, ordinals_of

InstantsOf = Callable[[pl.DataFrame], Ordinals]
"""The instants of some rows, as ordinals."""


def least_instants(
    asked: Sequence[Punctuation], retained: Sequence[tuple[Arrangement, InstantsOf]], none: int
) -> list[int]:
    """For each of some patterns the least instant of the rows that it matches; ``none`` if there are none.

    >>> from xmlpunct.schema import Schema
    >>> s = Schema.parse("k INT, ts INT")
    >>> rows = Arrangement(s.empty(), ["k"])
    >>> rows.append(s.frame([(1, 7), (2, 5), (9, 3)]))
    >>> asked = [Punctuation.of(s, k=k) for k in (1, "(,2]", "(,8]", "[9,)", 4, "*")]
    >>> least_instants(asked, [(rows, lambda some: some["ts"].to_numpy())], 99)
    [7, 5, 5, 3, 99, 3]
    """
    if not asked:
        return []
    number = {q: i for i, q in enumerate(asked)}
    least, met = np.zeros(len(asked), np.int64), np.zeros(len(asked), np.bool_)
    for group in PunctuationSet(asked[0].schema, asked).groups():
        own = np.array([number[q] for q in group.all()])
        for rows, instants_of in retained:
            if not len(rows):
                continue
            places, instants = _matched(group, rows, instants_of)
            fresh = own[places[~met[own[places]]]]
            least[fresh], met[fresh] = np.iinfo(np.int64).max, True
            np.minimum.at(least, own[places], instants)
    return [first if there else none for first, there in zip(least.tolist(), met.tolist(), strict=True)]


def _matched(group: PunctuationIndex, rows: Arrangement, instants_of: InstantsOf) -> tuple[Rows, Ordinals]:
    """Places of a group and instants of rows that match there: of each place the least is among them."""
    if isinstance(group, Constants):
        places, hit = rows.probe(group.constants(), group.names, group.names)
        return places, instants_of(rows.take(hit))
    members = group.all()
    near = rows.take(rows.matching(PunctuationSet(group.schema, members)))
    instants = instants_of(near)
    if members.ranged:
        return _in_ranges(members, near, instants)
    masks = [PunctuationSet(group.schema, [q]).mask(near).to_numpy() for q in members]
    hits = [np.flatnonzero(mask) for mask in masks]
    places = np.repeat(np.arange(len(hits)), [len(hit) for hit in hits])
    return places, instants[np.concatenate(hits)]


def _in_ranges(ranges: PunctuationBatch, near: pl.DataFrame, instants: Ordinals) -> tuple[Rows, Ordinals]:
    """`_matched` of ranges in columns; all of ``near`` match some."""
    attribute = ranges.schema.attributes[ranges.place or 0]
    values = ordinals_of(attribute.type, near[attribute.name])
    order = np.argsort(values)
    lows, highs = ranges.bounds
    starts = np.searchsorted(values, lows, "left", order)
    ends = np.searchsorted(values, highs, "right", order)
    places = np.flatnonzero(ends > starts)
    return places, least_within(instants[order], starts[places], ends[places])
