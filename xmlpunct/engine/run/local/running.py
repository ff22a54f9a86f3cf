"""A query running in this process: its feeds, and its operators, a slice at a time."""

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
from xmlpunct.engine.run.inputs.ahead import AheadReader, Helpers
from xmlpunct.engine.run.inputs.injected_punctuations import Plain, Sayings, punctuation_of
from xmlpunct.engine.run.inputs.pacing import MOST_BYTES, Pace, first_bytes, starved
from xmlpunct.engine.run.inputs.parts import Input
from xmlpunct.engine.run.inputs.ranges import Cursor
from xmlpunct.engine.run.inputs.tables import Table
from xmlpunct.engine.run.local.portion import Feed, Portion, Rows
from xmlpunct.engine.run.reject_limit import RejectLimit, in_order, marked
from xmlpunct.engine.run.run_options import ONE_ANSWER
from xmlpunct.engine.run.stats import IDLE_SECONDS, Idle, InputStats, OperatorStats, RunStats
from xmlpunct.engine.why.holding import Holding
from xmlpunct.firehose import Parsed
from xmlpunct.operators import Counters, Pipeline
from xmlpunct.operators.driver import NOT_AHEAD, Ahead
from xmlpunct.operators.retained_outline import outline
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.slice import Slice, concat

LOOK_SHARE = 0.05
"""What is retained is looked at less often than once a second where that would take a larger share of the time."""

SLICES_AHEAD = 3
"""For each thread so many slices are read ahead, so that no thread has to wait (`benchmarks/threads.py`)."""

MANY = 4
"""With fewer threads the one that runs the operators has time to do all of their work, sooner than handing it over
takes; with so many, the others would wait for it (`benchmarks/threads.py`)."""

SPREAD = 2
"""With so many threads for each source, parsing is spread over threads rather than cutting made cheap."""


