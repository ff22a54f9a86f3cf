"""Lateness: which tuples of a stream came after a punctuation that matches them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from xmlpunct.base.frames import any_of, join
from xmlpunct.punctuations.pattern_expressions import match_expression
from xmlpunct.punctuations.promised import Promised, earliest, scheme_of
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice
from xmlpunct.types.pattern import WILDCARD, constant

_ROW, _BEFORE = "$row", "$before"
_PIECE = 64
"""A slice is judged in pieces, each with about this number of punctuations with ranges or lists.

Each punctuation is compared with all tuples of its piece, so without pieces the work grows with the product of the two
numbers. Benchmarks show no difference between sizes from 8 to 64.
"""

PlacedPunctuation = tuple[int, Punctuation]
"""The number of tuples before a punctuation, and the punctuation."""


class Lateness:
    """Finds the late tuples in the slices of one source, which it receives in order.

    A tuple is late if a punctuation before it in the document matches it. `Promised` retains the punctuations received
    so far.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.promised = Promised(schema, most=1_000_000)

    def judge(self, slice_: Slice) -> pl.Series:
        """For each tuple of the next slice the scheme of a punctuation that it violates; null if there is none.

        The scheme is that of `Promised.schemes`, so it does not depend on how the stream was cut into slices.
        """
        judged = [self._judge(tuples, punctuations) for tuples, punctuations in _pieces(slice_)]
        return pl.concat(judged) if len(judged) > 1 else judged[0]

    def _judge(self, tuples: pl.DataFrame, punctuations: list[PlacedPunctuation]) -> pl.Series:
        late_by = self.promised.schemes(tuples)
        schemes: dict[tuple[int, ...], list[PlacedPunctuation]] = {}
        for before, p in punctuations:
            if before < tuples.height:
                schemes.setdefault(p.constrained, []).append((before, p))
        numbered = tuples.with_row_index(_ROW) if schemes else tuples
        for constrained, group in schemes.items():
            late = _is_late(self.schema, numbered, constrained, group)
            late_by = earliest(late_by, late, scheme_of(self.schema, constrained))
        self.promised.add(p for _, p in punctuations)
        return late_by


def _pieces(slice_: Slice) -> Iterator[tuple[pl.DataFrame, list[PlacedPunctuation]]]:
    """A slice in pieces: the tuples and punctuations of each. About `_PIECE` of these are compared one by one."""
    start, count, punctuations = 0, 0, list[PlacedPunctuation]()
    for before, p in zip(slice_.before, slice_.punctuations, strict=True):
        if count >= _PIECE and before > start:
            yield slice_.tuples[start:before], punctuations
            start, count, punctuations = before, 0, []
        punctuations.append((before - start, p))
        count += p.constants is None
    yield slice_.tuples[start:], punctuations


def _is_late(
    schema: Schema, numbered: pl.DataFrame, positions: tuple[int, ...], punctuations: list[PlacedPunctuation]
) -> pl.Series:
    """For each tuple, whether a punctuation before it matches it. All constrain the attributes at ``positions``."""
    late = any_of([], numbered.height)
    tests = [
        match_expression(p) & (pl.col(_ROW) >= before) for before, p in punctuations if p.constants is None
    ]
    if tests:
        late = late | numbered.select(pl.any_horizontal(tests)).to_series()
    rows = [
        (*(getattr(p.patterns[i], "value") for i in positions), before)  # noqa: B009 - all are constants
        for before, p in punctuations
        if p.constants is not None
    ]
    if rows:
        names = [schema.names[i] for i in positions]
        dtypes = {name: schema[name].type.dtype for name in names}
        first_closed = pl.DataFrame(rows, schema={**dtypes, _BEFORE: pl.UInt32()}, orient="row")
        first_closed = first_closed.group_by(names).agg(pl.col(_BEFORE).min())
        matches = join(numbered.select(_ROW, *names), first_closed, names, "inner")
        late_rows = matches.filter(pl.col(_ROW) >= pl.col(_BEFORE))[_ROW]
        late = late.scatter(late_rows, True) if late_rows.len() else late
    return late


def late_reason(schema: Schema, row: Mapping[str, object], scheme: str) -> str:
    """Why a late tuple is rejected: the punctuation of ``scheme`` with the tuple's values.

    The punctuations that the stream emitted before the tuple imply it.
    """
    names = set(scheme.split(","))
    hidden = {a.name for a in schema if a.name in names and a.hides(row[a.name])}
    shown = names - hidden
    p = Punctuation(schema, [constant(a.type, row[a.name]) if a.name in shown else WILDCARD for a in schema])
    return f"late: {p}{' at the start' if hidden else ''} was closed before it"
