"""What prefix punctuations say of each tuple: up to which instant it is closed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from xmlpunct.base.frames import join
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema.change_columns import AT
from xmlpunct.types.ordinals import Ordinals
from xmlpunct.types.pattern import WILDCARD, Constant

_BOUND = "$bound"


def for_ever(closed: PunctuationBatch) -> PunctuationBatch:
    """Those of some prefix punctuations that close tuples for ever."""
    if not len(closed):
        return closed
    at = closed.schema.index(AT)
    if closed.position is not None:
        return PunctuationBatch() if closed.position == at else closed
    return PunctuationBatch(p for p in closed if p.patterns[at] is WILDCARD)


def closed_bounds(closed: PunctuationBatch, tuples: pl.DataFrame, instants: Instants) -> Ordinals:
    """For each tuple the last instant of the prefix punctuations that match it; before all instants if none does.

    >>> from xmlpunct.schema.change_columns import changes
    >>> from xmlpunct.schema import Schema
    >>> from xmlpunct.types import INT
    >>> s = changes(Schema.parse("x INT"), INT)
    >>> closed = PunctuationBatch(Punctuation.parse(s, text) for text in ("<*, (,3], *>", "<7, (,5], *>"))
    >>> closed_bounds(closed, s.frame([(7, 0, 1), (8, 0, 1)]), Instants(INT)).tolist()
    [5, 3]
    """
    lowest = instants.type.ordinal(instants.type.lowest)
    bounds = np.full(tuples.height, lowest, np.int64)
    by_places: dict[Sequence[int], list[tuple[Punctuation, int]]] = {}
    for p in closed:
        at = p.schema.index(AT)
        q = p.with_pattern(at, WILDCARD)
        constants = all(isinstance(q.patterns[i], Constant) for i in q.constrained)
        by_places.setdefault(q.constrained if constants else (-1,), []).append(
            (q, instants.bound(p.patterns[at]))
        )
    for places, some in by_places.items():
        if not places:
            np.maximum(bounds, max(bound for _, bound in some), out=bounds)
        elif places == (-1,):
            for q, bound in some:
                hit = PunctuationSet(q.schema, [q]).mask(tuples).to_numpy()
                bounds[hit] = np.maximum(bounds[hit], bound)
        else:
            names = [closed.schema.names[i] for i in places]
            rows = [(*(getattr(q.patterns[i], "value") for i in places), bound) for q, bound in some]  # noqa: B009
            dtypes = {name: tuples.schema[name] for name in names}
            table = pl.DataFrame(rows, schema={**dtypes, _BOUND: pl.Int64()}, orient="row")
            table = table.group_by(names).agg(pl.col(_BOUND).max())
            found = join(tuples.select(names), table, names, "left", order="left")[_BOUND]
            np.maximum(bounds, found.fill_null(lowest).to_numpy(), out=bounds)
    return bounds