class LocalRun:
    """A query running in this process.

    `read` gives a portion of the next source, None when all have ended; `process` returns the results of a portion;
    `advance` does both. The caller empties ``rejects`` and ``notices``. ``bell`` wakes a run that waits for input.
    ``sayings`` are punctuations from outside. With ``threads`` (None: as many as there are cores) other threads read
    ahead, which changes no result.
    """

    def __init__(
        self,
        query: Query,
        sources: Mapping[str, Source | Input | Table],
        slice_bytes: int | None,
        stats: RunStats,
        namespace: str,
        sayings: Sayings | None = None,
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
        self._sayings = Sayings() if sayings is None else sayings
        self.bell, self.settle_said = self._sayings.bell, self._sayings.settle
        self._feeds: list[Feed] = []
        self._helpers = Helpers(threads or cores())
        alone = len(by_source) == 1 and not stats.watched
        spread = self._helpers.count > SPREAD * len(by_source)
        for number, (key, streams) in enumerate(by_source.items()):
            given, specs = (
                distinct[key],
                [stream.spec(columns_read(query.roots, stream)) for _, stream in streams],
            )
            precompute = partial(self._precompute, streams) if self._helpers.count >= MANY else _nothing
            reader = AheadReader(given, specs, namespace, self.bell, alone, self._helpers, spread, precompute)
            self._feeds.append(Feed(number, streams, reader))
        self._pace = Pace(slice_bytes, first_bytes(max(len(s.schema) for s in query.streams)))
        self._looked = time.monotonic()
        self._look_cost = 0.0
        self._opened = False
        self._judges = any(stream.guarded for stream in query.streams)
        self.closed = [False] * len(query.answers)
        """Of each answer, whether it is complete."""
        self._more = False

    @property
    def ended(self) -> bool:
        """Whether all answers are complete. What is still read then is read for the rejects in it."""
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
        """Read what makes a slice, or nothing, where there is nothing to be read for a while.

        Tables come first, so that what arrives later meets them. Raises `SourceError` once a source has failed,
        after its last good slice.
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
        while (said := self._sayings.take()) is not None:
            if (feed := self._feed_of(said[0])) in candidates:
                return Portion(feed, said=said)
        if not ready:
            return Portion()
        feed = ready[0]
        if len(ready) > 1:
            waits = self._waits()
            feed = starved(ready, lambda f: f.reader, lambda f: waits[id(f)], lambda f: f.turn)
        before = feed.reader.cursor
        parsed = feed.reader.read(self._pace.bytes)
        self._pace.measure()
        if self._helpers.count > 1:
            self._read_ahead(candidates)
        if parsed is not None and parsed.error is None and before == feed.reader.cursor:
            return Portion()  # half an element, say
        return Portion(feed, parsed, precomputed=feed.reader.precomputed)

    def process(self, portion: Portion) -> list[Slice]:
        """What the query makes of a portion: a slice for each answer."""
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
        if portion.said is not None:
            return self._push(
                feed.streams, [self._said(i, stream, portion.said) for i, stream in feed.streams]
            )
        if portion.parsed is None:
            feed.done = True
            self._note_end(feed)
            return self._push(feed.streams, [self._end(stream) for _, stream in feed.streams])
        self._more |= self.ended and (any(portion.parsed.slices) or any(portion.parsed.rejects))
        self._count(feed, portion.parsed)
        return self._push(feed.streams, portion.parsed.slices, portion.precomputed)

    def judge(self, portion: Portion, limit: RejectLimit, rejects: Sequence[Reject]) -> SourceError | None:
        """The failure that a portion is, whose ``rejects`` are known by now, if an input has too large a share."""
        feed, parsed, failure = portion.feed, portion.parsed, None
        if limit.percent is None or feed is None:
            return None
        parts = [name for name, _ in feed.reader.source.parts]
        for place, (_, stream) in enumerate(feed.streams):
            counts = self.stats.judged.setdefault(stream.name, [0, 0])
            bad = pl.Series(dtype=pl.Boolean())
            if parsed is not None:
                tuples = in_order(parts, parsed.slices[place], parsed.rejects[place])
                bad = marked(tuples, rejects)
            failure = failure or limit.share(stream.name, counts, bad, feed.done)
        return failure

    @property
    def reads_on(self) -> bool:
        """Whether more has come behind the output's end, or may come at any time."""
        waits = any(not (f.done or f.reader.error) and f.reader.bytes_total is None for f in self._feeds)
        return self.ended and (self._more or waits)

    def is_ready(self) -> bool:
        """Whether there is something to `read`, or an end, without waiting for it."""
        if self._sayings:
            return True
        candidates = [f for f in self._feeds if not f.done]
        return not candidates or any(f.reader.is_ready() for f in candidates)

    def again(self, number: int, stop: Cursor, said: Plain | None = None) -> Portion:
        """Read once more what a run read before: of the feed of that number, from where it stands to ``stop``.

        What was ``said`` there is said again.

        Raises `XmlPunctError` if that is not there any more, or cannot be read.
        """
        feed = self._feeds[number]
        parsed = None if said is not None else feed.reader.again(stop)
        if feed.reader.cursor != stop:
            if parsed is not None and parsed.error is not None:
                raise parsed.error
            raise XmlPunctError(f"{feed.name}: what was read of it before cannot be read again")
        return Portion(feed, parsed, said)

    def reader(self, number: int) -> AheadReader:
        """The reader of the feed of that number."""
        return self._feeds[number].reader

    @property
    def spooled(self) -> int:
        """How many bytes have been read that are kept until `release`."""
        return sum(feed.reader.spooled for feed in self._feeds)

    def release(self) -> None:
        """Drop what has been read of all spools."""
        for feed in self._feeds:
            feed.reader.release()

    def snapshot(self) -> tuple[list[Any], Frames]:
        """Where all feeds stand, and the state of all operators."""
        places = []
        for feed in self._feeds:
            reader = feed.reader
            error = None if reader.error is None else reader.error.__reduce__()[1]
            places.append([reader.cursor.to_json(), reader.bytes_read, error, feed.done, feed.turn])
        return places, self._pipeline.snapshot()

    def restore(self, places: list[Any], state: Frames, closed: Sequence[bool]) -> None:
        """Take what `snapshot` gave, and from the statistics the counters; some answers were ``closed`` then."""
        for feed, (cursor, count, error, done, turn) in zip(self._feeds, places, strict=True):
            feed.reader.restore(Cursor.from_json(cursor), count, error and SourceError(*error))
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
        """What the query would still answer if all its inputs ended now, in order: exact, by a copy of the state."""
        if len(self._schemas) > 1:
            raise UsageError(ONE_ANSWER)
        copy, ended = self._build(), [] if self.ended else list(enumerate(self._query.streams))
        given = [] if self._opened else [copy.open()]
        copy.restore(self._pipeline.snapshot())
        given += [copy.push(i, stream.taken(self._end(stream))) for i, stream in ended]
        answer = concat(self._schemas[0], given).tuples
        return answer if self._query.root.ordered else answer.sort(answer.columns, nulls_last=True)

    def waits(self) -> dict[int, Sequence[int]]:
        """By operator, for each of its inputs, how much of what it retains waits for that input."""
        return {operator.number: operator.waits() for operator in self._pipeline.operators}

    def behind(self) -> dict[str, int | None]:
        """By input, how many bytes are there that were not read yet; None where nobody knows."""
        left = {
            name: [f.reader.behind for f in self._feeds_of(name) if not f.done] for name in self.stats.inputs
        }
        known = {name: [n for n in counts if n is not None] for name, counts in left.items()}
        return {name: sum(known[name]) if len(known[name]) == len(left[name]) else None for name in left}

    def done(self) -> dict[str, bool]:
        """By input, whether it has been read to its end."""
        return {name: all(f.done for f in self._feeds_of(name)) for name in self.stats.inputs}

    def close(self) -> None:
        """Close all sources. What is idle now stays in the statistics."""
        self._looked = -math.inf
        self._look_for_idle([f for f in self._feeds if not f.done])
        self._helpers.close()
        for feed in self._feeds:
            feed.reader.close()

    def _build(self) -> Pipeline:
        return build(self._query.roots, [stream.name for stream in self._query.streams])

    def _read_ahead(self, candidates: list[Feed]) -> None:
        """Begin to read what is likely to be wanted next: of those feeds whose last turn was longest ago.

        What is read ahead is in memory: `SLICES_AHEAD` slices for each thread, of at most `MOST_BYTES` each. Of larger
        ones there are fewer, and at least one for each thread.
        """
        waiting = [f for f in candidates if f.reader.is_there]
        count, each = sum(f.reader.begun for f in waiting), SLICES_AHEAD * MOST_BYTES // self._pace.bytes
        while waiting and count < max(1, min(each, SLICES_AHEAD)) * self._helpers.count:
            next_ = min(waiting, key=lambda f: (f.reader.begun, f.turn))
            next_.reader.begin(self._pace.bytes)
            count += 1

    def _ready(self, candidates: list[Feed]) -> list[Feed]:
        """The candidates that need not be waited for; after a while, none."""

        def ready() -> list[Feed]:
            return [f for f in candidates if f.reader.is_ready()]

        with self.bell:
            feeds = ready()
            if not (feeds or self._sayings):
                self._pace.pause()
                self.bell.wait_for(lambda: ready() or self._sayings, IDLE_SECONDS)
                feeds = ready()
        return feeds

    def look(self) -> None:
        """Put down what the operators retain."""
        began = time.monotonic()
        outlines = {operator.number: outline(operator.state) for operator in self._pipeline.operators}
        self.stats.holding.keep("", outlines)
        self._look_cost = time.monotonic() - began

    def _waits(self) -> dict[int, int]:
        """For each feed (by its id), how much that is retained waits for it."""
        waits = self._pipeline.waits()
        return {id(f): max(waits[i] for i, _ in f.streams) for f in self._feeds}

    def _look_for_idle(self, candidates: list[Feed]) -> None:
        """Put down, once in a while, which inputs hold others up, and what waits for them."""
        now = time.monotonic()
        if now - self._looked < max(IDLE_SECONDS, self._look_cost / LOOK_SHARE):
            return
        self._looked = now
        self.look()
        silent = [(f, seconds) for f in candidates if (seconds := f.reader.silent) > IDLE_SECONDS]
        waits = self._waits() if silent else {}
        self.stats.idle = [Idle(f.name, seconds, waits[id(f)]) for f, seconds in silent if waits[id(f)]]

    def _precompute(self, streams: Sequence[tuple[int, Stream]], parsed: Parsed) -> list[Ahead]:
        """What can be done of slices before their turn: in any thread, while this one does something else."""
        given = zip(streams, parsed.slices, strict=True)
        return [self._pipeline.precompute(i, stream.taken(slice_).tuples) for (i, stream), slice_ in given]

    def _push(
        self, streams: Sequence[tuple[int, Stream]], slices: Sequence[Slice], done: Sequence[Ahead] = ()
    ) -> list[Slice]:
        results = [] if self._opened else [self._pipeline.open_all()]
        self._opened = True
        done = done or [NOT_AHEAD] * len(slices)
        for (i, stream), given, of_stream in zip(streams, slices, done, strict=True):
            if given:
                if given.punctuations:
                    self.stats.holding.say(stream.name, given.punctuations)
                results.append(self._pipeline.push_all(i, stream.taken(given), of_stream))
        self.rejects += self._pipeline.rejects
        self._pipeline.rejects.clear()
        self.stats.slices += 1
        self.stats.observe(
            OperatorStats(**counters.counts(), id=operator.number, operator=operator.name)
            for operator, counters in zip(self._pipeline.operators, self._pipeline.counters, strict=True)
        )
        return [
            self._result(number, [each[number] for each in results]) for number in range(len(self.closed))
        ]

    def _result(self, number: int, parts: Sequence[Slice]) -> Slice:
        """What a slice adds to an answer: nothing, once that is complete."""
        if self.closed[number]:
            return Slice(self._schemas[number].empty())
        result = concat(self._schemas[number], parts)
        if result.punctuations.has_end:
            self._close(number)
        return result

    def _close(self, number: int) -> None:
        """Take note that an answer is complete: nothing will follow, whatever is still to be read.

        LIMIT has its rows, say. What is there for no other answer stops, unless its rejects are asked for.
        """
        self.closed[number] = True
        if self._judges:
            return
        self._pipeline.stop(number)
        for feed in self._feeds:
            if all(self._pipeline.is_stopped(i) for i, _ in feed.streams):
                feed.done = True

    def _rows_of(self, tables: Sequence[tuple[int, Stream, Table]]) -> Iterator[Rows]:
        """The rows of all tables, and the end of each."""
        for number, stream, table in tables:
            for tuples, rejects in table.slices(stream.layout):
                yield Rows(number, stream, tuples, rejects)
            yield Rows(number, stream, self._end(stream), [])

    def _end(self, stream: Stream) -> Slice:
        return Slice(stream.layout.empty(), [Punctuation.everything(stream.schema)], [0])

    def _said(self, number: int, stream: Stream, said: Plain) -> Slice:
        """What was said, if it is of this stream; else nothing."""
        empty = stream.layout.empty()
        return Slice(empty, [punctuation_of(stream, said[1])], [0]) if number == said[0] else Slice(empty)

    def _feed_of(self, number: int) -> Feed:
        """The feed that carries the stream of that number."""
        return next(f for f in self._feeds if number in [i for i, _ in f.streams])

    def _count(self, feed: Feed, parsed: Parsed) -> None:
        by_stream = zip(feed.streams, parsed.slices, parsed.rejects, parsed.overlooked, strict=True)
        for (_, stream), part, rejects, overlooked in by_stream:
            counts = self.stats.inputs[stream.declared]
            counts.take(part, len(rejects))
            if part.punctuations:
                self.stats.spoke[stream.declared] = time.time()
            self.notices += self.stats.overlook(stream.declared, overlooked)
            counts.bytes = sum(f.reader.bytes_read for f in self._feeds_of(stream.declared))
            self.rejects += rejects

    def _note_end(self, feed: Feed) -> None:
        """Look what was overlooked of the inputs that end with a feed."""
        for _, stream in feed.streams:
            if all(f.done for f in self._feeds_of(stream.declared)):
                self.notices += self.stats.end(stream.declared)

    def _feeds_of(self, declared: str) -> list[Feed]:
        """The feeds of a stream: one for each sender."""
        return [f for f in self._feeds if declared in (s.declared for _, s in f.streams)]


def _nothing(_: Parsed) -> list[Ahead]:
    """What few threads do of slices before their turn."""
    return []
