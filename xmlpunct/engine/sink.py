"""Where the local engine's output goes: a file, standard output or what a connector writes to, and the rejects."""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict
from typing import Any

from xmlpunct.engine.checkpoint.commit import Commit
from xmlpunct.engine.files import Appender, FileOutlet
from xmlpunct.engine.options import RunOptions, XmlForm
from xmlpunct.engine.output import Output
from xmlpunct.engine.plan import Query
from xmlpunct.engine.stats import RunStats
from xmlpunct.errors import Reject, UsageError
from xmlpunct.firehose import writer_for
from xmlpunct.firehose.connectors import Form, Outlet, Results, connector_of, expand
from xmlpunct.slice import Slice

_log = logging.getLogger("xmlpunct")


class Sink:
    """Turns results into output, and rejects into lines of their file, if there is one.

    They are held back until `flush` makes them visible. It goes on behind what ``commit`` says was written.
    """

    def __init__(
        self, out: Outlet, rejects: Appender | None, output: Output, stats: RunStats, commit: Commit
    ) -> None:
        self.output, self.stats = output, stats
        self.length, self.rejects_length = commit.length, commit.rejects_length
        self._out, self._rejects = out, rejects
        self._group, self._slices = commit.groups, list[Slice]()
        self._held, self._rejected = bytearray(), bytearray()
        self._ended = commit.closed
        if commit.output:
            output.restore(commit.output)

    def start(self) -> None:
        """Put out what comes before everything."""
        self._held += self.output.writer.start()

    def write(self, given: Slice) -> None:
        """Put out a result slice."""
        before = self.output.tuples, self.output.punctuations
        ready = self.output.prepare(given) if given else given
        if ready:
            self._slices.append(ready)
            self._held += self.output.writer.body(ready)
        self.stats.result(self.output.tuples - before[0], self.output.punctuations - before[1])
        self.stats.late, self.stats.forgotten = self.output.late, self.output.forgotten

    def rejects(self, rejects: Iterable[Reject]) -> None:
        """Put out rejects, a JSON object per line."""
        if self._rejects is not None:
            self._rejected += b"".join(map(reject_line, rejects))

    def end(self) -> None:
        """Put out the end, once."""
        if not self._ended:
            self._held += self.output.writer.end()
        self._ended = True

    @property
    def ended(self) -> bool:
        """Whether the end was put out."""
        return self._ended

    @property
    def pending(self) -> bool:
        """Whether anything is held back."""
        return bool(self._held or self._slices or self._rejected)

    @property
    def mark(self) -> list[int]:
        """What tells one output from another: how long it and the rejects will be, and a checksum of what is new."""
        checksum = zlib.crc32(self._rejected, zlib.crc32(self._held))
        return [self.length + len(self._held), self.rejects_length + len(self._rejected), checksum]

    @property
    def groups(self) -> int:
        """How many groups of results were made visible."""
        return self._group

    def flush(self, *, more: bool = False) -> None:
        """Make visible what was held back. With ``more`` it was, before the run went on, and so was what follows."""
        if self._rejects is not None and self._rejected:
            if not more or self._rejects.is_file:
                self._rejects.append(self._rejected, self.rejects_length, more=more)
            self.rejects_length += len(self._rejected)
            self._rejected = bytearray()
        if self._held or self._slices:
            data, slices = bytes(self._held), tuple(self._slices)
            self._out.write(Results(self._group, slices, data, self.length, self._ended), again=more)
            self._group += 1
            self.length += len(data)
            self._held, self._slices = bytearray(), []
            self.stats.bytes_out = self.length

    def finish(self) -> None:
        """Let who reads the output know that nothing follows."""
        self._out.finish()

    def commit(self) -> Any:
        """Come back when all that is visible is durable; the position of the output."""
        if self._rejects is not None:
            self._rejects.sync()
        return self._out.commit()


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
    """The sink that the options ask for. Raises `UsageError` if a file cannot be written."""
    with ExitStack() as opened:
        out = open_outlet(options, output, commit, run, opened)
        rejects = None
        if options.rejects:
            rejects = opened.enter_context(closing(Appender(options.rejects, commit.rejects_length)))
        yield Sink(out, rejects, output, stats, commit)


def open_outlet(options: RunOptions, output: Output, commit: Commit, run: str, opened: ExitStack) -> Outlet:
    """Where results go, from where a ``commit`` left off; ``opened`` closes it. Raises `UsageError`."""
    outlet: Outlet
    if options.output is not None and options.is_url:
        spec = expand(options.output)
        outlet = connector_of(spec).outlet(spec, options.output)
    else:
        outlet = FileOutlet(options.output, commit.length)
    opened.callback(outlet.close)
    outlet.open(Form(run, output.schema, output.writer, options.format), commit.position)
    return outlet


def make_output(options: RunOptions, query: Query) -> Output:
    """What turns the query's results into bytes. Raises `UsageError` for options or names that do not go."""
    if options.form is not None and options.format != "xml":
        raise UsageError(
            f"--root, --row, --namespaces and --pretty say how XML is written, not {options.format}: leave them out"
        )
    form, namespace = options.form or XmlForm(), options.punct_namespace
    writer = writer_for(options.format, query.root.schema, punct_namespace=namespace, **vars(form))
    return Output(query.root.schema, writer, query.ordered)
