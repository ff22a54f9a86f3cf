"""The tuples and punctuations of a source, or its slices, while they are read."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import closing
from itertools import chain
from typing import Generic, Self, TypeVar

from xmlpunct.base.errors import Reject
from xmlpunct.base.reject_log import RejectLog, log_notices
from xmlpunct.base.unread import UnreadCounter
from xmlpunct.connectors.chunk_sources import AsyncChunks
from xmlpunct.firehose.slice_reader import SliceReader
from xmlpunct.firehose.spec import Limits, StreamSpec, elements_of
from xmlpunct.python.async_iteration import from_thread
from xmlpunct.python.inferred_stream import stream_of
from xmlpunct.python.source_arguments import Readable, adapted, opened
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

T = TypeVar("T")
OnReject = Callable[[Reject], object]
_WAITING_SECONDS = 0.1
"""The time after which a run that waits for its source can be closed."""


class StreamElements(Iterator[T], Generic[T]):
    """The elements of a source, in document order, for ``for`` and ``async for``.

    ``async for`` reads in a separate thread, so that the event loop never waits. ``with`` and ``async with`` close the
    source at the end of their block.
    """

    def __init__(self, reading: SourceReading, elements: Callable[[Schema, Slice], list[T]]) -> None:
        self._reading, self._elements = reading, elements
        self._groups = self._begun(reading, elements, is_async=False)
        self._iterator = chain.from_iterable(self._groups)
        self._async_iterator: AsyncGenerator[T] | None = None

    @property
    def schema(self) -> Schema:
        """The columns. If they are not declared, the beginning of the source is read now."""
        return self._reading.spec().schema

    def __next__(self) -> T:
        return next(self._iterator)

    def __aiter__(self) -> AsyncGenerator[T]:
        if self._async_iterator is None:
            groups = self._begun(self._reading, self._elements, is_async=True)
            self._async_iterator = from_thread(groups, self._reading.async_sources)
        return self._async_iterator

    def close(self) -> None:
        """Close the source."""
        self._groups.close()
        self._iterator = chain.from_iterable(self._groups)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        if self._async_iterator is not None:
            await self._async_iterator.aclose()

    def __repr__(self) -> str:
        return f"<elements of {self._reading.name}>"

    @staticmethod
    def _begun(
        reading: SourceReading, elements: Callable[[Schema, Slice], list[T]], is_async: bool
    ) -> Generator[list[T]]:
        with closing(reading.slices(is_async)) as parts:
            for part in parts:
                yield elements(reading.spec().schema, part)


class SourceReading:
    """One reading of a source. What is not declared of its stream is inferred when it begins."""

    def __init__(
        self,
        source: Readable,
        schema: Schema | str | None,
        element: str | None,
        punct_namespace: str,
        limits: Limits,
        size: int,
        on_reject: OnReject | None,
    ) -> None:
        source = adapted(source)
        self.async_sources = [source] if isinstance(source, AsyncChunks) else []
        self._source = opened(source)
        self._schema = Schema.parse(schema) if isinstance(schema, str) else schema
        self._element, self._punct_namespace, self._limits = element, punct_namespace, limits
        self._size, self._on_reject = size, on_reject
        self._spec: StreamSpec | None = None
        if element is not None:  # raises at the call for a wrong name
            elements_of([StreamSpec("", self._schema or Schema.of([]), element)], punct_namespace)

    @property
    def name(self) -> str:
        """The name of the source."""
        return self._source.name

    def spec(self) -> StreamSpec:
        """The stream, with its inferred parts."""
        if self._spec is None:
            has_remedy = self._on_reject is None
            self._spec, self._source = stream_of(
                self._source, self._schema, self._element, self._punct_namespace, has_remedy
            )
        return self._spec

    def slices(self, is_async: bool) -> Generator[Slice]:
        spec, bell = self.spec(), threading.Condition() if is_async else None
        reader = SliceReader(self._source, [spec], self._punct_namespace, self._limits, bell)
        return (yield from read_slices(reader, self._size, self._on_reject, bell))


def read_slices(
    reader: SliceReader,
    size: int = 2**20,
    on_reject: OnReject | None = None,
    bell: threading.Condition | None = None,
    is_pushed: bool = False,
) -> Generator[Slice]:
    """The slices of a reader of one stream, none empty. Closes the reader at the end. Rejects are logged by default.

    ``is_pushed``: empty slices are returned too. With ``bell``, which is that of the reader, an empty slice is returned
    after a while without input. Raises `SourceError` after the slices before it.
    """
    log = RejectLog()
    reject = on_reject or log.add
    watch = UnreadCounter(reader.source.name, reader.specs[0].element)
    try:
        while True:
            if bell is not None:
                with bell:
                    is_ready = bell.wait_for(reader.is_ready, _WAITING_SECONDS)
                if not is_ready:
                    yield Slice(reader.specs[0].schema.empty())
                    continue
            if (parsed := reader.read(size)) is None:
                break
            (part,), (rejects,) = parsed.slices, parsed.rejects
            for rejected in rejects:
                reject(rejected)
            count = part.tuples.height + len(rejects)
            log_notices(watch.take(count, parsed.read[0], parsed.overlooked[0]))
            if part or is_pushed:
                yield part
            if parsed.error:
                log_notices(n for n in watch.end(in_order=False) if not n.is_absence)
                raise parsed.error
        log_notices(watch.end(in_order=True))
    finally:
        log.end()
        reader.close()
