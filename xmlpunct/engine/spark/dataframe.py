"""A query as a streaming data frame, for use with any sink of Spark."""

from __future__ import annotations

import atexit
import json
import logging
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.pandas.types import to_arrow_schema

from xmlpunct.base.errors import UsageError, XmlPunctError
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.contract import is_endless
from xmlpunct.engine.inference import Inference
from xmlpunct.engine.partition.fragments import cut_plan
from xmlpunct.engine.plan import Limit, Query, Sort, Stream
from xmlpunct.engine.run.checkpoint.checkpoint import VERSION, described
from xmlpunct.engine.run.inputs.parts import Input, Part
from xmlpunct.engine.run.inputs.spool import Spool, find_inputs, unfinished
from xmlpunct.engine.run.inputs.tables import Table
from xmlpunct.engine.run.run_options import parse_size
from xmlpunct.engine.spark.combining import Combiner
from xmlpunct.engine.spark.frame_queries import FrameEdge, MergeProcessor, ResultRows
from xmlpunct.engine.spark.job import Job
from xmlpunct.engine.spark.relation_copies import with_relation_copies
from xmlpunct.engine.spark.scratch import Scratch
from xmlpunct.engine.spark.spark_session import PROVIDER, active, state_store
from xmlpunct.engine.spark.stage_messages import ROW_SCHEMA
from xmlpunct.engine.spark.table.datasource import XmlTable
from xmlpunct.engine.spark.table.table_files import table_parts
from xmlpunct.engine.spark.table.table_options import Mode
from xmlpunct.engine.spark.worker_stubs import NAME, with_fragments
from xmlpunct.engine.sql import plan
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute

_log = logging.getLogger("xmlpunct")
_GLANCE_SECONDS = 1.0
"""Interval of checks whether a spool can be written."""
_ROW = "row"
"""Element name of the rows of a frame that is written as XML."""
_PUNCTUATION = "punctuation"


@dataclass(frozen=True)
class Punctuated:
    """A data frame with punctuations of its other columns in ``column``: see `xmlpunct.spark.punctuated`."""

    frame: Any
    column: str


@dataclass(frozen=True)
class _InputFrame:
    """A frame that a query reads, an empty table of its columns, and its punctuation column."""

    frame: DataFrame
    table: Table
    punctuation: str | None

    @classmethod
    def of(cls, source: Any, name: str) -> _InputFrame:
        frame, column = (source.frame, source.column) if isinstance(source, Punctuated) else (source, None)
        if not hasattr(frame, "isStreaming"):
            raise UsageError(
                f"{name} is a {type(frame).__name__}: pass a Spark data frame, or a path as a string"
            )
        if column is not None and column not in frame.columns:
            raise UsageError(f"{name} has no column {column}: there are {', '.join(frame.columns)}")
        empty = to_arrow_schema(frame.schema, timezone="UTC").empty_table()
        table = Table.of(empty.drop_columns([column]) if column is not None else empty, name)
        assert table is not None
        return cls(frame, table, column)

    def columns(self, schema: Schema) -> Schema:
        """Its columns in order; columns in ``schema`` have the types of ``schema``."""
        names = (name for name in self.frame.columns if name != self.punctuation)
        return Schema.of(schema[name] if name in schema else self.table.schema[name] for name in names)


