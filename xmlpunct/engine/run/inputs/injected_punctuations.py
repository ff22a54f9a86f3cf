"""Punctuations that a user injects into a running stream, for example for a sender that died."""

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
from xmlpunct.firehose import SliceReader, StreamSpec
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.types.pattern_text import parse_pattern

_RECORD = "said"

InjectedTexts = tuple[int, Sequence[str]]
"""An injected punctuation: the number of its stream in the query, and the texts of its patterns."""


def parse_injection(
    query: Query, name: str, punctuation: str | Mapping[str, str], punct_namespace: str = PUNCT_NAMESPACE
) -> tuple[int, Punctuation]:
    """The number of the stream ``name`` in a query, and a punctuation of it.

    The punctuation is XML, the text ``<*, 17, *>``, or patterns by column. Raises `UsageError` for an unknown
    stream or column, `PatternError` for a wrong pattern, `SourceError` for malformed XML.

    >>> from xmlpunct.engine.sql import plan
    >>> query = plan("CREATE STREAM s (a INT, b INT) WITH (source = 's.xml', element = 't'); SELECT a FROM s")
    >>> for punctuation in ({"a": "[1,5)"}, "<[1,5), *>", f'<p:t xmlns:p="{PUNCT_NAMESPACE}"><a>[1,5)</a></p:t>'):
    ...     print(parse_injection(query, "s", punctuation))
    (0, Punctuation(<[1,4], *>))
    (0, Punctuation(<[1,4], *>))
    (0, Punctuation(<[1,4], *>))
    """
    names = [stream.name for stream in query.streams]
    if name not in names:
        raise UsageError(f"the query reads no stream {name}: it reads {', '.join(names)}")
    number = names.index(name)
    return number, _read(query.streams[number], punctuation, punct_namespace)


def _read(stream: Stream, punctuation: str | Mapping[str, str], punct_namespace: str) -> Punctuation:
    schema = stream.sent
    if isinstance(punctuation, Mapping):
        if unknown := [column for column in punctuation if column not in schema]:
            raise UsageError(f"{stream.name} has no column {unknown[0]}: it has {', '.join(schema.names)}")
        patterns = {
            column: parse_pattern(schema[column].type, text, column) for column, text in punctuation.items()
        }
        return Punctuation.of(schema, **patterns)
    if "</" not in punctuation:
        return Punctuation.parse(schema, punctuation)
    document, element = f"<stream>{punctuation}</stream>".encode(), read_element(stream.element)[-1]
    reader = SliceReader(Source.of(document), [StreamSpec(element, schema, element)], punct_namespace)
    tuples, punctuations = 0, list[Punctuation]()
    with contextlib.closing(reader):
        while (parsed := reader.read(len(document))) is not None:
            if parsed.error:
                raise parsed.error
            tuples += parsed.slices[0].tuples.height + len(parsed.rejects[0])
            punctuations += parsed.slices[0].punctuations
    if tuples or len(punctuations) != 1:
        raise UsageError(f"{punctuation} is not a punctuation of {stream.name}")
    return punctuations[0]


def punctuation_of(stream: Stream, patterns: Sequence[str]) -> Punctuation:
    """The punctuation of a stream with these texts of patterns."""
    schema = stream.sent
    parsed = [parse_pattern(a.type, text, a.name) for a, text in zip(schema, patterns, strict=True)]
    return Punctuation(schema, parsed)


class InjectionQueue:
    """Injected punctuations of any thread, until the run has taken them and made them durable.

    >>> from xmlpunct.schema import Schema
    >>> s = Schema.parse("hour INT")
    >>> injections = InjectionQueue()
    >>> durable = injections.put(0, Punctuation.of(s, hour=17))
    >>> injections.take(), injections.take(), durable.done()
    ((0, ['17']), None, False)
    >>> injections.settle()
    >>> durable.done()
    True
    """

    def __init__(self) -> None:
        self.bell = threading.Condition()
        """Notified for each punctuation; the run waits for it and for its inputs together."""
        self._waiting: deque[tuple[InjectedTexts, Future[None]]] = deque()
        self._taken: list[Future[None]] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, stream: int, punctuation: Punctuation) -> Future[None]:
        """Inject a punctuation into the stream with this number. The future is done once it is durable."""
        durable: Future[None] = Future()
        self._waiting.append(((stream, [str(p) for p in punctuation.patterns]), durable))
        with self.bell:
            self.bell.notify_all()
        return durable

    def take(self) -> InjectedTexts | None:
        """The oldest punctuation; None if there is none."""
        while self._waiting:
            texts, durable = self._waiting.popleft()
            if durable.set_running_or_notify_cancel():  # False if the sender no longer waits
                self._taken.append(durable)
                return texts
        return None

    def settle(self) -> None:
        """Report that all taken punctuations are durable. Called in the thread of `take`."""
        for durable in self._taken:
            durable.set_result(None)
        self._taken.clear()


class InjectionLog:
    """The punctuations injected into a run on Spark, durably and in order. Other processes may append."""

    def __init__(self, path: Path) -> None:
        self._log = WriteAheadLog(path)
        self._size, self._entries = -1, list[Any]()

    def add(self, texts: InjectedTexts) -> None:
        """Append a punctuation."""
        self._log.append({_RECORD: json.dumps(texts).encode()})

    def read(self) -> list[InjectedTexts]:
        """All punctuations of the log."""
        if not self._log.path.is_file():
            return []
        size = self._log.path.stat().st_size
        if size != self._size:
            self._entries = [json.loads(record[_RECORD]) for record in self._log.read()]
            self._size = size
        return self._entries

    def close(self) -> None:
        """Close the file."""
        self._log.close()
