"""The last step: from result slices to the bytes of the output."""

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

    Inside a slice the output is sorted, so that the same slices give the same bytes, unless the tuples are
    ``ordered``: then their order is the query's. A tuple that matches a
    punctuation written earlier is dropped and counted as ``late``: results already given never change. A
    punctuation that says nothing new is not written again. The
    end of the stream is said by the writer's end, never by a punctuation. ``unfit`` says of tuples why they cannot be
    written; the writer does if it is not given.
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

    def fitting(self, given: Slice) -> tuple[Slice, list[Reject]]:
        """What of a slice the form of output can hold, and the rejects that the other tuples are."""
        reasons = self._unfit(given.tuples)
        if reasons is None:
            return given, []
        fits = reasons.is_null()
        rows = given.tuples.filter(~fits).iter_rows(named=True)
        rejects = [
            Reject("output", None, None, reason, as_text(row))
            for row, reason in zip(rows, reasons.drop_nulls(), strict=True)
        ]
        before = given.before and [int(fits[:place].sum()) for place in given.before]
        return Slice(given.tuples.filter(fits), given.punctuations, before), rejects

    def prepare(self, given: Slice) -> Slice:
        """What of a slice is to be written, in order."""
        tuples = given.tuples
        if tuples.height:
            late = self._written.mask(tuples)
            if late.any():
                self.late += int(late.sum())
                tuples = tuples.filter(~late)
        fresh = self._written.news(given.punctuations.ordered())
        self._written.add(fresh)
        self.tuples += tuples.height
        self.punctuations += len(fresh)
        if not self.ordered and tuples.height > 1:
            tuples = tuples.sort(tuples.columns, nulls_last=True)
        return Slice(tuples, fresh)

    def count(self, tuples: int, late: int) -> None:
        """Count tuples that somebody else prepared and wrote, and those that were too late."""
        self.tuples += tuples
        self.late += late

    def body(self, given: Slice) -> bytes:
        """The bytes of a slice."""
        ready = self.prepare(given) if given else given
        return self.writer.body(ready) if ready else b""

    @property
    def counts(self) -> dict[str, int]:
        """What went through it, as `xmlpunct.engine.run.stats.OutputStats` names it."""
        return {
            "tuples": self.tuples,
            "punctuations": self.punctuations,
            "late": self.late,
            "forgotten": self.forgotten,
        }

    @property
    def forgotten(self) -> int:
        """How many written punctuations were forgotten, so that tuples they match would pass unseen."""
        return self._written.forgotten

    def snapshot(self) -> dict[str, pl.DataFrame]:
        """What was written, for a checkpoint."""
        counts = {"tuples": [self.tuples], "punctuations": [self.punctuations], "late": [self.late]}
        return {**self._written.snapshot(), "counts": pl.DataFrame(counts)}

    def restore(self, snapshot: Mapping[str, pl.DataFrame]) -> None:
        """Take what a snapshot says was written."""
        self.tuples, self.punctuations, self.late = snapshot["counts"].row(0)
        self._written.restore(snapshot)
