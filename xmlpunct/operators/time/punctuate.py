"""punctuate: promises made from what is known of a stream's order, where the stream makes none itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import polars as pl

from xmlpunct.expressions.exclusions import news, outside
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.state import Cell, State
from xmlpunct.operators.time.access_order import AccessOrder, advance
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.types import INT, STRING
from xmlpunct.types.pattern import constant, interval, values


class Punctuate(Operator):
    """Drops tuples that come too far out of order, and promises that none will come.

    A tuple is late iff its value < (the maximum of all earlier ones) - slack; then ``(, maximum - slack)`` is
    promised. Nulls neither advance nor are late. With senders each is in order by itself: its promise is
    about it alone, and what all have promised together is promised of the stream; a tuple of no listed sender
    is rejected, and that none comes is promised from the start.

    A watermark includes its bound: late is a value <= (the maximum of all earlier ones) - slack, and
    ``(, maximum - slack]`` is promised.

    The tuples must come in document order.

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
        if order.by is not None:
            place = schema.index(order.by)
            listed = values(schema[order.by].type, order.senders)
            attributes[place] = replace(attributes[place], nullable=False, domain=listed)
        super().__init__((schema,), Schema.of(attributes))
        self.order, self._type = order, schema[order.attribute].type
        if self._type is STRING and order.slack:
            raise ValueError("SLACK makes no sense over STRING")
        sender = schema[order.by].type.dtype if order.by is not None else pl.Int32()
        self._reached = Cell(pl.DataFrame(schema={"sender": sender, "value": self._type.dtype}))
        self._said = Cell(self._reached.value)  # what was reached when the last promise was made
        self.state = State(reached=self._reached, said=self._said)

    def opening(self) -> list[Punctuation]:
        """That no sender comes who is not listed."""
        by = self.order.by
        return [] if by is None else news(self.inputs[0], outside(self.schema, by, self.schema[by].domain))

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        order, sender = self.order, pl.lit(0, dtype=pl.Int32())
        if order.by is not None:
            sender = pl.col(order.by)
            listed = pl.Series(order.senders, dtype=self.schema[order.by].type.dtype).implode()
            stranger = pl.when(~sender.is_in(listed).fill_null(False))
            told = stranger.then(pl.lit(f"{order.by} is not a listed sender"))
            tuples = self.reject_failures(tuples, tuples.select(told).to_series())
        seen = tuples.select(sender.alias("sender"), pl.col(order.attribute).alias("value"))
        earlier, self._reached.value = advance(self._reached.value, seen)
        late = pl.when(order.is_late(self._type, tuples[order.attribute], earlier))
        why = "not above the watermark" if order.watermark else "out of order by more than its slack"
        told = late.then(pl.lit(f"late: {order.attribute} is {why}"))
        return self.reject_failures(tuples, pl.select(told).to_series())

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        promised = [*batch.rename(self.schema), *self._news()]
        self._said.value = self._reached.value
        return self.schema.empty(), PunctuationBatch(p for p in promised if not p.is_empty)

    def _news(self) -> Iterator[Punctuation]:
        """What has been reached since the last promise, by each sender and by all."""
        by, before, now = self.order.by, self._bounds(self._said.value), self._bounds(self._reached.value)
        for sender, bound in now.items():
            if self._moved(before.get(sender), bound):
                about = {} if by is None else {by: constant(self.schema[by].type, sender)}
                yield self._before(bound, **about)
        if by is not None:
            lowest = self.order.lowest(self._type, now)
            if self._moved(self.order.lowest(self._type, before), lowest):
                yield self._before(lowest)

    def _bounds(self, reached: pl.DataFrame) -> dict[Any, Any]:
        """For each sender up to where it has come, less the slack; left out where that is below all values."""
        by = INT if self.order.by is None else self.schema[self.order.by].type
        return {
            by.accept(sender): bound  # of NaN, the one that equals itself
            for sender, value in reached.iter_rows()
            if (bound := self.order.bound(self._type, value)) is not None
        }

    def _moved(self, before: Any, now: Any) -> bool:
        return now is not None and (before is None or self._type.key(before) != self._type.key(now))

    def _before(self, bound: Any, **about: Any) -> Punctuation:
        below = interval(self._type, None, bound, False, self.order.watermark)
        return Punctuation.of(self.schema, **{self.order.attribute: below, **about})
