"""Runs a query on Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from xmlpunct.base.errors import TransientError, XmlPunctError, ended_by, reading
from xmlpunct.connectors.source import ChangedError
from xmlpunct.engine.partition.fragments import cut_plan
from xmlpunct.engine.plan import Query
from xmlpunct.engine.rules.guard import with_guards
from xmlpunct.engine.run.checkpoint.checkpoint import Checkpoint, RestoredRun
from xmlpunct.engine.run.checkpoint.inspection import verify_if_asked
from xmlpunct.engine.run.checkpoint.log import DamagedError
from xmlpunct.engine.run.datasets import FORMATS, Dataset
from xmlpunct.engine.run.datasets.staged_outlet import StagedOutlet
from xmlpunct.engine.run.inputs.injected_punctuations import InjectionLog, InjectionQueue
from xmlpunct.engine.run.inputs.ranges import check_read
from xmlpunct.engine.run.inputs.spool import warn_of_growth
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.run.sink import check_complete, make_outputs, open_sink, told_of
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.spark.combining import Combiner
from xmlpunct.engine.spark.cutting import cut_large_files
from xmlpunct.engine.spark.job import Job
from xmlpunct.engine.spark.offsets import SparkOffsets
from xmlpunct.engine.spark.run_metrics import RunMetrics
from xmlpunct.engine.spark.scratch import Scratch
from xmlpunct.engine.spark.spark_executor import SparkExecutor
from xmlpunct.engine.spark.spark_session import (
    STATE_FORMAT,
    STREAMING,
    SparkFailure,
    active,
    gist,
    spark_session,
    state_format,
)
from xmlpunct.engine.spark.spark_sink import MicroBatchSink
from xmlpunct.engine.spark.spark_source import cursors_of
from xmlpunct.engine.spark.stage_messages import batch_to_rows
from xmlpunct.engine.spark.warmup import warming
from xmlpunct.engine.spark.worker_stubs import NAME, QuerySource, with_fragments
from xmlpunct.engine.spark.xml_dataset import XmlDataset, check_dataset
from xmlpunct.firehose.spec import check_namespace

_OWN_ERROR = re.compile(
    rf"\b(?:({ChangedError.__name__}|{TransientError.__name__})"
    rf"|{DamagedError.__name__}|{XmlPunctError.__name__}): (.+)$",
    re.MULTILINE,
)
"""Errors of this package in the traceback of a worker process."""
_GLANCE = 0.1
"""Interval in seconds of checks whether Spark is still running."""


class Runner:
    """One run of ``query``. The constructor checks everything that can be checked before Spark starts."""

    def __init__(
        self,
        query: Query,
        options: RunOptions,
        stats: RunStats,
        on_progress: Callable[[RunStats], None] | None = None,
        injections: InjectionQueue | None = None,
    ) -> None:
        self._injections = InjectionQueue() if injections is None else injections
        query = with_guards(query) if options.guarded else query
        self.query, self.options, self.stats, self.on_progress = query, options, stats, on_progress
        check_namespace((stream.element for stream in query.streams), options.punct_namespace)
        self._outputs = make_outputs(query, options)
        for answer in query.answers:
            target = options.to(answer.destination)
            if target.dataset and target.format not in FORMATS:
                with told_of(answer):
                    check_dataset(target, answer.root.schema)

    def run(self, session: SparkSession | None = None) -> None:
        """Run to the end. Raises the errors of `xmlpunct.engine.spark.run`."""
        with _checkpoint(self.query, self.options) as checkpoint, ExitStack() as opened:
            with reading(f"the checkpoint {checkpoint.path}"):
                verify_if_asked(checkpoint.path, self.options)
                restored = checkpoint.find()
            commit = restored.commit
            metrics = RunMetrics(self.query, restored.inputs, self.stats, commit.stats, commit.held)
            opened.enter_context(ended_by(checkpoint.clean_if_over))
            if commit.over:
                if restored.failure is not None:
                    raise restored.failure
                check_complete(self.query, self.options, self._outputs, commit, checkpoint.run)
                return
            offsets = SparkOffsets(checkpoint.spark)
            offsets.check(commit)
            for number, cursor in cursors_of(commit.offset).items():
                check_read(restored.inputs[number], cursor)
            executor = SparkExecutor()
            run_sink = opened.enter_context(
                open_sink(
                    self.query,
                    self.options,
                    self._outputs,
                    self.stats,
                    commit,
                    checkpoint.run,
                    lambda options: staged_outlet(options, executor),
                )
            )

            def work(shared: SparkSession) -> None:
                self.stats.activity = "planning"
                if self.on_progress is not None:
                    self.on_progress(self.stats)
                run_session = shared.newSession()  # a session of its own for the settings
                executor.session = run_session
                job = _job(checkpoint, restored, run_session.sparkContext.defaultParallelism)
                extents = [*commit.outputs, *([commit.rejects] if self.options.rejects else [])]
                if any(written.position is None for written in extents):
                    run_sink.commit(commit)
                    checkpoint.commit(commit)  # claims the outputs before they are written
                sink = MicroBatchSink(job, checkpoint, commit, run_sink, metrics, self.on_progress, offsets)
                injection_log = InjectionLog(checkpoint.said)
                try:
                    with ended_by(injection_log.close):
                        _stream(
                            run_session,
                            job,
                            restored,
                            sink,
                            checkpoint.spark,
                            self._injections,
                            injection_log,
                        )
                except KeyboardInterrupt:
                    if self.options.checkpoint is None:  # no run continues
                        run_sink.break_off()
                    raise

            try:
                if session is not None:
                    work(session)
                else:
                    with spark_session(self.options.master) as new_session, warming(new_session):
                        work(new_session)
            except TransientError as error:
                if self.options.checkpoint is not None:
                    error.add_note(error.REMEDY)
                raise
            warn_of_growth(restored.inputs)


def staged_outlet(options: RunOptions, executor: SparkExecutor) -> StagedOutlet | None:
    """The outlet of a dataset, whose files the executor makes; None for other outputs."""
    if not options.dataset:
        return None
    if options.format in FORMATS:
        return Dataset(str(options.output), options.format, options.partition_by, executor)
    return XmlDataset(options, executor)


def _stream(
    session: SparkSession,
    job: Job,
    restored: RestoredRun,
    sink: MicroBatchSink,
    folder: Path,
    injections: InjectionQueue,
    injection_log: InjectionLog,
) -> None:
    """Run the streaming query until the sink is done. Raises the sink's failure, or `SparkFailure`."""
    for name, value in STREAMING.items():
        session.conf.set(name, value)
    session.conf.set("spark.sql.shuffle.partitions", str(job.shards))
    session.conf.set(STATE_FORMAT, state_format(session, folder))
    with active(session):
        session.dataSource.register(QuerySource)
    try:
        cut_large_files(session.sparkContext, job)
        for spool in restored.spools:
            spool.start()
        writer = stages(session, job).writeStream.foreachBatch(_batch_handler(sink))
        running = writer.option("checkpointLocation", folder.as_uri()).start()
        try:
            while not sink.done.wait(_GLANCE) and running.isActive:
                if sink.stats.slices == 0:
                    sink.stats.activity = first_tasks(session, running)
                sink.look_for_idle()
                while (injected := injections.take()) is not None:
                    injection_log.add(injected)
                injections.settle()
                for spool in restored.spools:
                    spool.check()
            sink.look_for_idle()  # inputs that have ended meanwhile are not idle
            stopped = None if sink.done.is_set() else running.exception()
        except KeyboardInterrupt:
            sink.stop()
            raise
        finally:
            # The query, or Java, may have ended already.
            with suppress(PySparkException, Py4JError, ConnectionError):
                running.stop()
            for spool in restored.spools:
                spool.stop()
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise _failure(error) from error
    if isinstance(sink.failure, XmlPunctError | BrokenPipeError):
        raise sink.failure
    if isinstance(sink.failure, PySparkException | Py4JError):
        raise _failure(sink.failure) from sink.failure
    if sink.failure is not None:
        raise XmlPunctError(f"the output could not be written: {sink.failure}") from sink.failure
    if not sink.done.is_set():
        raise _failure(stopped) from stopped


