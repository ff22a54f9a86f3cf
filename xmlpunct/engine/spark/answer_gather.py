"""The results of an answer in a micro-batch, gathered from its shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import polars as pl

from xmlpunct.engine.run.channel import ResultChannel, StagedChannel
from xmlpunct.engine.run.checkpoint.commit import Frames
from xmlpunct.engine.spark.aside import PutAside
from xmlpunct.engine.spark.combining import ShardOutput
from xmlpunct.engine.spark.edge import edge_pipeline
from xmlpunct.engine.spark.job import Job
from xmlpunct.engine.spark.processor import gather_of
from xmlpunct.engine.spark.stage_messages import StageRow
from xmlpunct.slice import Slice, concat


class GatheredResults(NamedTuple):
    """The results of a micro-batch for an answer: a slice, and the outcomes for staged tuples, which it lacks."""

    slice_: Slice
    staged: Sequence[PutAside] = ()


class AnswerGather:
    """Gathers the results of all shards for answer ``index`` of the job, which ``channel`` writes."""

    def __init__(self, job: Job, index: int, channel: ResultChannel) -> None:
        self._job, self._index, self._channel = job, index, channel
        self._answer = job.fragments.answers[index]
        self._gather = None if self.from_reader else gather_of(job, self._answer.source)

    @property
    def from_reader(self) -> bool:
        """True if the reader computes the answer: the plan has no stateful operator."""
        return self._answer.from_edge

    def take(self, rows: Sequence[StageRow], opens: bool) -> GatheredResults:
        """Combine the rows of a micro-batch, the first one if it ``opens`` the run. Empty for a complete answer."""
        schema = self._answer.schema
        if self._channel.closed:
            return GatheredResults(Slice(schema.empty()))
        own_rows = sorted((row for row in rows if row.port == self._index), key=lambda row: row.order)
        staged: list[PutAside] = []
        if isinstance(self._channel, StagedChannel):
            outcomes = [PutAside.from_bytes(row.payload) for row in own_rows]
            own_rows = [row._replace(payload=data) for row, (data, _) in zip(own_rows, outcomes, strict=True)]
            staged = [outcome for _, outcome in outcomes]
        if self._gather is not None:
            return GatheredResults(ShardOutput.of(self._gather, own_rows).aligned(self._gather), staged)
        opening = [edge_pipeline(self._job, self._answer.source).open()] if opens else []
        slices = (Slice.from_bytes(schema, row.payload) for row in own_rows)
        return GatheredResults(concat(schema, [*opening, *slices]), staged)

    def snapshot(self) -> Frames:
        """The state of the gather."""
        return {} if self._gather is None else dict(self._gather.state.snapshot())

    def restore(self, frames: Mapping[str, pl.DataFrame]) -> None:
        """Restore a snapshot."""
        if self._gather is not None:
            self._gather.state.restore(frames)