def query_frame(
    session: SparkSession,
    sql: str,
    frames: Mapping[str, Any],
    punctuation: str | None,
    mode: str,
    most_bytes: str | None,
    shards: int | None,
    spool: str | None,
) -> DataFrame:
    """The result of a query: see `xmlpunct.spark.query`."""
    if mode.upper() not in (Mode.PERMISSIVE.value, Mode.FAILFAST.value):
        raise UsageError(f"mode {mode!r}: there are PERMISSIVE and FAILFAST")
    by_name = {n: _InputFrame.of(g, n) for n, g in frames.items() if not isinstance(g, str)}
    paths = {n: g for n, g in frames.items() if isinstance(g, str)}
    planned = plan(sql, paths, inference=Inference(), tables={n: g.table for n, g in by_name.items()})
    planned.refuse_sinks()
    _check(session, planned, by_name, punctuation)
    streaming = {n: g for n, g in by_name.items() if g.frame.isStreaming}
    folder, is_new = _folder(spool)
    inputs, spools = find_inputs(planned, folder, but=by_name)
    spools = spools if is_new else unfinished(inputs, planned)
    used = {stream.declared for stream in planned.streams}
    written = {
        n: _frame_input(g, folder / f"frame-{n}") for n, g in by_name.items() if n in used - {*streaming}
    }
    streams = tuple(
        _frame_stream(s, by_name[s.declared]) if s.declared in written else s for s in planned.streams
    )
    for number, stream in enumerate(streams):
        if stream.declared in written:
            inputs.append(replace(written[stream.declared], streams=(number,)))
    job = Job(
        replace(planned, streams=streams),
        cut_plan(planned.root, [s.name for s in planned.streams], planned.rules),
        tuple(inputs),
        shards or _parallelism(session),
        None if most_bytes is None else parse_size(most_bytes),
        PUNCT_NAMESPACE,
        merges=punctuation is not None,
    )
    job = with_relation_copies(session, job, folder / "relations")
    replayable = spool is not None or not any(
        s.source and is_endless(s.source) for s in _read(planned, by_name)
    )
    copied_sources = {i.source for i, j in zip(inputs, job.inputs, strict=True) if i != j}
    job = replace(job, fingerprint=_fingerprint(job, planned, written.keys() | copied_sources, replayable))
    if spools:
        _start(spools)
    return _frame(session, job, [(n, g) for n, g in streaming.items() if n in used], punctuation, mode)


def _frame(
    session: SparkSession,
    job: Job,
    streaming: Sequence[tuple[str, _InputFrame]],
    punctuation: str | None,
    mode: str,
) -> DataFrame:
    """The result frame: the reader and the input frames, then one stage per fragment, then the results."""
    sources: list[DataFrame] = []
    if job.inputs:
        sources.append(session.readStream.format(NAME).option("job", job.to_text()).load())
    for name, source in streaming:
        for number, stream in enumerate(job.query.streams):
            if stream.declared == name:
                columns = source.columns(stream.sent)
                edge = FrameEdge(job, number, len(job.inputs) + number, columns, source.punctuation)
                sources.append(source.frame.mapInArrow(edge, ROW_SCHEMA))
    rows = reduce(lambda left, right: left.union(right), sources)
    rows = with_fragments(rows, job)
    if punctuation is not None and job.sink:
        rows = Combiner(job).spread(rows)
        rows = rows.groupBy("shard").transformWithState(MergeProcessor(job), ROW_SCHEMA, "append", "None")
    results = ResultRows(job, punctuation, mode.upper() == Mode.FAILFAST.value)
    return rows.mapInArrow(results, results.columns)


def _check(
    session: SparkSession, query: Query, by_name: Mapping[str, _InputFrame], punctuation: str | None
) -> None:
    """Raise `UsageError` for a query that a streaming frame cannot run, or a session that cannot."""
    if any(isinstance(node, Sort | Limit) for node in query.root.walk()):
        raise UsageError(
            "ORDER BY and LIMIT are refused: a streaming data frame has no order. Sort the output of its sink, or "
            "use xmlpunct.query or xmlpunct run"
        )
    if "RocksDB" not in state_store(session):
        raise UsageError(
            f"this session stores the state of streaming queries in {state_store(session)}, but transformWithState "
            f"needs RocksDB: unset {PROVIDER}, or set it to RocksDB's"
        )
    if punctuation is not None and punctuation in query.root.schema:
        raise UsageError(f"the result has a column {punctuation}: give columnNameOfPunctuation another name")
    unused = by_name.keys() - {stream.declared for stream in query.streams}
    if unused:
        raise UsageError(f"the query does not read {', '.join(sorted(unused))}")
    for stream in query.streams:
        if stream.declared in by_name:
            by_name[stream.declared].table.check(stream.sent)
    for stream in _read(query, by_name):
        if stream.source == "-":
            raise UsageError("standard input cannot be read here: give a path or a data frame")
        if is_endless(str(stream.source)) and is_remote(session):
            raise UsageError(
                f"{stream.source}: under Spark Connect no socket or growing file is read, since this process is not "
                "where Spark is: read it with a data frame (Kafka, say), or without Connect"
            )


