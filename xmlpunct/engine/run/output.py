"""The last step: result slices become the bytes of the output."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import polars as pl

from xmlpunct.base.errors import Reject
from xmlpunct.firehose import Writer
from xmlpunct.operators.iterator import as_text
from xmlpunct.punctuations.promised import Promised
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice


class Output:
    """Turns result slices into bytes.

    Tuples are sorted within a slice, so that equal slices give equal bytes; ``ordered`` tuples keep their order.
    A tuple that matches an earlier punctuation is dropped and counted as ``late``: written results never change.
    Punctuations that earlier ones imply are not written. The writer's end marks the end of the stream, never a
    punctuation. ``unfit`` computes the reasons why tuples cannot be written; default: `Writer.unfit`.
    """

    def __init__(
        self,
        schema: Schema,
        writer: Writer,
        ordered: bool = False,
        unfit: Callable[[pl.DataFrame], pl.Series | None] | None = None,
    ) -> None:
        self.schema, self.writer, self.ordered = schema, writer, ordered
        self._unfit = unfit or writer.unfit
        self.tuples = self.punctuations = self.late = 0
        self._written = Promised(schema)

    def fitting(self, slice_: Slice) -> tuple[Slice, list[Reject]]:
        """Split a slice into the tuples that the output format can represent, and rejects."""
        reasons = self._unfit(slice_.tuples)
        if reasons is None:
            return slice_, []
        fits = reasons.is_null()
        rows = slice_.tuples.filter(~fits).iter_rows(named=True)
        rejects = [
            Reject("output", None, None, reason, as_text(row))
            for row, reason in zip(rows, reasons.drop_nulls(), strict=True)
        ]
        before = slice_.before and [int(fits[:position].sum()) for position in slice_.before]
        return Slice(slice_.tuples.filter(fits), slice_.punctuations, before), rejects

    def prepare(self, slice_: Slice) -> Slice:
        """The tuples and punctuations of a slice to write, in order."""
        tuples = slice_.tuples
        if tuples.height:
            late = self._written.mask(tuples)
            if late.any():
                self.late += int(late.sum())
                tuples = tuples.filter(~late)
        punctuations = self._written.news(slice_.punctuations.ordered())
        self._written.add(punctuations)
        self.tuples += tuples.height
        self.punctuations += len(punctuations)
        if not self.ordered and tuples.height > 1:
            tuples = tuples.sort(tuples.columns, nulls_last=True)
        return Slice(tuples, punctuations)

    def count(self, tuples: int, late: int) -> None:
        """Count tuples that were written without this object, and late tuples."""
        self.tuples += tuples
        self.late += late

    def body(self, slice_: Slice) -> bytes:
        """The bytes of a slice."""
        ready = self.prepare(slice_) if slice_ else slice_
        return self.writer.body(ready) if ready else b""

    @property
    def counts(self) -> dict[str, int]:
        """Counters, with the field names of `xmlpunct.engine.run.stats.OutputStats`."""
        return {
            "tuples": self.tuples,
            "punctuations": self.punctuations,
            "late": self.late,
            "forgotten": self.forgotten,
        }

    @property
    def forgotten(self) -> int:
        """Number of written punctuations that were dropped; late tuples that match them are not detected."""
        return self._written.forgotten

    def snapshot(self) -> dict[str, pl.DataFrame]:
        """The state for a checkpoint: counters and written punctuations."""
        counts = {"tuples": [self.tuples], "punctuations": [self.punctuations], "late": [self.late]}
        return {**self._written.snapshot(), "counts": pl.DataFrame(counts)}

    def restore(self, snapshot: Mapping[str, pl.DataFrame]) -> None:
        """Restore a `snapshot`."""
        self.tuples, self.punctuations, self.late = snapshot["counts"].row(0)
        self._written.restore(snapshot)
