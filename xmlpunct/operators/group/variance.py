"""VARIANCE and the aggregates computed by it: exact sums of DOUBLEs and of their squares, rounded once.

So a result depends on the values only, not on slices or shards, and values that differ little from a large mean lose
no digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from xmlpunct.expressions.expression import Doc, Expression
from xmlpunct.expressions.functions.arithmetic import of_number
from xmlpunct.expressions.functions.casts import cast
from xmlpunct.expressions.functions.powers import SQRT
from xmlpunct.operators.exact_sums import ColumnTerms, ExactSums, Terms, quotient
from xmlpunct.operators.group.aggregate import Accumulator, Aggregate, AggregateFunction
from xmlpunct.operators.group.aggregate_functions import DoubleSums
from xmlpunct.schema import Schema
from xmlpunct.types import DOUBLE, Type


@dataclass(frozen=True)
class Moments(DoubleSums):
    """A variance: the number of values, and the exact sums of the values and of their squares."""

    TERMS: ClassVar[dict[str, ColumnTerms]] = DoubleSums.TERMS | {"squares": Terms.of_squares}

    def results(self, counts: NDArray[np.int64], *sums: ExactSums) -> NDArray[np.float64]:
        totals, squares = sums
        less = self.least_count - 1
        exponent = min(squares.unit, 2 * totals.unit)
        up, square_up = squares.unit - exponent, 2 * totals.unit - exponent
        values = [
            quotient(
                (count * of_squares << up) - (total * total << square_up), count * (count - less), exponent
            )
            if count > less
            else 0.0
            for count, total, of_squares in zip(
                counts.tolist(), totals.integers(), squares.integers(), strict=True
            )
        ]
        return np.where(totals.is_finite, values, np.nan)

    @property
    def least_count(self) -> int:
        return 1 if self.aggregate.function == "VAR_POP" else 2


def _moments(a: Aggregate, type_: Type, prefix: str, schema: Schema) -> Accumulator:
    return Moments(a, type_, prefix)


def _result(a: Aggregate, type_: Type) -> Type:
    if type_ is not DOUBLE:
        raise ValueError(f"{a.function} needs DOUBLE, not {type_}")
    return DOUBLE


def _as_double(name: str, argument: Expression) -> Expression:
    return cast(of_number(name, argument), DOUBLE)


# fmt: off
VAR_SAMP = AggregateFunction(
    "VAR_SAMP", Doc("VARIANCE(x), VAR_SAMP(x)", "The sample variance as a DOUBLE; null for fewer than two values."),
    _result, called=("VARIANCE", "VAR_SAMP"), accumulator=_moments, nullable=True, before=_as_double)
VAR_POP = AggregateFunction(
    "VAR_POP", Doc("VAR_POP(x)", "The population variance as a DOUBLE."), _result, called=("VAR_POP",),
    accumulator=_moments, before=_as_double)
STDDEV = AggregateFunction(
    "STDDEV", Doc("STDDEV(x), STDDEV_SAMP(x)", "The square root of VAR_SAMP."), called=("STDDEV", "STDDEV_SAMP"),
    stands_for="VAR_SAMP", before=_as_double, after=SQRT)
STDDEV_POP = AggregateFunction(
    "STDDEV_POP", Doc("STDDEV_POP(x)", "The square root of VAR_POP."), called=("STDDEV_POP",),
    stands_for="VAR_POP", before=_as_double, after=SQRT)
