"""Aggregates over many frames of one segment, by running sums."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.base.arrow_memory import floats
from xmlpunct.expressions.int128 import unscaled
from xmlpunct.operators.group.aggregate import HALF, Accumulator
from xmlpunct.operators.time.over.segment import RowPositions
from xmlpunct.types import DOUBLE, INT, DecimalType

ExactInts = NDArray[Any]
"""Python integers, so that no sum overflows; shape (n,), dtype object."""

Before = tuple[pl.DataFrame, RowPositions]
"""The summary of each partition's dropped rows, and for each frame the number of its partition."""

_UNIT = 2**1074
"""A DOUBLE is a multiple of 1 / _UNIT."""
_OVERFLOW = (2**1024 - 2**970) * _UNIT
"""The least sum that is rounded to infinity."""


class Sums:
    """COUNT, SUM or AVG of any frames: the difference of two running sums, plus a summary ``before`` if there is one.

    The sums are the partial columns of an `Accumulator`. Finite DOUBLEs are summed exactly, and non-finite ones are
    counted, so that no rounding error remains when a value leaves a frame.
    """

    def __init__(self, a: Accumulator, rows: pl.DataFrame) -> None:
        self._a = a
        terms = rows.select(_terms(a))
        zero = terms.clear(1).select(pl.all().fill_null(0))
        self._running = pl.concat([zero, terms.select(pl.all().cum_sum())])
        self._exact = _running_sums(rows[str(a.aggregate.argument)]) if is_exact(a) else None

    def over(
        self, low: RowPositions, high: RowPositions, before: Before | None
    ) -> tuple[pl.DataFrame, ExactInts | None]:
        """The partial columns of frames, and the exact sums."""
        sums = pl.DataFrame(
            [c.gather(high) - c.gather(low) for c in self._running.iter_columns()],
            schema=self._running.schema,
        )
        exact = None if self._exact is None else self._exact[high] - self._exact[low]
        if before is not None:
            summaries, group = before
            sums = pl.DataFrame([c + summaries[c.name].gather(group) for c in sums.iter_columns()])
            if exact is not None:
                texts = summaries[f"{self._a.prefix}.exact"].to_list()
                exact = exact + np.array([int(text, 16) for text in texts], dtype=object)[group]
        return sums, exact

    def summary(self, low: RowPositions, high: RowPositions, before: Before) -> pl.DataFrame:
        """The partial columns in the form in which summaries retain them."""
        sums, exact = self.over(low, high, before)
        if exact is None:
            return sums
        return sums.with_columns(pl.Series(f"{self._a.prefix}.exact", list(map(hex, exact)), dtype=pl.String))

    def finish(self, sums: pl.DataFrame, exact: ExactInts | None) -> tuple[pl.Series, pl.Series]:
        """The results, and whether each is outside the range of its type."""
        if exact is None:
            results = self._a.finish(sums)
            return results, self._a.failed(sums, results)
        names = ("count", "nan", "above", "below")
        count, nan, above, below = (sums[f"{self._a.prefix}.{n}"].to_numpy() for n in names)
        units = np.where(count > 0, count, 1).astype(object) if self._a.aggregate.function == "AVG" else 1
        values = _round_quotients(exact, units)
        values = np.where(above > 0, np.inf, np.where(below > 0, -np.inf, values))
        values = np.where((nan > 0) | ((above > 0) & (below > 0)), np.nan, values) + 0.0
        results = floats("result", values, count == 0)
        return results, pl.Series([False]).new_from_index(0, len(results))


def is_exact(a: Accumulator) -> bool:
    """Whether an aggregate is a sum of DOUBLEs."""
    return a.aggregate.function in ("SUM", "AVG") and a.type is DOUBLE


def empty_partials(a: Accumulator) -> Mapping[str, object]:
    """The partial columns of no rows, in the form of summaries."""
    if not is_exact(a):
        return a.empty()
    return {f"{a.prefix}.{n}": 0 for n in ("count", "nan", "above", "below")} | {f"{a.prefix}.exact": "0x0"}


def _terms(a: Accumulator) -> list[pl.Expr]:
    """The amounts that each row adds to the partial columns."""
    if a.aggregate.argument is None:
        return [pl.repeat(1, pl.len(), dtype=pl.Int64()).alias(f"{a.prefix}.count")]
    value = pl.col(a.aggregate.argument)
    count = value.is_not_null().cast(pl.Int64).alias(f"{a.prefix}.count")
    if a.aggregate.function == "COUNT":
        return [count]
    if a.type is DOUBLE:
        special = {"nan": value.is_nan(), "above": value == float("inf"), "below": value == -float("inf")}
        return [
            count,
            *(e.fill_null(False).cast(pl.Int64).alias(f"{a.prefix}.{n}") for n, e in special.items()),
        ]
    if isinstance(a.type, DecimalType):
        digits = unscaled(value)
        parts = {"high": digits // HALF, "low": digits % HALF}
        return [count, *(e.fill_null(0).alias(f"{a.prefix}.{name}") for name, e in parts.items())]
    assert a.type is INT
    return [count, value.fill_null(0).cast(pl.Int128).alias(f"{a.prefix}.sum")]


def _running_sums(column: pl.Series) -> ExactInts:
    """The exact sums of the finite values before each position, in units of 1 / _UNIT; shape (n + 1,)."""
    values = column.fill_null(0.0).to_numpy()
    values = np.where(np.isfinite(values), values, 0.0)
    shift = np.maximum(np.frexp(values)[1] + 1021, 0)
    mantissas = np.ldexp(values, 1074 - shift).astype(np.int64).astype(object)
    sums = np.zeros(len(values) + 1, dtype=object)
    np.cumsum(np.left_shift(mantissas, shift.astype(object)), out=sums[1:])
    return sums


def _round_quotients(sums: ExactInts, counts: ExactInts | int) -> NDArray[np.float64]:
    """Sums divided by counts, rounded once."""
    overflows = np.abs(sums) >= _OVERFLOW * counts
    infinite = np.where(sums > 0, np.inf, -np.inf)
    finite = np.where(overflows, 0, sums)
    rounded: NDArray[np.float64] = np.where(
        overflows, infinite, np.true_divide(finite, counts * _UNIT).astype(float)
    )
    return rounded
