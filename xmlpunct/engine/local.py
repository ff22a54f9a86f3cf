"""The local engine: the whole plan in this process, a slice at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict

from xmlpunct.engine.build import build
from xmlpunct.engine.options import RunOptions
from xmlpunct.engine.pacing import Pace, starved
from xmlpunct.engine.plan import Query, Stream
from xmlpunct.engine.sink import open_sink
from xmlpunct.engine.stats import Idle, InputStats, OperatorStats, RunStats
from xmlpunct.errors import Reject, SourceError, StrictError
from xmlpunct.firehose import PUNCT_NAMESPACE, FirehoseReader, Parsed, Source, StreamSpec, open_source
from xmlpunct.operators import Merge, Pipeline
from xmlpunct.punctuation import Punctuation
from xmlpunct.slice import Slice, concat

Progress = Callable[[RunStats], None]


IDLE_SECONDS = 1.0
"""After this long without a byte an input is idle; so often is looked for such, and a wait is interrupted."""


class Feed:
    """A sender, the streams it carries, and where it stands. ``port`` is its number among their senders."""

    def __init__(
        self,
        source: Source,
        streams: list[tuple[int, Stream]],
        port: int | None,
        namespace: str,
        bell: threading.Condition | None,
    ) -> None:
        self.streams, self.port = streams, port
        specs = [StreamSpec(s.name, s.schema, s.element) for _, s in streams]
        self.reader = FirehoseReader(source, specs, namespace, bell=bell)
        self.done = False
        self.turn = 0
        """When it was read last, in slices of the run."""

    @property
    def name(self) -> str:
        """What people know it by."""
        names = ", ".join(stream.name for _, stream in self.streams)
        return names if self.port is None else f"{names}#{self.port + 1}"


class LocalRun:
    """A query running in this process.

    ``advance`` reads one slice from the source whose turn it is and returns what the query makes of it; None
    when all sources have ended. Rejected tuples gather in ``rejects``, which the caller empties. Where a
    source has several senders, each of its streams is what a merge makes of theirs.
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
        senders = [
            (sender, streams, port)
            for key, streams in by_source.items()
            for sender, port in _senders(found[key])
        ]
        self._bell = threading.Condition()
        # An input that is alone is waited for where it is read, which takes no thread.
        bell = self._bell if len(senders) > 1 else None
        self._feeds = [Feed(*sender, namespace, bell) for sender in senders]
        self._merges: dict[int, Pipeline] = {}
        for key, streams in by_source.items():
            for i, stream in streams if found[key].senders else ():
                merge = Merge([stream.schema] * len(found[key].senders))
                merge.number = query.root.number + 1 + len(self._merges)
                self._merges[i] = Pipeline([merge], [[(0, p)] for p in range(len(merge.inputs))], [None])
        self._pace = Pace(slice_bytes)
        self._turn, self._looked = 0, time.monotonic()
        self._complete = False

    def advance(self) -> Slice | None:
        """Read and process one slice; where nothing can be read for a while, one with nothing in it.

        Raises `SourceError` once a source has failed, after its last good slice.
        """
        candidates = [f for f in self._feeds if not f.done]
        if not candidates or self._complete:
            return None
        ready = self._ready(candidates)
        self._look_for_idle(candidates)
        if not ready:
            return Slice(self.schema.empty())
        feed = ready[0]
        if len(ready) > 1:
            waits = self._waits()
            chosen = starved(sorted(ready, key=lambda f: f.turn), lambda f: f.reader, lambda f: waits[id(f)])
            assert chosen is not None
            feed = chosen
        self._turn += 1
        feed.turn = self._turn
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
        """Close all sources. What is idle now stays in the statistics."""
        self._looked = 0.0
        self._look_for_idle([f for f in self._feeds if not f.done])
        for feed in self._feeds:
            feed.reader.close()

    def _ready(self, candidates: list[Feed]) -> list[Feed]:
        """The candidates that need not be waited for; after a while, none."""

        def ready() -> list[Feed]:
            return [f for f in candidates if f.reader.is_ready()]

        with self._bell:
            found = ready()
            if not found:
                self._pace.pause()
                found = self._bell.wait_for(ready, IDLE_SECONDS)
        return found

    def _waits(self) -> dict[int, int]:
        """For each feed (by its id), how much that is retained waits for it."""
        below = self._pipeline.waits()
        at_merge = {i: merge.waits() for i, merge in self._merges.items()}
        return {
            id(f): max(below[i] + (at_merge[i][f.port] if f.port is not None else 0) for i, _ in f.streams)
            for f in self._feeds
        }

    def _look_for_idle(self, candidates: list[Feed]) -> None:
        """Put down, once in a while, which inputs hold others up."""
        now = time.monotonic()
        if now - self._looked < IDLE_SECONDS:
            return
        self._looked = now
        silent = [(f, seconds) for f in candidates if (seconds := f.reader.silent) > IDLE_SECONDS]
        waits = self._waits() if silent else {}
        self.stats.idle = [Idle(f.name, seconds, waits[id(f)]) for f, seconds in silent if waits[id(f)]]

    def _push(self, feed: Feed, slices: list[Slice]) -> Slice:
        results = []
        for (i, stream), given in zip(feed.streams, slices, strict=True):
            if given and feed.port is not None:
                merged = self._merges[i].push(feed.port, given)
                said = [Punctuation(stream.schema, p.patterns) for p in merged.punctuations]
                given = Slice(merged.tuples, said)
            if given:
                results.append(self._pipeline.push(i, given))
        self.rejects += self._pipeline.rejects
        self._pipeline.rejects.clear()
        self.stats.slices += 1
        self.stats.observe(
            OperatorStats(**asdict(counters), id=operator.number, operator=operator.name)
            for pipeline in (self._pipeline, *self._merges.values())
            for operator, counters in zip(pipeline.operators, pipeline.counters, strict=True)
        )
        result = concat(self.schema, results)
        # Nothing will follow, whatever is still to be read: LIMIT has its rows, say.
        self._complete = any(p.is_everything for p in result.punctuations)
        return result

    def _end(self, stream: Stream) -> Slice:
        return Slice(stream.schema.empty(), [Punctuation.everything(stream.schema)])

    def _count(self, feed: Feed, parsed: Parsed) -> None:
        for (i, stream), part, rejects in zip(feed.streams, parsed.slices, parsed.rejects, strict=True):
            counts = self.stats.inputs[stream.name]
            counts.tuples += part.tuples.height
            counts.punctuations += len(part.punctuations)
            counts.rejected += len(rejects)
            mine = [f for f in self._feeds if i in (number for number, _ in f.streams)]
            counts.bytes = sum(f.reader.bytes_read for f in mine)
            self.rejects += rejects


def _senders(source: Source) -> list[tuple[Source, int | None]]:
    """The sources to be read for a source, each with its number if they are to be merged."""
    return [(sender, port) for port, sender in enumerate(source.senders)] or [(source, None)]


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
    with closing(running), open_sink(options, running.schema, stats, query.ordered) as sink:
        failure: SourceError | None = None
        while failure is None:
            try:
                result = running.advance()
            except SourceError as error:
                failure, result = error, Slice(running.schema.empty())
            if result is None:
                break
            sink.rejects(running.rejects)
            stats.rejected += len(running.rejects)
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
