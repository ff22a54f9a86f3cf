"""punctuate: punctuations that follow from a declared order, for a stream that has none of its own.

Several senders, and the tuples that AHEAD holds, make it long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from xmlpunct.expressions.exclusions import news, only_within
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.pending import Pending
from xmlpunct.operators.state import State, StateCell
from xmlpunct.operators.time.access_order import AccessOrder, numbers_of, sender_maxima, steps_text
from xmlpunct.operators.time.jumps import Judged, JumpJudge
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
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

    With AHEAD, a tuple too far ahead of its sender's maximum is retained until later tuples of the sender reject it or
    confirm it (`JumpJudge`), or until the sender has ended.

    The tuples must arrive in document order.

    - cpass   = [t | t in ts, not late(t), not ahead(t)]
    - cprop   = [p | p in ps, setNomatch(held, p)] ++ [<(, max(ts) - slack)>]
    - ckeep   = held, with AHEAD

    See semantics 4.14.

    >>> from xmlpunct.operators.notation import show
    >>> show(Punctuate(Schema.parse("t INT"), AccessOrder("t", slack=2)), "5; 4; 2; 7")
    5; 4; 2; 7 -> 5; 4; 7; P((,4])
    >>> show(Punctuate(Schema.parse("t INT"), AccessOrder("t", ahead=9, after=2)), "5; 6", "99", "7", "50", "51")
    5; 6 -> 5; 6; P((,5])
    99   ->
    7    -> 7; P((,6])
    50   ->
    51   -> 50; 51; P((,50])
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
        self._held, self._pending = Arrangement(self.schema.empty(), ()), Pending(self.schema)
        self.state = State(reached=self._reached, said=self._emitted)
        if order.ahead is not None:
            self.state = State(**self.state.parts, held=self._held, pending=self._pending)

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
        rows = pl.concat([self._held.frame, tuples]) if len(self._held) else tuples
        values = rows.select(sender.alias("sender"), pl.col(order.attribute).alias("value"))
        earlier, reached = sender_maxima(self._reached.value, values)
        late = order.is_late(self._type, values["value"], earlier)
        if order.ahead is not None:
            ahead = order.is_ahead(self._type, values["value"], earlier)
            if len(self._held) or ahead.any():
                return self._judge_jumps(rows, values, late, ahead)
        self._reached.value = reached
        return self.reject_failures(
            tuples, pl.select(pl.when(late).then(pl.lit(self._late_reason))).to_series()
        )

    @property
    def _late_reason(self) -> str:
        problem = "not above the watermark" if self.order.watermark else "out of order by more than its slack"
        return f"late: {self.order.attribute} is {problem}"

    def _judge_jumps(
        self, rows: pl.DataFrame, values: pl.DataFrame, late: pl.Series, ahead: pl.Series
    ) -> pl.DataFrame:
        """`step` for rows that begin with the held rows. The rows of senders without jumps are judged by columns."""
        old = self._reached.value
        is_jumping = ahead | (pl.int_range(rows.height, eager=True) < len(self._held))
        jumping = values["sender"].filter(is_jumping).unique().implode()
        by_row = values["sender"].is_in(jumping)
        _, reached = sender_maxima(old.filter(~old["sender"].is_in(jumping)), values.filter(~by_row))
        accepted = [Judged(row, row, None) for row in (~by_row & ~late).arg_true()]
        rejected = [Judged(row, row, None) for row in (~by_row & late).arg_true()]
        held, maxima = list[int](), list[int]()
        numbered = pl.concat([values, old]).with_row_index("row")  # the maxima so far come last
        numbers = numbers_of(self._type, numbered["value"]).to_list()
        for _, of_sender in numbered.filter(pl.col("sender").is_in(jumping)).group_by("sender"):
            order = of_sender["row"].to_list()
            judge = JumpJudge(self.order, numbers, order.pop() if order[-1] >= rows.height else None)
            judge.judge(order)
            accepted += judge.accepted
            rejected += judge.rejected
            held += judge.held
            maxima += [] if judge.maximum is None else [judge.maximum]
        self._reached.value = pl.concat([reached, numbered[maxima].drop("row")])
        lost = self._held.frame
        self._held.clear()
        self._held.append(rows[sorted(held)])
        self._pending.lose(lost)
        self._reject_judged(rows, numbered["value"], sorted(rejected))
        return rows[[judged.row for judged in sorted(accepted)]]

    def _reject_judged(self, rows: pl.DataFrame, values: pl.Series, rejected: Sequence[Judged]) -> None:
        """Reject rows. ``values`` are the values of the rows, followed by the maxima."""
        reasons = [
            self._late_reason
            if judged.surpassed is None
            else self._ahead_reason(values[judged.row], values[judged.surpassed])
            for judged in rejected
        ]
        self.reject_failures(rows[[judged.row for judged in rejected]], pl.Series(reasons, dtype=pl.String))

    def _ahead_reason(self, value: Any, maximum: Any) -> str:
        assert self.order.ahead is not None
        value, maximum = (self._type.format(v) for v in (value, maximum))
        length = steps_text(self._type, self.order.ahead)
        return f"ahead: {self.order.attribute} {value} is more than {length} above {maximum}, and a nearer one followed"

    def _release(self, batch: PunctuationBatch) -> pl.DataFrame:
        """The held tuples of senders that have ended. They are no longer held."""
        if not len(self._held):
            return self.schema.empty()
        column = self.order.sender_column
        ends = batch.closing([] if column is None else [self.schema.index(column)])
        return self._held.remove(self._held.matching(PunctuationSet(self.schema, ends)))

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        renamed = batch.rename(self.schema)
        released, free = self.schema.empty(), renamed
        if self.order.ahead is not None:
            released = self._release(renamed)
            self._pending.add(renamed.possible())
            self._pending.lose(released)
            free = self._pending.free([self._held])
        punctuations = [*free, *self._new_bounds()]
        self._emitted.value = self._reached.value
        return released, PunctuationBatch(p for p in punctuations if not p.is_empty)

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
