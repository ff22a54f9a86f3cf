"""Where the local engine's output goes: a file, standard output or what a connector writes to, and the rejects."""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from xmlpunct.engine.checkpoint.commit import Commit
from xmlpunct.engine.datasets import FORMATS, Dataset
from xmlpunct.engine.files import FileOutlet
from xmlpunct.engine.options import RunOptions, XmlForm, is_url
from xmlpunct.engine.output import Output
from xmlpunct.engine.plan import Query
from xmlpunct.engine.stats import RunStats
from xmlpunct.errors import Reject, UsageError
from xmlpunct.firehose import writer_for
from xmlpunct.firehose.connectors import Form, Outlet, Results, connector_of, expand
from xmlpunct.firehose.writer import JsonlWriter
from xmlpunct.schema import Attribute, Schema
from xmlpunct.slice import Slice
from xmlpunct.types import INT, STRING

_log = logging.getLogger("xmlpunct")


REJECTS = Schema.of(Attribute(f.name, INT if f.name in ("line", "byte") else STRING) for f in fields(Reject))
"""Rejects as results."""


class Channel:
    """One place to write to: what is put out is held back until `flush` makes it visible, as a group."""

    def __init__(self, outlet: Outlet, length: int, groups: int) -> None:
        self._outlet, self.length, self.groups = outlet, length, groups
        """``length``: the bytes that were made visible; ``groups``: how many groups were."""
        self._data, self._slices = bytearray(), list[Slice]()
        self._closes = False

    def put(self, data: bytes, slice_: Slice | None = None) -> None:
        """Put out the bytes of a slice, or what stands around all slices."""
        self._data += data
        if slice_:
            self._slices.append(slice_)

    def end(self, data: bytes = b"") -> None:
        """Put out the end: what is complete then is said with the next group."""
        self._data += data
        self._closes = True

    @property
    def pending(self) -> bool:
        """Whether anything is held back."""
        return bool(self._data or self._slices or self._closes)

    def checksum(self, before: int = 0) -> int:
        """A checksum of what is held back."""
        return zlib.crc32(self._data, before)

    @property
    def reach(self) -> int:
        """How many bytes will be visible."""
        return self.length + len(self._data)

    def flush(self, *, more: bool = False) -> None:
        """Make visible what was held back. With ``more`` it was, before the run went on, and so was what follows."""
        if not self.pending:
            return
        results = Results(self.groups, tuple(self._slices), bytes(self._data), self.length, self._closes)
        self._outlet.write(results, again=more)
        self.groups += 1
        self.length = self.reach
        self._data, self._slices, self._closes = bytearray(), [], False

    def finish(self) -> None:
        """Let who reads it know that nothing follows."""
        self._outlet.finish()

    def break_off(self) -> None:
        """No group follows, though nothing is complete."""
        self._outlet.break_off()

    def commit(self) -> Any:
        """Come back when all that is visible is durable; the position."""
        return self._outlet.commit()


class Sink:
    """Turns results into output, and rejects into lines of their file, or rows of what else takes them.

    They are held back until `flush` makes them visible. It goes on behind what ``commit`` says was written.
    """

    def __init__(
        self, out: Outlet, rejects: Outlet | None, output: Output, stats: RunStats, commit: Commit
    ) -> None:
        self.output, self.stats = output, stats
        self._out = Channel(out, commit.length, commit.groups)
        self._rejects = None
        if rejects is not None:
            self._rejects = Channel(rejects, commit.rejects_length, commit.rejects_groups)
        self._ended = commit.closed
        if commit.output:
            output.restore(commit.output)

    def start(self) -> None:
        """Put out what comes before everything."""
        self._out.put(self.output.writer.start())

    def write(self, given: Slice) -> None:
        """Put out a result slice."""
        before = self.output.tuples, self.output.punctuations
        ready = self.output.prepare(given) if given else given
        if ready:
            self._out.put(self.output.writer.body(ready), ready)
        self.stats.result(self.output.tuples - before[0], self.output.punctuations - before[1])
        self.stats.late, self.stats.forgotten = self.output.late, self.output.forgotten

    def rejects(self, rejects: Sequence[Reject]) -> None:
        """Put out rejects, a JSON object per line."""
        if self._rejects is not None and rejects:
            self._rejects.put(*rejected(rejects))

    def end(self) -> None:
        """Put out the end, once."""
        if not self._ended:
            self._out.end(self.output.writer.end())
        self._ended = True

    def over(self) -> None:
        """Put out that the run is over: no reject follows, and no result, whether or not there was an end."""
        if self._rejects is not None:
            self._rejects.end()
            self._rejects.flush()
        if not self._ended:
            self._out.break_off()

    @property
    def ended(self) -> bool:
        """Whether the end was put out."""
        return self._ended

    @property
    def _channels(self) -> list[Channel]:
        return [self._out] if self._rejects is None else [self._out, self._rejects]

    @property
    def pending(self) -> bool:
        """Whether anything is held back."""
        return any(channel.pending for channel in self._channels)

    @property
    def mark(self) -> list[int]:
        """What tells one output from another: how long it and the rejects will be, and a checksum of what is new."""
        checksum = 0
        for channel in self._channels:
            checksum = channel.checksum(checksum)
        return [self._out.reach, 0 if self._rejects is None else self._rejects.reach, checksum]

    def flush(self, *, more: bool = False) -> None:
        """Make visible what was held back. With ``more`` it was, before the run went on, and so was what follows."""
        if self._rejects is not None:
            self._rejects.flush(more=more)
        if self._out.pending:
            self._out.flush(more=more)
            self.stats.bytes_out = self._out.length

    def finish(self) -> None:
        """Let who reads the output know that nothing follows."""
        self._out.finish()

    def commit(self, commit: Commit) -> None:
        """Come back when all that is visible is durable; put into ``commit`` how far that is."""
        commit.closed = self.ended
        if self._rejects is not None:
            commit.rejects_length, commit.rejects_groups = self._rejects.length, self._rejects.groups
            commit.rejects_position = self._rejects.commit()
        commit.length, commit.groups = self._out.length, self._out.groups
        commit.position = self._out.commit()


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
        "the output is complete; the inputs are read on, since --rejects, --max-rejects and --strict judge all"
    )