def first_tasks(session: SparkSession, running: StreamingQuery) -> str:
    """The activity until the first micro-batch is written: planning, or the number of finished tasks."""
    tracker = session.sparkContext.statusTracker()
    jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(str(running.runId)))
    stage_infos = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    infos = [info for info in stage_infos if info is not None]
    if not infos:
        return "planning"
    finished = sum(info.numCompletedTasks for info in infos)
    return f"first rows: {finished:,} of {sum(info.numTasks for info in infos):,} tasks"


def _failure(error: BaseException | None) -> XmlPunctError:
    """The error of a failed query: one that a worker raised, which Spark passes as text, or `SparkFailure`."""
    if (own_error := _OWN_ERROR.search(str(error))) is not None:
        return TransientError(*own_error[2].split(": ", 1)) if own_error[1] else XmlPunctError(own_error[2])
    return SparkFailure(f"Spark failed: {gist(error)}")


def stages(session: SparkSession, job: Job) -> DataFrame:
    """The streaming query: the reader, then the fragments."""
    return with_fragments(session.readStream.format(NAME).option("job", job.to_text()).load(), job)


def _batch_handler(sink: MicroBatchSink) -> Callable[[DataFrame, int], None]:
    combiner = Combiner(sink.job)

    def take(frame: DataFrame, batch: int) -> None:
        # Collected even if the sink has committed it: only running it brings the state store up to date.
        sink.take(batch_to_rows(sink.aside(batch).spread(combiner.spread(frame)).toArrow()), batch)

    return take


def _job(checkpoint: Checkpoint, restored: RestoredRun, shards: int) -> Job:
    """The job of a run, with ``shards`` shards if it is a new one."""
    query, options = checkpoint.query, checkpoint.options
    shards = checkpoint.settle(restored, shards)
    fragments = cut_plan(query.roots, [s.name for s in query.streams], query.rules)
    size, pacing, said_path = options.slice_bytes, str(checkpoint.pacing), str(checkpoint.said)
    shares = options.max_rejects is not None and options.max_rejects.percent is not None
    return Job(
        query,
        fragments,
        tuple(restored.inputs),
        shards,
        size,
        options.punct_namespace,
        pacing,
        shares,
        said_path,
        cuts=str(checkpoint.cuts),
        counts=str(checkpoint.counts),
    )


@contextmanager
def _checkpoint(query: Query, options: RunOptions) -> Iterator[Checkpoint]:
    """The checkpoint of the options, or a temporary one."""
    if options.checkpoint is not None:
        with Checkpoint(Path(options.checkpoint), query, options) as checkpoint:
            yield checkpoint
        return
    scratch = Scratch()
    try:
        with Checkpoint(scratch.directory("checkpoint"), query, options) as checkpoint:
            yield checkpoint
    finally:
        scratch.remove()
