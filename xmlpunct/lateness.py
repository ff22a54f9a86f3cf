"""Lateness: which tuples of a stream came after a punctuation that matches them."""

from __future__ import annotations

from functools import reduce
from operator import or_

import polars as pl

from xmlpunct.coverage import Coverage
from xmlpunct.patterns import Constant
from xmlpunct.punctset import match_expression
from xmlpunct.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

_ROW = "$row"


class Lateness:
    """Judges the slices of one source, in order and by document position, as a grammatical stream demands.

    What was said is remembered as `Coverage` does, ``most`` included.
    """

    def __init__(self, schema: Schema, most: int = 1_000_000) -> None:
        self.schema = schema
        self.said = Coverage(schema, most)

    def judge(self, given: Slice) -> pl.Series:
        """For each tuple of the next slice, whether it is late."""
        late = self.said.mask(given.tuples)
        inside = [
            (before, p)
            for before, p in zip(given.before, given.punctuations, strict=True)
            if before < given.tuples.height
        ]
        if inside:
            late = late | self._inside(given.tuples, inside)
        self.said.add(given.punctuations)
        return late

    def _inside(self, tuples: pl.DataFrame, said: list[tuple[int, Punctuation]]) -> pl.Series:
        """For each tuple, whether it stands behind a punctuation of the same slice that matches it."""
        late = pl.Series([False]).new_from_index(0, tuples.height)
        numbered = tuples.with_row_index(_ROW)
        tables: dict[tuple[int, ...], list[tuple[object, ...]]] = {}
        tests: list[pl.Expr] = []
        for before, p in said:
            places = p.constrained
            patterns = [p.patterns[i] for i in places]
            if places and all(isinstance(q, Constant) for q in patterns):
                values = [q.value for q in patterns if isinstance(q, Constant)]
                tables.setdefault(places, []).append((*values, before))
            else:
                tests.append(match_expression(p) & (pl.col(_ROW) >= before))
        if tests:
            late = late | numbered.select(reduce(or_, tests).alias("late"))["late"]
        for places, rows in tables.items():
            names = [self.schema.names[i] for i in places]
            dtypes = {name: self.schema[name].type.dtype for name in names}
            firsts = pl.DataFrame(rows, schema={**dtypes, "$before": pl.UInt32()}, orient="row")
            firsts = firsts.group_by(names).agg(pl.col("$before").min())
            found = numbered.select(_ROW, *names).join(firsts, on=names, how="inner")
            behind = found.filter(pl.col(_ROW) >= pl.col("$before"))[_ROW]
            late = late.scatter(behind, True) if behind.len() else late
        return late
