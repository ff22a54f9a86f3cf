"""What a query gives, to be read in several ways."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from xmlpunct.base.forks import need_polars
from xmlpunct.connectors.source import Source
from xmlpunct.engine.run.reject_log import RejectLog
from xmlpunct.punctuations.punctuation import Punctuation, Tuple
from xmlpunct.python.parse_api import rows
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

if TYPE_CHECKING:
    from xmlpunct.engine.plan import Query
    from xmlpunct.engine.run.inputs.tables import Table

_AT_ONCE = 1000
"""After so many results the other tasks of an event loop have a turn."""


class QueryResults:
    """The results of a query: of `query`.

    Iterating, with ``for`` or with ``async for``, gives tuples and punctuations as they become certain. As columns
    there are tuples only: `batches`, `to_polars`, and Arrow data for whoever reads that, as DuckDB and pyarrow do.

    Each time the results are read, in whatever way, the query runs anew, over its sources from their beginning; before
    that nothing is read. What can be read once only (standard input, a socket, a pipe, a file object that cannot seek)
    raises `UsageError` the second time. Who reads no further lets go of the iterator: that ends the run. They may
    be read several times at once, and in any thread.

    >>> import xmlpunct
    >>> feed = b"<s><t><hour>5</hour></t><t><hour>6</hour></t></s>"
    >>> results = xmlpunct.query("CREATE STREAM t (hour INT); SELECT hour, hour > 5 AS late FROM t", t=feed)
    >>> list(results), results.to_polars().rows(named=True)[1]
    ([(5, False), (6, True)], {'hour': 6, 'late': True})
    """

    def __init__(self, query: Query, given: Mapping[str, Source | Table]) -> None:
        self._run = _Run(query, given)
        self._begun: Iterator[Tuple | Punctuation] | None = None

    @property
    def schema(self) -> Schema:
        """The columns of the tuples."""
        return self._run.schema

    def __iter__(self) -> Iterator[Tuple | Punctuation]:
        """The tuples and punctuations of a run; of the one that ``next`` has begun and not ended, the others."""
        return chain.from_iterable(self._run.elements()) if self._begun is None else self

    def __next__(self) -> Tuple | Punctuation:
        """The first tuple or punctuation of a run, and with the next call the next of the same run."""
        if self._begun is None:
            self._begun = iter(self)
        try:
            return next(self._begun)
        except BaseException:
            self._begun = None
            raise

    async def __aiter__(self) -> AsyncIterator[Tuple | Punctuation]:
        """The same for asyncio. A thread of its own runs the query, so that the event loop never waits."""
        import asyncio  # who needs it has it; it would make everybody's start slower

        loop, slices = asyncio.get_running_loop(), self._run.elements(watched=True)
        thread = ThreadPoolExecutor(1, thread_name_prefix="xmlpunct query")
        try:
            while (found := await loop.run_in_executor(thread, next, slices, None)) is not None:
                for number, element in enumerate(found, 1):
                    yield element
                    if number % _AT_ONCE == 0:
                        await asyncio.sleep(0)
        finally:
            ended = thread.submit(slices.close)  # after the step that a cancelled task has left
            thread.shutdown(wait=False)
            await asyncio.shield(asyncio.wrap_future(ended))

    def batches(self) -> Iterator[pl.DataFrame]:
        """The tuples as data frames, none of them empty, each as soon as its tuples are certain."""
        return self._run.batches()

    def to_polars(self) -> pl.DataFrame:
        """All tuples as one data frame, once the sources have ended."""
        return pl.concat([self.schema.empty(), *self.batches()])

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The tuples as a stream of Arrow data, which runs the query when the first batch is asked for."""
        schema = self.schema.empty().to_arrow().schema
        found = (batch for frame in self.batches() for batch in frame.to_arrow().to_batches())
        return pa.RecordBatchReader.from_batches(schema, found).__arrow_c_stream__(requested_schema)


class _Run:
    """What to run, and how it is read. It knows nothing of who reads it, so that what is left is freed at once."""

    def __init__(self, query: Query, given: Mapping[str, Source | Table]) -> None:
        self.schema = query.root.schema
        self._query, self._given = query, given
        self._opening = threading.Lock()

    def slices(self, watched: bool = False) -> Iterator[Slice]:
        """A run. One that is ``watched`` never waits for long: it gives empty slices."""
        from xmlpunct.engine.run.local.local_run import open_sources, results

        need_polars()
        with self._opening:
            sources = open_sources(self._query, self._given)
        log = RejectLog()
        try:
            yield from results(self._query, sources, log.add, watched)
        finally:
            log.end()

    def elements(self, watched: bool = False) -> Generator[list[Tuple | Punctuation]]:
        """The tuples and punctuations of a run, slice by slice."""
        for part in self.slices(watched):
            yield [*rows(self.schema, part), *(p for p in part.punctuations if not p.is_everything)]

    def batches(self) -> Iterator[pl.DataFrame]:
        """The tuples of a run, slice by slice where there are any."""
        for part in self.slices():
            if part.tuples.height:
                yield part.tuples
