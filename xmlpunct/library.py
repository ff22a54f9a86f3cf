"""Queries from Python, on the local engine."""

from __future__ import annotations

import os
from collections.abc import Iterator

from xmlpunct.firehose import Readable, Source, open_source
from xmlpunct.firehose.library import log_reject, rows
from xmlpunct.punctuation import Punctuation, Tuple
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice


def query(sql: str, **sources: Readable) -> Iterator[Tuple | Punctuation]:
    """Run a query in this process; its result's tuples and punctuations, as they become certain.

    ``sql`` declares its streams (CREATE STREAM) and holds one query. ``sources`` override where a stream comes
    from, by its name: a path, bytes, or a binary file. Rejected tuples are logged as warnings on the logger
    ``xmlpunct``. Raises `SqlError` before anything is read, and `SourceError` where a source fails, after
    all results that were certain by then.

    >>> feed = b'''<s xmlns:p="http://www.cse.ogi.edu/dot/niagara/punct"><t><hour>5</hour></t><t><hour>6</hour></t>
    ...   <p:t><hour>5</hour></p:t><t><hour>6</hour></t></s>'''
    >>> for found in query("CREATE STREAM t (hour INT); SELECT hour, COUNT(*) AS n FROM t GROUP BY hour", t=feed):
    ...     print(found)
    (5, 1)
    <5, *>
    (6, 2)
    """
    from xmlpunct.engine.local import results
    from xmlpunct.engine.sql import plan

    named = {name: os.fspath(s) if isinstance(s, str | os.PathLike) else name for name, s in sources.items()}
    planned = plan(sql, named)
    opened: dict[str, Source] = {}
    for stream in planned.streams:
        given = sources.get(stream.name)
        if given is None or isinstance(given, str | os.PathLike):
            opened[stream.name] = open_source(str(stream.source))
        else:
            opened[stream.name] = given if isinstance(given, Source) else Source.of(given, stream.name)
    return _elements(results(planned, opened, log_reject), planned.root.schema)


def _elements(slices: Iterator[Slice], schema: Schema) -> Iterator[Tuple | Punctuation]:
    for found in slices:
        yield from rows(schema, found)
        yield from (p for p in found.punctuations if not p.is_everything)
