"""punctuate: promises made from what is known of a stream's order, where the stream makes none itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from xmlpunct.expressions.exclusions import news, outside
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.state import Cell, State
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.pattern import constant, interval, values
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.types import DOUBLE, INT, STRING, DecimalType, Type


@dataclass(frozen=True)
class AccessOrder:
    """PUNCTUATE ORDER BY ``attribute`` SLACK ``slack`` [FROM ... BY ``by``, the list being ``senders``].

    ``slack`` is in steps of a discrete attribute (days, microseconds, units of the last decimal), and in the
    attribute's own unit over DOUBLE; a STRING has none.
    """

    attribute: str
    slack: float = 0
    by: str | None = None
    senders: tuple[Any, ...] = ()


class Punctuate(Operator):
    """Drops tuples that come too far out of order, and promises that none will come.

    A tuple is late iff its value < (the maximum of all earlier ones) - slack; then ``(, maximum - slack)`` is
    promised. Nulls neither advance nor are late. With senders each is in order by itself: its promise is
    about it alone, and what all have promised together is promised of the stream; a tuple of no listed sender
    is rejected, and that none comes is promised from the start.

    The tuples must come in document order.

    - cpass   = [t | t in ts, not late(t)]
    - cprop   = ps ++ [<(, max(ts) - slack)>]
    - ckeep   = []
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
        order = self.order
        if order.by is not None:
            listed = pl.Series(order.senders, dtype=self.schema[order.by].type.dtype).implode()
            known = pl.col(order.by).is_in(listed).fill_null(False)
            stranger = pl.when(~known).then(pl.lit(f"{order.by} is not a listed sender"))
            tuples = self.reject_failures(tuples, tuples.select(stranger).to_series())
        sender = pl.col(order.by) if order.by is not None else pl.lit(0, dtype=pl.Int32())
        seen = tuples.select(sender.alias("sender"), pl.col(order.attribute).alias("value"))
        both = pl.concat([self._reached.value, seen])
        highest = _running_maximum(both)
        both = both.with_columns(highest)
        earlier = both.select(pl.col("highest").shift(1).over("sender"))["highest"][
            self._reached.value.height :
        ]
        reached = both.group_by("sender", maintain_order=True).agg(value=pl.col("highest").last())
        self._reached.value = reached.drop_nulls("value")
        late = self._is_late(tuples[order.attribute], earlier)
        told = f"late: {order.attribute} is out of order by more than its slack"
        return self.reject_failures(tuples, pl.select(pl.when(late).then(pl.lit(told))).to_series())

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        found = list(batch.rename(self.schema))
        order = self.order
        before, now = self._bounds(self._said.value), self._bounds(self._reached.value)
        self._said.value = self._reached.value
        for sender, bound in now.items():
            if self._moved(before.get(sender), bound):
                about = {} if order.by is None else {order.by: constant(self.schema[order.by].type, sender)}
                found.append(self._before(bound, **about))
        if order.by is not None and self._moved(self._lowest(before), self._lowest(now)):
            found.append(self._before(self._lowest(now)))
        return self.schema.empty(), PunctuationBatch(p for p in found if not p.is_empty)

    def _bounds(self, reached: pl.DataFrame) -> dict[Any, Any]:
        """For each sender up to where it has come, less the slack; left out where that is below all values."""
        by = INT if self.order.by is None else self.schema[self.order.by].type
        return {
            by.accept(sender): bound  # of NaN, the one that equals itself
            for sender, value in reached.iter_rows()
            if (bound := self._bound(value)) is not None
        }

    def _lowest(self, bounds: dict[Any, Any]) -> Any:
        """Up to where all senders have come; None as long as one has said nothing."""
        complete = len(bounds) == len(self.order.senders)
        return min(bounds.values(), key=self._type.key) if bounds and complete else None

    def _moved(self, before: Any, now: Any) -> bool:
        return now is not None and (before is None or self._type.key(before) != self._type.key(now))

    def _is_late(self, value: pl.Series, earlier: pl.Series) -> pl.Series:
        type_, slack = self._type, self.order.slack
        if type_.discrete:
            units = value.to_physical().cast(pl.Int128)
            limit = earlier.to_physical().cast(pl.Int128)
            frame = pl.DataFrame({"value": units, "limit": limit})
            test = pl.col("value") < pl.col("limit") - pl.lit(int(slack), dtype=pl.Int128)
        else:
            frame = pl.DataFrame({"value": value, "limit": earlier})
            test = pl.col("value") < (pl.col("limit") - slack if slack else pl.col("limit"))
        return frame.select(test.fill_null(False))["value"]

    def _bound(self, value: Any) -> Any:
        """The maximum less the slack; None where that is below all values."""
        type_, slack = self._type, self.order.slack
        if not type_.discrete:
            return value - slack if slack else value
        ordinal = type_.ordinal(value) - int(slack)
        return type_.at(ordinal) if ordinal > type_.ordinal(type_.lowest) else None

    def _before(self, bound: Any, **about: Any) -> Punctuation:
        below = interval(self._type, None, bound, False, False)
        return Punctuation.of(self.schema, **{self.order.attribute: below, **about})


def _running_maximum(frame: pl.DataFrame) -> pl.Series:
    """For each row the greatest value of its sender so far (null: none yet), as column ``highest``.

    By rank, since polars knows no running maximum of strings.
    """
    ranked = frame.with_columns(rank=pl.col("value").rank("dense"))
    rank = pl.col("rank").cum_max().over("sender").forward_fill().over("sender")
    order = frame["value"].drop_nulls().unique().sort()
    return order.gather(ranked.select(rank - 1).to_series()).alias("highest")


def slack_of(type_: Type, text: str) -> float:
    """SLACK as a number of steps (see `AccessOrder`), from its literal. Raises ValueError."""
    if type_ is DOUBLE:
        found = float(type_.parse(text))
    elif isinstance(type_, DecimalType):
        found = type_.ordinal(type_.parse(text))
    else:
        found = int(text)
    if not found >= 0 or found == float("inf"):
        raise ValueError(f"SLACK {text}: it is 0 or more")
    return found
