"""Spark data frames as inputs and result of a query; no row passes through the driver.

A streaming frame is an input beside those of the reader: each of its micro-batches is a slice, and its tasks do the
same as the reader's tasks. A static frame is written as XML, once, and read as any other source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row as SparkRow
from pyspark.sql import types as spark
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from xmlpunct.base.errors import Reject, StrictError
from xmlpunct.base.reject_log import RejectLog
from xmlpunct.engine.run.inputs.tables import Table
from xmlpunct.engine.spark.combining import ShardOutput
from xmlpunct.engine.spark.edge import Onward
from xmlpunct.engine.spark.job import Job
from xmlpunct.engine.spark.processor import check_owner, gather_of
from xmlpunct.engine.spark.shard_keys import shard_keys
from xmlpunct.engine.spark.stage_messages import (
    RESULT,
    Failure,
    Port,
    StageRow,
    TaskReport,
    batch_to_rows,
    received,
    rejects_in,
    rows_to_batch,
    task_seq,
)
from xmlpunct.engine.spark.state_store import KEY_SCHEMA, VALUE_SCHEMA, Cache
from xmlpunct.engine.spark.table.spark_columns import Layout
from xmlpunct.operators.merge.gather import Gather
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice, concat

SLICE_ROWS = 2**16
"""Rows of a frame per slice."""
_BATCHES = 2**16
"""Maximal number of slices per task."""


@dataclass(frozen=True)
class FrameEdge:
    """The tasks of a streaming frame: its rows become tuples of a stream, and are routed to the next stages.

    ``number`` is the number of the input, ``columns`` are the frame's columns as attributes, in order, and
    ``punctuation`` is the name of the column with punctuations, if any.
    """

    job: Job
    stream: int
    number: int
    columns: Schema
    punctuation: str | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        for count, batch in enumerate(_in_slices(batches)):
            if count >= _BATCHES:
                raise OverflowError(
                    f"a task has more than {_BATCHES * SLICE_ROWS:,} rows: repartition the frame"
                )
            yield rows_to_batch(self.rows(batch, task * _BATCHES + count))

    def rows(self, table: pa.Table, ordinal: int) -> Iterator[StageRow]:
        """The rows for the next stages from the ``ordinal``-th slice of a micro-batch."""
        seq, stream = task_seq(self.number, ordinal), self.job.query.streams[self.stream]
        punctuations: list[Punctuation] = []
        if self.punctuation is not None:
            texts = table.column(self.punctuation).combine_chunks()
            punctuations = [
                p for text in texts.to_pylist() if text is not None and (p := self._read(text)) is not None
            ]
            table = table.filter(texts.is_null())
        source_table = Table.of(table, stream.declared)
        assert source_table is not None
        slices, rejects = [Slice(stream.layout.empty())], list[Reject]()
        for part, wrong in source_table.slices(stream.layout):
            slices.append(part)
            rejects += wrong
        tuples = concat(stream.layout, slices).tuples
        slice_ = Slice(tuples, punctuations, [tuples.height] * len(punctuations))
        onward = Onward(self.job, seq)
        yield from onward.take({self.stream: slice_})
        if rejects := [*rejects, *onward.rejects]:
            yield TaskReport(rejects=rejects).to_row(shard_keys(self.job.shards)[0], self.job.sink, seq)

    def _read(self, text: str) -> Punctuation | None:
        """Parse a punctuation of the stream; None if it constrains other columns of the frame."""
        punctuation = Punctuation.parse(self.columns, text)
        schema = self.job.query.streams[self.stream].sent
        unknown = {self.columns.names[i] for i in punctuation.constrained} - set(schema.names)
        if unknown:
            return None
        return punctuation.rebase(schema, [self.columns.index(name) for name in schema.names])


def _in_slices(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Concatenate batches to tables of at least `SLICE_ROWS` rows."""
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        pending.append(batch)
        if sum(b.num_rows for b in pending) >= SLICE_ROWS:
            yield pa.Table.from_batches(pending)
            pending = []
    if pending:
        yield pa.Table.from_batches(pending)


_OUTPUT = SparkRow(*StageRow._fields)
_CACHE: Cache[Gather] = Cache()


class MergeProcessor(StatefulProcessor):  # type: ignore[misc]
    """A last stage that merges the punctuations of the result from all shards. Other rows pass through."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._values = handle.getMapState("state", KEY_SCHEMA, VALUE_SCHEMA)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        promises: list[StageRow] = []
        for row in rows:
            if row.port == Port.PROMISES:
                promises.append(
                    StageRow(row.shard, row.stage, row.port, row.seq, bytes(row.payload), row.part)
                )
            else:
                yield row
        if not promises:
            return
        cache_key = self.job.fingerprint, "merge"
        state, gather = _CACHE.take(cache_key)
        is_current = state.read(self._values)
        is_new = not state
        if not is_current or gather is None:
            check_owner(self._values, self.job, is_new)
            gather = gather_of(self.job, self.job.sink - 1)
            if not is_new:
                gather.state.restore(state.frames)
        merged = ShardOutput.of(gather, promises).aligned(gather)
        if merged:
            yield _OUTPUT(*StageRow(key[0], self.job.sink, Port.PROMISES, 0, merged.to_bytes()))
        state.write(self._values, dict(gather.state.snapshot()))
        _CACHE.put(cache_key, state, gather)

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class ResultRows:
    """The last tasks: unpack the rows of the result.

    Its punctuations are in the column ``punctuation``, unless None. Rejects are logged; with ``strict``, the first one
    ends the query.
    """

    job: Job
    punctuation: str | None = None
    strict: bool = False

    @property
    def columns(self) -> spark.StructType:
        """The columns of the result."""
        columns = self._layout.columns
        return columns if self.punctuation is None else columns.add(self.punctuation, spark.StringType())

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        layout, schema, log = self._layout, self.job.fragments.schema, RejectLog()
        try:
            for batch in batches:
                for row in batch_to_rows(batch):
                    if row.port in (RESULT, Port.PROMISES):
                        yield self._rows(layout, Slice.from_bytes(schema, row.payload))
                    for _, failure in received(Failure, [row]):
                        raise failure.error
                    for reject in rejects_in([row]):
                        if self.strict:
                            raise StrictError(f"mode FAILFAST: {reject}")
                        log.add(reject)
        finally:
            log.end()

    @property
    def _layout(self) -> Layout:
        return Layout.flat(self.job.fragments.schema)

    def _rows(self, layout: Layout, slice_: Slice) -> pa.RecordBatch:
        rows = layout.batch(slice_.tuples)
        if self.punctuation is None:
            return rows
        closed = [str(p) for p in slice_.punctuations]
        arrays = [pa.concat_arrays([array, pa.nulls(len(closed), array.type)]) for array in rows.columns]
        texts = pa.array([None] * rows.num_rows + closed, pa.string())
        return pa.RecordBatch.from_arrays(
            [*arrays, texts], schema=rows.schema.append(pa.field(self.punctuation, pa.string()))
        )
