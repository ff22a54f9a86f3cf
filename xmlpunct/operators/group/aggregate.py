"""Aggregates: what each keeps of the tuples it has seen, and how that becomes its result.

An aggregate keeps a few *partial* columns per group. They are computed from tuples (``partials``), merged
with those of earlier slices (``merges``), and turned into the result when the group closes (``finish``). Sums
over INT and DECIMAL are kept exactly, in 128 bits; whether one fits its type is judged on the final value only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from xmlpunct.base.doubles import canonical_column, divided
from xmlpunct.expressions.expression import Doc, Expression
from xmlpunct.expressions.int128 import to_decimal, unscaled
from xmlpunct.operators.time.prefix import SortKey
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import DOUBLE, INT, XML, DecimalType, Type, decimal

SUMS = decimal(38, 0)
"""The type that holds a sum of 2^63 numbers of 64 bits, or of parts of decimals."""

HALF = 10**19
"""Unscaled decimals are divided by this. Quotients and rests are summed apart, so no sum overflows 128 bits."""


@dataclass(frozen=True)
class Aggregate:
    """``function`` over the input column ``argument`` (None: COUNT(*)), called ``name`` in the output.

    ``distinct`` counts each value once; where repeated values change nothing, it makes no difference. What gathers
    values has them in an ``order``, those that are equal in it in their own; ARG_MIN and ARG_MAX have the one first in
    it. ``parameter``: a separator, or a part of the values. ``where``: the column that says which values count.
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
        """What is known of its function. Raises ValueError if there is none."""
        if self.function not in FUNCTIONS:
            raise ValueError(f"no aggregate {self.function}: there are {', '.join(FUNCTIONS)}")
        return FUNCTIONS[self.function]

    @property
    def needs_values(self) -> bool:
        """Whether it needs a group's values until the group is closed."""
        return self.needs_all or (self.distinct and not self.record.once)

    @property
    def needs_all(self) -> bool:
        """Whether it needs each value as often as it comes."""
        return self.record.gathers and not self.distinct

    @property
    def takes_null(self) -> bool:
        """Whether null is a value like others."""
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
        """The same over columns of other names."""
        order = tuple(key._replace(column=names[key.column]) for key in self.order)
        return replace(
            self,
            argument=self.argument and names[self.argument],
            order=order,
            where=self.where and names[self.where],
        )

    def attribute(self, schema: Schema, grouped: bool) -> Attribute:
        """The attribute of its result. Raises ValueError if there is no such aggregate."""
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
    """All that is known of an aggregate.

    - ``result``: the type of its result, by that of its argument. Raises ValueError where it has none.
    - ``called``: the names of one that is read as ``NAME(argument, ...)``; sqlglot knows the others.
    - ``once``: repeated values change nothing. ``gathers``: it needs each value. ``best``: it is of the first in an
      order. ``nullable``: it may be null though no argument is.
    - ``accumulator``: how it is computed.
    - ``stands_for``: another aggregate, over what ``before`` makes of the argument; ``after`` makes the result.
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


FUNCTIONS: dict[str, AggregateFunction] = {}
"""Every aggregate there is, by name."""


def _type_of_sum(a: Aggregate, type_: Type) -> Type:
    if isinstance(type_, DecimalType):
        if a.function == "AVG" and type_.scale > 34:
            raise ValueError(f"AVG of {type_} would need more than 38 digits: CAST it first")
        return decimal(38, type_.scale + (4 if a.function == "AVG" else 0))
    if type_ not in (INT, DOUBLE):
        raise ValueError(f"{a.function} wants numbers, not {type_}")
    return DOUBLE if a.function == "AVG" else type_


def _type_of_xml(a: Aggregate, type_: Type) -> Type:
    if type_ is not XML:
        raise ValueError(f"XMLAGG wants XML, not {type_}: XMLELEMENT(NAME ..., value) makes it")
    if a.distinct:
        raise ValueError("XMLAGG does not take DISTINCT: XML is compared with nothing")
    return XML


COUNT = AggregateFunction(
    "COUNT", Doc("COUNT(*), COUNT(x)", "How many tuples, or how many x that are not null.")
)
SUM = AggregateFunction("SUM", Doc("SUM(x)", "The sum; of INT and DECIMAL exact."), _type_of_sum)
AVG = AggregateFunction(
    "AVG", Doc("AVG(x)", "The mean: a DOUBLE, of DECIMAL one with 4 more digits."), _type_of_sum
)
MIN = AggregateFunction("MIN", Doc("MIN(x)", "The least x."), once=True)
MAX = AggregateFunction("MAX", Doc("MAX(x)", "The greatest x; NaN is greatest."), once=True)
XMLAGG = AggregateFunction(
    "XMLAGG",
    Doc("XMLAGG(x [ORDER BY y])", "All x of type XML behind each other."),
    _type_of_xml,
    gathers=True,
)


@dataclass(frozen=True)
class Accumulator:
    """An aggregate over an argument of a known type, with the prefix of its partial columns' names."""

    aggregate: Aggregate
    type: Type
    prefix: str

    @property
    def extreme(self) -> str | None:
        """The partial column of MIN or MAX."""
        return self._name("value") if self.aggregate.function in ("MIN", "MAX") else None

    def partials(self) -> list[pl.Expr]:
        """Expressions over the tuples of a group, for XMLAGG in its order."""
        function, argument = self.aggregate.function, self.aggregate.argument
        if argument is None:
            return [pl.len().cast(pl.Int64).alias(self._name("count"))]
        at = pl.col(argument)
        count = at.count().cast(pl.Int64).alias(self._name("count"))
        if function == "COUNT":
            return [count]
        if function in ("MIN", "MAX"):
            return [self._extreme(at).alias(self._name("value"))]
        if function == "XMLAGG":
            return [at.str.join("").alias(self._name("value"))]
        if isinstance(self.type, DecimalType):
            wide = unscaled(at)
            return [
                count,
                (wide // HALF).sum().alias(self._name("high")),
                (wide % HALF).sum().alias(self._name("low")),
            ]
        exact = at.cast(pl.Int128) if self.type is INT else at
        return [count, exact.sum().alias(self._name("sum"))]

    def attributes(self) -> list[Attribute]:
        """The partial columns as attributes of a slice, in which a sum of 128 bits travels as a decimal."""
        return [Attribute(name, type_) for name, type_ in self._columns().items()]

    def sent(self) -> list[pl.Expr]:
        """Expressions that turn the partial columns into `attributes`."""
        return [to_decimal(pl.col(n), SUMS) if self._is_wide(n) else pl.col(n) for n in self._columns()]

    def received(self) -> list[pl.Expr]:
        """The inverse of `sent`."""
        return [unscaled(pl.col(n)) if self._is_wide(n) else pl.col(n) for n in self._columns()]

    def merges(self) -> list[pl.Expr]:
        """Expressions over the partial columns of a group's parts."""
        if self.aggregate.function in ("MIN", "MAX"):
            return [self._extreme(pl.col(self._name("value")))]
        return [pl.col(name).sum() for name in self._columns()]

    def empty(self) -> dict[str, object]:
        """The partial columns of no tuples."""
        return {name: None if name.endswith("value") else 0 for name in self._columns()}

    def finish(self, groups: pl.DataFrame) -> pl.Series:
        """The results. A sum that does not fit its type is null although its count is not 0."""
        function = self.aggregate.function
        if function in ("MIN", "MAX", "XMLAGG"):
            return groups[self._name("value")]
        counts = groups[self._name("count")]
        if function == "COUNT":
            return counts
        if isinstance(self.type, DecimalType):
            places = 4 if function == "AVG" else 0
            values: Iterable[object] = (
                _decimal(high * HALF + low, count if places else 1, places, self.type.scale)
                if count
                else None
                for high, low, count in zip(
                    groups[self._name("high")], groups[self._name("low")], counts, strict=True
                )
            )
            return pl.Series(list(values), dtype=decimal(38, self.type.scale + places).dtype)
        total = pl.col(self._name("sum"))
        result = divided(total.cast(pl.Float64), pl.col(self._name("count"))) if function == "AVG" else total
        dtype = pl.Int64() if function == "SUM" and self.type is INT else pl.Float64()
        known = pl.when(pl.col(self._name("count")) > 0).then(result.cast(dtype, strict=False))
        results = groups.select(known.alias("result"))["result"]
        return canonical_column(results) if dtype == pl.Float64 else results

    def failed(self, groups: pl.DataFrame, results: pl.Series) -> pl.Series:
        """For each group whether its result does not fit."""
        if self.aggregate.function not in ("SUM", "AVG"):
            return pl.Series([False]).new_from_index(0, groups.height)
        return results.is_null() & (groups[self._name("count")] > 0)

    def _extreme(self, at: pl.Expr) -> pl.Expr:
        if self.aggregate.function == "MIN":
            return at.min()  # polars' min passes over NaN where there is anything else
        return at.nan_max() if self.type is DOUBLE else at.max()

    def _name(self, part: str) -> str:
        return f"{self.prefix}.{part}"

    def _is_wide(self, name: str) -> bool:
        """Whether a partial column is a sum in 128 bits."""
        return self._columns()[name] is SUMS and not name.endswith("value")

    def _columns(self) -> dict[str, Type]:
        """The partial columns, with the types in which they travel."""
        function = self.aggregate.function
        if function in ("MIN", "MAX", "XMLAGG"):
            return {self._name("value"): self.type}
        if function == "COUNT":
            return {self._name("count"): INT}
        if isinstance(self.type, DecimalType):
            return {self._name("count"): INT, self._name("high"): SUMS, self._name("low"): SUMS}
        return {self._name("count"): INT, self._name("sum"): SUMS if self.type is INT else DOUBLE}


def accumulators(schema: Schema, aggregates: Sequence[Aggregate]) -> list[Accumulator]:
    """The accumulators of some aggregates over tuples of a schema."""
    made = []
    for i, a in enumerate(aggregates):
        type_ = INT if a.argument is None else schema[a.argument].type
        own = a.record.accumulator
        made.append(Accumulator(a, type_, f"${i}") if own is None else own(a, type_, f"${i}", schema))
    return made


def _decimal(total: int, count: int, places: int, scale: int) -> object:
    """``total * 10**places / count`` unscaled, rounded half up (away from zero), as a DECIMAL(38, ...)."""
    magnitude = (2 * abs(total) * 10**places + count) // (2 * count)
    if magnitude >= 10**38:
        return None
    return decimal(38, scale + places).at(-magnitude if total < 0 else magnitude)
