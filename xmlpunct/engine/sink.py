"""Where the local engine's output goes: a file or standard output, and the file of rejects."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import BinaryIO

from xmlpunct.engine.options import RunOptions
from xmlpunct.engine.output import Output
from xmlpunct.engine.stats import RunStats
from xmlpunct.errors import Reject, UsageError
from xmlpunct.firehose import writer_for
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice


class Sink:
    """Writes result slices to ``out`` as they come, and rejects to ``rejects`` (None: nowhere)."""

    def __init__(self, out: BinaryIO, rejects: BinaryIO | None, output: Output, stats: RunStats) -> None:
        self._out, self._rejects, self._output, self._stats = out, rejects, output, stats
        self._put(output.writer.start())

    def write(self, given: Slice) -> None:
        """Write a result slice and make it visible."""
        before = self._output.tuples, self._output.punctuations
        self._put(self._output.body(given))
        self._stats.result(self._output.tuples - before[0], self._output.punctuations - before[1])
        self._stats.late = self._output.late

    def rejects(self, rejects: Iterable[Reject]) -> None:
        """Write rejects, a JSON object per line."""
        if self._rejects is not None:
            for reject in rejects:
                self._rejects.write(reject_line(reject))
            self._rejects.flush()

    def end(self) -> None:
        """Write the end of the output."""
        self._put(self._output.writer.end())

    def _put(self, data: bytes) -> None:
        if data:
            self._out.write(data)
            self._out.flush()


def reject_line(reject: Reject) -> bytes:
    """A reject as a line of the rejects file."""
    return json.dumps(asdict(reject), ensure_ascii=False).encode() + b"\n"


@contextmanager
def open_sink(options: RunOptions, schema: Schema, stats: RunStats, ordered: bool = False) -> Iterator[Sink]:
    """The sink that the options ask for. Raises `UsageError` if a file cannot be written."""
    if options.dataset:
        raise UsageError(f"{options.output} is a dataset directory, which takes --engine spark")
    writer = writer_for(options.format, schema, punct_namespace=options.punct_namespace)
    with ExitStack() as stack:

        def create(path: str) -> BinaryIO:
            try:
                return stack.enter_context(open(path, "wb"))
            except OSError as error:
                raise UsageError(f"cannot write {path}: {error.strerror}") from None

        out = sys.stdout.buffer if options.output in (None, "-") else create(str(options.output))
        rejects = create(options.rejects) if options.rejects else None
        yield Sink(out, rejects, Output(schema, writer, ordered), stats)
