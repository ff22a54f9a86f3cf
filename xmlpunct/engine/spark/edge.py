"""What happens inside the reader: parsing, the stateless part of the plan, and the exchange behind it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from xmlpunct.engine.build import build
from xmlpunct.engine.durable.ranges import Range, open_at
from xmlpunct.engine.exchange import route
from xmlpunct.engine.spark.job import (
    COUNTS,
    EDGE_OPERATORS,
    EDGE_REJECTS,
    FAILURE,
    RESULT,
    Job,
    Row,
    task_seq,
)
from xmlpunct.engine.spark.keys import shard_keys
from xmlpunct.engine.stats import InputStats
from xmlpunct.errors import Reject, SourceError
from xmlpunct.firehose.parser import parse_split
from xmlpunct.firehose.position import Split
from xmlpunct.operators import Pipeline
from xmlpunct.punctuation import Punctuation
from xmlpunct.slice import Slice, concat


@dataclass(frozen=True)
class Task:
    """Some consecutive ranges of input ``number``: its ``ordinal``-th task in a micro-batch."""

    number: int
    ordinal: int
    ranges: tuple[Range, ...]


def read(job: Job, task: Task) -> Iterator[Row]:
    """The rows that a task gives. Never raises for what is wrong with the data.

    If the source fails in this task, the rows hold what came before, and one that voids the tasks behind.
    """
    found = _Parsed(job, task)
    keys = shard_keys(job.shards)
    seq = task_seq(task.number, task.ordinal)
    shard = keys[0]
    reported: list[Row] = []
    for edge_number, edge in enumerate(job.fragments.edges):
        if edge.stream not in job.inputs[task.number].streams:
            continue
        given = found.slices[job.inputs[task.number].streams.index(edge.stream)]
        if not given:
            continue
        pipeline = edge_pipeline(job, edge_number)
        output = pipeline.push(0, job.stream_of(edge_number).taken(given))
        found.rejects += pipeline.rejects
        reported.append(Row(shard, job.sink, EDGE_OPERATORS, seq, operators_to_bytes(pipeline)))
        if output and not job.fragments.fragments:
            yield Row(shard, job.sink, RESULT, seq, output.to_bytes())
        for stage, fragment in enumerate(job.fragments.fragments):
            for port, feed in enumerate(fragment.feeds):
                if feed.from_edge and feed.source == edge_number and output:
                    routed = route(output, feed.schema, feed.keys, job.shards_of(stage))
                    for to, part in sorted(routed.items()):
                        yield Row(keys[to], stage, port, seq, part.to_bytes())
    # What else there is to say goes by way of one shard only: waking another would cost more than it says.
    yield from reported
    counted = {"streams": [asdict(c) for c in found.counts], "ended": found.ended}
    yield Row(shard, job.sink, COUNTS, seq, json.dumps(counted).encode())
    if found.rejects:
        yield Row(shard, job.sink, EDGE_REJECTS, seq, rejects_to_bytes(found.rejects))
    if found.error is not None:
        failure = json.dumps(found.error.__reduce__()[1]).encode()
        yield Row(shard, job.sink, FAILURE, seq, failure)
        for stage in range(job.sink):
            for to in range(job.shards_of(stage)):
                yield Row(keys[to], stage, FAILURE, seq, failure)


def edge_pipeline(job: Job, number: int) -> Pipeline:
    """The operators of an edge, which live for a task only: what they know from the start, others ask."""
    edge = job.fragments.edges[number]
    return build(edge.root, [job.query.streams[edge.stream].name])


class _Parsed:
    """What a task's ranges hold, a slice per stream of the input."""

    def __init__(self, job: Job, task: Task) -> None:
        given, specs = job.inputs[task.number], job.specs(task.number)
        self.rejects: list[Reject] = []
        self.counts = [InputStats() for _ in specs]
        self.error: SourceError | None = None
        parts: list[list[Slice]] = [[] for _ in specs]
        self.ended = False
        for r in task.ranges:
            name = given.parts[r.part].name
            if r.failure is not None:
                self.error = SourceError(name, r.failure)
                break
            try:
                data = r.data if r.data is not None else _load(job, task.number, r)
            except OSError as error:
                self.error = SourceError(name, f"cannot read it: {error.strerror}")
                break
            parsed = parse_split(Split(name, r.start, data, r.final), specs, job.punct_namespace)
            for i, part in enumerate(parsed.slices):
                parts[i].append(part)
                counts, rejected = self.counts[i], parsed.rejects[i]
                counts.tuples += part.tuples.height
                counts.punctuations += len(part.punctuations)
                counts.rejected += len(rejected)
                counts.bytes += len(data)
                self.rejects += rejected
            if parsed.error is None and r.broken:
                parsed.error = SourceError(name, "malformed or too large", r.start.line, r.start.byte)
            if parsed.error is not None:
                self.error = parsed.error
                break
            self.ended = r.last
        self.slices = [concat(spec.layout, found) for spec, found in zip(specs, parts, strict=True)]
        if self.ended:
            for spec, s in zip(specs, self.slices, strict=True):
                s.punctuations.append(Punctuation.everything(spec.schema))
                s.before.append(s.tuples.height)


def _load(job: Job, number: int, r: Range) -> bytes:
    with open_at(job.inputs[number].parts[r.part], r.start.byte) as file:
        return file.read(r.size)


def operators_to_bytes(pipeline: Pipeline) -> bytes:
    """What a pipeline's operators did since it was built, and what they retain now, as JSON."""
    return json.dumps(
        [
            {
                "id": operator.number,
                "operator": operator.name,
                "tuples_in": c.tuples_in,
                "tuples_out": c.tuples_out,
                "punctuations_in": c.punctuations_in,
                "punctuations_out": c.punctuations_out,
                "state_rows": operator.rows,
                "held_punctuations": operator.held,
                "forgotten": operator.forgotten,
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


def voided(failures: Iterable[Row]) -> dict[int, int]:
    """By the number of each input that failed in this micro-batch, the first task of it that found so.

    Tasks run apart, so those behind it have been read as if nothing had happened; their rows do not count.
    """
    first: dict[int, int] = {}
    for row in failures:
        number, ordinal = divmod(row.seq, 1 << 32)
        first[number] = min(ordinal, first.get(number, ordinal))
    return first


def counts(row: Row, void: dict[int, int]) -> bool:
    """Whether a row from the reader counts, given what is void."""
    number, ordinal = divmod(row.seq, 1 << 32)
    return ordinal <= void.get(number, ordinal)
