"""The local engine: runs a query to the end of its sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from xmlpunct.base.errors import Reject, SourceError, TransientError, UsageError, ended_by, reading, undoing
from xmlpunct.base.reject_log import log_notices
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.source import Source
from xmlpunct.engine.plan import Query
from xmlpunct.engine.rules.guard import with_guards
from xmlpunct.engine.run.checkpoint.checkpoint import Checkpoint, run_name
from xmlpunct.engine.run.checkpoint.commit import Commit
from xmlpunct.engine.run.datasets import FORMATS
from xmlpunct.engine.run.inputs.injected_punctuations import InjectionQueue
from xmlpunct.engine.run.inputs.parts import Input
from xmlpunct.engine.run.inputs.spool import Spool, warn_of_growth
from xmlpunct.engine.run.inputs.tables import Table
from xmlpunct.engine.run.local.ledger import Ledger
from xmlpunct.engine.run.local.running import LocalRun
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.run.sink import check_complete, make_outputs, open_sink, told_of
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.run.stop import Stop
from xmlpunct.firehose.position import Cursor
from xmlpunct.slice import Slice

ProgressCallback = Callable[[RunStats], None]


def open_sources(
    query: Query, replacements: Mapping[str, Source | Table] | None = None
) -> dict[str, Source | Table]:
    """The sources of a query's streams, by stream name. ``replacements`` are sources by declared name.

    A source of several streams is opened once.
    """
    opened: dict[str, Source] = {}
    by_name: dict[str, Source | Table] = {}
    for stream in query.streams:
        source = (replacements or {}).get(stream.declared)
        if isinstance(source, Table):
            by_name[stream.name] = source
            continue
        if source is None:
            assert stream.source is not None
            if stream.source not in opened:
                opened[stream.source] = query.opened.take(stream.source)
            source = opened[stream.source]
        by_name[stream.name] = source.sender(stream.sender)
    return by_name


def run(
    query: Query,
    options: RunOptions,
    stats: RunStats,
    on_progress: ProgressCallback | None = None,
    stop: Stop | None = None,
    injections: InjectionQueue | None = None,
) -> None:
    """Run a query to the end of its sources and write its results; with a checkpoint, continue an earlier run.

    Raises `SourceError` if a source fails or rejects exceed ``options.max_rejects``, after writing the results before
    it. A checkpoint does not record a `TransientError`: the same run can continue. Raises `StrictError` at the first
    reject with ``options.strict``, and KeyboardInterrupt after the current slice on ``stop``. ``injections`` are
    punctuations that other threads inject.
    """
    query = with_guards(query) if options.guarded else query
    for answer in query.answers:
        target = options.to(answer.destination)
        if target.dataset and target.format not in FORMATS:
            with told_of(answer):
                raise UsageError(
                    f"{target.output} is a dataset directory: {target.spelled('format')} parquet, arrow or csv; "
                    "for xml use --engine spark"
                )
    outputs, stop = make_outputs(query, options, in_document_order=True), stop or Stop()
    provisional = None
    if options.partial is not None:
        from xmlpunct.engine.run.local.provisional import Provisional

        provisional = Provisional(query, options)
    with ExitStack() as opened:
        checkpoint, restored, commit, name = None, None, Commit.begun(query), run_name()
        sources: Mapping[str, Source | Input | Table]
        spools: list[Spool] = []
        if options.checkpoint is None:
            sources = open_sources(query)
        else:
            folder = Path(options.checkpoint)
            checkpoint = opened.enter_context(Checkpoint(folder, query, options, "local"))
            with reading(f"the checkpoint {folder}"):
                if options.verifies:
                    from xmlpunct.engine.run.checkpoint.inspection import verify_if_asked

                    verify_if_asked(checkpoint.path, options)
                restored = checkpoint.find()
            opened.enter_context(ended_by(checkpoint.clean_if_over))  # runs after the spools are stopped
            commit, spools = restored.commit, restored.spools
            stats.resume(commit.stats)
            if commit.over:
                if restored.failure is not None:
                    raise restored.failure
                check_complete(query, options, outputs, commit, checkpoint.run)
                return
            checkpoint.settle(restored, 1)
            name = checkpoint.run
            sources = {query.streams[i].name: input_ for input_ in restored.inputs for i in input_.streams}
        namespace, size, threads = options.punct_namespace, options.slice_bytes, options.threads
        running = LocalRun(query, sources, size, stats, namespace, injections, threads)
        opened.enter_context(ended_by(running.close))
        if restored is not None:
            for number, cursor in restored.cursors:  # before the spools grow
                running.check(number, Cursor.from_json(cursor))
        for spool in spools:
            spool.bell = running.bell
            spool.start()
            opened.enter_context(ended_by(spool.stop))
        sink = opened.enter_context(open_sink(query, options, outputs, stats, commit, name))
        ledger = Ledger(running, sink, checkpoint, restored)
        try:
            ledger.check()
            while (portion := running.read()) is not None:
                for spool in spools:
                    spool.check()
                with stop.deferred():
                    ledger.take(portion)
                    ledger.check()
                    ledger.commit_if_due()
                    if provisional is not None and provisional.is_due() and not running.ended:
                        ledger.commit()
                        provisional.write(running.partial())
                if on_progress is not None:
                    on_progress(stats)
        except KeyboardInterrupt:
            if not stop.urgent:
                ledger.break_off()
            raise
        except TransientError as error:
            if checkpoint is not None:
                error.add_note(error.REMEDY)
            with stop.deferred(), undoing(ledger.break_off):
                raise
        except SourceError as failure:
            with stop.deferred(), undoing(partial(ledger.finish, failure)):
                raise
        with stop.deferred():
            ledger.finish()
        warn_of_growth(source for source in sources.values() if not isinstance(source, Table))


def results(
    query: Query,
    sources: Mapping[str, Source | Table],
    on_reject: Callable[[Reject], object],
    watched: bool = False,
) -> Iterator[Slice]:
    """Iterate over the query's results as slices. Raises `SourceError` after the last good one.

    With ``watched``, an empty slice is returned after a while without input.
    """
    running = LocalRun(query, sources, None, RunStats("local", watched=watched), PUNCT_NAMESPACE)
    with ended_by(running.close):
        try:
            while (result := running.advance()) is not None:
                for reject in running.rejects:
                    on_reject(reject)
                running.rejects.clear()
                log_notices(running.notices)
                running.notices.clear()
                yield result
        except SourceError:
            log_notices(n for n in running.stats.finish() if not n.is_absence)
            raise