def _read(query: Query, by_name: Mapping[str, _InputFrame]) -> list[Stream]:
    """The streams that read sources, not frames."""
    return [stream for stream in query.streams if stream.declared not in by_name]


def is_remote(session: SparkSession) -> bool:
    """True for a session of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def _folder(spool: str | None) -> tuple[Path, bool]:
    """The directory of spools, and whether it is new."""
    if spool is not None:
        path = Path(spool).absolute()
        return path, not path.exists()
    scratch = Scratch()
    atexit.register(scratch.remove)
    return scratch.directory("spools"), True


def _start(spools: Sequence[Spool]) -> None:
    """Start the spools; a thread logs write errors of spools, because the query waits for them."""
    for spool in spools:
        spool.start()

    def watch() -> None:
        open_spools = list(spools)
        while open_spools:
            time.sleep(_GLANCE_SECONDS)
            for spool in list(open_spools):
                try:
                    spool.check()
                except XmlPunctError as error:
                    _log.error("%s; the query waits for it: stop the query and start it again", error)
                    open_spools.remove(spool)
            if not any(spool.is_alive() for spool in spools):
                return

    threading.Thread(target=watch, name="watch spools", daemon=True).start()


def _frame_input(source: _InputFrame, folder: Path) -> Input:
    """Write a static frame as XML, on the first call, and return it as an input."""
    if not folder.exists():
        columns = [F.col(f"`{name}`").alias(alias) for name, alias in _aliases(source).items()]
        writer = source.frame.select(*columns).write.format(XmlTable.name()).mode("append")
        options = {"element": _ROW, "rootTag": "frame"}
        if source.punctuation is not None:
            options["columnNameOfPunctuation"] = _PUNCTUATION
        half = folder.with_name(f"{folder.name}.half-{uuid.uuid4().hex}")
        with active(source.frame.sparkSession):
            writer.options(**options).save(str(half))
        half.replace(folder)
    parts = table_parts([str(folder)]) if any(folder.rglob("*.xml")) else []
    return Input(
        source.table.name, (), tuple(Part(p.name, str(p.path), p.size, stored=p.size) for p in parts)
    )


def _aliases(source: _InputFrame) -> dict[str, str]:
    """Valid XML names for a frame's columns, by column name."""
    names = [name for name in source.frame.columns if name != source.punctuation]
    aliases = {name: f"c{number}" for number, name in enumerate(names)}
    return aliases | ({source.punctuation: _PUNCTUATION} if source.punctuation is not None else {})


def _frame_stream(stream: Stream, source: _InputFrame) -> Stream:
    """A stream that reads the XML of `_frame_input`."""
    aliases = _aliases(source)

    def renamed(a: Attribute) -> Attribute:
        return replace(a, path=aliases[a.name]) if a.name in aliases else a

    return replace(stream, element=_ROW, schema=Schema.of(map(renamed, stream.schema)))


def _parallelism(session: SparkSession) -> int:
    """Number of tasks that Spark runs in parallel."""
    if not is_remote(session):
        return int(session.sparkContext.defaultParallelism)
    return int(session.range(2**10).select(F.spark_partition_id()).distinct().count())


def _fingerprint(job: Job, query: Query, written: set[str], replayable: bool) -> str:
    """Fingerprint of a job: its plan, shards and inputs."""
    inputs = [
        [input_.source, [[None if input_.source in written else p.name, p.stored] for p in input_.parts]]
        for input_ in job.inputs
    ]
    parts: list[Any] = [VERSION, described(query), sorted(query.rules), job.shards, job.merges, inputs]
    if not replayable:
        parts.append(uuid.uuid4().hex)  # data read from a socket is lost with this process
    return blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()