@contextmanager
def open_sink(
    options: RunOptions, output: Output, stats: RunStats, commit: Commit, run: str
) -> Iterator[Sink]:
    """The sink that the options ask for. Raises `UsageError` for what cannot be written."""
    with ExitStack() as opened:
        out = open_outlet(options, output, commit, run, opened)
        yield Sink(out, open_rejects(options, commit, run, opened), output, stats, commit)


def open_outlet(options: RunOptions, output: Output, commit: Commit, run: str, opened: ExitStack) -> Outlet:
    """Where results go, from where a ``commit`` left off; ``opened`` closes it. Raises `UsageError`."""
    outlet = outlet_at(options.output, options) or FileOutlet(options.output, commit.length)
    opened.callback(outlet.close)
    outlet.open(Form(run, output.schema, output.writer, options.format), commit.position)
    return outlet


def open_rejects(options: RunOptions, commit: Commit, run: str, opened: ExitStack) -> Outlet | None:
    """Where rejects go, if anywhere, from where a ``commit`` left off; ``opened`` closes it. Raises `UsageError`."""
    if not options.rejects:
        return None
    outlet = outlet_at(options.rejects, replace(options, format="parquet", partition_by=()))
    outlet = outlet or FileOutlet(options.rejects, commit.rejects_length)
    opened.callback(outlet.close)
    outlet.open(Form(run, REJECTS, JsonlWriter(REJECTS), "jsonl"), commit.rejects_position)
    return outlet


def outlet_at(place: str | None, options: RunOptions) -> Outlet | None:
    """What writes to a URL, or to a directory of files in columns; None for a file. It is not opened yet."""
    if is_url(place):
        spec = expand(str(place))
        return connector_of(spec).outlet(spec, str(place))
    if place is not None and place.endswith("/") and options.format in FORMATS:
        return Dataset(place, options.format, options.partition_by)
    return None


def warn_if_gone(options: RunOptions, length: int) -> None:
    """Warn where a complete run finds that its file does not hold the ``length`` bytes written to it any more."""
    if options.output in (None, "-") or options.is_url or options.dataset:
        return
    out = Path(str(options.output))
    if (out.is_file() or not out.exists()) and (out.stat().st_size if out.exists() else 0) < length:
        _log.warning(
            "the run is complete, but %s no longer has the %s bytes it wrote; another --checkpoint writes them again",
            out,
            f"{length:,}",
        )


def make_output(options: RunOptions, query: Query) -> Output:
    """What turns the query's results into bytes. Raises `UsageError` for options or names that do not go."""
    schema = query.root.schema
    if options.form is not None and options.format != "xml":
        raise UsageError(
            f"--root, --row, --namespaces and --pretty say how XML is written, not {options.format}: leave them out"
        )
    outlet = outlet_at(options.output, options)
    if outlet is not None:
        outlet.check(schema)
    if not isinstance(outlet, Dataset):
        _refuse_format(options)
    if outlet is not None and outlet.takes_columns:
        if options.form is not None or (options.is_url and options.format != "xml"):
            raise UsageError(f"{options.output} takes columns: leave out --format and the form of XML")
        return Output(schema, JsonlWriter(schema), query.ordered, outlet.unfit)
    form, namespace = options.form or XmlForm(), options.punct_namespace
    writer = writer_for(options.format, schema, punct_namespace=namespace, **vars(form))
    return Output(schema, writer, query.ordered)


def _refuse_format(options: RunOptions) -> None:
    """Refuse what takes a directory of files in columns, which the output is not."""
    if options.partition_by:
        raise UsageError("--partition-by takes a directory of files: -o DIR/ --format parquet, arrow or csv")
    if options.format in FORMATS and options.format != "csv":
        raise UsageError(f"--format {options.format} is for a directory of files: -o DIR/")
