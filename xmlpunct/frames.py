"""Joins of data frames by the values of columns, as we mean equality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import polars as pl

from xmlpunct.doubles import bits

Order = Literal["none", "left", "left_right"]

Snapshot = Mapping[str, pl.DataFrame]
"""State as named data frames, enough to restore it."""


def join(
    left: pl.DataFrame,
    right: pl.DataFrame,
    on: Sequence[str],
    how: Literal["inner", "left", "semi", "anti"],
    *,
    right_on: Sequence[str] | None = None,
    nulls_equal: bool = False,
    order: Order = "none",
) -> pl.DataFrame:
    """`polars.DataFrame.join` by the columns ``on`` (in ``right``: ``right_on``), in which NaN equals NaN.

    DOUBLEs are joined by their bits. polars marks a column as sorted that is one row, or that is concatenated
    from such in order, and an inner or left join on one marked column merges instead of hashing: there it
    takes NaN for equal to nothing. Over integers, which bits are, both ways are right.
    """
    left_on, right_on = list(on), list(right_on or on)
    words = []
    for i, (mine, its) in enumerate(zip(left_on, right_on, strict=True)):
        if left[mine].dtype == pl.Float64:
            word = f"$word{i}"
            left = left.hstack([bits(word, left[mine])])
            right = right.clone().replace_column(right.get_column_index(its), bits(its, right[its]))
            left_on[i] = word
            words.append(word)
    pairs = left.join(
        right, left_on=left_on, right_on=right_on, how=how, nulls_equal=nulls_equal, maintain_order=order
    )
    for word in words:
        pairs.drop_in_place(word)
    return pairs
