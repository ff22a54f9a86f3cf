"""The order that PUNCTUATE declares for a stream, and each sender's maximum in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from xmlpunct.types import DATE, DOUBLE, INT, TIMESTAMP, DecimalType, Type
from xmlpunct.types.durations import in_words


@dataclass(frozen=True)
class AccessOrder:
    """PUNCTUATE ORDER BY ``attribute`` SLACK ``slack``, and FROM ``senders`` BY ``sender_column`` if there are any.

    ``slack`` counts the steps of a discrete attribute: days, microseconds, units of the last decimal. Over DOUBLE it
    is a difference. A STRING has none.

    A ``watermark`` is an order of a discrete attribute that includes its bound: no later value is *equal* to the
    maximum less the slack.

    ``ahead`` is the length of AHEAD, counted as ``slack`` is, and ``after`` the number of tuples that confirm a jump.
    """

    attribute: str
    slack: float = 0
    sender_column: str | None = None
    senders: tuple[Any, ...] = ()
    watermark: bool = False
    ahead: float | None = None
    after: int = 3

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
        frame = _physical(type_, values, earlier)
        value, limit = pl.col("value"), pl.col("maximum")
        if self.slack:
            limit = limit - _length(type_, self.slack)
        late = value <= limit if self.watermark else value < limit
        return frame.select(late.fill_null(False))["value"]

    def is_ahead(self, type_: Type, values: pl.Series, earlier: pl.Series) -> pl.Series:
        """For each value, whether there is no maximum of ``earlier`` values, or it is above that by more than AHEAD."""
        assert self.ahead is not None
        frame = _physical(type_, values, earlier)
        value, maximum = pl.col("value"), pl.col("maximum")
        is_ahead = maximum.is_null() | (value > maximum + _length(type_, self.ahead))
        return frame.select((value.is_not_null() & is_ahead).alias("value"))["value"]

    def lowest(self, type_: Type, bounds: Mapping[Any, Any]) -> Any:
        """The bound that all senders have reached; None while a sender has no bound."""
        complete = len(bounds) == len(self.senders)
        return min(bounds.values(), key=type_.key) if bounds and complete else None


def _physical(type_: Type, values: pl.Series, maxima: pl.Series) -> pl.DataFrame:
    """Values and maxima as numbers, columns ``value`` and ``maximum``: ordinals less a constant, or doubles."""
    columns = {"value": values, "maximum": maxima}
    return pl.DataFrame({name: numbers_of(type_, column) for name, column in columns.items()})


def _length(type_: Type, steps: float) -> pl.Expr:
    return pl.lit(int(steps), dtype=pl.Int128) if type_.discrete else pl.lit(steps)


def numbers_of(type_: Type, values: pl.Series) -> pl.Series:
    """Values as numbers whose difference is the number of steps between them; DOUBLE and STRING are unchanged."""
    return values.to_physical().cast(pl.Int128) if type_.discrete else values


def steps_text(type_: Type, steps: float) -> str:
    """A number of steps as text.

    >>> from xmlpunct.types import decimal
    >>> steps_text(TIMESTAMP, 90_000_000), steps_text(DOUBLE, 1.5), steps_text(decimal(5, 1), 15)
    ('90 SECOND', '1.5', '1.5')
    """
    if type_ in (INT, DATE, TIMESTAMP):
        return in_words(type_, int(steps))
    return type_.format(type_.at(int(steps))) if isinstance(type_, DecimalType) else f"{steps:g}"


def slack_of(type_: Type, text: str, clause: str = "SLACK") -> float:
    """SLACK (or AHEAD) as a number of steps (see `AccessOrder`), from its literal. Raises ValueError."""
    if type_ is DOUBLE:
        slack = float(type_.parse(text))
    elif isinstance(type_, DecimalType):
        slack = type_.ordinal(type_.parse(text))
    else:
        slack = int(text)
    if not slack >= 0 or slack == float("inf"):
        raise ValueError(f"{clause} {text}: it is 0 or more")
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
