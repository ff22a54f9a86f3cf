"""The sink of a run: its results and its rejects go to files, standard output, datasets or connectors."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path

from xmlpunct.base.errors import Reject, SourceError, StrictError, UsageError, ended_by
from xmlpunct.base.frames import nested_snapshot
from xmlpunct.base.reject_log import log_notices
from xmlpunct.base.unread import Notice
from xmlpunct.connectors.contract import connector_of, expand
from xmlpunct.connectors.outlet import Existing, Form, Outlet
from xmlpunct.engine.plan import Answer, Query
from xmlpunct.engine.run.channel import Channel, ResultChannel, StagedChannel
from xmlpunct.engine.run.checkpoint.commit import Commit, Frames, Written
from xmlpunct.engine.run.datasets import FORMATS, Dataset
from xmlpunct.engine.run.datasets.staged_outlet import StagedOutlet
from xmlpunct.engine.run.file_outlet import FileOutlet
from xmlpunct.engine.run.output import Output
from xmlpunct.engine.run.reject_limit import RejectLimit
from xmlpunct.engine.run.run_options import COLUMNAR, RunOptions, XmlForm, is_url
from xmlpunct.engine.run.single_file import SingleFile
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.firehose import writer_for
from xmlpunct.firehose.writer import JsonlWriter
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.slice import Slice
from xmlpunct.types import INT, STRING

_log = logging.getLogger("xmlpunct")
_SHOWN_REJECTS = 3
"""The number of rejects of a run that are logged."""

REJECTS = Schema.of(Attribute(f.name, INT if f.name in ("line", "byte") else STRING) for f in fields(Reject))
"""Rejects as results."""


class RunSink:
    """The sink of a run on either engine: a channel for each answer, and one for rejects.

    The channels buffer the output until `flush` makes it visible. With ``strict``, a reject ends the run; ``limit`` is
    that of ``--max-rejects``.
    """

    def __init__(
        self,
        results: Sequence[ResultChannel],
        rejects: Channel | None,
        stats: RunStats,
        strict: bool = False,
        limit: RejectLimit | None = None,
    ) -> None:
        self.results, self.stats = results, stats
        self._rejects, self._strict, self._limit = rejects, strict, limit
        self.excess: SourceError | None = None
        """The error if the rejects exceed the limit."""
        self._is_announced = False

    def start(self) -> None:
        """Put the prologues."""
        for channel in self.results:
            channel.start()

    def fitting(self, slices: Sequence[Slice]) -> tuple[list[Slice], list[Reject]]:
        """Split a slice of each answer into the tuples that its output can represent, and rejects."""
        pairs = [c.output.fitting(slice_) for c, slice_ in zip(self.results, slices, strict=True)]
        return [fits for fits, _ in pairs], [reject for _, unfit in pairs for reject in unfit]

    def write(self, slices: Sequence[Slice]) -> None:
        """Put a slice of each answer."""
        for channel, slice_ in zip(self.results, slices, strict=True):
            channel.write(slice_)

    def ends_run(self, rejects: Sequence[Reject], notices: Sequence[Notice]) -> bool:
        """True if `report` raises `StrictError` for these rejects and notices."""
        return self._strict and (bool(rejects) or any(notice.fails for notice in notices))

    def report(
        self,
        rejects: list[Reject],
        notices: Sequence[Notice],
        share: Callable[[RejectLimit, list[Reject]], SourceError | None],
    ) -> None:
        """Put sorted rejects; log notices, and the first rejects of the run. A strict run raises `StrictError` instead.

        If they exceed the limit, the rejects after that are dropped, and `excess` is set. ``share`` judges the share
        of rejects.
        """
        if self._limit is not None and self.excess is None:
            rejects, excess = self._limit.first(rejects, self.stats.rejected)
            self.excess = excess or share(self._limit, rejects)
        shown = rejects[: max(0, _SHOWN_REJECTS - self.stats.rejected)]
        self.stats.rejected += len(rejects)
        if self._strict and rejects:
            self._put_rejects(rejects[:1])
            self.flush()
            raise StrictError(f"--strict: {rejects[0]}")
        if self._strict and (failing := [notice for notice in notices if notice.fails]):
            raise StrictError(f"--strict: {failing[0]}")
        for reject in shown:
            _log.warning("rejected: %s", reject)
        log_notices(notices)
        self._put_rejects(rejects)

    def _put_rejects(self, rejects: Sequence[Reject]) -> None:
        if self._rejects is not None and rejects:
            self._rejects.put(*rejected(rejects))

    def close(self, closed: Iterable[bool]) -> None:
        """Put the ends of the outputs that are closed."""
        for channel, is_closed in zip(self.results, closed, strict=True):
            if is_closed:
                channel.close()

    def end(self) -> None:
        """Put the ends of all outputs."""
        self.close([True] * len(self.results))

    def over(self, *, write_empty: bool = False) -> None:
        """Write the last groups, and signal that no reject and no result follows, also in outputs without an end."""
        if self._rejects is not None:
            self._rejects.end()
        self.flush(write_empty=write_empty)
        self.break_off()

    def break_off(self) -> None:
        """Signal that no result and no reject follows, complete or not."""
        for channel in self._channels:
            channel.break_off()

    @property
    def ended(self) -> bool:
        """True if the ends of all outputs were put."""
        return all(channel.closed for channel in self.results)

    @property
    def _channels(self) -> list[Channel]:
        return [*([] if self._rejects is None else [self._rejects]), *self.results]

    @property
    def pending(self) -> bool:
        """True if `flush` has anything to write."""
        return any(channel.pending for channel in self._channels)

    @property
    def mark(self) -> list[int]:
        """The lengths of all outputs after the next `flush`, and a checksum of the buffered bytes."""
        checksum = 0
        for channel in self._channels:
            checksum = channel.checksum(checksum)
        return [*(channel.reach for channel in self._channels), checksum]

    def flush(self, *, more: bool = False, write_empty: bool = False) -> None:
        """Make the buffered output visible: see `Channel.flush`."""
        for channel in self._channels:
            channel.flush(more=more, write_empty=write_empty)

    def check_last(self, pending: int = 0) -> None:
        """Raise `XmlPunctError` if an output holds later groups of this run: see `Channel.check_last`."""
        for channel in self._channels:
            channel.check_last(pending)

    def finish(self) -> None:
        """Signal readers of complete outputs that nothing follows."""
        for channel in self.results:
            channel.finish()

    def announce_complete(self) -> None:
        """Log, once, that the run continues although its output is complete."""
        if not self._is_announced:
            self._is_announced = True
            _log.warning(
                "the output is complete; the inputs are read to the end because --rejects, --max-rejects and --strict "
                "need all rejects"
            )

    def snapshot(self) -> Frames:
        """The state of the outputs, for a checkpoint."""
        return snapshot_of_outputs(channel.output for channel in self.results)

    def commit(self, commit: Commit) -> None:
        """Make the visible output durable, and record its extent in ``commit``."""
        if self._rejects is not None:
            commit.rejects = self._rejects.commit()
        commit.outputs = [channel.commit() for channel in self.results]


def snapshot_of_outputs(outputs: Iterable[Output]) -> Frames:
    """The state of several outputs, by index."""
    return {
        f"{i}/{name}": frame for i, output in enumerate(outputs) for name, frame in output.snapshot().items()
    }


def rejected(rejects: Sequence[Reject]) -> tuple[bytes, Slice]:
    """Rejects as lines, and as columns."""
    rows = [tuple(asdict(reject).values()) for reject in rejects]
    return b"".join(map(reject_line, rejects)), Slice(REJECTS.frame(rows))


def reject_line(reject: Reject) -> bytes:
    """A reject as a line of the rejects file."""
    return json.dumps(asdict(reject), ensure_ascii=False).encode() + b"\n"


@contextmanager
def open_sink(
    query: Query,
    options: RunOptions,
    outputs: Sequence[Output],
    stats: RunStats,
    commit: Commit,
    run: str,
    staged_outlet: Callable[[RunOptions], StagedOutlet | None] = lambda _: None,
) -> Iterator[RunSink]:
    """The sink of the options and of the CREATE SINK statements. Raises `UsageError` if an output cannot be written.

    ``staged_outlet`` makes the outlet of an output whose tuples tasks stage, and returns None for other outputs.
    """
    states, channels = nested_snapshot(commit.output), list[ResultChannel]()
    with ExitStack() as opened:
        for number, (answer, output) in enumerate(zip(query.answers, outputs, strict=True)):
            own, written = options.to(answer.destination), commit.outputs[number]
            state = states.get(str(number), {})
            with told_of(answer):
                staged, own_run = staged_outlet(own), run_of(run, number)
                outlet = staged or _outlet(own, written)
                opened.enter_context(ended_by(outlet.close))
                outlet.open(form_of(own, output, own_run), written.position)
                if options.verifies:
                    outlet.verify()
            if staged is not None:
                channels.append(StagedChannel(answer.name, staged, output, stats, written, state, own))
            else:
                channels.append(ResultChannel(answer.name, outlet, output, stats, written, state))
        rejects = _open_rejects(options, commit, run, opened)
        reject_channel = None if rejects is None else Channel(rejects, commit.rejects)
        yield RunSink(channels, reject_channel, stats, options.strict, options.max_rejects)


def run_of(run: str, number: int) -> str:
    """The name of the run in the output of an answer: unique for each answer."""
    return f"{run}-{number}" if number else run


@contextmanager
def told_of(answer: Answer) -> Iterator[None]:
    """Add the name of the sink, if it has one, to a `UsageError`."""
    try:
        yield
    except UsageError as error:
        if not answer.name:
            raise
        raise UsageError(f"{answer}: {error}") from None


def _outlet(options: RunOptions, written: Written) -> Outlet:
    """The outlet of an output, which continues after ``written``. Raises `UsageError`."""
    outlet = outlet_at(options.output, options)
    if outlet is None:
        begun, refuses = written.position is not None, options.existing is Existing.REFUSE
        outlet = FileOutlet(
            options.output, written.length, begun=begun, must_be_empty=refuses, last=written.last
        )
    return outlet


def form_of(options: RunOptions, output: Output, run: str) -> Form:
    """The parameters of an outlet."""
    return Form(run, output.schema, output.writer, options.format, options.existing)


def _open_rejects(options: RunOptions, commit: Commit, run: str, opened: ExitStack) -> Outlet | None:
    """The outlet of rejects, if any, which continues after a commit; ``opened`` closes it. Raises `UsageError`."""
    if not options.rejects:
        return None
    format_ = "parquet" if options.rejects.endswith("/") else "jsonl"
    outlet = outlet_at(options.rejects, replace(options, format=format_, partition_by=()))
    if outlet is None:  # a report of an earlier run is overwritten
        begun = commit.rejects.position is not None
        written = commit.rejects
        outlet = FileOutlet(options.rejects, written.length, begun=begun, last=written.last)
    opened.enter_context(ended_by(outlet.close))
    outlet.open(_form_of_rejects(options, run), commit.rejects.position)
    if options.verifies:
        outlet.verify()
    return outlet


def _form_of_rejects(options: RunOptions, run: str) -> Form:
    return Form(f"{run}-rejects", REJECTS, JsonlWriter(REJECTS), "jsonl", options.existing)


def outlet_at(target: str | None, options: RunOptions) -> Outlet | None:
    """The outlet of a URL or of a dataset, not opened; None for a file."""
    if is_url(target):
        spec = expand(str(target))
        outlet = connector_of(spec).outlet(spec, str(target))
        if options.replaces and not outlet.can_replace:
            raise UsageError(f"{target}: sent messages cannot be removed: leave out --replace")
        return outlet
    if target is not None and target.endswith("/") and options.format in FORMATS:
        return Dataset(target, options.format, options.partition_by)
    if target is not None and options.format in COLUMNAR:
        return SingleFile(target, options.format, continues=options.checkpoint is not None)
    return None


def check_complete(
    query: Query, options: RunOptions, outputs: Sequence[Output], commit: Commit, run: str
) -> None:
    """Check the outputs of a complete run: log a warning for a file that has become shorter.

    Raises `XmlPunctError` for a database that was lost.
    """
    for number, (answer, output) in enumerate(zip(query.answers, outputs, strict=True)):
        own, written = options.to(answer.destination), commit.outputs[number]
        _warn_if_gone(own, written.length)
        if own.is_url and (outlet := outlet_at(own.output, own)) is not None:
            outlet.check_complete(form_of(own, output, run_of(run, number)), written.position)
    if is_url(options.rejects) and (outlet := outlet_at(options.rejects, options)) is not None:
        outlet.check_complete(_form_of_rejects(options, run), commit.rejects.position)


def _warn_if_gone(options: RunOptions, length: int) -> None:
    if options.output in (None, "-") or options.is_url or options.dataset:
        return
    out = Path(str(options.output))
    length = min(length, 1) if options.format in COLUMNAR else length  # the length is that of the rows
    if (out.is_file() or not out.exists()) and (out.stat().st_size if out.exists() else 0) < length:
        _log.warning(
            "the run is complete, but %s no longer has the %s bytes it wrote; another --checkpoint writes them again",
            out,
            f"{length:,}",
        )


def make_outputs(query: Query, options: RunOptions, in_document_order: bool = False) -> list[Output]:
    """The `Output` of each answer; ``in_document_order``: the engine keeps the order of a document.

    Raises `UsageError` for options or names that its format does not support.
    """
    outputs = []
    for answer in query.answers:
        with told_of(answer):
            outputs.append(make_output(options.to(answer.destination), answer, in_document_order))
    return outputs


def make_output(options: RunOptions, answer: Answer, in_document_order: bool = False) -> Output:
    """The `Output` of an answer with its own options."""
    schema, say = answer.root.schema, options.spelled
    ordered = answer.root.ordered if in_document_order else answer.is_sorted
    if options.form is not None and options.format != "xml":
        xml = f"{say('root')}, {say('row')}, {say('namespaces')} and {say('pretty')}"
        raise UsageError(f"{xml} apply to XML, not to {options.format}: leave them out")
    outlet = outlet_at(options.output, options)
    if outlet is not None:
        outlet.check(schema)
    if not isinstance(outlet, Dataset):
        _refuse_format(options)
    if outlet is not None and outlet.takes_columns:
        if options.form is not None or (options.is_url and options.format != "xml"):
            raise UsageError(f"{options.output} needs columns: leave out {say('format')} and the form of XML")
        return Output(schema, JsonlWriter(schema), ordered, outlet.unfit)
    form, namespace = options.form or XmlForm(), options.punct_namespace
    writer = writer_for(options.format, schema, punct_namespace=namespace, **vars(form))
    return Output(schema, writer, ordered)


def _refuse_format(options: RunOptions) -> None:
    """Raise `UsageError` for options that the output does not support, because it is no dataset."""
    spelled = options.spelled
    folder = "output = 'DIR/'" if options.is_sink else "-o DIR/"
    if options.partition_by:
        kinds = f"{folder}, format =" if options.is_sink else f"{folder} --format"
        raise UsageError(
            f"{spelled('partition-by')} needs a directory of files: {kinds} parquet, arrow or csv"
        )
    if options.format in COLUMNAR and options.output is None:
        raise UsageError(f"{spelled('format')} {options.format} needs a file or a directory: {folder}")
    if options.format == "table" and options.output is not None:
        raise UsageError(
            f"{spelled('format')} table is for standard output: {options.output} can be csv or jsonl"
        )
    if options.format == "table" and options.checkpoint is not None:
        raise UsageError(f"{spelled('format')} table has no checkpoint: write csv or jsonl")
