"""overlap: drops the rows of a live source that its archive has as well.

The two ways to find them, by a column in order and by key, make it long.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import polars as pl

from xmlpunct.base.errors import SourceError
from xmlpunct.operators.arrangement import Arrangement, row_flags
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.state import State, StateCell
from xmlpunct.operators.time.access_order import numbers_of
from xmlpunct.operators.time.late_filter import LATE
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.schema.provenance import BYTE, LINE, SOURCE


@dataclass(frozen=True)
class Overlap:
    """How rows of an archive are found again in a live source.

    live: the beginning of the names of its parts. column: a column in order, with its ``slack`` in steps; None: by
    ``key``. proven: the live source must begin inside the archive.
    """

    live: str
    column: str | None
    slack: float = 0
    key: tuple[str, ...] = ()
    proven: bool = True


class DropOverlap(Operator):
    """Drops rows of the live source that the archive has. Raises `SourceError` if it does not begin in the archive.

    By a column in order with slack s, m is the archive's maximum: live rows below m - s are overlap, and from m - s on
    each row of the archive removes one equal live row. The first live value has to be below m - 2s. By key, a live row
    that is equal to a row of the archive is overlap, and another row with its key is a reject; the first live row has
    to be in the archive.

    - cpass   = archive ++ [t | t in live, not overlap(t)]
    - cprop   = ps
    - ckeep   = [t | t in archive, t.a >= m - s], or the archive by key

    >>> from xmlpunct.operators.notation import show
    >>> from xmlpunct.schema.provenance import with_origin
    >>> a = with_origin(Schema.parse("a INT NOT NULL"))
    >>> show(DropOverlap(a, Overlap("new", "a")), "1 old 1 3; 2 old 2 9", "1 new 1 3; 2 new 2 9; 2 new 3 15")
    1 old 1 3; 2 old 2 9             -> 1 old 1 3; 2 old 2 9
    1 new 1 3; 2 new 2 9; 2 new 3 15 -> 2 new 3 15
    """

    name = "overlap"

    def __init__(self, schema: Schema, overlap: Overlap) -> None:
        super().__init__((schema,), schema)
        self.overlap = overlap
        self._source, self._line = (
            next(n for n in schema.names if n.endswith(end)) for end in (SOURCE, LINE)
        )
        self._compared = [name for name in schema.names if not name.endswith((SOURCE, LINE, BYTE, LATE))]
        compared = schema.empty().select(self._compared)
        self._rows = Arrangement(compared, overlap.key)
        self._last = StateCell(schema.empty())  # the row of the archive's maximum, or its last row
        self._is_live = StateCell(False)
        self.state = State(rows=self._rows, last=self._last, live=self._is_live)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        is_live = tuples[self._source].str.starts_with(self.overlap.live).fill_null(False)
        archive, live = tuples.filter(~is_live), tuples.filter(is_live)
        if archive.height:
            self._retain(archive)
        if not live.height:
            return tuples
        if not self._is_live.value:
            self._is_live.value = True
            if self.overlap.proven and not self._begins_inside(live[:1]):
                self._refuse(live[:1])
        is_new = self._without_window(live) if self.overlap.column is not None else self._without_keys(live)
        return pl.concat([archive, live.filter(is_new)])

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        return self.schema.empty(), batch

    def _reaches(self, tuples: pl.DataFrame, slacks: int) -> pl.Series:
        """For each row, whether its value is at least the archive's maximum less some slacks."""
        type_, column = self.schema[str(self.overlap.column)].type, str(self.overlap.column)
        maximum = numbers_of(type_, self._last.value[column]).item()
        limit = maximum - slacks * (int(self.overlap.slack) if type_.discrete else self.overlap.slack)
        numbers = numbers_of(type_, tuples[column]).to_frame("n")
        return numbers.select(pl.col("n") >= pl.lit(limit, dtype=numbers["n"].dtype)).to_series()

    def _retain(self, archive: pl.DataFrame) -> None:
        if self.overlap.column is None:
            self._rows.append(archive.select(self._compared))
            self._last.value = archive[-1:]
            return
        rows = pl.concat([self._last.value, archive])
        self._last.value = rows.sort(self.overlap.column, maintain_order=True)[-1:]
        rows = pl.concat([self._rows.frame, archive.select(self._compared)])
        self._rows.clear()
        self._rows.append(rows.filter(self._reaches(rows, 1)))

    def _begins_inside(self, first: pl.DataFrame) -> bool:
        if not self._last.value.height:
            return False
        if self.overlap.column is not None:
            return not self._reaches(first, 2)[0]
        return not self._without_keys(first, is_reporting=False)[0]

    def _refuse(self, first: pl.DataFrame) -> None:
        names = [self.overlap.column] if self.overlap.column is not None else self.overlap.key
        ends = []
        for rows in (self._last.value, first):
            for row in rows.iter_rows(named=True):
                values = ", ".join(f"{name} = {row[name]}" for name in names)
                ends.append(f"{values} ({row[self._source]}, line {row[self._line]})")
        archive = f"the archive ends at {ends[0]}" if len(ends) > 1 else "the archive has no rows"
        reason = f"{archive}, and the live source begins at {ends[-1]}: rows may be missing between the two. If none is"
        raise SourceError(first[self._source][0], f"{reason}, write CONTIGUOUS")

    def _without_window(self, live: pl.DataFrame) -> pl.Series:
        """For each live row, whether it is new, by the column in order."""
        if not self._last.value.height:
            return pl.repeat(True, live.height, eager=True)
        is_new = self._reaches(live, 1)
        if not len(self._rows):
            return is_new
        left = Counter(map(repr, self._rows.frame.iter_rows()))
        rows, flags = live.select(self._compared).filter(is_new), list[bool]()
        for row in map(repr, rows.iter_rows()):
            flags.append(not left[row])
            left[row] -= left[row] > 0
        self._forget(left)
        return is_new.scatter(is_new.arg_true(), pl.Series(flags, dtype=pl.Boolean)) if flags else is_new

    def _forget(self, left: Counter[str]) -> None:
        """Retain each row of the archive as often as no live row was equal to it."""
        kept = list[int]()
        for number, row in enumerate(map(repr, self._rows.frame.iter_rows())):
            if left[row] > 0:
                left[row] -= 1
                kept.append(number)
        rows = self._rows.frame[kept]
        self._rows.clear()
        self._rows.append(rows)

    def _without_keys(self, live: pl.DataFrame, is_reporting: bool = True) -> pl.Series:
        """For each live row, whether its key is new. A row with a key of the archive and other values is a reject."""
        rows = live.select(self._compared)
        positions, found = self._rows.probe(rows)
        pairs = zip(self._rows.take(found).iter_rows(), rows[positions].iter_rows(), strict=True)
        is_equal = np.array([repr(stored) == repr(row) for stored, row in pairs], np.bool_)
        has_key, is_overlap = row_flags(positions, live.height), row_flags(positions[is_equal], live.height)
        if is_reporting:
            reason = f"another row of the archive has its {', '.join(self.overlap.key)}"
            for row in live.filter(has_key & ~is_overlap).iter_rows(named=True):
                self.reject(row, reason)
            return ~has_key
        return ~is_overlap
