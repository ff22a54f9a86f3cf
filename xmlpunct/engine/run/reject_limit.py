"""How many rejects a run bears: ``--max-rejects``.

A number counts all rejects. A share is judged for each input by itself: at every `STEP`-th of its tuples, in document
order, and at its end. So the verdict depends on the inputs alone, however they are sliced. An input is a stream from
one sender; its rejects are those that say where they stood in it.
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
    """At most so many rejects (``most``), or so many of a hundred tuples (``percent``).

    >>> RejectLimit.parse("5").most, RejectLimit.parse("2.5%").percent
    (5, Decimal('2.5'))
    """

    text: str
    most: int | None = None
    percent: Decimal | None = None

    @classmethod
    def parse(cls, text: str) -> RejectLimit:
        """A limit from an option. Raises `UsageError`."""
        if re.fullmatch(r"[0-9]{1,15}", text):
            return cls(text, most=int(text))
        if re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,9})?%", text) and (percent := Decimal(text[:-1])) <= 100:
            return cls(text, percent=percent)
        raise UsageError(
            f"--max-rejects {text}: write a number, such as 100, or a share of the tuples, such as 0.5%"
        )

    def first(self, rejects: list[Reject], before: int) -> tuple[list[Reject], SourceError | None]:
        """Of further rejects those up to the first that is too many, which is the failure; ``before`` came earlier."""
        if self.most is None or before + len(rejects) <= self.most:
            return rejects, None
        within = rejects[: max(1, self.most + 1 - before)]
        last = within[-1]
        reason = f"more rejects than --max-rejects {self.text}: {last.reason}"
        return within, SourceError(last.source, reason, last.line, last.byte)

    def share(self, name: str, counts: list[int], bad: pl.Series, ended: bool) -> SourceError | None:
        """The failure that the next tuples of an input are, if their share of ``bad`` ones is too large where it is
        judged. ``counts`` says how many tuples there were, and how many bad ones; it counts on."""
        before, wrong = counts
        counts[:] = [before + len(bad), wrong + int(bad.sum())]
        first = STEP - 1 - before % STEP
        judged: list[tuple[int, int]] = []
        if first < len(bad):
            sums = (bad.cast(pl.Int64()).cum_sum() + wrong).gather_every(STEP, first)
            judged += ((before + first + 1 + i * STEP, found) for i, found in enumerate(sums))
        if ended:
            judged.append((counts[0], counts[1]))
        assert self.percent is not None
        for tuples, found in judged:
            if found * 100 > self.percent * tuples:
                reason = f"{found:,} of its first {tuples:,} tuples are rejects, more than --max-rejects {self.text}"
                return SourceError(name, reason)
        return None


def in_order(parts: Sequence[str], given: Slice, rejects: Iterable[Reject]) -> pl.DataFrame:
    """Where each tuple of a slice stood, and whether it was ``bad``: those that were read, which say so themselves,
    and those that could not be, in document order. ``parts`` are the names of the source's parts, in order."""
    could_not = [(reject.source, reject.byte, True) for reject in rejects]
    schema = {SOURCE: pl.String(), BYTE: pl.Int64(), BAD: pl.Boolean()}
    read = given.tuples.select(SOURCE, BYTE, pl.lit(False).alias(BAD))
    tuples = pl.concat([read, pl.DataFrame(could_not, schema=schema, orient="row")])
    if not could_not:
        return tuples
    order = pl.col(SOURCE).replace_strict({name: i for i, name in enumerate(parts)}, default=len(parts))
    return tuples.sort(order, BYTE)


def marked(tuples: pl.DataFrame, rejects: Iterable[Reject]) -> pl.Series:
    """Which of the tuples (`in_order`) are bad, those included that were rejected since."""
    later = {(reject.source, reject.byte) for reject in rejects if reject.byte is not None}
    if not later:
        return tuples[BAD]
    schema = {SOURCE: pl.String(), BYTE: pl.Int64()}
    places = pl.DataFrame(list(later), schema=schema, orient="row").with_columns(late=True)
    found = tuples.join(places, on=[SOURCE, BYTE], how="left", maintain_order="left")
    return found.select(pl.col(BAD) | pl.col("late").fill_null(False)).to_series()
