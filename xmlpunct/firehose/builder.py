"""What a reader delivers: slices, rejects and errors, from the texts and trees that were found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from xmlpunct.base.arrow_memory import booleans
from xmlpunct.base.errors import Reject, SourceError
from xmlpunct.base.unread import ABSENT, CLOSED, DROPPED, Overlooked, add
from xmlpunct.firehose.cells import Cells, Ints
from xmlpunct.firehose.items import Items, array_column
from xmlpunct.firehose.labels import Label, labelled
from xmlpunct.firehose.libxml.malformed import Places
from xmlpunct.firehose.libxml.xsd_validator import invalid
from xmlpunct.firehose.position import Split
from xmlpunct.firehose.shape import Shape
from xmlpunct.firehose.spec import StreamSpec
from xmlpunct.firehose.typed_columns import column
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema.arrays import ArrayType
from xmlpunct.schema.provenance import placed
from xmlpunct.slice import Slice, concat

LATE = "it comes after tuples that it is for"
"""Why a child of an ancestor is rejected."""


@dataclass
class Parsed:
    """What was read from a split; lists are per stream.

    ``dropped`` counts punctuations left out because they constrain an attribute that is not declared,
    ``read`` all that were read, those and the empty ones included. ``error`` is what is wrong with the
    source: everything before it is in the slices, and no more will come. ``overlooked`` holds also (as `ABSENT`) in
    how many tuples nothing is at a path that is needed.
    """

    slices: list[Slice] = field(default_factory=list)
    rejects: list[list[Reject]] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    overlooked: list[Overlooked] = field(default_factory=list)
    error: SourceError | None = None
    rejection: Callable[[int, int, str], Reject] | None = None
    """Makes a reject of a tuple that was read: of the stream of that number the one in that row, for a reason. It holds
    the bytes of the split; see `settle`."""

    def settle(self) -> Parsed:
        """Let go of the split: nobody will make a reject of what was read."""
        self.rejection = None
        return self

    def close(self, labels: Sequence[Label]) -> None:
        """Add, behind all else, the punctuations that follow from the name of what was read, now that it ends."""
        for stream, label in enumerate(labels):
            if label.closes:
                slice_ = self.slices[stream]
                slice_.punctuations = PunctuationBatch.concat([slice_.punctuations, [label.closing]])
                slice_.before.append(slice_.tuples.height)
                self.read[stream] += 1
                add(self.overlooked[stream], {CLOSED: {"": 1}})


def together(specs: Sequence[StreamSpec], parts: Sequence[Parsed]) -> Parsed:
    """What consecutive splits held, as one. Only the last may have an error."""
    if len(parts) == 1:
        return parts[0]
    total = Parsed(error=parts[-1].error if parts else None)
    for i, spec in enumerate(specs):
        total.slices.append(concat(spec.layout, [part.slices[i] for part in parts]))
        total.rejects.append([reject for part in parts for reject in part.rejects[i]])
        total.dropped.append(sum(part.dropped[i] for part in parts))
        total.read.append(sum(part.read[i] for part in parts))
        total.overlooked.append({})
        for part in parts:
            add(total.overlooked[i], part.overlooked[i])
    return total


@dataclass(slots=True)
class Rows:
    """The tuples of a stream in a split: their cells by slot, and what is wrong with the form of some.

    ``place`` tells the offset of a row in the split, and its text; ``offsets`` the offsets of all rows. ``items`` are
    those of arrays, by table. What came too ``late`` for tuples has an offset, a text and the slot that it was for.
    """

    count: int
    cells: list[Cells]
    faults: dict[int, tuple[int, str]]
    place: Callable[[int], tuple[int, str]]
    offsets: Callable[[], Ints]
    items: list[Items]
    late: list[tuple[int, str, int]] = field(default_factory=list)


class _Rejects:
    """Makes rejects of tuples. It knows nothing of what is delivered, which knows it: that is freed at once."""

    def __init__(self, split: Split, places: Places) -> None:
        self._split, self._places = split, places
        self.rows: list[tuple[Rows, list[int] | None]] = []

    def of(self, stream: int, row: int, reason: str) -> Reject:
        """A reject of a tuple that was read."""
        rows, kept = self.rows[stream]
        return self.make(rows, row if kept is None else kept[row], reason)

    def make(self, rows: Rows, row: int, reason: str) -> Reject:
        """A reject of any tuple."""
        offset, text = rows.place(row)
        return self.at(offset, reason, text)

    def at(self, offset: int, reason: str, text: str) -> Reject:
        """A reject of what stands somewhere."""
        line, byte = self._places.line(offset), self._places.byte(offset)
        return Reject(self._split.source, line, byte, reason, text)


class SliceBuilder:
    """Puts together what is read from a split."""

    def __init__(self, split: Split, places: Places) -> None:
        self._places, self._rejects = places, _Rejects(split, places)
        self.parsed = Parsed(rejection=self._rejects.of)

    def add(
        self,
        spec: StreamSpec,
        shape: Shape,
        rows: Rows,
        punctuations: Sequence[Punctuation | None],
        before: Ints,
        overlooked: Overlooked,
    ) -> None:
        """The next stream: its tuples, and its punctuations, with the number of rows ``before`` each."""
        schema, wrong, series, end = spec.schema, dict[int, str](), list[pl.Series](), rows.count
        absent: dict[str, int] = {}
        labels = self._places.split.labels
        label = labels[len(self.parsed.slices)].by_name if labels else {}
        for attribute, slot in zip(schema, shape.tables[0].slots, strict=True):
            if isinstance(attribute.type, ArrayType):
                values, faulty = array_column(attribute.name, rows.items, shape.tables, slot, rows.count)
                series.append(values)
                for row, reason in faulty.items():
                    wrong.setdefault(row, reason)
                continue
            if attribute.name in label:
                values, faulty = labelled(attribute, rows.cells[slot], label[attribute.name])
            else:
                values, faulty = column(attribute, rows.cells[slot], spec.wants(attribute.name))
            series.append(values)
            if values.null_count() and spec.wants(attribute.name):
                absent[attribute.path] = int(np.count_nonzero(rows.cells[slot].missing))
            for row, reason in faulty.items():
                wrong.setdefault(row, reason)
        for row, (slot, reason) in rows.faults.items():
            wrong[row] = f"attribute {shape.names[slot]}: {reason}"
        if spec.validity is not None and rows.count:
            reasons, failure = invalid(spec.validity, self._places, spec.tag, rows.offsets())
            wrong = reasons | wrong
            if failure is not None and failure.byte is not None:
                end = int(np.searchsorted(rows.offsets(), failure.byte))
                self.fail(failure.byte, failure.reason)
        bad, kept = sorted(row for row in wrong if row < end), None
        if bad or end < rows.count:
            good = np.arange(rows.count) < end
            good[bad] = False
            kept, good_ones = np.flatnonzero(good).tolist(), booleans(good)
            series = [values.filter(good_ones) for values in series]  # a frame's filter would need threads
        tuples = (
            pl.DataFrame(series) if series else pl.DataFrame(height=rows.count if kept is None else len(kept))
        )
        if spec.placed:
            at = rows.offsets() if kept is None else rows.offsets()[kept]
            split, lines = self._places.split, self._places.lines(at)
            tuples = placed(tuples, split.source, lines, split.start.byte + at)
        if end < rows.count:  # nothing counts from the first tuple on that was not judged
            until = int(np.searchsorted(before, end, "right"))
            punctuations, before = punctuations[:until], before[:until]
        said, dropped = _said(punctuations)
        if len(said) < len(punctuations):
            before = before[[p is not None and not p.is_empty for p in punctuations]]
        before = before - np.searchsorted(bad, before) if bad else before
        self._rejects.rows.append((rows, kept))
        parsed = self.parsed
        parsed.slices.append(Slice(tuples, said, before.tolist()))
        rejects = [self._rejects.make(rows, row, wrong[row]) for row in bad]
        for offset, text, slot in rows.late:
            rejects.append(self._rejects.at(offset, f"attribute {shape.names[slot]}: {LATE}", text))
        parsed.rejects.append(sorted(rejects, key=lambda r: r.byte or 0) if rows.late else rejects)
        parsed.dropped.append(dropped)
        parsed.read.append(len(punctuations))
        counts = {DROPPED: {spec.element: dropped}, ABSENT: absent}
        known = ((kind, {name: n for name, n in names.items() if n}) for kind, names in counts.items())
        parsed.overlooked.append(overlooked | {kind: names for kind, names in known if names})

    def fail(self, offset: int, reason: str) -> None:
        """Record an error of the source. The error at the lowest byte is kept."""
        line, byte = self._places.line(offset), self._places.byte(offset)
        known = self.parsed.error
        if known is None or known.byte is None or byte < known.byte:
            self.parsed.error = SourceError(self._places.split.source, reason, line, byte)


def _said(punctuations: Sequence[Punctuation | None]) -> tuple[PunctuationBatch, int]:
    """Those that say something, and how many are None."""
    if isinstance(punctuations, PunctuationBatch):  # made of what says something
        return punctuations, 0
    known = [p for p in punctuations if p is not None]
    return PunctuationBatch(known).possible(), len(punctuations) - len(known)
