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
"""A slice is judged in pieces, each cut after so many punctuations with ranges or lists.

Each is compared with all tuples of its piece, so without pieces the work grows with the product of both. No benchmark
tells sizes from 8 to 64 apart.
"""

Said = tuple[int, Punctuation]
"""A punctuation behind the number of tuples before it."""


class Lateness:
    """Judges the slices of one source, in order and by document position, as a grammatical stream demands.

    `Promised` remembers what was said; ``most`` is its limit.
    """

    def __init__(self, schema: Schema, most: int = 1_000_000) -> None:
        self.schema = schema
        self.said = Promised(schema, most)

    def judge(self, given: Slice) -> pl.Series:
        """For each tuple of the next slice the scheme of a punctuation that it violates; null if there is none.

        The scheme is that of `Promised.schemes`, so it does not depend on how the stream was cut.
        """
        judged = [self._judge(tuples, said) for tuples, said in _pieces(given)]
        return pl.concat(judged) if len(judged) > 1 else judged[0]

    def _judge(self, tuples: pl.DataFrame, said: list[Said]) -> pl.Series:
        late_by = self.said.schemes(tuples)
        schemes: dict[tuple[int, ...], list[Said]] = {}
        for before, p in said:
            if before < tuples.height:
                schemes.setdefault(p.constrained, []).append((before, p))
        numbered = tuples.with_row_index(_ROW) if schemes else tuples
        for places, some in schemes.items():
            late = _behind(self.schema, numbered, places, some)
            late_by = earliest(late_by, late, scheme_of(self.schema, places))
        self.said.add(p for _, p in said)
        return late_by


def _pieces(given: Slice) -> Iterator[tuple[pl.DataFrame, list[Said]]]:
    """A slice in pieces, each with its tuples and its punctuations: about `_PIECE` that are tried singly."""
    start, count, said = 0, 0, list[Said]()
    for before, p in zip(given.before, given.punctuations, strict=True):
        if count == _PIECE and before > start:
            yield given.tuples[start:before], said
            start, count, said = before, 0, []
        said.append((before - start, p))
        count += p.constants is None
    yield given.tuples[start:], said


def _behind(schema: Schema, numbered: pl.DataFrame, places: tuple[int, ...], said: list[Said]) -> pl.Series:
    """For each tuple, whether it stands behind a punctuation that matches it. All constrain the same attributes."""
    late = any_of([], numbered.height)
    tests = [match_expression(p) & (pl.col(_ROW) >= before) for before, p in said if p.constants is None]
    if tests:
        late = late | numbered.select(pl.any_horizontal(tests)).to_series()
    rows = [
        (*(getattr(p.patterns[i], "value") for i in places), before)  # noqa: B009 - all are constants
        for before, p in said
        if p.constants is not None
    ]
    if rows:
        names = [schema.names[i] for i in places]
        dtypes = {name: schema[name].type.dtype for name in names}
        firsts = pl.DataFrame(rows, schema={**dtypes, _BEFORE: pl.UInt32()}, orient="row")
        firsts = firsts.group_by(names).agg(pl.col(_BEFORE).min())
        matches = join(numbered.select(_ROW, *names), firsts, names, "inner")
        behind = matches.filter(pl.col(_ROW) >= pl.col(_BEFORE))[_ROW]
        late = late.scatter(behind, True) if behind.len() else late
    return late


def violated(schema: Schema, row: Mapping[str, object], scheme: str) -> Punctuation:
    """What a late tuple violates: the punctuation of ``scheme`` at the tuple's own values.

    The stream's punctuations, alone or fused, cover it.
    """
    names = set(scheme.split(",")) if scheme else set()
    return Punctuation(
        schema, [constant(a.type, row[a.name]) if a.name in names else WILDCARD for a in schema]
    )


def reason(schema: Schema, row: Mapping[str, object], scheme: str) -> str:
    """Why a late tuple is rejected."""
    return f"late: {violated(schema, row, scheme)} was closed before it"
