"""The local engine: the whole plan in this process, a slice at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict

from xmlpunct.engine.build import build
from xmlpunct.engine.options import RunOptions
from xmlpunct.engine.pacing import Pace, starved
from xmlpunct.engine.plan import Query, Stream
from xmlpunct.engine.sink import open_sink
from xmlpunct.engine.stats import InputStats, OperatorStats, RunStats
from xmlpunct.errors import Reject, SourceError, StrictError
from xmlpunct.firehose import PUNCT_NAMESPACE, FirehoseReader, Parsed, Source, StreamSpec, open_source
from xmlpunct.operators import Pipeline
from xmlpunct.punctuation import Punctuation
from xmlpunct.slice import Slice, concat

Progress = Callable[[RunStats], None]


class Feed:
    """A source, the streams it carries, and where it stands."""

    def __init__(self, source: Source, streams: list[tuple[int, Stream]], namespace: str) -> None:
        self.streams = streams
        specs = [StreamSpec(s.name, s.schema, s.element) for _, s in streams]
        self.reader = FirehoseReader(source, specs, namespace)
        self.done = False


class LocalRun:
    """A query running in this process.

    ``advance`` reads one slice from the source whose turn it is and returns what the query makes of it; None
    when all sources have ended. Rejected tuples gather in ``rejects``, which the caller empties.
    """

    def __init__(
        self,
        query: Query,
        sources: dict[str, Source],
        slice_bytes: int | None,
        stats: RunStats,
        namespace: str,
    ) -> None:
        self.schema = query.root.schema
        self.stats, self.rejects = stats, list[Reject]()
        self._pipeline: Pipeline = build(query.root, [s.name for s in query.streams])
        by_source: dict[int, list[tuple[int, Stream]]] = {}
        for i, stream in enumerate(query.streams):
            by_source.setdefault(id(sources[stream.name]), []).append((i, stream))
            stats.inputs[stream.name] = InputStats()
        found = {id(source): source for source in sources.values()}
        self._feeds = [Feed(found[key], streams, namespace) for key, streams in by_source.items()]
        self._pace = Pace(slice_bytes)

    def advance(self) -> Slice | None:
        """Read and process one slice. Raises `SourceError` once a source has failed, after its last good slice."""
        waits = self._pipeline.waits()
        feed = starved(
            [f for f in self._feeds if not f.done],
            lambda f: f.reader,
            lambda f: max(waits[i] for i, _ in f.streams),
        )
        if feed is None:
            return None
        parsed = feed.reader.read(self._pace.bytes)
        if parsed is None:
            feed.done = True
            if feed.reader.error is not None:
                raise feed.reader.error
            return self._push(feed, [self._end(stream) for _, stream in feed.streams])
        self._pace.measure()
        self._count(feed, parsed)
        return self._push(feed, parsed.slices)

    def close(self) -> None:
        """Close all sources."""
        for feed in self._feeds:
            feed.reader.close()

    def _push(self, feed: Feed, slices: list[Slice]) -> Slice:
        results = [self._pipeline.push(i, s) for (i, _), s in zip(feed.streams, slices, strict=True) if s]
        self.rejects += self._pipeline.rejects
        self._pipeline.rejects.clear()
        self.stats.slices += 1
        self.stats.observe(
            OperatorStats(**asdict(counters), id=operator.number, operator=operator.name)
            for operator, counters in zip(self._pipeline.operators, self._pipeline.counters, strict=True)
        )
        return concat(self.schema, results)

    def _end(self, stream: Stream) -> Slice:
        return Slice(stream.schema.empty(), [Punctuation.everything(stream.schema)])

    def _count(self, feed: Feed, parsed: Parsed) -> None:
        for (_, stream), part, rejects in zip(feed.streams, parsed.slices, parsed.rejects, strict=True):
            counts = self.stats.inputs[stream.name]
            counts.tuples += part.tuples.height
            counts.punctuations += len(part.punctuations)
            counts.rejected += len(rejects)
            counts.bytes = feed.reader.bytes_read
            self.rejects += rejects


def open_sources(query: Query) -> dict[str, Source]:
    """The sources of a query's streams, each opened once however many streams it carries."""
    opened: dict[str, Source] = {}
    for stream in query.streams:
        assert stream.source is not None
        if stream.source not in opened:
            opened[stream.source] = open_source(stream.source)
    return {stream.name: opened[str(stream.source)] for stream in query.streams}


def run(query: Query, options: RunOptions, stats: RunStats, on_progress: Progress | None = None) -> None:
    """Run a query to the end of its sources and write what it gives.

    Raises `SourceError` when a source fails, after writing what came before; `StrictError` at the first
    reject with ``options.strict``.
    """
    running = LocalRun(query, open_sources(query), options.slice_bytes, stats, options.punct_namespace)
    with closing(running), open_sink(options, running.schema, stats) as sink:
        failure: SourceError | None = None
        while failure is None:
            try:
                result = running.advance()
            except SourceError as error:
                failure, result = error, Slice(running.schema.empty())
            if result is None:
                break
            sink.rejects(running.rejects)
            if options.strict and running.rejects:
                raise StrictError(f"--strict: {running.rejects[0]}")
            running.rejects.clear()
            sink.write(result)
            if on_progress is not None:
                on_progress(stats)
        if failure is not None:
            raise failure
        sink.end()


def results(
    query: Query, sources: dict[str, Source], on_reject: Callable[[Reject], object]
) -> Iterator[Slice]:
    """The query's results as slices, as they come. Raises `SourceError` after the last good one."""
    running = LocalRun(query, sources, None, RunStats("local"), PUNCT_NAMESPACE)
    with closing(running):
        while (result := running.advance()) is not None:
            for reject in running.rejects:
                on_reject(reject)
            running.rejects.clear()
            yield result
