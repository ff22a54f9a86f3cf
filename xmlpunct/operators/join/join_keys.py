"""The equality attributes of a join, and the values of them that each input has closed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_

import polars as pl

from xmlpunct.base.frames import any_of
from xmlpunct.expressions.exclusions import only_within
from xmlpunct.expressions.expression import Expression
from xmlpunct.expressions.program import non_null
from xmlpunct.punctuations.alignment import Alignment
from xmlpunct.punctuations.ownership import KeyPath
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.punctuations.single_attribute import widest
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute

LEFT, RIGHT = SIDES = 0, 1
Equalities = Sequence[tuple[str, str]]
"""Pairs of a left and a right attribute."""


class JoinKeys:
    """The equality attributes k of a join: ``pairs`` of a left and a right attribute of one type, each in one pair.

    ``alignment`` holds the values of k that each input has closed (the paper's joinPs), as punctuations over k. A value
    is dropped when the other input has closed it too: then no tuple can have it. A null equals nothing and needs no
    closed value. But a preserved side's tuples with a null are closed by ``*`` only, and not by ``(,)``. So k is NOT
    NULL only if both inputs declare it.
    """

    def __init__(self, inputs: tuple[Schema, Schema], pairs: Equalities) -> None:
        self.names = [[pair[port] for pair in pairs] for port in (LEFT, RIGHT)]
        self.positions = [[inputs[port].index(n) for n in self.names[port]] for port in (LEFT, RIGHT)]
        for names in self.names:
            if len(set(names)) < len(names):
                # A closed value of the attribute would also count as one of the other equality.
                raise ValueError(
                    "each attribute can be in one equality only: put further ones into the residual"
                )
        for left, right in pairs:
            if inputs[LEFT][left].type != inputs[RIGHT][right].type:
                raise ValueError(f"{left} and {right} have different types: CAST one of them")
        self.schema = Schema.of(
            Attribute(f"$k{i}", inputs[LEFT][a].type, inputs[LEFT][a].nullable or inputs[RIGHT][b].nullable)
            for i, (a, b) in enumerate(pairs)
        )
        self.alignment = Alignment(self.schema, 2)
        self._never = [
            PunctuationSet(self.schema, self._impossible_keys(inputs[port], port)) for port in SIDES
        ]

    def _impossible_keys(self, schema: Schema, port: int) -> Iterator[Punctuation]:
        """Punctuations over k on the values outside of an input's declared domains."""
        for name, key in zip(self.names[port], self.schema.names, strict=True):
            yield from only_within(self.schema, key, schema[name].domain)

    @property
    def key_path(self) -> KeyPath:
        """The alignment, with its names of k."""
        return self.alignment, self.renaming(self.schema.names)

    def renaming(self, new_names: Sequence[str]) -> dict[str, str]:
        """A mapping from both inputs' names of k to new names of k."""
        return {old: new for names in self.names for old, new in zip(names, new_names, strict=True)}

    def closed(self, port: int, p: Punctuation) -> PunctuationBatch:
        """The closed values of an input that overlap a punctuation of the other input, as punctuations over k."""
        over = p.rebase(self.schema, self.positions[1 - port])
        current = self.alignment.inputs[port].overlapping(over)
        return PunctuationBatch([*current, *self.alignment.past[port].overlapping(over)])

    def add(self, port: int, closed: PunctuationBatch) -> None:
        """Retain newly closed values of an input, as punctuations over k; not needed once the other input has ended."""
        if not self.alignment.ownership and self.alignment.passes(port):
            closed = PunctuationBatch([Punctuation.everything(self.schema)] if closed.has_end else [])
        self.alignment.update(port, widest(closed))

    def closed_by(self, port: int, side: int, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple of input ``side``, whether input ``port`` has closed its k, or cannot have it."""
        closed = [values for values in (self.alignment.inputs[port], self._never[port]) if len(values)]
        if not closed or not self.schema.names:  # without attributes only everything can be closed
            return pl.Series([bool(closed)]).new_from_index(0, tuples.height)
        named = zip(self.names[side], self.schema.names, strict=True)
        keys = tuples.with_columns(pl.col(name).alias(key) for name, key in named)
        return any_of([values.mask(keys) for values in closed], tuples.height)

    def to_schema(self, over: PunctuationBatch, schema: Schema, port: int) -> PunctuationBatch:
        """Punctuations over k as punctuations of a schema with an input's names of k."""
        positions = {name: i for i, name in enumerate(self.names[port])}
        return over.rebase(schema, [positions.get(name) for name in schema.names])

    def without_nulls(self, schema: Schema, residual: Expression | None) -> Schema:
        """The schema of tuples with a partner: k, and attributes that ``residual`` requires, are NOT NULL."""
        schema = schema.without_nulls(self.names[LEFT])
        return schema if residual is None else schema.without_nulls(non_null(residual).true)

    def has_null(self, port: int, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple, whether its k has a null, so that it has no partner."""
        no_nulls = pl.Series([False]).new_from_index(0, tuples.height)
        return reduce(or_, (tuples[name].is_null() for name in self.names[port]), no_nulls)
