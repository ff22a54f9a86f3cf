"""The work of a Spark task: reads whole files or ranges of a file, and converts tuples to rows."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
from pyspark.sql import types as spark

from xmlpunct.base.errors import Reject, SchemaError, StrictError, UsageError
from xmlpunct.base.paths import read_element
from xmlpunct.base.reject_log import RejectLog, log_notices
from xmlpunct.base.unread import UnreadCounter
from xmlpunct.engine.run.inputs.parse_ranges import parse_range
from xmlpunct.engine.run.inputs.parts import Input, Part
from xmlpunct.engine.run.inputs.ranges import Range
from xmlpunct.engine.spark.table.table_files import TablePart
from xmlpunct.engine.spark.table.table_options import Mode, TableOptions
from xmlpunct.firehose import Parser, SliceReader, StreamSpec
from xmlpunct.firehose.builder import Parsed
from xmlpunct.firehose.labels import Label
from xmlpunct.firehose.libxml.xsd_validator import validity_of

_log = logging.getLogger("xmlpunct")
SLICE_BYTES = 2**20
"""Bytes of a file per batch of rows, so that a batch fits into the processor's cache."""


@dataclass(frozen=True)
class TablePiece:
    """A part, or ``ranges`` of it, with the labels in its name."""

    part: TablePart
    labels: tuple[Label, ...] = ()
    ranges: tuple[Range, ...] | None = None


class TableRead:
    """Reads XML with these columns and options.

    Beside the columns of tuples there may be a column of punctuations and one of corrupt records. Raises `SchemaError`
    for columns that XML cannot represent, and `UsageError` for wrong options.
    """

    def __init__(self, columns: spark.StructType, options: TableOptions) -> None:
        if options.element is None:
            raise UsageError(
                'the element of the tuples is missing: set option("element", ...) or its alias rowTag'
            )
        self.columns, self.options = columns, options
        text_columns = {options.corrupt, options.punctuation}
        for name in text_columns & set(columns.names):
            if not isinstance(columns[name].dataType, spark.StringType):
                raise SchemaError(f"column {name} is a text: declare it STRING")
        if options.punctuation is not None and options.punctuation not in columns.names:
            raise SchemaError(f"the schema has no column {options.punctuation}: add it, as a STRING")
        if options.punctuation == options.corrupt:
            raise UsageError(
                f"columnNameOfPunctuation and columnNameOfCorruptRecord are both {options.corrupt}"
            )
        data = [field for field in columns.fields if field.name not in text_columns]
        self.layout = options.naming.layout(spark.StructType(data))
        tag = read_element(options.element)[-1]
        validity = None if options.xsd is None else validity_of(options.xsd, tag)
        row = options.row or options.element
        self.spec = StreamSpec(row, self.layout.schema, options.element, validity=validity)
        self.fields = {field.name: field for field in self.layout.fields}
        self.arrow = pa.schema(
            [
                pa.field(c.name, self.fields[c.name].arrow if c.name in self.fields else pa.string())
                for c in columns
            ]
        )

    @property
    def has_corrupt(self) -> bool:
        """True if there is a column of corrupt records."""
        return self.options.corrupt in self.columns.names

    @property
    def tolerates(self) -> bool:
        """True if reading continues with the next file after an ill-formed document."""
        mode = self.options.mode
        return mode is Mode.DROPMALFORMED or (mode is Mode.PERMISSIVE and self.has_corrupt)

    def read(self, pieces: tuple[TablePiece, ...]) -> Iterator[pa.RecordBatch]:
        """Read the rows of pieces. Raises `SourceError`, and in mode FAILFAST `StrictError` for a reject."""
        parser = Parser([self.spec], self.options.punct_namespace)
        log = RejectLog()
        try:
            for piece in pieces:
                watch = UnreadCounter(piece.part.name, self.spec.element)
                for parsed in self._parsed(piece, parser):
                    rejects = [*parsed.rejects[0]]
                    slice_ = parsed.slices[0]
                    tuples, wide = self.fitting(slice_.tuples, parsed)
                    rejects += wide
                    if rejects and self.options.mode is Mode.FAILFAST:
                        raise StrictError(f"mode FAILFAST: {rejects[0]}")
                    for reject in rejects:
                        log.add(reject)
                    count = tuples.height + len(rejects)
                    log_notices(watch.take(count, parsed.read[0], parsed.overlooked[0]))
                    corrupt = (
                        [reject.text for reject in rejects] if self.options.mode is Mode.PERMISSIVE else []
                    )
                    if parsed.error is not None:
                        if not self.tolerates:
                            raise parsed.error
                        _log.warning("%s; the rest of it is skipped", parsed.error)
                        if self.options.mode is Mode.PERMISSIVE:
                            corrupt.append(str(parsed.error))
                    punctuations = [str(p) for p in slice_.punctuations] if self.options.punctuation else []
                    if tuples.height or corrupt or punctuations:
                        yield self.batch(tuples, corrupt, punctuations)
                if piece.ranges is None:
                    log_notices(watch.end(in_order=True))
        finally:
            log.end()

    def fitting(self, tuples: pl.DataFrame, parsed: Parsed) -> tuple[pl.DataFrame, list[Reject]]:
        """Split tuples into those that fit Spark's types, and rejects."""
        too_narrow = self.layout.outside(tuples)
        if too_narrow is None:
            return tuples, []
        assert parsed.rejection is not None
        rejects: list[Reject] = []
        for row, name in enumerate(too_narrow):
            if name is not None:
                type_ = self.columns[name].dataType.simpleString()
                rejects.append(parsed.rejection(0, row, f"column {name}: it is too large for {type_}"))
        return tuples.filter(too_narrow.is_null()), rejects

    def batch(self, tuples: pl.DataFrame, corrupt: list[str], closed: list[str]) -> pa.RecordBatch:
        """Rows of tuples, then of corrupt records, then of punctuations."""
        data = self.layout.batch(tuples)
        nulls = len(corrupt) + len(closed)
        arrays: list[pa.Array] = []
        for column in self.arrow:
            if column.name == self.options.corrupt:
                arrays.append(pa.array([None] * tuples.height + corrupt + [None] * len(closed), pa.string()))
            elif column.name == self.options.punctuation:
                arrays.append(pa.array([None] * (tuples.height + len(corrupt)) + closed, pa.string()))
            else:
                array = data.column(column.name)
                arrays.append(pa.concat_arrays([array, pa.nulls(nulls, array.type)]) if nulls else array)
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)

    def _parsed(self, piece: TablePiece, parser: Parser) -> Iterator[Parsed]:
        """Parse a piece in splits."""
        if piece.ranges is not None:
            yield from _in_ranges(piece, parser)
            return
        labels = [piece.labels] if piece.labels else []
        reader = SliceReader(piece.part.open(), [self.spec], self.options.punct_namespace, labels=labels)
        try:
            while (parsed := reader.read(SLICE_BYTES)) is not None:
                yield parsed
        finally:
            reader.close()


def _in_ranges(piece: TablePiece, parser: Parser) -> Iterator[Parsed]:
    part = input_of(piece.part).parts[0]
    for r in piece.ranges or ():
        parsed = parse_range(part, r, parser, piece.labels)
        yield parsed
        if parsed.error is not None:
            return


def input_of(part: TablePart) -> Input:
    """A plain file as an `Input`, for cutting."""
    assert part.path is not None
    return Input(part.spec, (0,), (Part(part.name, part.path, part.size, stored=part.size),))
