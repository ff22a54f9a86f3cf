"""The tasks of the reader: parsing, the stateless part of the plan, and the exchange after it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache

from xmlpunct.base.codec import pack
from xmlpunct.base.errors import Reject
from xmlpunct.engine.partition.routing import route
from xmlpunct.engine.run.build import build
from xmlpunct.engine.run.inputs.injected_punctuations import Plain, punctuation_of
from xmlpunct.engine.run.inputs.parse_ranges import parse_ranges
from xmlpunct.engine.run.inputs.ranges import Range
from xmlpunct.engine.run.reject_limit import source_positions
from xmlpunct.engine.run.stats import InputStats
from xmlpunct.engine.spark.job import (
    COUNTS,
    EDGE_OPERATORS,
    EDGE_REJECTS,
    FAILURE,
    PLACES,
    SAID,
    Job,
    StageRow,
    rows_of,
    task_seq,
)
from xmlpunct.engine.spark.shard_keys import shard_keys
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
    said: tuple[Plain, ...] = ()


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
    keys = shard_keys(job.shards)
    seq = task_seq(task.number, task.ordinal)
    shard = keys[0]
    if job.shares:
        parts = [part.name for part in input_.parts]
        rows = (
            source_positions(parts, *of_stream)
            for of_stream in zip(parsed.slices, parsed.rejects, strict=True)
        )
        payload = pack({str(i): tuples for i, tuples in zip(input_.streams, rows, strict=True)})
        yield StageRow(shard, job.sink, PLACES, seq, payload)
    for stream, patterns in task.said:
        slice_ = parsed.slices[input_.streams.index(stream)]
        p = punctuation_of(job.query.streams[stream], patterns)
        slice_.punctuations = PunctuationBatch.concat([slice_.punctuations, [p]])
        slice_.before.append(slice_.tuples.height)
    ended = parsed.error is None and bool(task.ranges) and task.ranges[-1].last
    if ended:
        for spec, slice_ in zip(specs, parsed.slices, strict=True):
            end = [Punctuation.everything(spec.schema)]
            slice_.punctuations = PunctuationBatch.concat([slice_.punctuations, end])
            slice_.before.append(slice_.tuples.height)
    if any(slice_.punctuations for slice_ in parsed.slices):
        payloads = {
            str(i): Slice(slice_.tuples.clear(), slice_.punctuations).to_bytes()
            for i, slice_ in zip(input_.streams, parsed.slices, strict=True)
            if slice_.punctuations
        }
        yield StageRow(shard, job.sink, SAID, seq, pack(payloads))
    onward = Onward(job, seq)
    yield from onward.take(dict(zip(input_.streams, parsed.slices, strict=True)))
    rejects += onward.rejects
    # All reports go by way of one shard, because waking another shard costs more.
    yield from onward.reported
    by_stream = zip(streams, parsed.overlooked, strict=True)
    report = {
        "streams": [asdict(counted) | {"overlooked": overlooked} for counted, overlooked in by_stream],
        "ended": ended,
        "checksums": checksums,
    }
    yield StageRow(shard, job.sink, COUNTS, seq, json.dumps(report).encode())
    if rejects:
        yield StageRow(shard, job.sink, EDGE_REJECTS, seq, rejects_to_bytes(rejects))
    if parsed.error is not None:
        failure = json.dumps(parsed.error.__reduce__()[1]).encode()
        yield StageRow(shard, job.sink, FAILURE, seq, failure)
        for stage in range(job.sink):
            for to in range(job.shards_of(stage)):
                yield StageRow(keys[to], stage, FAILURE, seq, failure)


class Onward:
    """Runs slices through the edges that read them, and routes the results to the next stages.

    ``rejects`` collects the rejects of the edges, and ``reported`` the counters of their operators.
    """

    def __init__(self, job: Job, seq: int) -> None:
        self.job, self.seq = job, seq
        self.rejects: list[Reject] = []
        self.reported: list[StageRow] = []

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
            counters = operators_to_bytes(pipeline)
            self.reported.append(StageRow(keys[0], job.sink, EDGE_OPERATORS, self.seq, counters))
            for answer in job.answers_of(True, edge_number):
                yield from job.results(answer, keys[self.seq % len(keys)], self.seq, output)
            for stage, fragment in enumerate(job.fragments.fragments):
                for port, feed in enumerate(fragment.feeds):
                    if feed.from_edge and feed.source == edge_number and output:
                        routed = route(output, feed.schema, feed.keys, job.shards_of(stage), feed.whole)
                        for to, part in sorted(routed.items()):
                            yield from rows_of(keys[to], stage, port, self.seq, part)


def edge_pipeline(job: Job, number: int) -> Pipeline:
    """The operators of an edge, for one task. `Shard.open` collects the punctuations that they emit before input."""
    edge = job.fragments.edges[number]
    return build(edge.root, [job.query.streams[edge.stream].name])


def operators_to_bytes(pipeline: Pipeline) -> bytes:
    """Counters of a pipeline's operators since it was built, and the sizes of their state, as JSON."""
    return json.dumps(
        [
            {
                "id": operator.number,
                "operator": operator.name,
                "tuples_in": c.tuples_in,
                "tuples_out": c.tuples_out,
                "punctuations_in": c.punctuations_in,
                "punctuations_out": c.punctuations_out,
                "state_rows": operator.state.rows,
                "held_punctuations": operator.state.held,
                "forgotten": operator.forgotten,
                "waits": list(operator.waits()),
            }
            for operator, c in zip(pipeline.operators, pipeline.counters, strict=True)
        ]
    ).encode()


def rejects_to_bytes(rejects: Iterable[Reject]) -> bytes:
    """Rejects as JSON."""
    return json.dumps([asdict(r) for r in rejects]).encode()


def rejects_from_bytes(payloads: Iterable[bytes]) -> list[Reject]:
    """The inverse of `rejects_to_bytes`."""
    return [Reject(**values) for payload in payloads for values in json.loads(payload)]


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
