"""Aggregates over many frames of one segment, by running sums."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from xmlpunct.operators.exact_sums import SUM_DTYPE, ExactSums
from xmlpunct.operators.group.aggregate import Accumulator
from xmlpunct.operators.group.aggregate_functions import DoubleSums
from xmlpunct.operators.time.over.segment import RowPositions

Before = tuple[pl.DataFrame, RowPositions]
"""The summary of each partition's dropped rows, and for each frame the number of its partition."""


class Sums:
    """Sums over any frames: the difference of two running sums, plus a summary ``before`` if there is one.

    The sums are the partial columns of an `Accumulator`. Sums of DOUBLEs are exact (`exact_sums`), so no rounding error
    remains when a value leaves a frame.
    """

    def __init__(self, a: Accumulator, rows: pl.DataFrame) -> None:
        self._a = a
        ones = pl.repeat(1, pl.len(), dtype=pl.Int64())
        terms = rows.select([a.value_count(ones)] if isinstance(a, DoubleSums) else a.amounts(ones))
        zero = terms.clear(1).select(pl.all().fill_null(0))
        self._running = pl.concat([zero, terms.select(pl.all().cum_sum())])
        self._exact: dict[str, ExactSums] = {}
        if isinstance(a, DoubleSums):
            column = rows[str(a.aggregate.argument)]
            owners = np.flatnonzero(column.is_not_null().to_numpy())
            self._exact = {
                name: ExactSums.of(terms(column.drop_nulls(), owners), len(column)).running()
                for name, terms in zip(a.sums, a.TERMS.values(), strict=True)
            }

    def over(
        self, low: RowPositions, high: RowPositions, before: Before | None
    ) -> tuple[pl.DataFrame, dict[str, ExactSums]]:
        """The partial columns of frames, and the exact sums."""
        sums = pl.DataFrame(
            [c.gather(high) - c.gather(low) for c in self._running.iter_columns()],
            schema=self._running.schema,
        )
        exact = {name: sums.take(high) - sums.take(low) for name, sums in self._exact.items()}
        if before is not None:
            summaries, group = before
            sums = pl.DataFrame([c + summaries[c.name].gather(group) for c in sums.iter_columns()])
            for name in exact:
                exact[name] += ExactSums.of_column(summaries[name]).take(group)
        return sums, exact

    def summary(self, low: RowPositions, high: RowPositions, before: Before) -> pl.DataFrame:
        """The partial columns in the form in which summaries retain them."""
        sums, exact = self.over(low, high, before)
        return sums.hstack([part.column(name) for name, part in exact.items()])

    def finish(self, sums: pl.DataFrame, exact: Mapping[str, ExactSums]) -> tuple[pl.Series, pl.Series]:
        """The results, and whether each is outside the range of its type."""
        if isinstance(self._a, DoubleSums):
            counts = sums[f"{self._a.prefix}.count"].to_numpy()
            results = self._a.with_nulls(counts, self._a.results(counts, *exact.values()))
        else:
            results = self._a.finish(sums)
        return results, self._a.failed(sums, results)


def empty_summary(a: Accumulator, empty: pl.DataFrame) -> dict[str, tuple[pl.DataType, object]]:
    """The columns of a summary, with their dtypes and their values for no rows."""
    if isinstance(a, DoubleSums):
        sums: dict[str, tuple[pl.DataType, object]] = dict.fromkeys(a.sums, (SUM_DTYPE, []))
        return {f"{a.prefix}.count": (pl.Int64(), 0)} | sums
    dtypes = empty.select(a.partials()).schema
    return {name: (dtype, a.empty()[name]) for name, dtype in dtypes.items()}
