"""The least instant of the retained rows that match a pattern."""

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
"""Maps rows to their instants, as ordinals; shape (rows,)."""


def least_instants(
    patterns: Sequence[Punctuation], retained: Sequence[tuple[Arrangement, InstantsOf]], none: int
) -> list[int]:
    """For each pattern, the least instant of the rows that match it; ``none`` if there are none.

    >>> from xmlpunct.schema import Schema
    >>> s = Schema.parse("k INT, ts INT")
    >>> rows = Arrangement(s.empty(), ["k"])
    >>> rows.append(s.frame([(1, 7), (2, 5), (9, 3)]))
    >>> patterns = [Punctuation.of(s, k=k) for k in (1, "(,2]", "(,8]", "[9,)", 4, "*")]
    >>> least_instants(patterns, [(rows, lambda tuples: tuples["ts"].to_numpy())], 99)
    [7, 5, 5, 3, 99, 3]
    """
    if not patterns:
        return []
    number = {q: i for i, q in enumerate(patterns)}
    least, has_match = np.zeros(len(patterns), np.int64), np.zeros(len(patterns), np.bool_)
    for group in PunctuationSet(patterns[0].schema, patterns).groups():
        numbers = np.array([number[q] for q in group.all()])
        for rows, instants_of in retained:
            if not len(rows):
                continue
            positions, instants = _match_group(group, rows, instants_of)
            first_matches = numbers[positions[~has_match[numbers[positions]]]]
            least[first_matches], has_match[first_matches] = np.iinfo(np.int64).max, True
            np.minimum.at(least, numbers[positions], instants)
    return [
        first if matches else none for first, matches in zip(least.tolist(), has_match.tolist(), strict=True)
    ]


def _match_group(
    group: PunctuationIndex, rows: Arrangement, instants_of: InstantsOf
) -> tuple[Rows, Ordinals]:
    """Positions in a group, and instants of rows that match there, the least one of each position included."""
    if isinstance(group, Constants):
        positions, hit = rows.probe(group.constants(), group.names, group.names)
        return positions, instants_of(rows.take(hit))
    members = group.all()
    tuples = rows.take(rows.matching(PunctuationSet(group.schema, members)))
    instants = instants_of(tuples)
    if members.ranged:
        return _in_ranges(members, tuples, instants)
    masks = [PunctuationSet(group.schema, [q]).mask(tuples).to_numpy() for q in members]
    hits = [np.flatnonzero(mask) for mask in masks]
    positions = np.repeat(np.arange(len(hits)), [len(hit) for hit in hits])
    return positions, instants[np.concatenate(hits)]


def _in_ranges(ranges: PunctuationBatch, tuples: pl.DataFrame, instants: Ordinals) -> tuple[Rows, Ordinals]:
    """`_match_group` for ranges in columns; each of ``tuples`` matches a range."""
    attribute = ranges.schema.attributes[ranges.position or 0]
    values = ordinals_of(attribute.type, tuples[attribute.name])
    order = np.argsort(values)
    lows, highs = ranges.bounds
    starts = np.searchsorted(values, lows, "left", order)
    ends = np.searchsorted(values, highs, "right", order)
    positions = np.flatnonzero(ends > starts)
    return positions, least_within(instants[order], starts[positions], ends[positions])
