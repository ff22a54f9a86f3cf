"""What an operator retains, in outline: small enough to travel with the statistics, whatever there is."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.group.open_groups import Groups
from xmlpunct.operators.state import State
from xmlpunct.schema.change_columns import AT

MOST = 1_000
"""So many boxes are kept of an arrangement; where there are more distinct tuples, one box stands for all."""
_LOOKED_AT = 16 * MOST
"""Of more rows than this the distinct ones are not looked for, which takes longer than finding bounds."""
HIGH, NULL, COUNT = "$high", "$null", "$count"
"""A box has, for each column, the least value under its own name, the greatest with `HIGH` behind that, and whether
null is there with `NULL`; and how many rows are in it."""

EVERYTHING = "*"
"""All parts of a state."""

Outline = dict[str, pl.DataFrame]
"""For each part of a state that holds tuples the boxes around them."""


def outline(state: State) -> Outline:
    """The boxes around the tuples, or groups, that a state has.

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
    columns = columns_of(arrangement)
    if arrangement.height <= _LOOKED_AT:
        return boxes(arrangement.frame, columns)
    return around(pl.concat([around_all(page, columns) for page in arrangement.pages()]), columns)


def columns_of(arrangement: Arrangement) -> list[str]:
    """The attributes among the columns of an arrangement; of groups, those they are told apart by."""
    if isinstance(arrangement, Groups):
        return list(arrangement.keys.names)
    return [
        name
        for name, type_ in arrangement.empty.schema.items()
        if not ((name.startswith("$") and name != AT) or type_.is_nested())
    ]


def boxes(tuples: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Boxes around tuples: one for each distinct one, or if these are too many, one for all."""
    if columns:
        distinct = tuples.group_by(columns, maintain_order=True).agg(pl.len().cast(pl.Int64()).alias(COUNT))
        if distinct.height <= MOST:
            return distinct.select(*(e for name in columns for e in _of_each(name)), COUNT)
    return around_all(tuples, columns)


def around_all(tuples: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """One box around tuples."""
    whole = [e for c in columns for e in _of_all(c, c, pl.col(c).is_null().any(), tuples.schema[c])]
    return tuples.select(*whole, pl.len().cast(pl.Int64()).alias(COUNT))


def around(some: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """One box around boxes."""
    whole = [e for c in columns for e in _of_all(c, c + HIGH, pl.col(c + NULL).any(), some.schema[c])]
    return some.select(*whole, pl.col(COUNT).sum())


def _of_each(name: str) -> list[pl.Expr]:
    column = pl.col(name)
    return [column, column.alias(name + HIGH), column.is_null().alias(name + NULL)]


def _of_all(name: str, high: str, null: pl.Expr, type_: pl.DataType) -> list[pl.Expr]:
    highest = pl.col(high).max()
    if type_ == pl.Float64():  # NaN is the greatest, and polars leaves it out
        highest = pl.when(pl.col(high).is_nan().any()).then(float("nan")).otherwise(highest)
    return [pl.col(name).min(), highest.alias(name + HIGH), null.alias(name + NULL)]
