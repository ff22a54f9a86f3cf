"""COUNT, SUM, AVG, MIN, MAX and XMLAGG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.base.arrow_memory import floats
from xmlpunct.expressions.expression import Doc
from xmlpunct.expressions.functions.lists import ITEM, list_of
from xmlpunct.operators.exact_sums import (
    SUM_DTYPE,
    ColumnTerms,
    ExactSums,
    Terms,
    blocks,
    by_group,
    summed,
    weighted_terms,
)
from xmlpunct.operators.group.aggregate import Accumulator, Aggregate, AggregateFunction
from xmlpunct.schema import Schema
from xmlpunct.types import DOUBLE, INT, XML, DecimalType, Type, decimal


@dataclass(frozen=True)
class DoubleSums(Accumulator):
    """SUM or AVG of DOUBLEs: their exact sum (`exact_sums`), for AVG also the number of values."""

    TERMS: ClassVar[dict[str, ColumnTerms]] = {"sum": Terms.of_values}
    """The partial columns of sums, and their terms."""

    def partials(self) -> list[pl.Expr]:
        column = pl.col(str(self.aggregate.argument))
        sums = [by_group(column, terms).alias(self._name(part)) for part, terms in self.TERMS.items()]
        return [*sums, *(column.count().cast(pl.Int64).alias(name) for name in self._counts)]

    def sent(self) -> list[pl.Expr]:
        sums = [pl.col(name).list.eval(pl.struct(pl.element().alias(ITEM))) for name in self.sums]
        return [*sums, *map(pl.col, self._counts)]

    def received(self) -> list[pl.Expr]:
        sums = [pl.col(name).list.eval(pl.element().struct.field(ITEM)) for name in self.sums]
        return [*sums, *map(pl.col, self._counts)]

    def merges(self) -> list[pl.Expr]:
        return [
            *(summed(name, SUM_DTYPE) for name in self.sums),
            *(pl.col(name).sum() for name in self._counts),
        ]

    def amounts(self, weight: pl.Expr) -> list[pl.Expr]:
        value = pl.col(str(self.aggregate.argument))
        sums = zip(self.sums, self.TERMS.values(), strict=True)
        return [
            self.value_count(weight),
            *(weighted_terms(value, weight, terms).alias(name) for name, terms in sums),
        ]

    def empty(self) -> dict[str, object]:
        return dict.fromkeys(self.sums) | dict.fromkeys(self._counts, 0)

    def finish(self, groups: pl.DataFrame) -> pl.Series:
        sums = [groups[name] for name in self.sums]
        has_count = self._name("count") in groups.columns
        counts = (
            groups[self._name("count")] if has_count else sums[0].is_not_null().cast(pl.Int64)
        ).to_numpy()
        results = np.empty(groups.height)
        for low, high in blocks(groups.height):
            block = (ExactSums.of_column(column[low:high]) for column in sums)
            results[low:high] = self.results(counts[low:high], *block)
        return self.with_nulls(counts, results)

    def with_nulls(self, counts: NDArray[np.int64], results: NDArray[np.float64]) -> pl.Series:
        """Results as a column, null where there are too few values."""
        return floats("result", results, counts < self.least_count)

    def results(self, counts: NDArray[np.int64], *sums: ExactSums) -> NDArray[np.float64]:
        """The results by the numbers of values and their sums; arbitrary where there are too few values."""
        return sums[0].rounded(np.maximum(counts, 1) if self.aggregate.function == "AVG" else None)

    @property
    def least_count(self) -> int:
        """The least number of values for which it is not null."""
        return 1

    def failed(self, groups: pl.DataFrame, results: pl.Series) -> pl.Series:
        return pl.Series([False]).new_from_index(0, groups.height)

    @property
    def sums(self) -> list[str]:
        """The partial columns of sums."""
        return [self._name(part) for part in self.TERMS]

    @property
    def _counts(self) -> list[str]:
        """The partial column with the number of values, if there is one."""
        return [] if self.aggregate.function == "SUM" else [self._name("count")]

    def _columns(self) -> dict[str, Type]:
        return dict.fromkeys(self.sums, list_of(INT)) | dict.fromkeys(self._counts, INT)


def _type_of_sum(a: Aggregate, type_: Type) -> Type:
    if isinstance(type_, DecimalType):
        if a.function == "AVG" and type_.scale > 34:
            raise ValueError(f"AVG of {type_} would need more than 38 digits: CAST it first")
        return decimal(38, type_.scale + (4 if a.function == "AVG" else 0))
    if type_ not in (INT, DOUBLE):
        raise ValueError(f"{a.function} needs numbers, not {type_}")
    return DOUBLE if a.function == "AVG" else type_


def _sum_accumulator(a: Aggregate, type_: Type, prefix: str, schema: Schema) -> Accumulator:
    return (DoubleSums if type_ is DOUBLE else Accumulator)(a, type_, prefix)


def _type_of_xml(a: Aggregate, type_: Type) -> Type:
    if type_ is not XML:
        raise ValueError(f"XMLAGG needs XML, not {type_}: XMLELEMENT(NAME ..., value) converts it")
    if a.distinct:
        raise ValueError("XMLAGG does not take DISTINCT: XML values cannot be compared")
    return XML


COUNT = AggregateFunction(
    "COUNT", Doc("COUNT(*), COUNT(x)", "The number of tuples, or of x that are not null.")
)
SUM = AggregateFunction(
    "SUM",
    Doc("SUM(x)", "The sum, exact; for DOUBLE, rounded once."),
    _type_of_sum,
    accumulator=_sum_accumulator,
)
AVG = AggregateFunction(
    "AVG",
    Doc("AVG(x)", "The mean as a DOUBLE, rounded once; for DECIMAL, as a DECIMAL with 4 more digits."),
    _type_of_sum,
    accumulator=_sum_accumulator,
)
MIN = AggregateFunction("MIN", Doc("MIN(x)", "The least x."), once=True)
MAX = AggregateFunction("MAX", Doc("MAX(x)", "The greatest x; NaN is greatest."), once=True)
XMLAGG = AggregateFunction(
    "XMLAGG",
    Doc("XMLAGG(x [ORDER BY y])", "All x, of type XML, one after the other."),
    _type_of_xml,
    gathers=True,
)
