"""Builds the output of the reader: slices, rejects and errors, from the cells and punctuations of a split."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import inf

import numpy as np
import polars as pl

from xmlpunct.base.arrow_memory import booleans
from xmlpunct.base.errors import Reject, SourceError
from xmlpunct.base.unread import ABSENT, CLOSED, DROPPED, Overlooked, add
from xmlpunct.firehose.cells import CellInts, Cells, nulls, typed_column
from xmlpunct.firehose.infer.misfit import Misfit, fitting
from xmlpunct.firehose.items import Items, array_column
from xmlpunct.firehose.labels import Label, labelled
from xmlpunct.firehose.libxml.malformed import SplitPositions
from xmlpunct.firehose.libxml.xsd_validator import invalid
from xmlpunct.firehose.position import Split
from xmlpunct.firehose.shape import Shape
from xmlpunct.firehose.spec import StreamSpec
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import ArrayType
from xmlpunct.schema.attribute import Attribute
from xmlpunct.schema.provenance import placed
from xmlpunct.slice import Slice, concat

LATE = "it comes after tuples that it applies to"
"""The reason for rejecting a child of an ancestor."""


@dataclass
class Parsed:
    """The output of a split; each list has an item per stream.

    ``dropped`` counts punctuations that are omitted because they constrain an undeclared attribute. ``read`` counts all
    punctuations, also dropped and empty ones. ``error`` is an error of the source: the slices have all tuples before
    it, and the source ends there. ``misfit``: the offset of the first tuple that a guessed schema does not fit, and the
    reason, if that is an error; the slices are not cut there. ``overlooked`` also counts (as `ABSENT`) tuples without a
    value at a required path.
    """

    slices: list[Slice] = field(default_factory=list)
    rejects: list[list[Reject]] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    overlooked: list[Overlooked] = field(default_factory=list)
    error: SourceError | None = None
    misfit: tuple[int, str] | None = None
    rows: list[tuple[SplitRows, list[int] | None]] = field(default_factory=list)
    """By stream, the rows of the split, and the numbers of the rows that the slice contains (None: all)."""
    rejection: Callable[[int, int, str], Reject] | None = None
    """Creates the reject of a delivered tuple from (stream number, row, reason). It retains the bytes of the split; see
    `settle`."""

    def settle(self) -> Parsed:
        """Release the bytes of the split. No more rejects can be created."""
        self.rows, self.rejection = [], None
        return self

    def close(self, labels: Sequence[Label]) -> None:
        """Append the punctuations that the labels imply at the end of the source."""
        for stream, label in enumerate(labels):
            if label.closes:
                slice_ = self.slices[stream]
                slice_.punctuations = PunctuationBatch.concat([slice_.punctuations, [label.closing]])
                slice_.before.append(slice_.tuples.height)
                self.read[stream] += 1
                add(self.overlooked[stream], {CLOSED: {"": 1}})


def joined_splits(specs: Sequence[StreamSpec], parts: Sequence[Parsed]) -> Parsed:
    """Concatenate the output of consecutive splits. Only the last may have an error."""
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
    total.rejection = partial(_joined_rejection, parts)
    return total


def _joined_rejection(parts: Sequence[Parsed], stream: int, row: int, reason: str) -> Reject:
    """`Parsed.rejection` of consecutive splits."""
    for part in parts:
        height = part.slices[stream].tuples.height
        if row < height and part.rejection is not None:
            return part.rejection(stream, row, reason)
        row -= height
    raise IndexError(row)


@dataclass(slots=True)
class SplitRows:
    """The tuples of a stream in a split: their cells by slot, and (slot, reason) of structural faults by row.

    ``locate`` returns the offset and the text of a row, ``offsets`` and ``ends`` the offsets of all rows and of their
    ends. ``items`` has the items of arrays, by table. ``late`` has (offset, text, slot) of each ancestor value that
    came after its tuples.
    """

    count: int
    cells: list[Cells]
    faults: dict[int, tuple[int, str]]
    locate: Callable[[int], tuple[int, str]]
    offsets: Callable[[], CellInts]
    ends: Callable[[], CellInts]
    items: list[Items]
    late: list[tuple[int, str, int]] = field(default_factory=list)
    open_at: float = inf
    """The offset of a tuple that an error leaves incomplete."""


class _Rejects:
    """Creates rejects of tuples. It must not refer to the `Parsed`, which refers to it: a cycle would delay freeing."""

    def __init__(self, split: Split) -> None:
        self._split = split
        self.rows: list[tuple[SplitRows, list[int] | None]] = []

    @cached_property
    def positions(self) -> SplitPositions:
        """The positions in the split."""
        return SplitPositions(self._split)

    def of(self, stream: int, row: int, reason: str) -> Reject:
        """The reject of a delivered tuple."""
        rows, row_numbers = self.rows[stream]
        return self.make(rows, row if row_numbers is None else row_numbers[row], reason)

    def make(self, rows: SplitRows, row: int, reason: str) -> Reject:
        """The reject of a tuple by its row in the split."""
        offset, text = rows.locate(row)
        return self.at(offset, reason, text)

    def at(self, offset: int, reason: str, text: str) -> Reject:
        """The reject of the text at an offset."""
        line, byte = self.positions.line(offset), self.positions.byte(offset)
        return Reject(self._split.source, line, byte, reason, text)


class SliceBuilder:
    """Builds the `Parsed` of a split, stream by stream. ``positions`` has its positions, if they exist already."""

    def __init__(self, split: Split, positions: SplitPositions | None = None) -> None:
        self._split, self._rejects = split, _Rejects(split)
        if positions is not None:
            self._rejects.positions = positions
        self.parsed = Parsed(rejection=self._rejects.of, rows=self._rejects.rows)

    def add(
        self,
        spec: StreamSpec,
        shape: Shape,
        rows: SplitRows,
        punctuations: Sequence[Punctuation | None],
        before: CellInts,
        overlooked: Overlooked,
    ) -> None:
        """Add the next stream: its tuples, and its punctuations with the number of rows ``before`` each."""
        schema, reasons_by_row, series, end = spec.schema, dict[int, str](), list[pl.Series](), rows.count
        absent, columns_by_row = dict[str, int](), dict[int, Attribute]()
        faulty: dict[int, str]
        labels = self._split.labels
        label = labels[len(self.parsed.slices)].by_name if labels else {}
        for attribute, slot in zip(schema, shape.tables[0].slots, strict=True):
            is_array = isinstance(attribute.type, ArrayType)
            if not spec.judges(attribute.name):
                values, faulty = nulls(attribute.name, attribute.type, rows.count), {}
            elif is_array:
                values, faulty = array_column(attribute.name, rows.items, shape.tables, slot, rows.count)
            elif attribute.name in label:
                values, faulty = labelled(attribute, rows.cells[slot], label[attribute.name])
            else:
                values, faulty = typed_column(attribute, rows.cells[slot], spec.wants(attribute.name))
            series.append(values)
            if not is_array and values.null_count() and spec.wants(attribute.name):
                absent[attribute.path] = int(np.count_nonzero(rows.cells[slot].missing))
            for row, reason in faulty.items():
                reasons_by_row.setdefault(row, reason)
                columns_by_row.setdefault(row, attribute)
        for row, (slot, reason) in rows.faults.items():
            reasons_by_row[row] = f"attribute {shape.names[slot]}: {reason}"
        # A value that differs from the name of its file is a reject: no other columns would fit it.
        contradicting = {row for row, attribute in columns_by_row.items() if attribute.name in label}
        if spec.remedy is not None and (misfits := reasons_by_row.keys() - contradicting):
            row = min(misfits)
            remedy = spec.remedy(_fitting_columns(spec, shape, rows, row, columns_by_row.get(row)))
            misfit = rows.locate(row)[0], f"{reasons_by_row[row]}; {remedy}"
            self.parsed.misfit = min(self.parsed.misfit or misfit, misfit)
        if spec.validity is not None and rows.count:
            reasons, failure = invalid(spec.validity, self._rejects.positions, spec.tag, rows.offsets())
            reasons_by_row = reasons | reasons_by_row
            if failure is not None and failure.byte is not None:
                end = int(np.searchsorted(rows.offsets(), failure.byte))
                self.fail(failure.byte, failure.reason)
        bad, valid_rows = sorted(row for row in reasons_by_row if row < end), None
        if bad or end < rows.count:
            good = np.arange(rows.count) < end
            good[bad] = False
            valid_rows, good_ones = np.flatnonzero(good).tolist(), booleans(good)
            # a data frame's filter would need threads
            series = [values.filter(good_ones) for values in series]
        tuples = (
            pl.DataFrame(series)
            if series
            else pl.DataFrame(height=rows.count if valid_rows is None else len(valid_rows))
        )
        if spec.placed:
            tuple_offsets = rows.offsets() if valid_rows is None else rows.offsets()[valid_rows]
            split, lines = self._split, self._rejects.positions.lines(tuple_offsets)
            tuples = placed(tuples, split.source, lines, split.start.byte + tuple_offsets)
        if end < rows.count:  # drop all from the first tuple that was not validated
            until = int(np.searchsorted(before, end, "right"))
            punctuations, before = punctuations[:until], before[:until]
        batch, dropped = _without_empty(punctuations)
        if len(batch) < len(punctuations):
            before = before[[p is not None and not p.is_empty for p in punctuations]]
        before = before - np.searchsorted(bad, before) if bad else before
        self._rejects.rows.append((rows, valid_rows))
        parsed = self.parsed
        parsed.slices.append(Slice(tuples, batch, before.tolist()))
        rejects = [self._rejects.make(rows, row, reasons_by_row[row]) for row in bad]
        for offset, text, slot in rows.late:
            rejects.append(self._rejects.at(offset, f"attribute {shape.names[slot]}: {LATE}", text))
        parsed.rejects.append(sorted(rejects, key=lambda r: r.byte or 0) if rows.late else rejects)
        parsed.dropped.append(dropped)
        parsed.read.append(len(punctuations))
        counts = {DROPPED: {spec.element: dropped}, ABSENT: absent}
        nonzero_counts = (
            (kind, {name: n for name, n in names.items() if n}) for kind, names in counts.items()
        )
        parsed.overlooked.append(overlooked | {kind: names for kind, names in nonzero_counts if names})

    def fail(self, offset: int, reason: str) -> None:
        """Record an error of the source. The error at the lowest byte wins."""
        line, byte = self._rejects.positions.line(offset), self._rejects.positions.byte(offset)
        earlier_error = self.parsed.error
        if earlier_error is None or earlier_error.byte is None or byte < earlier_error.byte:
            self.parsed.error = SourceError(self._split.source, reason, line, byte)


def _fitting_columns(
    spec: StreamSpec, shape: Shape, rows: SplitRows, row: int, column: Attribute | None
) -> Schema:
    """The needed columns, changed so that a row fits them; ``column`` is the first with an invalid value in it."""
    columns = [a for a in spec.schema if spec.judges(a.name)]
    if row in rows.faults:
        return fitting(columns, shape.names[rows.faults[row][0]], Misfit.REPEATED)
    assert column is not None
    slot = shape.slots[spec.schema.index(column.name)]
    is_missing = slot >= 0 and rows.cells[slot].missing[row]
    return fitting(columns, column.name, Misfit.MISSING if is_missing else Misfit.TYPE)


def _without_empty(punctuations: Sequence[Punctuation | None]) -> tuple[PunctuationBatch, int]:
    """The punctuations that are not empty or None, and the number of Nones."""
    if isinstance(punctuations, PunctuationBatch) and punctuations.in_columns:  # no None, and none is empty
        return punctuations, 0
    declared = [p for p in punctuations if p is not None]
    return PunctuationBatch(declared).possible(), len(punctuations) - len(declared)
