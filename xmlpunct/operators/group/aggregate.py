"""Aggregates: their partial columns, and how these become results.

An aggregate has a few *partial* columns per group. They are computed from tuples (``partials``), merged
with partial columns of earlier slices (``merges``), and turned into the result when the group closes (``finish``). Sums
over INT and DECIMAL are exact, in 128 bits; over DOUBLE too (`exact_sums`). Only the final value is checked against the
range of its type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from xmlpunct.base.arrow_memory import floats
from xmlpunct.expressions.expression import Doc, Expression
from xmlpunct.expressions.int128 import int128, minus, to_decimal, unscaled
from xmlpunct.operators.time.prefix import SortKey
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import DOUBLE, INT, DecimalType, Type, decimal

WIDE_SUM = decimal(38, 0)
"""The type that holds a sum of 2^63 numbers of 64 bits, or of parts of decimals."""

SUMS, EXTREMES = ("COUNT", "SUM", "AVG", "VAR_SAMP", "VAR_POP"), ("MIN", "MAX")
"""The aggregates that are available with OVER and over relations: functions of sums, and extremes."""

HALF = 10**19
"""The divisor of unscaled decimals. Separate sums of quotients and remainders do not overflow 128 bits."""


@dataclass(frozen=True)
class Aggregate:
    """``function`` over the input column ``argument`` (None: COUNT(*)), called ``name`` in the output.

    ``distinct`` counts each value once. Aggregates of all values take them in an ``order``, and values that are equal
    in it in their own order. ARG_MIN and ARG_MAX take the first one in it. ``parameter`` is a separator or a quantile.
    ``where`` is the Boolean column that selects the values.
    """

    function: str
    argument: str | None
    distinct: bool
    name: str
    order: tuple[SortKey, ...] = ()
    parameter: str = ""
    where: str | None = None

    @property
    def record(self) -> AggregateFunction:
        """The record of its function. Raises ValueError if there is none."""
        if self.function not in FUNCTIONS:
            raise ValueError(f"no aggregate {self.function}: there are {', '.join(FUNCTIONS)}")
        return FUNCTIONS[self.function]

    @property
    def needs_values(self) -> bool:
        """Whether it needs a group's values until the group is closed."""
        return self.needs_all or (self.distinct and not self.record.once)

    @property
    def needs_all(self) -> bool:
        """Whether it needs every value, repeated ones included."""
        return self.record.gathers and not self.distinct

    @property
    def takes_null(self) -> bool:
        """Whether null counts as a value."""
        return self.function == "ARRAY_AGG"

    @property
    def columns(self) -> list[str]:
        """The input columns that it reads."""
        argument = [] if self.argument is None else [self.argument]
        where = [] if self.where is None else [self.where]
        return [*argument, *(key.column for key in self.order), *where]

    @property
    def ignores_duplicates(self) -> bool:
        """Whether repeating a tuple cannot change the result."""
        return self.distinct or self.record.once

    def over(self, names: Mapping[str, str]) -> Aggregate:
        """The same aggregate over renamed columns."""
        order = tuple(key._replace(column=names[key.column]) for key in self.order)
        return replace(
            self,
            argument=self.argument and names[self.argument],
            order=order,
            where=self.where and names[self.where],
        )

    def attribute(self, schema: Schema, grouped: bool) -> Attribute:
        """The attribute of its result. Raises ValueError if the aggregate does not exist."""
        record = self.record
        if self.function == "COUNT":
            return Attribute(self.name, INT, nullable=False)
        if self.argument is None:
            raise ValueError(f"{self.function}(*) makes no sense")
        nullable = not grouped or record.nullable or self.where is not None
        if not self.takes_null:
            nullable = nullable or any(
                schema[column].nullable for column in self.columns[: 2 if record.best else 1]
            )
        return Attribute(self.name, record.result(self, schema[self.argument].type), nullable)


@dataclass(frozen=True, eq=False)
class AggregateFunction:
    """The record of an aggregate: its types, its properties and its computation.

    - ``result``: the type of its result for an argument type. Raises ValueError if it has none.
    - ``called``: its names, if it is parsed as ``NAME(argument, ...)``; sqlglot parses all other aggregates.
    - ``once``: repeated values do not change it. ``gathers``: it needs each value. ``best``: it takes the first tuple
      of an order. ``nullable``: it may be null although no argument is.
    - ``accumulator``: how it is computed.
    - ``stands_for``: another aggregate that computes it, over ``before`` of the argument; ``after`` maps the result.
    """

    name: str
    doc: Doc
    result: Callable[[Aggregate, Type], Type] = lambda a, type_: type_
    called: tuple[str, ...] = ()
    once: bool = False
    gathers: bool = False
    best: bool = False
    nullable: bool = False
    accumulator: Callable[[Aggregate, Type, str, Schema], Accumulator] | None = None
    stands_for: str = ""
    before: Callable[[str, Expression], Expression] = lambda name, argument: argument
    after: Callable[[Expression], Expression] | None = None

    def __post_init__(self) -> None:
        FUNCTIONS[self.name] = self

    @property
    def can_retract(self) -> bool:
        """Whether it is available over relations, whose tuples are deleted."""
        return self.name in (*SUMS, *EXTREMES)


