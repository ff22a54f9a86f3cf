"""Where results go: files, standard output or what connectors write to; and the rejects."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path

from xmlpunct.base.errors import Reject, UsageError, ended_by
from xmlpunct.base.frames import nested_snapshot
from xmlpunct.connectors.contract import connector_of, expand
from xmlpunct.connectors.outlet import Existing, Form, Outlet
from xmlpunct.engine.plan import Answer, Query
from xmlpunct.engine.run.channel import Channel, ResultChannel
from xmlpunct.engine.run.checkpoint.commit import Commit, Frames, Written
from xmlpunct.engine.run.datasets import FORMATS, Dataset
from xmlpunct.engine.run.file_outlet import FileOutlet
from xmlpunct.engine.run.output import Output
from xmlpunct.engine.run.run_options import RunOptions, XmlForm, is_url
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.firehose import writer_for
from xmlpunct.firehose.writer import JsonlWriter
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.slice import Slice
from xmlpunct.types import INT, STRING

_log = logging.getLogger("xmlpunct")


REJECTS = Schema.of(Attribute(f.name, INT if f.name in ("line", "byte") else STRING) for f in fields(Reject))
"""Rejects as results."""


class Sink:
    """Turns results into outputs, one for each answer, and rejects into lines of their file, or rows of what else
    takes them.

    They are held back until `flush` makes them visible.
    """

    def __init__(self, results: Sequence[ResultChannel], rejects: Channel | None, stats: RunStats) -> None:
        self.results, self.stats = results, stats
        self._rejects = rejects

    def start(self) -> None:
        """Put out what comes before everything."""
        for channel in self.results:
            channel.start()

    def fitting(self, given: Sequence[Slice]) -> tuple[list[Slice], list[Reject]]:
        """What of a slice of each answer its form can hold, and the rejects that the other tuples are."""
        pairs = [c.output.fitting(slice_) for c, slice_ in zip(self.results, given, strict=True)]
        return [fits for fits, _ in pairs], [reject for _, unfit in pairs for reject in unfit]

    def write(self, given: Sequence[Slice]) -> None:
        """Put out a slice of each answer."""
        for channel, slice_ in zip(self.results, given, strict=True):
            channel.write(slice_)

    def rejects(self, rejects: Sequence[Reject]) -> None:
        """Put out rejects, a JSON object per line."""
        if self._rejects is not None and rejects:
            self._rejects.put(*rejected(rejects))

    def close(self, closed: Iterable[bool]) -> None:
        """Put out the ends of the outputs that are closed."""
        for channel, is_closed in zip(self.results, closed, strict=True):
            if is_closed:
                channel.close()

    def end(self) -> None:
        """Put out the ends of all outputs."""
        self.close([True] * len(self.results))

    def over(self) -> None:
        """Put out that the run is over: no reject follows, and no result, whether or not there was an end."""
        if self._rejects is not None:
            self._rejects.end()
            self._rejects.flush()
        for channel in self.results:
            if not channel.closed:
                channel.break_off()

    @property
    def ended(self) -> bool:
        """Whether the end of all outputs was put out."""
        return all(channel.closed for channel in self.results)

    @property
    def _channels(self) -> list[Channel]:
        return [*([] if self._rejects is None else [self._rejects]), *self.results]

    @property
    def pending(self) -> bool:
        """Whether anything is held back."""
        return any(channel.pending for channel in self._channels)

    @property
    def mark(self) -> list[int]:
        """What tells one output from another: how long all will be, and a checksum of what is new."""
        checksum = 0
        for channel in self._channels:
            checksum = channel.checksum(checksum)
        return [*(channel.reach for channel in self._channels), checksum]

    def flush(self, *, more: bool = False) -> None:
        """Make visible what was held back. With ``more`` it was, before the run went on, and so was what follows."""
        for channel in self._channels:
            channel.flush(more=more)

    def check_last(self) -> None:
        """Raise `XmlPunctError` if an output holds groups of this run that were not written by now."""
        for channel in self._channels:
            channel.check_last()

    def finish(self) -> None:
        """Let who reads an output that is complete know that nothing follows."""
        for channel in self.results:
            channel.finish()

    def snapshot(self) -> Frames:
        """The state of the outputs, for a checkpoint."""
        return snapshot_of_outputs(channel.output for channel in self.results)

    def commit(self, commit: Commit) -> None:
        """Come back when all that is visible is durable; put into ``commit`` how far that is."""
        if self._rejects is not None:
            commit.rejects = self._rejects.commit()
        commit.outputs = [channel.commit() for channel in self.results]


def snapshot_of_outputs(outputs: Iterable[Output]) -> Frames:
    """The state of several outputs, by their places."""
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


def tell_complete() -> None:
    """Say why a run goes on."""
    _log.warning(
        "the output is complete; the inputs are read to the end because --rejects, --max-rejects and --strict need "
        "all rejects"
    )


@contextmanager
def open_sink(
    query: Query, options: RunOptions, outputs: Sequence[Output], stats: RunStats, commit: Commit, run: str
) -> Iterator[Sink]:
    """The sink that the options and the CREATE SINK statements ask for. Raises `UsageError` for what cannot be
    written."""
    states, channels = nested_snapshot(commit.output), list[ResultChannel]()
    with ExitStack() as opened:
        for number, (answer, output) in enumerate(zip(query.answers, outputs, strict=True)):
            own, written = options.to(answer.destination), commit.outputs[number]
            with told_of(answer):
                outlet = open_outlet(own, output, written, run_of(run, number), opened)
            state = states.get(str(number), {})
            channels.append(ResultChannel(answer.name, outlet, output, stats, written, state))
        rejects = open_rejects(options, commit, run, opened)
        yield Sink(channels, None if rejects is None else Channel(rejects, commit.rejects), stats)


def run_of(run: str, number: int) -> str:
    """The name of a run as the place knows it to which its answer of that number goes: each has one of its own."""
    return f"{run}-{number}" if number else run


@contextmanager
def told_of(answer: Answer) -> Iterator[None]:
    """Say in a `UsageError` which sink it is about, if that has a name."""
    try:
        yield
    except UsageError as error:
        if not answer.name:
            raise
        raise UsageError(f"{answer}: {error}") from None


def open_outlet(options: RunOptions, output: Output, written: Written, run: str, opened: ExitStack) -> Outlet:
    """Where results go, behind what was ``written``; ``opened`` closes it. Raises `UsageError`."""
    outlet = outlet_at(options.output, options)
    if outlet is None:
        begun, refuses = written.position is not None, options.existing is Existing.REFUSE
        outlet = FileOutlet(options.output, written.length, begun=begun, must_be_empty=refuses)
    opened.enter_context(ended_by(outlet.close))
    outlet.open(form_of(options, output, run), written.position)
    return outlet


def form_of(options: RunOptions, output: Output, run: str) -> Form:
    """What an outlet has to know of a run."""
    return Form(run, output.schema, output.writer, options.format, options.existing)


def open_rejects(options: RunOptions, commit: Commit, run: str, opened: ExitStack) -> Outlet | None:
    """Where rejects go, if anywhere, from where a ``commit`` left off; ``opened`` closes it. Raises `UsageError`."""
    if not options.rejects:
        return None
    outlet = outlet_at(options.rejects, replace(options, format="parquet", partition_by=()))
    if outlet is None:  # what a file holds of an earlier run was the report of that run: it is overwritten
        begun = commit.rejects.position is not None
        outlet = FileOutlet(options.rejects, commit.rejects.length, begun=begun)
    opened.enter_context(ended_by(outlet.close))
    outlet.open(_form_of_rejects(options, run), commit.rejects.position)
    return outlet


def _form_of_rejects(options: RunOptions, run: str) -> Form:
    return Form(f"{run}-rejects", REJECTS, JsonlWriter(REJECTS), "jsonl", options.existing)


def outlet_at(place: str | None, options: RunOptions) -> Outlet | None:
    """What writes to a URL, or to a directory of files in columns; None for a file. It is not opened yet."""
    if is_url(place):
        spec = expand(str(place))
        outlet = connector_of(spec).outlet(spec, str(place))
        if options.replaces and not outlet.can_replace:
            raise UsageError(f"{place}: sent messages cannot be removed: leave out --replace")
        return outlet
    if place is not None and place.endswith("/") and options.format in FORMATS:
        return Dataset(place, options.format, options.partition_by)
    return None


def check_complete(
    query: Query, options: RunOptions, outputs: Sequence[Output], commit: Commit, run: str
) -> None:
    """Look whether the outputs hold what a complete run wrote: a warning for a file that has become shorter.

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
    if (out.is_file() or not out.exists()) and (out.stat().st_size if out.exists() else 0) < length:
        _log.warning(
            "the run is complete, but %s no longer has the %s bytes it wrote; another --checkpoint writes them again",
            out,
            f"{length:,}",
        )


def make_outputs(query: Query, options: RunOptions) -> list[Output]:
    """What turns the results of each answer into bytes. Raises `UsageError` for options or names that do not go."""
    found = []
    for answer in query.answers:
        with told_of(answer):
            found.append(make_output(options.to(answer.destination), answer))
    return found


def make_output(options: RunOptions, answer: Answer) -> Output:
    """What turns the results of an answer into bytes, with its own options."""
    schema, ordered, say = answer.root.schema, answer.ordered, options.spelled
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
    """Refuse what takes a directory of files in columns, which the output is not."""
    said = options.spelled
    folder = "output = 'DIR/'" if options.is_sink else "-o DIR/"
    if options.partition_by:
        kinds = f"{folder}, format =" if options.is_sink else f"{folder} --format"
        raise UsageError(f"{said('partition-by')} needs a directory of files: {kinds} parquet, arrow or csv")
    if options.format in FORMATS and options.format != "csv":
        raise UsageError(f"{said('format')} {options.format} is for a directory of files: {folder}")
