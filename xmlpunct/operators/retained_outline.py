"""An outline of an operator's state: bounding boxes of its tuples, small enough to travel with the statistics."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.group.open_groups import Groups
from xmlpunct.operators.state import State
from xmlpunct.schema.change_columns import AT

MOST = 1_000
"""The most boxes for an arrangement. If there are more distinct tuples, one box covers all."""
_MOST_ROWS_SEARCHED = 16 * MOST
"""The most rows that are searched for distinct tuples, which takes longer than computing bounds."""
HIGH, NULL, COUNT = "$high", "$null", "$count"
"""The columns of a box. Each attribute has its least value (under its own name), its greatest value (suffix `HIGH`) and
whether it is null in a row (suffix `NULL`). `COUNT` is the number of rows in the box."""

EVERYTHING = "*"
"""Stands for all parts of a state."""

Outline = dict[str, pl.DataFrame]
"""The boxes around the tuples of each part of a state."""


def outline(state: State) -> Outline:
    """The boxes around the tuples, or groups, of a state.

    >>> from xmlpunct.schema import Schema
    >>> s = Schema.parse("sid STRING, hour INT")
    >>> waiting = Arrangement(s.empty(), s.names)
    >>> waiting.append(s.frame([("S1", 5), ("S2", None)]))
    >>> outline(State(waiting=waiting))["waiting"].select("sid", "hour", "hour$high", "hour$null").rows()
    [('S1', 5, 5, False), ('S2', None, None, True)]
    """
    arrangements = {name: part for name, part in state.parts.items() if isinstance(part, Arrangement)}
    return {name: _of_arrangement(a) for name, a in arrangements.items() if a.height}


def _of_arrangement(arrangement: Arrangement) -> pl.DataFrame:
    columns = arrangement_columns(arrangement)
    if arrangement.height <= _MOST_ROWS_SEARCHED:
        return boxes(arrangement.frame, columns)
    return around(pl.concat([around_all(page, columns) for page in arrangement.pages()]), columns)


def arrangement_columns(arrangement: Arrangement) -> list[str]:
    """The attributes among the columns of an arrangement; for groups, the grouping attributes."""
    if isinstance(arrangement, Groups):
        return list(arrangement.keys.names)
    return [
        name
        for name, type_ in arrangement.empty.schema.items()
        if not ((name.startswith("$") and name != AT) or type_.is_nested())
    ]


def boxes(tuples: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Boxes around tuples: one for each distinct tuple, or one for all if there are more than `MOST`."""
    if columns:
        distinct = tuples.group_by(columns, maintain_order=True).agg(pl.len().cast(pl.Int64()).alias(COUNT))
        if distinct.height <= MOST:
            return distinct.select(*(e for name in columns for e in _bounds_of_each(name)), COUNT)
    return around_all(tuples, columns)


def around_all(tuples: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """One box around tuples."""
    bounds = [e for c in columns for e in _bounds_of_all(c, c, pl.col(c).is_null().any(), tuples.schema[c])]
    return tuples.select(*bounds, pl.len().cast(pl.Int64()).alias(COUNT))


def around(boxes_: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """One box around boxes."""
    bounds = [
        e for c in columns for e in _bounds_of_all(c, c + HIGH, pl.col(c + NULL).any(), boxes_.schema[c])
    ]
    return boxes_.select(*bounds, pl.col(COUNT).sum())


def _bounds_of_each(name: str) -> list[pl.Expr]:
    column = pl.col(name)
    return [column, column.alias(name + HIGH), column.is_null().alias(name + NULL)]


def _bounds_of_all(name: str, high: str, null: pl.Expr, type_: pl.DataType) -> list[pl.Expr]:
    highest = pl.col(high).max()
    if type_ == pl.Float64():  # NaN is the greatest, and polars leaves it out
        highest = pl.when(pl.col(high).is_nan().any()).then(float("nan")).otherwise(highest)
    return [pl.col(name).min(), highest.alias(name + HIGH), null.alias(name + NULL)]
