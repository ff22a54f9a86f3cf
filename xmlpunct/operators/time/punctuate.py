"""punctuate: punctuations that follow from a declared order, for a stream that has none of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import polars as pl

from xmlpunct.expressions.exclusions import news, only_within
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.state import State, StateCell
from xmlpunct.operators.time.access_order import AccessOrder, sender_maxima
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.types import INT, STRING
from xmlpunct.types.pattern import constant, interval, values


class Punctuate(Operator):
    """Rejects tuples that are too far out of order, and emits punctuations that close their values.

    A tuple is late iff its value < (the maximum of all earlier values) - slack. The operator emits
    ``(, maximum - slack)``. Nulls neither raise the maximum nor are late. With senders, each sender has its own order:
    its punctuations constrain the sender, and the bound that all senders have reached is emitted for the stream.
    Tuples of a sender that is not listed are rejected, and are closed from the start.

    A watermark includes its bound: a value <= (the maximum of all earlier values) - slack is late, and the operator
    emits ``(, maximum - slack]``.

    The tuples must arrive in document order.

    - cpass   = [t | t in ts, not late(t)]
    - cprop   = ps ++ [<(, max(ts) - slack)>]
    - ckeep   = []

    See semantics 4.14.

    >>> from xmlpunct.operators.notation import show
    >>> show(Punctuate(Schema.parse("t INT"), AccessOrder("t", slack=2)), "5; 4; 2; 7")
    5; 4; 2; 7 -> 5; 4; 7; P((,4])
    """

    name = "punctuate"
    speaks = True

    def __init__(self, schema: Schema, order: AccessOrder) -> None:
        attributes = list(schema)
        if order.sender_column is not None:
            position = schema.index(order.sender_column)
            listed = values(schema[order.sender_column].type, order.senders)
            attributes[position] = replace(attributes[position], nullable=False, domain=listed)
        super().__init__((schema,), Schema.of(attributes))
        self.order, self._type = order, schema[order.attribute].type
        if self._type is STRING and order.slack:
            raise ValueError("SLACK makes no sense over STRING")
        sender = schema[order.sender_column].type.dtype if order.sender_column is not None else pl.Int32()
        self._reached = StateCell(pl.DataFrame(schema={"sender": sender, "value": self._type.dtype}))
        self._emitted = StateCell(self._reached.value)  # the maxima at the last emitted punctuation
        self.state = State(reached=self._reached, said=self._emitted)

    def opening(self) -> list[Punctuation]:
        """Punctuations that close all senders that are not listed."""
        column = self.order.sender_column
        return (
            []
            if column is None
            else news(self.inputs[0], only_within(self.schema, column, self.schema[column].domain))
        )

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        order, sender = self.order, pl.lit(0, dtype=pl.Int32())
        if order.sender_column is not None:
            sender = pl.col(order.sender_column)
            listed = pl.Series(order.senders, dtype=self.schema[order.sender_column].type.dtype).implode()
            is_unlisted = pl.when(~sender.is_in(listed).fill_null(False))
            reason = is_unlisted.then(pl.lit(f"{order.sender_column} is not a listed sender"))
            tuples = self.reject_failures(tuples, tuples.select(reason).to_series())
        sender_values = tuples.select(sender.alias("sender"), pl.col(order.attribute).alias("value"))
        earlier, self._reached.value = sender_maxima(self._reached.value, sender_values)
        late = pl.when(order.is_late(self._type, tuples[order.attribute], earlier))
        problem = "not above the watermark" if order.watermark else "out of order by more than its slack"
        reason = late.then(pl.lit(f"late: {order.attribute} is {problem}"))
        return self.reject_failures(tuples, pl.select(reason).to_series())

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        punctuations = [*batch.rename(self.schema), *self._new_bounds()]
        self._emitted.value = self._reached.value
        return self.schema.empty(), PunctuationBatch(p for p in punctuations if not p.is_empty)

    def _new_bounds(self) -> Iterator[Punctuation]:
        """Punctuations for the bounds of each sender, and of all, that have risen since the last emitted ones."""
        column = self.order.sender_column
        old, new = self._bounds(self._emitted.value), self._bounds(self._reached.value)
        for sender, bound in new.items():
            if self._has_risen(old.get(sender), bound):
                patterns = {} if column is None else {column: constant(self.schema[column].type, sender)}
                yield self._below(bound, **patterns)
        if column is not None:
            lowest = self.order.lowest(self._type, new)
            if self._has_risen(self.order.lowest(self._type, old), lowest):
                yield self._below(lowest)

    def _bounds(self, reached: pl.DataFrame) -> dict[Any, Any]:
        """For each sender its maximum less the slack; omitted if that is below all values."""
        type_ = INT if self.order.sender_column is None else self.schema[self.order.sender_column].type
        return {
            type_.accept(sender): bound  # a canonical NaN, which equals itself
            for sender, value in reached.iter_rows()
            if (bound := self.order.bound(self._type, value)) is not None
        }

    def _has_risen(self, old: Any, new: Any) -> bool:
        return new is not None and (old is None or self._type.key(old) != self._type.key(new))

    def _below(self, bound: Any, **patterns: Any) -> Punctuation:
        below = interval(self._type, None, bound, False, self.order.watermark)
        return Punctuation.of(self.schema, **{self.order.attribute: below, **patterns})
