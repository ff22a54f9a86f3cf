"""A query running in this process: its feeds and operators, slice by slice."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import polars as pl

from xmlpunct.base.cores import cores
from xmlpunct.base.errors import Reject, SourceError, UsageError, XmlPunctError
from xmlpunct.base.unread import Notice
from xmlpunct.connectors.source import Source
from xmlpunct.engine.plan import Query, Stream, columns_read
from xmlpunct.engine.run.build import build
from xmlpunct.engine.run.checkpoint.commit import Frames
from xmlpunct.engine.run.inputs.helper_threads import HelperThreads
from xmlpunct.engine.run.inputs.injected_punctuations import InjectedTexts, InjectionQueue, punctuation_of
from xmlpunct.engine.run.inputs.pacing import MOST_BYTES, Pace, first_bytes, starved
from xmlpunct.engine.run.inputs.parts import Input
from xmlpunct.engine.run.inputs.prefetcher import Prefetcher
from xmlpunct.engine.run.inputs.streams import InputOpener
from xmlpunct.engine.run.inputs.tables import Table
from xmlpunct.engine.run.local.portion import Portion, SourceFeed, TableRows
from xmlpunct.engine.run.reject_limit import RejectLimit, rejected_flags, source_positions
from xmlpunct.engine.run.run_options import ONE_ANSWER
from xmlpunct.engine.run.stats import IDLE_SECONDS, Idle, InputStats, OperatorStats, RunStats
from xmlpunct.engine.why.holding import Holding
from xmlpunct.firehose import Parsed
from xmlpunct.firehose.position import Cursor
from xmlpunct.firehose.slice_reader import ReadState, SliceReader
from xmlpunct.operators import Counters, Pipeline
from xmlpunct.operators.driver import NOT_PRECOMPUTED, Precomputed
from xmlpunct.operators.retained_outline import outline
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.slice import Slice, concat

LOOK_SHARE = 0.05
"""Maximal share of the time for outlines of the retained state; without this limit there is one per second."""

SLICES_AHEAD = 3
"""Slices to read ahead per thread, so that no thread waits (`benchmarks/threads.py`)."""

MANY = 4
"""From this number of threads on, reader threads run stateless operators, because the main thread is the bottleneck.
With fewer threads, the handover costs more than it saves (`benchmarks/threads.py`)."""

SPREAD = 2
"""With more threads per source than this, parsing runs in parallel, instead of cutting at minimal cost."""


class LocalRun:
    """A query running in this process.

    `read` returns a portion of the next source, or None after the last; `process` returns the results of a portion;
    `advance` does both. The caller empties ``rejects`` and ``notices``. ``bell`` wakes a run that waits for input.
    ``injections`` are injected punctuations. With ``threads`` (None: one per core), other threads read ahead; results
    do not change.
    """

    def __init__(
        self,
        query: Query,
        sources: Mapping[str, Source | Input | Table],
        slice_bytes: int | None,
        stats: RunStats,
        namespace: str,
        injections: InjectionQueue | None = None,
        threads: int | None = None,
    ) -> None:
        self._schemas = [root.schema for root in query.roots]
        self.stats, self.rejects, self.notices = stats, list[Reject](), list[Notice]()
        stats.guards, stats.sinks, stats.gauges = query.guards, query.sinks, self
        self._query = query
        self._pipeline: Pipeline = self._build()

        stats.holding = Holding({stream.name: stream.sent for stream in query.streams})
        by_source: dict[int, list[tuple[int, Stream]]] = {}
        distinct: dict[int, Source | Input] = {}
        tables: list[tuple[int, Stream, Table]] = []
        for i, stream in enumerate(query.streams):
            stats.inputs[stream.declared] = InputStats()
            source = sources[stream.name]
            if isinstance(source, Table):
                tables.append((i, stream, source))
                continue
            stats.elements[stream.declared] = stream.element
            distinct[id(source)] = source
            by_source.setdefault(id(source), []).append((i, stream))
        self._tables = self._rows_of(tables)
        self._injections = InjectionQueue() if injections is None else injections
        self.bell, self.settle_said = self._injections.bell, self._injections.settle
        self._feeds: list[SourceFeed] = []
        self._helpers = HelperThreads(threads or cores())
        is_single_source = len(by_source) == 1 and not stats.watched
        spread = self._helpers.count > SPREAD * len(by_source)
        for number, (key, streams) in enumerate(by_source.items()):
            specs = [stream.spec(columns_read(query.roots, stream)) for _, stream in streams]
            early = partial(self._precompute, streams) if self._helpers.count >= MANY else _no_results
            input_, bell = distinct[key], None if is_single_source else self.bell
            opener = InputOpener(input_) if isinstance(input_, Input) else input_
            reader = SliceReader(opener, specs, namespace, bell=bell, walks_ahead=not spread)
            self._feeds.append(SourceFeed(number, streams, reader, Prefetcher(reader, self._helpers, early)))
        self._pace = Pace(slice_bytes, first_bytes(max(len(s.schema) for s in query.streams)))
        self._last_look = time.monotonic()
        self._look_cost = 0.0
        self._opened = False
        self._judges = any(stream.guarded for stream in query.streams)
        self.closed = [False] * len(query.answers)
        """For each answer, whether it is complete."""
        self._has_late_input = False

    @property
    def ended(self) -> bool:
        """True if all answers are complete. Then input is read for its rejects only."""
        return all(self.closed)

    def advance(self) -> Slice | None:
        """Read and process one slice of a query with one answer; None when all sources have ended.

        Raises as `read` does.
        """
        portion = self.read()
        if portion is None:
            return None
        (result,) = self.process(portion)
        return result

    def read(self) -> Portion | None:
        """Read the input of one slice; an empty portion after a while without input.

        Tables are read first, because later tuples join them. Raises `SourceError` for a failed source, after its
        last good slice.
        """
        if not self.ended and (rows := next(self._tables, None)) is not None:
            return Portion(rows=rows)
        candidates = [f for f in self._feeds if not f.done]
        if not candidates:
            return None
        for feed in candidates:
            if feed.reader.error is not None:
                raise feed.reader.error
        ready = self._ready(candidates)
        self._look_for_idle(candidates)
        while (injected := self._injections.take()) is not None:
            if (feed := self._feed_of(injected[0])) in candidates:
                return Portion(feed, injected=injected)
        if not ready:
            return Portion()
        feed = ready[0]
        if len(ready) > 1:
            waits = self._waits()
            feed = starved(ready, lambda f: f.reader, lambda f: waits[id(f)], lambda f: f.turn)
        before = feed.reader.cursor
        parsed = feed.prefetcher.read(self._pace.bytes)
        self._pace.measure()
        if self._helpers.count > 1:
            self._read_ahead(candidates)
        if parsed is not None and parsed.error is None and before == feed.reader.cursor:
            return Portion()  # such as an incomplete element
        return Portion(feed, parsed, precomputed=feed.prefetcher.precomputed)

    def process(self, portion: Portion) -> list[Slice]:
        """Process a portion; returns a slice of results for each answer."""
        feed, rows = portion.feed, portion.rows
        if rows is not None:
            counts = self.stats.inputs[rows.stream.declared]
            counts.tuples += rows.tuples.tuples.height
            counts.rejected += len(rows.rejects)
            self.rejects += rows.rejects
            return self._push([(rows.number, rows.stream)], [rows.tuples])
        if feed is None:
            return [Slice(schema.empty()) for schema in self._schemas]
        feed.turn = 1 + max(f.turn for f in self._feeds)
        if portion.injected is not None:
            return self._push(
                feed.streams, [self._injected(i, stream, portion.injected) for i, stream in feed.streams]
            )
        if portion.parsed is None:
            feed.done = True
            self._note_end(feed)
            return self._push(feed.streams, [self._end(stream) for _, stream in feed.streams])
        self._has_late_input |= self.ended and (any(portion.parsed.slices) or any(portion.parsed.rejects))
        self._count(feed, portion.parsed)
        return self._push(feed.streams, portion.parsed.slices, portion.precomputed)

    def judge(self, portion: Portion, limit: RejectLimit, rejects: Sequence[Reject]) -> SourceError | None:
        """The error if the share of rejects of an input exceeds the limit after a portion with these ``rejects``."""
        feed, parsed, failure = portion.feed, portion.parsed, None
        if limit.percent is None or feed is None:
            return None
        parts = [name for name, _ in feed.reader.source.parts]
        for index, (_, stream) in enumerate(feed.streams):
            counts = self.stats.judged.setdefault(stream.name, [0, 0])
            bad = pl.Series(dtype=pl.Boolean())
            if parsed is not None:
                tuples = source_positions(parts, parsed.slices[index], parsed.rejects[index])
                bad = rejected_flags(tuples, rejects)
            failure = failure or limit.share(stream.name, counts, bad, feed.done)
        return failure

    @property
    def reads_on(self) -> bool:
        """True if input has arrived after the output's end, or can still arrive."""
        waits = any(not (f.done or f.reader.error) and f.reader.bytes_total is None for f in self._feeds)
        return self.ended and (self._has_late_input or waits)

    def is_ready(self) -> bool:
        """True if `read` returns input or an end without waiting."""
        if self._injections:
            return True
        candidates = [f for f in self._feeds if not f.done]
        return not candidates or any(f.prefetcher.is_ready() for f in candidates)

    def reread(self, number: int, stop: Cursor, injected: InjectedTexts | None = None) -> Portion:
        """Repeat a read of an earlier run: from the position of feed ``number`` to ``stop``, with the punctuation
        ``injected`` there.

        Raises `XmlPunctError` if the input is missing or unreadable.
        """
        feed = self._feeds[number]
        parsed = None if injected is not None else feed.reread(stop)
        if feed.reader.cursor != stop:
            if parsed is not None and parsed.error is not None:
                raise parsed.error
            raise XmlPunctError(f"{feed.name}: the part that was read before cannot be read again")
        return Portion(feed, parsed, injected)

    def check(self, number: int, cursor: Cursor) -> None:
        """Raise `XmlPunctError` if the spool of feed ``number`` is shorter than what was read of it."""
        self._feeds[number].check(cursor)

    @property
    def spooled(self) -> int:
        """Number of bytes read from spools that are retained until `release`."""
        return sum(feed.spooled for feed in self._feeds)

    def release(self) -> None:
        """Drop the parts of all spools that were read."""
        for feed in self._feeds:
            feed.release()

    def snapshot(self) -> tuple[list[Any], Frames]:
        """The positions of all feeds, and the state of all operators."""
        positions = []
        for feed in self._feeds:
            reader = feed.reader
            error = None if reader.error is None else reader.error.__reduce__()[1]
            positions.append([reader.cursor.to_json(), reader.bytes_read, error, feed.done, feed.turn])
        return positions, self._pipeline.snapshot()

    def restore(self, positions: list[Any], state: Frames, closed: Sequence[bool]) -> None:
        """Restore a `snapshot`, and the counters from the statistics; ``closed``: complete answers at that time."""
        for feed, (cursor, count, error, done, turn) in zip(self._feeds, positions, strict=True):
            read_state = ReadState(Cursor.from_json(cursor), count)
            feed.reader.restore(read_state, error and SourceError(*error))
            feed.done, feed.turn = done, turn
        for number, is_closed in enumerate(closed):
            if is_closed:
                self._close(number)
        self._pipeline.restore(state)
        saved = {o.id: asdict(o) for o in self.stats.operators}
        for operator, counters in zip(self._pipeline.operators, self._pipeline.counters, strict=True):
            for name in Counters().counts() if operator.number in saved else ():
                setattr(counters, name, saved[operator.number][name])
        self._opened = self.stats.slices > 0

    def partial(self) -> pl.DataFrame:
        """The further results, in order, if all inputs ended now: exact, computed on a copy of the state."""
        if len(self._schemas) > 1:
            raise UsageError(ONE_ANSWER)
        copy, ended = self._build(), [] if self.ended else list(enumerate(self._query.streams))
        slices = [] if self._opened else [copy.open()]
        copy.restore(self._pipeline.snapshot())
        slices += [copy.push(i, stream.taken(self._end(stream))) for i, stream in ended]
        answer = concat(self._schemas[0], slices).tuples
        return answer if self._query.root.ordered else answer.sort(answer.columns, nulls_last=True)

    def waits(self) -> dict[int, Sequence[int]]:
        """For each operator and each of its inputs, the amount of retained state that waits for that input."""
        return {operator.number: operator.waits() for operator in self._pipeline.operators}

    def behind(self) -> dict[str, int | None]:
        """For each input, the number of available bytes not read yet; None if unknown."""
        left = {name: [f.behind for f in self._feeds_of(name) if not f.done] for name in self.stats.inputs}
        sizes = {name: [n for n in counts if n is not None] for name, counts in left.items()}
        return {name: sum(sizes[name]) if len(sizes[name]) == len(left[name]) else None for name in left}

    def done(self) -> dict[str, bool]:
        """For each input, whether it has been read to its end."""
        return {name: all(f.done for f in self._feeds_of(name)) for name in self.stats.inputs}

    def close(self) -> None:
        """Close all sources; inputs that are idle now stay in the statistics."""
        self._last_look = -math.inf
        self._look_for_idle([f for f in self._feeds if not f.done])
        self._helpers.close()
        for feed in self._feeds:
            feed.reader.close()

    def _build(self) -> Pipeline:
        return build(self._query.roots, [stream.name for stream in self._query.streams])

    def _read_ahead(self, candidates: list[SourceFeed]) -> None:
        """Start to read the next slices of the feeds whose last turn is longest ago.

        Slices read ahead are in memory: `SLICES_AHEAD` per thread, of at most `MOST_BYTES` each. Of larger slices there
        are fewer, but at least one per thread.
        """
        waiting = [f for f in candidates if f.is_complete]
        count, limit = sum(f.prefetcher.begun for f in waiting), SLICES_AHEAD * MOST_BYTES // self._pace.bytes
        while waiting and count < max(1, min(limit, SLICES_AHEAD)) * self._helpers.count:
            next_ = min(waiting, key=lambda f: (f.prefetcher.begun, f.turn))
            next_.prefetcher.begin(self._pace.bytes)
            count += 1

    def _ready(self, candidates: list[SourceFeed]) -> list[SourceFeed]:
        """The candidates with input; empty after a while without input."""

        def ready() -> list[SourceFeed]:
            return [f for f in candidates if f.prefetcher.is_ready()]

        with self.bell:
            feeds = ready()
            if not (feeds or self._injections):
                self._pace.pause()
                self.bell.wait_for(lambda: ready() or self._injections, IDLE_SECONDS)
                feeds = ready()
        return feeds

    def look(self) -> None:
        """Record an outline of the state that the operators retain."""
        began = time.monotonic()
        outlines = {operator.number: outline(operator.state) for operator in self._pipeline.operators}
        self.stats.holding.keep("", outlines)
        self._look_cost = time.monotonic() - began

    def _waits(self) -> dict[int, int]:
        """For each feed, by id, the amount of retained state that waits for it."""
        waits = self._pipeline.waits()
        return {id(f): max(waits[i] for i, _ in f.streams) for f in self._feeds}

    def _look_for_idle(self, candidates: list[SourceFeed]) -> None:
        """Record, at intervals, the idle inputs that retained state waits for."""
        now = time.monotonic()
        if now - self._last_look < max(IDLE_SECONDS, self._look_cost / LOOK_SHARE):
            return
        self._last_look = now
        self.look()
        silent = [(f, seconds) for f in candidates if (seconds := f.prefetcher.silent) > IDLE_SECONDS]
        waits = self._waits() if silent else {}
        self.stats.idle = [Idle(f.name, seconds, waits[id(f)]) for f, seconds in silent if waits[id(f)]]

    def _precompute(self, streams: Sequence[tuple[int, Stream]], parsed: Parsed) -> list[Precomputed]:
        """Run stateless operators on slices read ahead; called in reader threads."""
        pairs = zip(streams, parsed.slices, strict=True)
        return [self._pipeline.precompute(i, stream.taken(slice_).tuples) for (i, stream), slice_ in pairs]

    def _push(
        self, streams: Sequence[tuple[int, Stream]], slices: Sequence[Slice], done: Sequence[Precomputed] = ()
    ) -> list[Slice]:
        results = [] if self._opened else [self._pipeline.open_all()]
        self._opened = True
        done = done or [NOT_PRECOMPUTED] * len(slices)
        for (i, stream), slice_, done_of_stream in zip(streams, slices, done, strict=True):
            if slice_:
                if slice_.punctuations:
                    self.stats.holding.say(stream.name, slice_.punctuations)
                results.append(self._pipeline.push_all(i, stream.taken(slice_), done_of_stream))
        self.rejects += self._pipeline.rejects
        self._pipeline.rejects.clear()
        self.stats.slices += 1
        self.stats.observe(
            OperatorStats(**counters.counts(), id=operator.number, operator=operator.name)
            for operator, counters in zip(self._pipeline.operators, self._pipeline.counters, strict=True)
        )
        return [self._result(number, [r[number] for r in results]) for number in range(len(self.closed))]

    def _result(self, number: int, parts: Sequence[Slice]) -> Slice:
        """The results of a slice for an answer; empty once the answer is complete."""
        if self.closed[number]:
            return Slice(self._schemas[number].empty())
        result = concat(self._schemas[number], parts)
        if result.punctuations.has_end:
            self._close(number)
        return result

    def _close(self, number: int) -> None:
        """Mark an answer as complete: no result follows, even if input is left, such as after LIMIT.

        Operators and feeds that serve no other answer stop, unless their rejects must be counted.
        """
        self.closed[number] = True
        if self._judges:
            return
        self._pipeline.stop(number)
        for feed in self._feeds:
            if all(self._pipeline.is_stopped(i) for i, _ in feed.streams):
                feed.done = True

    def _rows_of(self, tables: Sequence[tuple[int, Stream, Table]]) -> Iterator[TableRows]:
        """The batches of all tables, each table followed by its end."""
        for number, stream, table in tables:
            for tuples, rejects in table.slices(stream.layout):
                yield TableRows(number, stream, tuples, rejects)
            yield TableRows(number, stream, self._end(stream), [])

    def _end(self, stream: Stream) -> Slice:
        return Slice(stream.layout.empty(), [Punctuation.everything(stream.schema)], [0])

    def _injected(self, number: int, stream: Stream, entry: InjectedTexts) -> Slice:
        """The injected punctuation, if it belongs to this stream; else an empty slice."""
        empty = stream.layout.empty()
        return Slice(empty, [punctuation_of(stream, entry[1])], [0]) if number == entry[0] else Slice(empty)

    def _feed_of(self, number: int) -> SourceFeed:
        """The feed that carries stream ``number``."""
        return next(f for f in self._feeds if number in [i for i, _ in f.streams])

    def _count(self, feed: SourceFeed, parsed: Parsed) -> None:
        by_stream = zip(feed.streams, parsed.slices, parsed.rejects, parsed.overlooked, strict=True)
        for (_, stream), part, rejects, overlooked in by_stream:
            counts = self.stats.inputs[stream.declared]
            counts.take(part, len(rejects))
            if part.punctuations:
                self.stats.spoke[stream.declared] = time.time()
            self.notices += self.stats.overlook(stream.declared, overlooked)
            counts.bytes = sum(f.reader.bytes_read for f in self._feeds_of(stream.declared))
            self.rejects += rejects

    def _note_end(self, feed: SourceFeed) -> None:
        """Record the end of the inputs that end with a feed, and their notices."""
        for _, stream in feed.streams:
            if all(f.done for f in self._feeds_of(stream.declared)):
                self.notices += self.stats.end(stream.declared)

    def _feeds_of(self, declared: str) -> list[SourceFeed]:
        """The feeds of a stream: one per sender."""
        return [f for f in self._feeds if declared in (s.declared for _, s in f.streams)]


def _no_results(_: Parsed) -> list[Precomputed]:
    """Replaces `_precompute` for fewer than `MANY` threads."""
    return []
