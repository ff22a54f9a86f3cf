"""What the joins share: which values of the join attributes each input has closed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_

import polars as pl

from xmlpunct.base.frames import any_of
from xmlpunct.expressions.exclusions import outside
from xmlpunct.expressions.expression import Expression
from xmlpunct.expressions.program import non_null
from xmlpunct.punctuations.alignment import Alignment
from xmlpunct.punctuations.ownership import Ownership, Ways
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute

LEFT, RIGHT = SIDES = 0, 1
Equalities = Sequence[tuple[str, str]]
"""Pairs of a left and a right attribute."""


class JoinKeys:
    """The equality attributes k of a join: ``pairs`` of a left and a right attribute of one type, each in one pair.

    ``alignment`` holds the values of k that each input has closed (the paper's joinPs), as punctuations over k. They
    go when the other input has closed them too: then no tuple can ask for them. A null equals nothing and never asks.
    But only ``*`` promises away a preserved side's tuples with a null, and ``(,)`` does not. So k is NOT NULL only if
    both inputs declare it.
    """

    def __init__(self, inputs: tuple[Schema, Schema], pairs: Equalities) -> None:
        self.names = [[pair[port] for pair in pairs] for port in (LEFT, RIGHT)]
        self.places = [[inputs[port].index(n) for n in self.names[port]] for port in (LEFT, RIGHT)]
        for names in self.names:
            if len(set(names)) < len(names):
                # What closes a value of the attribute would be taken to close one of the other equality.
                raise ValueError("an attribute is in one equality only: the others are a residual's")
        for left, right in pairs:
            if inputs[LEFT][left].type != inputs[RIGHT][right].type:
                raise ValueError(f"{left} and {right} are not of one type: CAST one of them")
        self.schema = Schema.of(
            Attribute(f"$k{i}", inputs[LEFT][a].type, inputs[LEFT][a].nullable or inputs[RIGHT][b].nullable)
            for i, (a, b) in enumerate(pairs)
        )
        self.alignment = Alignment(self.schema, 2)
        self._never = [PunctuationSet(self.schema, self._outside(inputs[port], port)) for port in SIDES]

    def _outside(self, schema: Schema, port: int) -> Iterator[Punctuation]:
        """Punctuations over k about what an input's declared domains leave out."""
        for name, key in zip(self.names[port], self.schema.names, strict=True):
            yield from outside(self.schema, key, schema[name].domain)

    def spread(self, ways: Ways, sifted: bool) -> None:
        """As `Operator.spread`."""
        self.alignment.spread(Ownership(self.schema, self._renamed(ways, self.schema.names), sifted))

    def ways_of(self, port: int, ways: Ways) -> Ways:
        """Ways by keys as ones by an input's names of them."""
        return self._renamed(ways, self.names[port])

    def _renamed(self, ways: Ways, to: Sequence[str]) -> Ways:
        """``ways`` have names of either input; those of keys alone count."""
        keys = {n: key for names in self.names for n, key in zip(names, to, strict=True)}
        return [[keys[name] for name in way] for way in ways if keys.keys() >= set(way)]

    def closed(self, port: int, p: Punctuation) -> PunctuationBatch:
        """What an input has closed that overlaps a punctuation of the other one."""
        over = p.rebase(self.schema, self.places[1 - port])
        current = self.alignment.inputs[port].overlapping(over)
        return PunctuationBatch([*current, *self.alignment.past[port].overlapping(over)])

    def add(self, port: int, closed: PunctuationBatch) -> None:
        """Remember what an input has closed: new ones over k. Nobody asks once the other one has ended."""
        if not self.alignment.heeds and self.alignment.passes(port):
            closed = PunctuationBatch([Punctuation.everything(self.schema)] if closed.has_end else [])
        self.alignment.update(port, closed)

    def closed_by(self, port: int, of: int, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple of input ``of``, whether input ``port`` has closed its k, or never has it."""
        closed = [said for said in (self.alignment.inputs[port], self._never[port]) if len(said)]
        if not closed or not self.schema.names:  # without attributes only everything can be closed
            return pl.Series([bool(closed)]).new_from_index(0, tuples.height)
        named = zip(self.names[of], self.schema.names, strict=True)
        keys = tuples.with_columns(pl.col(name).alias(key) for name, key in named)
        return any_of([said.mask(keys) for said in closed], tuples.height)

    def moved(self, over: PunctuationBatch, schema: Schema, port: int) -> PunctuationBatch:
        """Punctuations over k as ones of a schema with an input's names of k."""
        at = {name: i for i, name in enumerate(self.names[port])}
        return over.rebase(schema, [at.get(name) for name in schema.names])

    def without_nulls(self, schema: Schema, residual: Expression | None, side: int = LEFT) -> Schema:
        """A schema of tuples with a partner: k is NOT NULL, and what is not null where ``residual`` is true."""
        schema = schema.without_nulls(self.names[side])
        return schema if residual is None else schema.without_nulls(non_null(residual).true)

    def has_null(self, port: int, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple, whether its k has a null, so that it matches nothing."""
        nothing = pl.Series([False]).new_from_index(0, tuples.height)
        return reduce(or_, (tuples[name].is_null() for name in self.names[port]), nothing)
