"""Queries from Python, on the local engine."""

from __future__ import annotations

import os
from collections.abc import Iterator

from xmlpunct.firehose import Readable, Source
from xmlpunct.firehose.library import RejectLog, rows
from xmlpunct.forks import need_polars
from xmlpunct.punctuations.punctuation import Punctuation, Tuple
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice


def query(sql: str, **sources: Readable) -> Iterator[Tuple | Punctuation]:
    """Run a query in this process; yields its result's tuples and punctuations as they become certain.

    ``sql`` declares its streams (CREATE STREAM) and holds one query. ``sources`` replace the sources of streams, by
    name: a path, bytes, or a binary file. Rejected tuples are logged as warnings on the logger ``xmlpunct``,
    the first few of a kind, then their number. Raises
    `SqlError` before anything is read, and `SourceError` where a source fails, after all results that were certain by
    then.

    >>> feed = b'''<s xmlns:p="http://www.cse.ogi.edu/dot/niagara/punct"><t><hour>5</hour></t><t><hour>6</hour></t>
    ...   <p:t><hour>5</hour></p:t><t><hour>6</hour></t></s>'''
    >>> for result in query("CREATE STREAM t (hour INT); SELECT hour, COUNT(*) AS n FROM t GROUP BY hour", t=feed):
    ...     print(result)
    (5, 1)
    <5, *>
    (6, 2)
    """
    need_polars()
    from xmlpunct.engine.inference import Inference
    from xmlpunct.engine.local.run import open_sources, results
    from xmlpunct.engine.sql import plan

    named = {name: os.fspath(s) for name, s in sources.items() if isinstance(s, str | os.PathLike)}
    given = {
        name: s if isinstance(s, Source) else Source.of(s, name)
        for name, s in sources.items()
        if not isinstance(s, str | os.PathLike)
    }
    inference = Inference(given=given)
    planned = plan(sql, named | {name: source.name for name, source in given.items()}, inference=inference)
    opened, log = open_sources(planned, inference.given), RejectLog()
    return _elements(results(planned, opened, log.add), planned.root.schema, log)


def _elements(slices: Iterator[Slice], schema: Schema, log: RejectLog) -> Iterator[Tuple | Punctuation]:
    try:
        for part in slices:
            yield from rows(schema, part)
            yield from (p for p in part.punctuations if not p.is_everything)
    finally:
        log.end()
