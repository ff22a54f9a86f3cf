"""The order that PUNCTUATE declares for a stream, and each sender's maximum in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from xmlpunct.types import DOUBLE, DecimalType, Type


@dataclass(frozen=True)
class AccessOrder:
    """PUNCTUATE ORDER BY ``attribute`` SLACK ``slack``, and FROM ``senders`` BY ``sender_column`` if there are any.

    ``slack`` counts the steps of a discrete attribute: days, microseconds, units of the last decimal. Over DOUBLE it
    is a difference. A STRING has none.

    A ``watermark`` is an order of a discrete attribute that includes its bound: no later value is *equal* to the
    maximum less the slack.
    """

    attribute: str
    slack: float = 0
    sender_column: str | None = None
    senders: tuple[Any, ...] = ()
    watermark: bool = False

    def bound(self, type_: Type, value: Any) -> Any:
        """A maximum less the slack; None if no value of the type is below (or, for a watermark, at) that."""
        if not type_.discrete:
            return value - self.slack if self.slack else value
        ordinal = type_.ordinal(value) - int(self.slack)
        return type_.at(ordinal) if ordinal + self.watermark > type_.ordinal(type_.lowest) else None

    def is_late(self, type_: Type, values: pl.Series, earlier: pl.Series) -> pl.Series:
        """For each value, whether it is below the maximum of ``earlier`` values (null: there is none) less the slack.

        For a watermark: below or at it.
        """
        value, limit = pl.col("value"), pl.col("limit")
        if type_.discrete:
            values, earlier = (column.to_physical().cast(pl.Int128) for column in (values, earlier))
            limit = limit - pl.lit(int(self.slack), dtype=pl.Int128)
        elif self.slack:
            limit = limit - self.slack
        frame = pl.DataFrame({"value": values, "limit": earlier})
        late = value <= limit if self.watermark else value < limit
        return frame.select(late.fill_null(False))["value"]

    def lowest(self, type_: Type, bounds: Mapping[Any, Any]) -> Any:
        """The bound that all senders have reached; None while a sender has no bound."""
        complete = len(bounds) == len(self.senders)
        return min(bounds.values(), key=type_.key) if bounds and complete else None


def slack_of(type_: Type, text: str) -> float:
    """SLACK as a number of steps (see `AccessOrder`), from its literal. Raises ValueError."""
    if type_ is DOUBLE:
        slack = float(type_.parse(text))
    elif isinstance(type_, DecimalType):
        slack = type_.ordinal(type_.parse(text))
    else:
        slack = int(text)
    if not slack >= 0 or slack == float("inf"):
        raise ValueError(f"SLACK {text}: it is 0 or more")
    return slack


def sender_maxima(reached: pl.DataFrame, values: pl.DataFrame) -> tuple[pl.Series, pl.DataFrame]:
    """The sender's maximum before each row of ``values``, and each sender's maximum after all rows.

    >>> nobody = pl.DataFrame(schema={"sender": pl.String, "value": pl.Int64})
    >>> values = pl.DataFrame({"sender": ["a", "b", "a", "a"], "value": [5, 1, 3, 7]})
    >>> earlier, reached = sender_maxima(nobody, values)
    >>> earlier.to_list(), reached.rows()
    ([None, None, 5, 5], [('a', 7), ('b', 1)])
    """
    rows = pl.concat([reached, values])
    rows = rows.with_columns(_running_maximum(rows))
    earlier = rows.select(pl.col("highest").shift(1).over("sender"))["highest"][reached.height :]
    reached = rows.group_by("sender", maintain_order=True).agg(value=pl.col("highest").last())
    return earlier, reached.drop_nulls("value")


def _running_maximum(frame: pl.DataFrame) -> pl.Series:
    """For each row the greatest value of its sender so far (null: none yet), as column ``highest``.

    By rank, because polars has no running maximum of strings.
    """
    ranked = frame.with_columns(rank=pl.col("value").rank("dense"))
    rank = pl.col("rank").cum_max().over("sender").forward_fill().over("sender")
    order = frame["value"].drop_nulls().unique().sort()
    return order.gather(ranked.select(rank - 1).to_series()).alias("highest")
