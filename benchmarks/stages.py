"""The stages of a run, looked at one by one with a clock that counts what this process computes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

SLICE = 2**20
"""Bytes of a slice and of a task: the least that a task on Spark takes while there is more."""
FEW_SHARDS = 2
FILE_BYTES = 8 * 2**20
"""The files that are planned: the size of the pieces of large files (`xmlpunct.engine.run.inputs.cuts`)."""
T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """The seconds this process computed for it, and its result."""
    began = time.process_time()
    found = work()
    return time.process_time() - began, found


def least(rounds: int, work: Callable[[], object]) -> float:
    """The fewest seconds that this process computed for it."""
    return min(timed(work)[0] for _ in range(rounds))


class Local(NamedTuple):
    """A run on the local engine: seconds of reading and of operators, the result, the statistics."""

    reading: float
    operators: float
    result: Any
    stats: Any


def local(planned: Any) -> Local:
    """Run a query, looking at the clock between reading and operators. What comes with the end is left out."""
    from xmlpunct.base.xml_names import PUNCT_NAMESPACE
    from xmlpunct.engine.run.local.local_run import open_sources
    from xmlpunct.engine.run.local.running import LocalRun
    from xmlpunct.engine.run.stats import RunStats
    from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
    from xmlpunct.slice import concat

    schema, stats = planned.root.schema, RunStats("local")
    running = LocalRun(planned, open_sources(planned), SLICE, stats, PUNCT_NAMESPACE)
    reading = operators = 0.0
    results = []
    while True:
        seconds, portion = timed(running.read)
        reading += seconds
        if portion is None:
            break
        seconds, (result,) = timed(lambda portion=portion: running.process(portion))
        operators += seconds
        if not PunctuationBatch.of(result.punctuations).has_end:
            results.append(result)
    running.close()
    return Local(reading, operators, concat(schema, results), stats)


def job_of(planned: Any, sources: Mapping[str, Path], shards: int) -> Any:
    """The query as the Spark engine runs it."""
    from xmlpunct.base.xml_names import PUNCT_NAMESPACE
    from xmlpunct.engine.partition.fragments import cut_plan
    from xmlpunct.engine.run.inputs.parts import Input, Part
    from xmlpunct.engine.spark.job import Job

    names = [stream.name for stream in planned.streams]
    paths = {i: sources[stream.declared] for i, stream in enumerate(planned.streams)}
    inputs = tuple(
        Input(str(path), (i,), (Part(path.name, str(path), path.stat().st_size),))
        for i, path in paths.items()
    )
    return Job(planned, cut_plan(planned.root, names), inputs, shards, None, PUNCT_NAMESPACE)


def edges(job: Any, rounds: int) -> dict[str, float]:
    """The reader's work on Spark, task by task: cutting in both ways, parsing, edge work and the exchange.

    The last task of each input is left out: it says that the input has ended, which comes once.
    """
    from xmlpunct.engine.run.inputs.cuts import find_cuts, scan
    from xmlpunct.engine.run.inputs.parse_ranges import parse_ranges
    from xmlpunct.engine.run.inputs.ranges import advance
    from xmlpunct.engine.spark import edge
    from xmlpunct.firehose import Parser
    from xmlpunct.firehose.position import Cursor
    from xmlpunct.slice import Slice

    def tasks() -> list[Any]:
        found = []
        for i, given in enumerate(job.inputs):
            ranges, _ = advance(given, job.elements(i), Cursor(), given.parts[0].size or 0, SLICE)
            found += [edge.RangeTask(i, ordinal, (r,)) for ordinal, r in enumerate(ranges)]
        return found

    planned = [t for t in tasks() if not t.ranges[-1].last]
    if not planned:
        sys.exit(f"too little data: an input needs more than {SLICE} bytes")

    def parse() -> int:
        parsers = [Parser(job.specs(i), job.punct_namespace) for i in range(len(job.inputs))]
        parsed = (parse_ranges(job.inputs[t.number], t.ranges, parsers[t.number]).parsed for t in planned)
        return sum(part.tuples.height for found in parsed for part in found.slices)

    def read() -> list[Any]:
        return [
            row for t in planned for row in edge.read_task(job, t) if row.stage < job.sink and row.port >= 0
        ]

    def cuts() -> int:
        files = [(given.parts[0], job.elements(i)) for i, given in enumerate(job.inputs)]
        return sum(map(len, find_cuts(files, lambda spans: [*map(scan, spans)])))

    tuples, rows, fragments = parse(), read(), job.fragments.fragments
    size = sum(given.parts[0].size for given in job.inputs)
    sent = sum(
        Slice.from_bytes(fragments[row.stage].feeds[row.port].schema, row.payload).tuples.height
        for row in rows
    )
    return {
        "C": size / least(rounds, tasks),
        "Cf": size / least(rounds, cuts),
        "ce": max(0.0, least(rounds, read) - least(rounds, parse)) / tuples,
        "d": sent / tuples,
        "a": sum(len(row.payload) for row in rows) / sent,
    }


def planning(job: Any, files: int, rounds: int) -> float:
    """Seconds of the process that plans micro-batches, per file that a task reads whole, or piece of a larger one."""
    import pickle
    from dataclasses import replace

    from xmlpunct.engine.spark.spark_source import QueryReader

    inputs = []
    for given in job.inputs:
        (part,) = given.parts
        named = (replace(part, name=f"{number}.xml", size=FILE_BYTES) for number in range(files))
        inputs.append(replace(given, parts=tuple(named)))
    many = replace(job, inputs=tuple(inputs))

    def plan() -> None:
        reader = QueryReader(many)
        start = reader.initialOffset()
        while (end := reader.latestOffset(start, None)) != start:
            for task in reader.partitions(start, end):
                pickle.dumps(task)
            start = end

    return least(rounds, plan) / (files * len(inputs))


def sink(job: Any, result: Any, shards: int, rounds: int) -> dict[str, float]:
    """What one process, the sink, does with results of few shards and of many, and with what all shards must say.

    What the many say is combined before, by others.
    """
    from dataclasses import replace

    from xmlpunct.engine.partition.routing import route
    from xmlpunct.engine.run.output import Output
    from xmlpunct.engine.spark.combining import Combiner, ShardOutput
    from xmlpunct.engine.spark.processor import gather_of
    from xmlpunct.engine.spark.stage_messages import RESULT, StageRow
    from xmlpunct.firehose import writer_for
    from xmlpunct.punctuations.punctuation import Punctuation
    from xmlpunct.slice import Slice
    from xmlpunct.types.pattern import ENUMERABLE

    schema, answer = job.fragments.schema, job.fragments.answers[0]
    key = job.fragments.fragments[answer.source].keys[0][0]

    def take(of: Any, rows: list[Any]) -> bytes:
        into, output = gather_of(of, answer.source), Output(schema, writer_for("xml", schema))
        return output.body(ShardOutput.of(into, rows).aligned(into))

    def of_shards(n: int, said: Mapping[int, Any]) -> float:
        of = replace(job, shards=n)
        combiner = Combiner(of)
        rows = [StageRow(0, of.sink, RESULT, shard, part.to_bytes()) for shard, part in said.items()]
        rows = [*combiner.rows(rows)] if combiner.pays else rows
        return least(rounds, lambda: take(of, rows))

    few, many = (of_shards(n, route(result, schema, (key,), n)) for n in (FEW_SHARDS, shards))
    wide = Punctuation.of(schema, **{key: f"[0,{ENUMERABLE}]"})
    everyone = of_shards(shards, dict.fromkeys(range(shards), Slice(schema.empty(), [wide])))
    nobody = of_shards(shards, dict.fromkeys(range(shards), Slice(schema.empty())))
    written = Slice(result.tuples)
    seconds, body = min(
        timed(lambda: Output(schema, writer_for("xml", schema)).body(written)) for _ in range(rounds)
    )
    return {
        "r": few / result.tuples.height,
        "u": max(0.0, many - few) / (shards - FEW_SHARDS),
        "v": reports(job, shards, rounds),
        "g": max(0.0, everyone - nobody),
        "W": len(body) / seconds,
    }


TIMES = 10
"""How many times as many tuples the larger of two micro-batches brings."""


def dataset(job: Any, result: Any, rounds: int) -> dict[str, float]:
    """What the sink does with results that go to a dataset, and tasks with their tuples."""
    from tempfile import TemporaryDirectory

    import polars as pl

    from xmlpunct.base.codec import pack
    from xmlpunct.engine.partition.routing import route
    from xmlpunct.engine.run.channel import StagedChannel
    from xmlpunct.engine.run.checkpoint.commit import Written
    from xmlpunct.engine.run.datasets import Dataset
    from xmlpunct.engine.run.run_options import RunOptions
    from xmlpunct.engine.run.sink import form_of, make_output
    from xmlpunct.engine.run.stats import RunStats
    from xmlpunct.engine.spark.answer_gather import AnswerGather
    from xmlpunct.engine.spark.aside import Aside, AsideFolder
    from xmlpunct.engine.spark.spark_executor import SparkExecutor
    from xmlpunct.engine.spark.stage_messages import RESULT, StageRow
    from xmlpunct.slice import Slice

    class Here(SparkExecutor):
        def run(self, tasks: Any) -> list[Any]:
            return [task() for task in tasks]

    key = job.fragments.fragments[job.fragments.answers[0].source].keys[0][0]
    (answer,) = job.query.answers

    def once(given: Any) -> tuple[float, float]:
        """The seconds of tasks, and those of the sink."""
        parts = route(given, job.fragments.schema, (key,), FEW_SHARDS)
        rows = [StageRow(0, job.sink, RESULT, shard, part.to_bytes()) for shard, part in parts.items()]
        with TemporaryDirectory() as folder:
            options = RunOptions(output=f"{folder}/out/", format="parquet")
            output, outlet = make_output(options, answer), Dataset(f"{folder}/out/", "parquet", (), Here())
            outlet.open(form_of(options, output, "run"), None)
            channel = StagedChannel("", outlet, output, RunStats("spark"), Written(), {}, options)
            gather = AnswerGather(job, 0, channel)
            aside = Aside(job, 0, {0: AsideFolder(outlet.staging, options, pack(output.snapshot()))})
            put, rows = timed(lambda: [*aside.rows(rows)])

            def take() -> None:
                gathered = gather.take(rows, False)
                chunks = [chunk for outcome in gathered.staged for chunk in outcome.keyed]
                channel.stage(chunks, 0, 0, "")
                channel.write(gathered.slice_)
                channel.flush(write_empty=True)
                gather.snapshot()

            seconds, _ = timed(take)
            made, _ = timed(channel.break_off)
            outlet.close()
        return put + made, seconds

    def fewest(given: Any) -> list[float]:
        return [min(seconds) for seconds in zip(*(once(given) for _ in range(rounds)), strict=True)]

    few, many = Slice(result.tuples), Slice(pl.concat([result.tuples] * TIMES))
    said, one, all_ = map(fewest, (result, few, many))
    more = (TIMES - 1) * result.tuples.height
    return {
        "rp": max(0.0, said[1] - one[1]) / len(result.punctuations),
        "rt": max(0.0, all_[1] - one[1]) / more,
        "wt": (all_[0] - one[0]) / more,
    }


def reports(job: Any, shards: int, rounds: int) -> float:
    """Seconds of the sink for what a shard of a fragment reports of itself in a micro-batch."""
    from xmlpunct.engine.run.inputs.ranges import advance
    from xmlpunct.engine.run.stats import RunStats
    from xmlpunct.engine.spark import edge
    from xmlpunct.engine.spark.processor import Shard
    from xmlpunct.engine.spark.run_metrics import RunMetrics
    from xmlpunct.engine.spark.shard_keys import shard_keys
    from xmlpunct.firehose.position import Cursor

    ranges, _ = advance(job.inputs[0], job.elements(0), Cursor(), job.inputs[0].parts[0].size or 0, SLICE)
    read = edge.read_task(job, edge.RangeTask(0, 0, (ranges[0],)))
    given = [row for row in read if row.stage == 0 and row.shard == shard_keys(job.shards)[0]]
    said = [row for row in Shard(job, 0, 0).push(given) if row.stage == job.sink and row.port < 0]
    of_all = [row._replace(seq=shard) for shard in range(shards) for row in said]
    metrics = RunMetrics(job.query, job.inputs, RunStats("spark"), {})
    return least(rounds, lambda: metrics.take(of_all)) / shards
