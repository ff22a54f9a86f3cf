"""The limit of rejects, ``--max-rejects``.

A number limits all rejects. A share is checked for each input separately: at every `STEP`-th of its tuples, in document
order, and at its end. So the result depends on the inputs only, not on slices. An input is a stream from one sender;
its rejects are the ones with a position in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

import polars as pl

from xmlpunct.base.errors import Reject, SourceError, UsageError
from xmlpunct.schema.provenance import BYTE, SOURCE
from xmlpunct.slice import Slice

STEP = 10_000
BAD = "bad"


@dataclass(frozen=True)
class RejectLimit:
    """The maximal number of rejects (``max_rejects``), or the maximal share of the tuples (``percent``).

    >>> RejectLimit.parse("5").max_rejects, RejectLimit.parse("2.5%").percent
    (5, Decimal('2.5'))
    """

    text: str
    max_rejects: int | None = None
    percent: Decimal | None = None

    @classmethod
    def parse(cls, text: str) -> RejectLimit:
        """A limit from an option. Raises `UsageError`."""
        if re.fullmatch(r"[0-9]{1,15}", text):
            return cls(text, max_rejects=int(text))
        if re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,9})?%", text) and (percent := Decimal(text[:-1])) <= 100:
            return cls(text, percent=percent)
        raise UsageError(
            f"--max-rejects {text}: write a number, such as 100, or a share of the tuples, such as 0.5%"
        )

    def first(self, rejects: list[Reject], before: int) -> tuple[list[Reject], SourceError | None]:
        """The rejects up to the first one beyond the limit, and its error; ``before`` counts earlier rejects."""
        if self.max_rejects is None or before + len(rejects) <= self.max_rejects:
            return rejects, None
        counted_rejects = rejects[: max(1, self.max_rejects + 1 - before)]
        last = counted_rejects[-1]
        reason = f"more rejects than --max-rejects {self.text}: {last.reason}"
        return counted_rejects, SourceError(last.source, reason, last.line, last.byte)

    def share(self, name: str, counts: list[int], bad: pl.Series, ended: bool) -> SourceError | None:
        """The error if the share of ``bad`` tuples of an input is too large at a check among its next tuples.
        ``counts`` holds the numbers of tuples and of bad tuples so far; it is updated."""
        before, wrong = counts
        counts[:] = [before + len(bad), wrong + int(bad.sum())]
        first = STEP - 1 - before % STEP
        checks: list[tuple[int, int]] = []
        if first < len(bad):
            sums = (bad.cast(pl.Int64()).cum_sum() + wrong).gather_every(STEP, first)
            checks += ((before + first + 1 + i * STEP, rejects) for i, rejects in enumerate(sums))
        if ended:
            checks.append((counts[0], counts[1]))
        assert self.percent is not None
        for tuples, rejects in checks:
            if rejects * 100 > self.percent * tuples:
                reason = f"{rejects:,} of its first {tuples:,} tuples are rejects, more than --max-rejects {self.text}"
                return SourceError(name, reason)
        return None


def source_positions(parts: Sequence[str], slice_: Slice, rejects: Iterable[Reject]) -> pl.DataFrame:
    """Source positions of the tuples and rejects of a slice, in document order, with the flag ``bad`` for rejects.
    ``parts`` are the names of the source's parts, in order."""
    reject_rows = [(reject.source, reject.byte, True) for reject in rejects]
    schema = {SOURCE: pl.String(), BYTE: pl.Int64(), BAD: pl.Boolean()}
    read = slice_.tuples.select(SOURCE, BYTE, pl.lit(False).alias(BAD))
    tuples = pl.concat([read, pl.DataFrame(reject_rows, schema=schema, orient="row")])
    if not reject_rows:
        return tuples
    order = pl.col(SOURCE).replace_strict({name: i for i, name in enumerate(parts)}, default=len(parts))
    return tuples.sort(order, BYTE)


def rejected_flags(tuples: pl.DataFrame, rejects: Iterable[Reject]) -> pl.Series:
    """Flags of the tuples (from `source_positions`) that are bad, including tuples rejected later by operators."""
    reject_positions = {(reject.source, reject.byte) for reject in rejects if reject.byte is not None}
    if not reject_positions:
        return tuples[BAD]
    schema = {SOURCE: pl.String(), BYTE: pl.Int64()}
    positions = pl.DataFrame(list(reject_positions), schema=schema, orient="row").with_columns(late=True)
    joined = tuples.join(positions, on=[SOURCE, BYTE], how="left", maintain_order="left")
    return joined.select(pl.col(BAD) | pl.col("late").fill_null(False)).to_series()
