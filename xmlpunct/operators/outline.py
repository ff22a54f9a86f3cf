"""What an operator retains, in outline: small enough to travel with the statistics, whatever there is."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xmlpunct.changes import AT
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.groups import Groups
from xmlpunct.operators.state import State

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
    return {name: boxes(a.frame, columns_of(a)) for name, a in arrangements.items() if a.height}


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
    tuples = tuples.select(columns) if columns else tuples.select(pl.lit(0).alias(COUNT))
    if columns and tuples.height <= _LOOKED_AT:
        distinct = tuples.group_by(columns, maintain_order=True).agg(pl.len().cast(pl.Int64()).alias(COUNT))
        if distinct.height <= MOST:
            return distinct.select(*(e for c in columns for e in _of_each(c)), COUNT)
    whole = [e for c in columns for e in _of_all(c, tuples.schema[c])]
    return tuples.select(*whole, pl.len().cast(pl.Int64()).alias(COUNT))


def _of_each(name: str) -> list[pl.Expr]:
    column = pl.col(name)
    return [column, column.alias(name + HIGH), column.is_null().alias(name + NULL)]


def _of_all(name: str, type_: pl.DataType) -> list[pl.Expr]:
    column = pl.col(name)
    highest = column.max()
    if type_ == pl.Float64():  # NaN is the greatest, and polars leaves it out
        highest = pl.when(column.is_nan().any()).then(float("nan")).otherwise(highest)
    return [column.min(), highest.alias(name + HIGH), column.is_null().any().alias(name + NULL)]
