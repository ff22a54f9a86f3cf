"""Ranks of values and cuts in a common order, so that numpy can search intervals of a dense type."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import polars as pl

from xmlpunct.base.arrow_memory import integers
from xmlpunct.types import DOUBLE, Type
from xmlpunct.types import cut_points as ct
from xmlpunct.types.cut_points import Cut
from xmlpunct.types.ordinals import Ordinals


def ranked(
    type_: Type, column: pl.Series, lows: list[Cut], highs: list[Cut]
) -> tuple[Ordinals, Ordinals, Ordinals]:
    """The ranks of a column's values, and the first and last ranks of the intervals.

    Values at which there are cuts have odd ranks; values between two of these have the even rank between them.
    """
    end = type_.ordinal(type_.highest) + 1 if type_.discrete else None
    keys = sorted({cut[1] for cut in (*lows, *highs) if cut[0] == 0} - {end})
    values_at = (
        [type_.at(key) for key in keys]
        if type_.discrete
        else [ct.value_at(type_, (0, key, 0)) for key in keys]
    )
    marks = pl.Series(values_at, dtype=type_.dtype)
    if type_ is DOUBLE:
        column, marks = (_in_total_order(values) for values in (column, marks))
    non_null = column.fill_null(marks[0]) if column.null_count() and len(marks) else column
    values = marks.search_sorted(non_null, side="left").to_numpy().astype(np.int64)
    values += marks.search_sorted(non_null, side="right").to_numpy()

    def rank(cut: Cut) -> int:
        side, key, after = cut
        return (side > 0) * (2 * len(keys) + 1) if side else 2 * bisect_left(keys, key) + 1 + after

    firsts = np.array([rank(low) for low in lows], np.int64)
    return values, firsts, np.array([rank(high) - 1 for high in highs], np.int64)


def _in_total_order(column: pl.Series) -> pl.Series:
    """DOUBLEs as integers in the same order, with NaN as the greatest."""
    # in numpy, because polars optimises + 0.0 away, and so keeps -0
    bits = (column.fill_nan(float("nan")).to_numpy() + 0.0).view(np.int64)
    return integers("", np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits))
