"""The results of a query, as Python values or data frames."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

import polars as pl
import pyarrow as pa

from xmlpunct.base.forks import need_polars
from xmlpunct.base.reject_log import RejectLog
from xmlpunct.connectors.chunk_sources import AsyncChunks, LoopNeededError
from xmlpunct.connectors.source import Source
from xmlpunct.punctuations.punctuation import Punctuation, Tuple
from xmlpunct.python.async_iteration import from_thread
from xmlpunct.python.parse_api import rows
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice
from xmlpunct.slice.tabular_forms import TabularForms

if TYPE_CHECKING:
    from xmlpunct.engine.plan import Query
    from xmlpunct.engine.run.inputs.tables import Table

T = TypeVar("T")
Planning = Callable[[], "tuple[Query, Mapping[str, Source | Table]]"]
"""Plans a query, and opens its sources."""


class QueryResults(TabularForms):
    """The results of a query, as `query` returns them.

    Iteration, with ``for`` or ``async for``, yields tuples and punctuations as soon as they are final. The column
    forms hold tuples only: `batches`, `to_polars`, `to_arrow`, `to_pandas`, and the Arrow stream that DuckDB and other
    libraries read. ``with`` and ``async with`` end the runs in progress at the end of their block.

    Notes
    -----
    Each reading runs the query anew over its sources from their beginning; nothing is read earlier. A source that can
    be read only once (standard input, a socket, a pipe, a file object that cannot seek) raises `UsageError` the second
    time. Closing or dropping an iterator ends its run. Several readings can be in progress at once, in any threads.

    Examples
    --------
    >>> import xmlpunct
    >>> feed = b"<s><t><hour>5</hour></t><t><hour>6</hour></t></s>"
    >>> results = xmlpunct.query("CREATE STREAM t (hour INT); SELECT hour, hour > 5 AS late FROM t", t=feed)
    >>> results
    QueryResults(hour INT, late BOOLEAN)
    >>> list(results), results.to_polars().rows(named=True)[1]
    ([(5, False), (6, True)], {'hour': 6, 'late': True})
    >>> with results:
    ...     print(next(results))
    (5, False)
    """

    def __init__(self, plan: Planning, async_sources: Sequence[AsyncChunks] = ()) -> None:
        self._run, self._async_sources = _Run(plan), async_sources
        self._iterator: Iterator[Tuple | Punctuation] | None = None
        self._runs = WeakSet[Generator[Any]]()
        self._async_runs = WeakSet[AsyncGenerator[Tuple | Punctuation]]()

    @property
    def schema(self) -> Schema:
        """The columns of the tuples. Raises `UsageError` while `query` waits for an asynchronous source."""
        return self._run.schema

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

    def __repr__(self) -> str:
        try:
            return f"QueryResults({', '.join(f'{a.name} {a.type}' for a in self.schema)})"
        except LoopNeededError:
            return "QueryResults(columns to be inferred)"

    def __iter__(self) -> Iterator[Tuple | Punctuation]:
        """The tuples and punctuations of a new run; or the remaining ones of the run that ``next`` began."""
        if self._iterator is not None:
            return self
        return chain.from_iterable(self._closing(self._run.elements()))

    def __next__(self) -> Tuple | Punctuation:
        """The next tuple or punctuation of a run, which the first call begins."""
        if self._iterator is None:
            self._iterator = iter(self)
        try:
            return next(self._iterator)
        except BaseException:
            self._iterator = None
            raise

    def __aiter__(self) -> AsyncGenerator[Tuple | Punctuation]:
        """Iterate in asyncio. A separate thread runs the query, so that the event loop never waits."""
        run = from_thread(self._run.elements(watched=True), self._async_sources)
        self._async_runs.add(run)
        return run

    def close(self) -> None:
        """End all runs in progress in this thread, and the run that ``next`` began."""
        self._iterator = None
        for run in list(self._runs):
            with suppress(ValueError):  # another thread is in its step
                run.close()

    def __enter__(self) -> QueryResults:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> QueryResults:
        return self

    async def __aexit__(self, *_: object) -> None:
        for run in list(self._async_runs):
            await run.aclose()

    def _closing(self, run: Generator[T]) -> Generator[T]:
        """A run that `close` ends."""
        self._runs.add(run)
        return run

    def batches(self) -> Iterator[pl.DataFrame]:
        """The tuples as data frames, each as soon as its tuples are final.

        Yields
        ------
        polars.DataFrame
            At least one row; columns and dtypes are those of ``schema.dtypes``.
        """
        return self._closing(self._run.batches())

    def to_polars(self) -> pl.DataFrame:
        """All tuples as one data frame, when the sources have ended.

        Returns
        -------
        polars.DataFrame
            Columns and dtypes are those of ``schema.dtypes``.
        """
        return pl.concat([self.schema.empty(), *self.batches()])

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The tuples as an Arrow stream. Requesting its first batch starts the run."""
        schema = self.schema.empty().to_arrow().schema
        batches = (batch for frame in self.batches() for batch in frame.to_arrow().to_batches())
        return pa.RecordBatchReader.from_batches(schema, batches).__arrow_c_stream__(requested_schema)


class _Run:
    """A planned query and its sources.

    It has no reference to its readers, so that an abandoned iterator is freed, and its run ended, at once.
    """

    def __init__(self, plan: Planning) -> None:
        self._plan = plan
        self._opening = threading.RLock()
        with suppress(LoopNeededError):  # planned when an event loop reads the results
            _ = self._planned

    @cached_property
    def _planned(self) -> tuple[Query, Mapping[str, Source | Table]]:
        with self._opening:
            return self._plan()

    @property
    def schema(self) -> Schema:
        return self._planned[0].root.schema

    def slices(self, watched: bool = False) -> Iterator[Slice]:
        """The slices of one run. A ``watched`` run yields empty slices rather than wait for long."""
        from xmlpunct.engine.run.local.local_run import open_sources, results

        need_polars()
        query, given = self._planned
        with self._opening:
            sources = open_sources(query, given)
        log = RejectLog()
        try:
            yield from results(query, sources, log.add, watched)
        finally:
            log.end()

    def elements(self, watched: bool = False) -> Generator[list[Tuple | Punctuation]]:
        """The tuples and punctuations of a run, slice by slice."""
        for part in self.slices(watched):
            yield [*rows(self.schema, part), *(p for p in part.punctuations if not p.is_everything)]

    def batches(self) -> Generator[pl.DataFrame]:
        """The tuples of a run, slice by slice where there are any."""
        for part in self.slices():
            if part.tuples.height:
                yield part.tuples
