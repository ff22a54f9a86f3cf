"""Provisional answers: the further results of a query if all its inputs ended now.

They are correct for the input so far only: further input may change them. A namespace of their own marks them, and they
are never written to a file of results.
"""

from __future__ import annotations

import time

import polars as pl

from xmlpunct.base.errors import UsageError
from xmlpunct.engine.plan import Query
from xmlpunct.engine.run.durable_files import Appender
from xmlpunct.engine.run.run_options import ONE_ANSWER, RunOptions, XmlForm
from xmlpunct.firehose import writer_for
from xmlpunct.slice import Slice

PARTIAL_NAMESPACE = "http://www.cse.ogi.edu/dot/niagara/partial"
"""The namespace of provisional answers. The prefix is free; `partial` is usual."""


class Provisional:
    """Writes provisional answers to standard output, one every ``options.partial`` seconds.

    In XML an answer is an element ``partial:answer`` of elements ``partial:result``. If the results go to standard
    output too, it appears between them, and readers of the results skip it. In jsonl each tuple is a line
    ``{"$partial": {...}}``. Raises `UsageError` for other formats, and where standard output is committed, by a
    checkpoint.
    """

    def __init__(self, query: Query, options: RunOptions) -> None:
        if len(query.answers) > 1 or query.answers[0].name:
            raise UsageError(ONE_ANSWER)
        if options.format in ("csv", "table"):
            raise UsageError(
                f"--partial marks tuples as provisional, which {options.format} cannot: write xml or jsonl"
            )
        if options.checkpoint is not None and options.output is None:
            raise UsageError(
                "--partial writes to standard output, whose length --checkpoint records: add -o FILE"
            )
        assert options.partial is not None
        self._every, self._out = options.partial, Appender(None, 0)
        self._next = time.monotonic() + self._every
        self._is_xml = options.format == "xml"
        names = {} if options.form is None else options.form.namespaces
        form = XmlForm("partial:answer", "partial:result", {**names, "partial": PARTIAL_NAMESPACE})
        named = vars(form) if self._is_xml else {}
        self._writer = writer_for(
            options.format, query.root.schema, punct_namespace=options.punct_namespace, **named
        )

    def is_due(self) -> bool:
        """True if the next answer is due."""
        return time.monotonic() >= self._next

    def write(self, answer: pl.DataFrame) -> None:
        """Write an answer."""
        self._out.append(self.text(answer), 0)
        self._next = time.monotonic() + self._every

    def text(self, answer: pl.DataFrame) -> bytes:
        """An answer as bytes, without tuples that the format cannot represent."""
        unfit = self._writer.unfit(answer)
        if unfit is not None:
            answer = answer.filter(unfit.is_null())
        body = self._writer.body(Slice(answer))
        if self._is_xml:
            return self._writer.start() + body + self._writer.end()
        return b"".join(b'{"$partial": %s}\n' % line for line in body.splitlines())
