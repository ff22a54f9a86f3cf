"""Data frames of Spark's as inputs of a query, and its result as one: rows in, rows out, and the driver has none.

A streaming frame is an input beside the reader's: each of its micro-batches is a slice, and its tasks do what the
reader's do. A frame that is not streaming is written as XML, once, and read as any other source.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row as SparkRow
from pyspark.sql import types as spark
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from xmlpunct.base.errors import Reject, SourceError, StrictError
from xmlpunct.engine.run.inputs.tables import Table
from xmlpunct.engine.run.reject_log import RejectLog
from xmlpunct.engine.spark.combining import Said
from xmlpunct.engine.spark.edge import Onward, rejects_from_bytes, rejects_to_bytes
from xmlpunct.engine.spark.job import (
    EDGE_REJECTS,
    FAILURE,
    PROMISES,
    REJECTS,
    RESULT,
    Job,
    Row,
    rows_to_batch,
    task_seq,
)
from xmlpunct.engine.spark.processor import check_owner, gather_of
from xmlpunct.engine.spark.shard_keys import shard_keys
from xmlpunct.engine.spark.state_store import KEY_SCHEMA, VALUE_SCHEMA, Cache
from xmlpunct.engine.spark.table.spark_columns import Layout
from xmlpunct.operators.merge.gather import Gather
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice, concat

SLICE_ROWS = 2**16
"""A task makes a slice of so many rows of a frame, or of all it has."""
_BATCHES = 2**16
"""A task has fewer slices than that."""


@dataclass(frozen=True)
class FrameEdge:
    """What the tasks of a streaming frame do: its rows become tuples of a stream, and go to the stages behind.

    ``number`` is that of the input that it is, ``columns`` are the frame's as attributes, in order, and
    ``punctuation`` the name of the column that has punctuations of these, if any has.
    """

    job: Job
    stream: int
    number: int
    columns: Schema
    punctuation: str | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        for count, batch in enumerate(_grouped(batches)):
            if count >= _BATCHES:
                raise OverflowError(
                    f"a task has more than {_BATCHES * SLICE_ROWS:,} rows: repartition the frame"
                )
            yield rows_to_batch(self.rows(batch, task * _BATCHES + count))

    def rows(self, table: pa.Table, ordinal: int) -> Iterator[Row]:
        """The rows that the ``ordinal``-th slice of a micro-batch comes to."""
        seq, stream = task_seq(self.number, ordinal), self.job.query.streams[self.stream]
        said: list[Punctuation] = []
        if self.punctuation is not None:
            texts = table.column(self.punctuation).combine_chunks()
            said = [
                p for text in texts.to_pylist() if text is not None and (p := self._read(text)) is not None
            ]
            table = table.filter(texts.is_null())
        found = Table.of(table, stream.declared)
        assert found is not None
        slices, rejects = [Slice(stream.layout.empty())], list[Reject]()
        for part, wrong in found.slices(stream.layout):
            slices.append(part)
            rejects += wrong
        tuples = concat(stream.layout, slices).tuples
        slice_ = Slice(tuples, said, [tuples.height] * len(said))
        onward = Onward(self.job, seq)
        yield from onward.take({self.stream: slice_})
        if rejects := [*rejects, *onward.rejects]:
            yield Row(
                shard_keys(self.job.shards)[0], self.job.sink, EDGE_REJECTS, seq, rejects_to_bytes(rejects)
            )

    def _read(self, text: str) -> Punctuation | None:
        """A punctuation of the stream; None if it says nothing of the stream's columns alone."""
        given = Punctuation.parse(self.columns, text)
        schema = self.job.query.streams[self.stream].sent
        unknown = {self.columns.names[i] for i in given.constrained} - set(schema.names)
        if unknown:
            return None
        return given.rebase(schema, [self.columns.index(name) for name in schema.names])


def _grouped(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches, put together to slices."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(b.num_rows for b in held) >= SLICE_ROWS:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


_OUTPUT = SparkRow(*Row._fields)
_KEPT: Cache[Gather] = Cache()


class MergeProcessor(StatefulProcessor):  # type: ignore[misc]
    """One more stage: merges the punctuations of the result, which come from all shards. All else passes through."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._values = handle.getMapState("state", KEY_SCHEMA, VALUE_SCHEMA)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        mine: list[Row] = []
        for row in rows:
            if row.port == PROMISES:
                mine.append(Row(row.shard, row.stage, row.port, row.seq, bytes(row.payload), row.part))
            else:
                yield row
        if not mine:
            return
        kept = self.job.fingerprint, "merge"
        state, gather = _KEPT.take(kept)
        is_known = state.read(self._values)
        is_new = not state
        if not is_known or gather is None:
            check_owner(self._values, self.job, is_new)
            gather = gather_of(self.job, self.job.sink - 1)
            if not is_new:
                gather.state.restore(state.frames)
        merged = Said.of(gather, mine).met(gather)
        if merged:
            yield _OUTPUT(*Row(key[0], self.job.sink, PROMISES, 0, merged.to_bytes()))
        state.write(self._values, dict(gather.state.snapshot()))
        _KEPT.put(kept, state, gather)

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Results:
    """What the last tasks do: what has come is the result's rows.

    Its punctuations are in the column ``punctuation``, if that has a name. Rejects are logged; or the first one ends
    the query, if it is to be ``strict``.
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
                for port, payload in zip(
                    batch.column("port").to_pylist(), batch.column("payload"), strict=True
                ):
                    if port in (RESULT, PROMISES):
                        yield self._rows(layout, Slice.from_bytes(schema, payload.as_py()))
                    elif port == FAILURE:
                        raise SourceError(*json.loads(payload.as_py()))
                    elif port in (REJECTS, EDGE_REJECTS):
                        for reject in rejects_from_bytes([payload.as_py()]):
                            if self.strict:
                                raise StrictError(f"mode FAILFAST: {reject}")
                            log.add(reject)
        finally:
            log.end()

    @property
    def _layout(self) -> Layout:
        return Layout.flat(self.job.fragments.schema)

    def _rows(self, layout: Layout, given: Slice) -> pa.RecordBatch:
        rows = layout.batch(given.tuples)
        if self.punctuation is None:
            return rows
        said = [str(p) for p in given.punctuations]
        arrays = [pa.concat_arrays([array, pa.nulls(len(said), array.type)]) for array in rows.columns]
        texts = pa.array([None] * rows.num_rows + said, pa.string())
        return pa.RecordBatch.from_arrays(
            [*arrays, texts], schema=rows.schema.append(pa.field(self.punctuation, pa.string()))
        )