FUNCTIONS: dict[str, AggregateFunction] = {}
"""All aggregates, by name."""


@dataclass(frozen=True)
class Accumulator:
    """An aggregate over an argument of ``type``, with the prefix of its partial columns' names."""

    aggregate: Aggregate
    type: Type
    prefix: str

    @property
    def extreme(self) -> str | None:
        """The partial column of MIN or MAX."""
        return self._name("value") if self.aggregate.function in ("MIN", "MAX") else None

    def partials(self) -> list[pl.Expr]:
        """Expressions over the tuples of a group; for XMLAGG the tuples are in its order."""
        function, argument = self.aggregate.function, self.aggregate.argument
        if argument is None:
            return [pl.len().cast(pl.Int64).alias(self._name("count"))]
        column = pl.col(argument)
        count = column.count().cast(pl.Int64).alias(self._name("count"))
        if function == "COUNT":
            return [count]
        if function in ("MIN", "MAX"):
            return [self._extreme(column).alias(self._name("value"))]
        if function == "XMLAGG":
            return [column.str.join("").alias(self._name("value"))]
        if isinstance(self.type, DecimalType):
            wide = unscaled(column)
            return [
                count,
                (wide // HALF).sum().alias(self._name("high")),
                (wide % HALF).sum().alias(self._name("low")),
            ]
        return [count, column.cast(pl.Int128).sum().alias(self._name("sum"))]

    def attributes(self) -> list[Attribute]:
        """The partial columns as attributes of a slice, in which a sum of 128 bits travels as a decimal."""
        return [Attribute(name, type_) for name, type_ in self._columns().items()]

    def sent(self) -> list[pl.Expr]:
        """Expressions that turn the partial columns into `attributes`."""
        return [to_decimal(pl.col(n), WIDE_SUM) if self._is_wide(n) else pl.col(n) for n in self._columns()]

    def received(self) -> list[pl.Expr]:
        """The inverse of `sent`."""
        return [unscaled(pl.col(n)) if self._is_wide(n) else pl.col(n) for n in self._columns()]

    def merges(self) -> list[pl.Expr]:
        """Expressions over the partial columns of a group's parts."""
        if self.aggregate.function in ("MIN", "MAX"):
            return [self._extreme(pl.col(self._name("value")))]
        return [pl.col(name).sum() for name in self._columns()]

    def amounts(self, weight: pl.Expr) -> list[pl.Expr]:
        """For `SUMS`: the amounts that a tuple adds to the partial columns, times its ``weight``.

        The weight is the number of its copies, negative if they are deleted.
        """
        count = self.value_count(weight)
        if self.aggregate.function == "COUNT":
            return [count]
        value, wide = pl.col(str(self.aggregate.argument)), weight.cast(pl.Int128)
        if isinstance(self.type, DecimalType):
            digits = unscaled(value)
            parts = {"high": digits // HALF, "low": digits % HALF}
            return [count, *((e.fill_null(0) * wide).alias(self._name(part)) for part, e in parts.items())]
        return [count, (value.fill_null(0).cast(pl.Int128) * wide).alias(self._name("sum"))]

    def value_count(self, weight: pl.Expr) -> pl.Expr:
        """The amount that a tuple adds to the number of values."""
        argument = self.aggregate.argument
        if argument is not None:
            weight = pl.when(pl.col(argument).is_not_null()).then(weight).otherwise(0)
        return weight.alias(self._name("count"))

    def empty(self) -> dict[str, object]:
        """The partial columns of no tuples."""
        return {name: None if name.endswith("value") else 0 for name in self._columns()}

    def finish(self, groups: pl.DataFrame) -> pl.Series:
        """The results. A sum outside the range of its type is null although its count is not 0."""
        function = self.aggregate.function
        if function in ("MIN", "MAX", "XMLAGG"):
            return groups[self._name("value")]
        counts = groups[self._name("count")]
        if function == "COUNT":
            return counts
        if isinstance(self.type, DecimalType):
            return self._decimals(groups, self.type)
        totals = groups[self._name("sum")]
        if function == "SUM":
            results = totals.cast(pl.Int64(), strict=False)
        else:
            results = _quotients(totals, counts)
        return results.zip_with(counts > 0, results.clear(1))

    def _decimals(self, groups: pl.DataFrame, type_: DecimalType) -> pl.Series:
        """SUM or AVG of DECIMALs, rounded half away from zero."""
        added_digits = 4 if self.aggregate.function == "AVG" else 0
        result_type = decimal(38, type_.scale + added_digits)
        parts = groups.select(pl.col(self._name(part)).cast(pl.Int128()) for part in ("high", "low", "count"))
        high, low, count = map(pl.col, parts.columns)
        room = 2**127 // (4 * 10**added_digits * HALF) - 1  # so that no product overflows
        if not parts.select((high.abs().max() <= room) & (low.abs().max() <= HALF * (room // 2))).item():
            results = (
                _decimal(high * HALF + low, count if added_digits else 1, added_digits, type_.scale)
                if count
                else None
                for high, low, count in parts.iter_rows()
            )
            return pl.Series(list(results), dtype=result_type.dtype)
        total = high * HALF + low
        if added_digits:
            magnitude = (total.abs() * (2 * 10**added_digits) + count) // (2 * count.clip(1))
            total = pl.when(total < 0).then(minus(magnitude)).otherwise(magnitude)
        fits = (count > 0) & (total.abs() < int128(10**38))
        result = to_decimal(pl.when(fits).then(total).otherwise(int128(0)), result_type)
        return parts.select(pl.when(fits).then(result).alias("result"))["result"]

    def failed(self, groups: pl.DataFrame, results: pl.Series) -> pl.Series:
        """For each group, whether its result is outside the range of its type."""
        if self.aggregate.function not in ("SUM", "AVG"):
            return pl.Series([False]).new_from_index(0, groups.height)
        return results.is_null() & (groups[self._name("count")] > 0)

    def _extreme(self, column: pl.Expr) -> pl.Expr:
        if self.aggregate.function == "MIN":
            return column.min()  # polars' min ignores NaN if there is another value
        return column.nan_max() if self.type is DOUBLE else column.max()

    def _name(self, part: str) -> str:
        return f"{self.prefix}.{part}"

    def _is_wide(self, name: str) -> bool:
        """Whether a partial column is a sum in 128 bits."""
        return self._columns()[name] is WIDE_SUM and not name.endswith("value")

    def _columns(self) -> dict[str, Type]:
        """The partial columns, with the types in which they travel."""
        function = self.aggregate.function
        if function in ("MIN", "MAX", "XMLAGG"):
            return {self._name("value"): self.type}
        if function == "COUNT":
            return {self._name("count"): INT}
        if isinstance(self.type, DecimalType):
            return {self._name("count"): INT, self._name("high"): WIDE_SUM, self._name("low"): WIDE_SUM}
        return {self._name("count"): INT, self._name("sum"): WIDE_SUM}


def accumulators(schema: Schema, aggregates: Sequence[Aggregate]) -> list[Accumulator]:
    """The accumulators of aggregates over tuples of a schema.

    Functions of the sums of one column share its partial columns: AVG(x) has the sum of SUM(x) and the number of
    COUNT(x). `each_once` removes the repetitions.
    """
    prefixes = dict[object, str]()
    result = []
    for i, a in enumerate(aggregates):
        type_ = INT if a.argument is None else schema[a.argument].type
        shares = a.function in SUMS and not a.needs_values
        prefix = prefixes.setdefault(("sums", a.argument) if shares else i, f"${i}")
        result.append(accumulator(a, type_, prefix, schema))
    return result


def each_once(columns: Iterable[pl.Expr]) -> list[pl.Expr]:
    """The expressions of partial columns, one for each column."""
    return list({column.meta.output_name(): column for column in columns}.values())


def accumulator(a: Aggregate, type_: Type, prefix: str, schema: Schema) -> Accumulator:
    """The accumulator of an aggregate over an argument of a type."""
    make = a.record.accumulator if a.function in FUNCTIONS else None
    return Accumulator(a, type_, prefix) if make is None else make(a, type_, prefix, schema)


def _quotients(totals: pl.Series, counts: pl.Series) -> pl.Series:
    """128-bit integers divided by numbers of values, rounded once; arbitrary where a number is 0."""
    quotients = floats("", totals.cast(pl.Float64()).to_numpy() / np.maximum(counts.to_numpy(), 1))
    is_large = (totals > 2**53) | (totals < -(2**53))
    if not is_large.any():
        return quotients
    large = is_large.arg_true()
    exact = [total / count for total, count in zip(totals[large], counts[large], strict=True)]
    return quotients.scatter(large, exact)


def _decimal(total: int, count: int, digits: int, scale: int) -> object:
    """``total * 10**digits / count`` unscaled, rounded half up (away from zero), as a DECIMAL(38, ...)."""
    magnitude = (2 * abs(total) * 10**digits + count) // (2 * count)
    if magnitude >= 10**38:
        return None
    return decimal(38, scale + digits).at(-magnitude if total < 0 else magnitude)
