"""The tasks of the reader: parsing, the stateless part of the plan, and the exchange after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import polars as pl

from xmlpunct.base.errors import Reject
from xmlpunct.engine.partition.routing import route
from xmlpunct.engine.run.build import build
from xmlpunct.engine.run.inputs.injected_punctuations import InjectedTexts, punctuation_of
from xmlpunct.engine.run.inputs.parse_ranges import parse_ranges
from xmlpunct.engine.run.inputs.ranges import Range
from xmlpunct.engine.run.reject_limit import source_positions
from xmlpunct.engine.run.stats import InputStats, OperatorStats
from xmlpunct.engine.spark.first_counts import write_counts
from xmlpunct.engine.spark.job import Job
from xmlpunct.engine.spark.shard_keys import shard_keys
from xmlpunct.engine.spark.stage_messages import (
    Failure,
    OperatorReport,
    StageRow,
    TaskReport,
    slice_rows,
    task_seq,
)
from xmlpunct.firehose import Parser
from xmlpunct.operators import Pipeline
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.slice import Slice


@dataclass(frozen=True)
class RangeTask:
    """Consecutive ranges of input ``number``: its ``ordinal``-th task in a micro-batch.

    Or the punctuations injected into its streams (``said``), after its ranges.
    """

    number: int
    ordinal: int
    ranges: tuple[Range, ...]
    said: tuple[InjectedTexts, ...] = ()


_parser = lru_cache(maxsize=16)(Parser)
"""Parsers by streams and namespace, shared by all tasks of a process."""


def read_task(job: Job, task: RangeTask) -> Iterator[StageRow]:
    """The rows of a task. Never raises for faults in the data.

    If the source fails in this task, the rows end before the failure, and one more row voids the later tasks.
    """
    input_, specs = job.inputs[task.number], job.specs(task.number)
    parsed, size, checksums = parse_ranges(input_, task.ranges, _parser(tuple(specs), job.punct_namespace))
    streams, rejects = [InputStats(bytes=size) for _ in specs], list[Reject]()
    for counted, slice_, rejected in zip(streams, parsed.slices, parsed.rejects, strict=True):
        counted.take(slice_, len(rejected))
        rejects += rejected
    if job.counts:
        names = [job.query.streams[stream].declared for stream in input_.streams]
        counts_by_name = dict(zip(names, streams, strict=True))
        write_counts(Path(job.counts), task_seq(task.number, task.ordinal), counts_by_name)
    positions: dict[int, pl.DataFrame] = {}
    if job.shares:
        parts = [part.name for part in input_.parts]
        for stream, slice_, rejected in zip(input_.streams, parsed.slices, parsed.rejects, strict=True):
            positions[stream] = source_positions(parts, slice_, rejected)
    for stream, patterns in task.said:
        p = punctuation_of(job.query.streams[stream], patterns)
        _add_last(parsed.slices[input_.streams.index(stream)], p)
    has_ended = parsed.error is None and bool(task.ranges) and task.ranges[-1].last
    if has_ended:
        for spec, slice_ in zip(specs, parsed.slices, strict=True):
            _add_last(slice_, Punctuation.everything(spec.schema))
    slices = dict(zip(input_.streams, parsed.slices, strict=True))
    sent = {
        i: Slice(s.tuples.clear(), s.punctuations).to_bytes() for i, s in slices.items() if s.punctuations
    }
    seq = task_seq(task.number, task.ordinal)
    onward = Onward(job, seq)
    yield from onward.take(slices)
    rejects += onward.rejects
    report = TaskReport(
        streams, parsed.overlooked, has_ended, checksums, onward.operators, rejects, sent, positions
    )
    # All reports go by way of one shard, because waking another shard costs more.
    keys = shard_keys(job.shards)
    yield report.to_row(keys[0], job.sink, seq)
    if parsed.error is not None:
        failure = Failure(parsed.error).to_row(keys[0], job.sink, seq)
        yield failure
        for stage in range(job.sink):
            for to in range(job.shards_of(stage)):
                yield failure._replace(shard=keys[to], stage=stage)


def _add_last(slice_: Slice, p: Punctuation) -> None:
    """Add a punctuation after all tuples and punctuations of a slice."""
    slice_.punctuations = PunctuationBatch.concat([slice_.punctuations, [p]])
    slice_.before.append(slice_.tuples.height)


class Onward:
    """Runs slices through the edges that read them, and routes the results to the next stages.

    ``rejects`` collects the rejects of the edges, and ``operators`` the reports of their operators.
    """

    def __init__(self, job: Job, seq: int) -> None:
        self.job, self.seq = job, seq
        self.rejects: list[Reject] = []
        self.operators: list[OperatorReport] = []

    def take(self, slices: Mapping[int, Slice]) -> Iterator[StageRow]:
        """The rows for the next stages from slices by number of the stream."""
        job, keys = self.job, shard_keys(self.job.shards)
        for edge_number, edge in enumerate(job.fragments.edges):
            slice_ = slices.get(edge.stream)
            if not slice_:
                continue
            pipeline = edge_pipeline(job, edge_number)
            output = pipeline.push(0, job.stream_of(edge_number).taken(slice_))
            self.rejects += pipeline.rejects
            self.operators += operator_reports(pipeline)
            for answer in job.answers_of(True, edge_number):
                yield from job.results(answer, keys[self.seq % len(keys)], self.seq, output)
            for stage, fragment in enumerate(job.fragments.fragments):
                for port, feed in enumerate(fragment.feeds):
                    if feed.from_edge and feed.source == edge_number and output:
                        routed = route(output, feed.schema, feed.keys, job.shards_of(stage), feed.whole)
                        for to, part in sorted(routed.items()):
                            yield from slice_rows(keys[to], stage, port, self.seq, part)


def edge_pipeline(job: Job, number: int) -> Pipeline:
    """The operators of an edge, for one task. `Shard.open` collects the punctuations that they emit before input."""
    edge = job.fragments.edges[number]
    return build(edge.root, [job.query.streams[edge.stream].name])


def operator_reports(pipeline: Pipeline) -> list[OperatorReport]:
    """The reports of a pipeline's operators, whose counters began when it was built."""
    return [
        OperatorReport(
            OperatorStats(
                tuples_in=counters.tuples_in,
                tuples_out=counters.tuples_out,
                punctuations_in=counters.punctuations_in,
                punctuations_out=counters.punctuations_out,
                state_rows=operator.state.rows,
                held_punctuations=operator.state.held,
                forgotten=operator.forgotten,
                id=operator.number,
                operator=operator.name,
            ),
            list(operator.waits()),
        )
        for operator, counters in zip(pipeline.operators, pipeline.counters, strict=True)
    ]


def voided(failures: Iterable[StageRow]) -> dict[int, int]:
    """For each input that failed in this micro-batch, the first task with the failure.

    Tasks run independently, so later tasks were read as well; their rows do not count.
    """
    first: dict[int, int] = {}
    for row in failures:
        number, ordinal = divmod(row.seq, 1 << 32)
        first[number] = min(ordinal, first.get(number, ordinal))
    return first


def counts(row: StageRow, void: dict[int, int]) -> bool:
    """True if a row from the reader counts, that is, comes from no voided task."""
    number, ordinal = divmod(row.seq, 1 << 32)
    return ordinal <= void.get(number, ordinal)
