"""Punctuations that somebody says to a run in a stream's place: of a sender that died, say."""

from __future__ import annotations

import contextlib
import json
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from xmlpunct.base.errors import UsageError
from xmlpunct.base.paths import read_element
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.source import Source
from xmlpunct.engine.plan import Query, Stream
from xmlpunct.engine.run.checkpoint.log import WriteAheadLog
from xmlpunct.firehose import FirehoseReader, StreamSpec
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.types.pattern_text import parse_pattern

_SAID = "said"

Plain = tuple[int, Sequence[str]]
"""A punctuation as plain values: the number of its stream in the query, and the texts of its patterns."""


def read_said(
    query: Query, name: str, given: str | Mapping[str, str], punct_namespace: str = PUNCT_NAMESPACE
) -> tuple[int, Punctuation]:
    """The number of the stream ``name`` in a query, and a punctuation of it.

    That is given as XML, as the text ``<*, 17, *>``, or as patterns by column. Raises `UsageError` for an unknown
    stream or column, `PatternError` for a wrong pattern, `SourceError` for malformed XML.

    >>> from xmlpunct.engine.sql import plan
    >>> query = plan("CREATE STREAM s (a INT, b INT) WITH (source = 's.xml', element = 't'); SELECT a FROM s")
    >>> for given in ({"a": "[1,5)"}, "<[1,5), *>", f'<p:t xmlns:p="{PUNCT_NAMESPACE}"><a>[1,5)</a></p:t>'):
    ...     print(read_said(query, "s", given))
    (0, Punctuation(<[1,4], *>))
    (0, Punctuation(<[1,4], *>))
    (0, Punctuation(<[1,4], *>))
    """
    names = [stream.name for stream in query.streams]
    if name not in names:
        raise UsageError(f"the query reads no stream {name}: it reads {', '.join(names)}")
    number = names.index(name)
    return number, _read(query.streams[number], given, punct_namespace)


def _read(stream: Stream, given: str | Mapping[str, str], punct_namespace: str) -> Punctuation:
    schema = stream.sent
    if isinstance(given, Mapping):
        if unknown := [column for column in given if column not in schema]:
            raise UsageError(f"{stream.name} has no column {unknown[0]}: it has {', '.join(schema.names)}")
        patterns = {
            column: parse_pattern(schema[column].type, text, column) for column, text in given.items()
        }
        return Punctuation.of(schema, **patterns)
    if "</" not in given:
        return Punctuation.parse(schema, given)
    document, element = f"<stream>{given}</stream>".encode(), read_element(stream.element)[-1]
    reader = FirehoseReader(Source.of(document), [StreamSpec(element, schema, element)], punct_namespace)
    tuples, punctuations = 0, list[Punctuation]()
    with contextlib.closing(reader):
        while (parsed := reader.read(len(document))) is not None:
            if parsed.error:
                raise parsed.error
            tuples += parsed.slices[0].tuples.height + len(parsed.rejects[0])
            punctuations += parsed.slices[0].punctuations
    if tuples or len(punctuations) != 1:
        raise UsageError(f"{given} is not a punctuation of {stream.name}")
    return punctuations[0]


def punctuation_of(stream: Stream, patterns: Sequence[str]) -> Punctuation:
    """The punctuation of a stream with these texts."""
    schema = stream.sent
    parsed = [parse_pattern(a.type, text, a.name) for a, text in zip(schema, patterns, strict=True)]
    return Punctuation(schema, parsed)


class Sayings:
    """What is said to a run, from any thread, until the run takes it and makes it durable.

    >>> from xmlpunct.schema import Schema
    >>> s = Schema.parse("hour INT")
    >>> sayings = Sayings()
    >>> durable = sayings.put(0, Punctuation.of(s, hour=17))
    >>> sayings.take(), sayings.take(), durable.done()
    ((0, ['17']), None, False)
    >>> sayings.settle()
    >>> durable.done()
    True
    """

    def __init__(self) -> None:
        self.bell = threading.Condition()
        """Rung when something is said; the run waits for it with all else that it waits for."""
        self._waiting: deque[tuple[Plain, Future[None]]] = deque()
        self._taken: list[Future[None]] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, stream: int, punctuation: Punctuation) -> Future[None]:
        """Say a punctuation of the stream of that number. The future is done once it is durable."""
        durable: Future[None] = Future()
        self._waiting.append(((stream, [str(p) for p in punctuation.patterns]), durable))
        with self.bell:
            self.bell.notify_all()
        return durable

    def take(self) -> Plain | None:
        """What was said first; None if nothing is left."""
        while self._waiting:
            said, durable = self._waiting.popleft()
            if durable.set_running_or_notify_cancel():  # unless it is not waited for any more
                self._taken.append(durable)
                return said
        return None

    def settle(self) -> None:
        """All that was taken is durable. To be called in the thread that takes."""
        for durable in self._taken:
            durable.set_result(None)
        self._taken.clear()


class SaidLog:
    """What has been said to a run on Spark, durably, in order; offsets count it. Others may be adding to it."""

    def __init__(self, path: Path) -> None:
        self._log = WriteAheadLog(path)
        self._size, self._known = -1, list[Any]()

    def add(self, said: Plain) -> None:
        """Add what was said."""
        self._log.append({_SAID: json.dumps(said).encode()})

    def read(self) -> list[Plain]:
        """All that has been said."""
        if not self._log.path.is_file():
            return []
        size = self._log.path.stat().st_size
        if size != self._size:
            self._known = [json.loads(record[_SAID]) for record in self._log.read()]
            self._size = size
        return self._known

    def close(self) -> None:
        """Close the file."""
        self._log.close()
