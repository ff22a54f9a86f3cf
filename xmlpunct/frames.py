"""Joins of data frames by the values of columns, as we mean equality."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import polars as pl

_ALIKE = "$alike"

Order = Literal["none", "left", "left_right"]


def join(
    left: pl.DataFrame,
    right: pl.DataFrame,
    on: Sequence[str],
    how: Literal["inner", "left"],
    *,
    right_on: Sequence[str] | None = None,
    nulls_equal: bool = False,
    order: Order = "none",
) -> pl.DataFrame:
    """`polars.DataFrame.join` by the columns ``on`` (in ``right``: ``right_on``), in which NaN equals NaN.

    polars says so too, but where each side is one row and there is one key, it does otherwise; so there are two.
    """
    left_on, right_on = list(on), list(right_on or on)
    alone = left.height == right.height == len(left_on) == 1
    if alone:
        left, right = (side.with_columns(pl.lit(True).alias(_ALIKE)) for side in (left, right))
        left_on, right_on = [*left_on, _ALIKE], [*right_on, _ALIKE]
    found = left.join(
        right, left_on=left_on, right_on=right_on, how=how, nulls_equal=nulls_equal, maintain_order=order
    )
    return found.drop(_ALIKE) if alone else found
