"""Punctuations as polars expressions, and the index for forms without a faster one."""

from __future__ import annotations

import polars as pl

from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_index import PunctuationIndex
from xmlpunct.types.pattern import Constant, Empty, Pattern, Range, Values, Wildcard


def pattern_expression(column: str, pattern: Pattern) -> pl.Expr:
    """A polars expression: whether the column's value matches the pattern (never null)."""
    column_value = pl.col(column)
    if isinstance(pattern, Wildcard):
        return pl.lit(True)
    if isinstance(pattern, Empty):
        return pl.lit(False)
    if isinstance(pattern, Constant):
        return column_value.eq_missing(pl.lit(pattern.value, dtype=pattern.type.dtype))
    if isinstance(pattern, Values):
        return column_value.is_in(pl.Series(pattern.members, dtype=pattern.type.dtype).implode()).fill_null(
            False
        )
    assert isinstance(pattern, Range)
    tests = [column_value.is_not_null()]
    if pattern.low is not None:
        low = pl.lit(pattern.low, dtype=pattern.type.dtype)
        tests.append(column_value >= low if pattern.low_closed else column_value > low)
    if pattern.high is not None:
        high = pl.lit(pattern.high, dtype=pattern.type.dtype)
        tests.append(column_value <= high if pattern.high_closed else column_value < high)
    return pl.all_horizontal(tests).fill_null(False)


def match_expression(p: Punctuation) -> pl.Expr:
    """A polars expression: whether a tuple matches the punctuation."""
    tests = [pattern_expression(p.schema.names[i], p.patterns[i]) for i in p.constrained]
    return pl.all_horizontal(tests) if tests else pl.lit(True)


class Others(PunctuationIndex):
    """Punctuations of all other forms: ranges in several attributes, long lists, the end.

    >>> from xmlpunct.schema import Schema
    >>> s = Schema.parse("hour INT, min INT")
    >>> others = Others(s)
    >>> others.add(Punctuation.of(s, hour="(,5]", min="(,29]"))
    True
    >>> others.mask(s.frame([(5, 7), (5, 30)])).to_list()
    [True, False]
    """

    def mask(self, tuples: pl.DataFrame) -> pl.Series:
        tests = pl.any_horizontal([match_expression(p) for p in self])
        # The literal of the end has one row; selecting a column with it broadcasts it to all tuples.
        return tuples.select(tests.alias("$hit"), *tuples.columns[:1])["$hit"]

    def matched(self, tuples: pl.DataFrame) -> PunctuationBatch:
        tests = [match_expression(p).any().alias(str(i)) for i, p in enumerate(self)]
        hits = tuples.select(tests).row(0)
        return PunctuationBatch(p for p, hit in zip(self, hits, strict=True) if hit)
