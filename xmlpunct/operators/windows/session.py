"""session: each tuple with the window from the first to the last tuple that follow each other closely."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.arrow import Flags, booleans
from xmlpunct.operators.arrangement import Arrangement, distinct
from xmlpunct.operators.hash_index import Rows
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.pending import Pending
from xmlpunct.operators.state import State
from xmlpunct.operators.windows.pairs import pairs
from xmlpunct.operators.windows.spans import Grown, Spans
from xmlpunct.operators.windows.starts import Starts
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.numbered import Ordinals, ordinals_of, values_of
from xmlpunct.punctuations.ownership import Ownership, Ways
from xmlpunct.punctuations.pattern import EMPTY, WILDCARD, Pattern, ordinals
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.set import PunctuationSet
from xmlpunct.schema import Attribute, Schema


class Session(Operator):
    """Sessions of each key ``by``: tuples that follow each other by less than ``gap`` instants (WINDOWS 11).

    A session begins with its first tuple and ends ``gap`` after its last one. It is closed once nothing can come that
    would join it: all of [first - gap + 1, last + gap - 1] is closed for the key. Then it is released, whole.

    - cpass(ts, ps)  = [t + <first, last + gap> | t in ts, its session is closed by ps]
    - cprop(ts, ps)  = [p | p in ps, setNomatch(ts', p)] ++ [<q, window_end = (, C + 1]>, <q, window_start = (, S]>]
    - ckeep(ts, ps)  = ts' = [t | t in ts, its session is not closed by ps]

    for each q whose prefix (, C] ps close, with S = C, or less than the first instant of ts' that q matches. `Spans`
    retains what is closed. The sessions of null are a key by themselves, which ``*`` alone closes. A session that ends
    beyond the type is rejected.

    >>> from xmlpunct.operators.notation import show
    >>> session = Session(Schema.parse("k STRING, ts INT NOT NULL"), "ts", 3, ["k"], "start", "end")
    >>> show(session, "a 1; a 3; b 5; a 9", "P(a, (,6])", "P(*, (,8])")
    a 1; a 3; b 5; a 9 ->
    P(a, (,6])         -> a 1 1 6; a 3 1 6; P(a, (,6], *, *); P(a, *, *, (,7]); P(a, *, (,6], *)
    P(*, (,8])         -> b 5 5 8; P(*, (,8], *, *); P(*, *, *, (,9]); P(*, *, (,8], *)
    """

    name = "session"

    def __init__(
        self,
        schema: Schema,
        timestamp: str,
        gap: int,
        by: Sequence[str],
        start: str | None,
        end: str | None,
    ) -> None:
        self._type = schema[timestamp].type
        bounds = [Attribute(name, self._type, False) for name in (start, end) if name is not None]
        super().__init__((schema,), Schema.of((*schema, *bounds)))
        self._timestamp, self._gap, self._by, self._names = timestamp, gap, list(by), (start, end)
        self._places: list[int | None] = [*range(len(schema)), *[None] * len(bounds)]
        self._start, self._end = (None if n is None else self.schema.index(n) for n in (start, end))
        known = {schema.index(name) for name in (*by, timestamp)}
        self._joint = JointCover(schema, [i for i in range(len(schema)) if i not in known])
        self._spans = Spans(schema, timestamp)
        self._waiting = Arrangement(schema.empty(), [*dict.fromkeys(by)])
        self._pending = Pending(schema)
        self._starts = Starts(schema, timestamp, by)
        self.state = State(
            waiting=self._waiting,
            joint=self._joint,
            spans=self._spans,
            pending=self._pending,
            starts=self._starts,
        )

    def spread(self, ways: Ways) -> None:
        super().spread(ways)
        for part in (self._joint, self._spans):
            part.spread(Ownership(self.inputs[0], ways, self.sifted))

    def opening(self) -> list[Punctuation]:
        """What the timestamp's domain leaves out."""
        return list(self._promised(self._spans.opening))

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        self._waiting.append(tuples)
        return self.schema.empty()

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        self._pending.add(batch)
        grown = self._spans.add(self._joint.add(batch))
        released = self._released(grown)
        free = self._pending.free([self._waiting]).rebase(self.schema, self._places)
        promised = list(self._promised(grown))
        return released, PunctuationBatch.union([free, promised]) if promised else free

    # Tuples

    def _released(self, grown: list[Grown]) -> pl.DataFrame:
        """The tuples of sessions that are closed now, with their windows."""
        schema, waiting = self.inputs[0], self._waiting
        rows = waiting.matching(PunctuationSet(schema, self._intervals(grown)))
        if not len(rows):
            return self.schema.empty()
        keys, of_key = pl.DataFrame(), np.zeros(0, np.int64)
        if self._by:
            keys = distinct(waiting.take(rows, self._by))
            of_key, rows = waiting.probe(keys, self._by)
        else:
            rows = waiting.matching(PunctuationSet(schema, [Punctuation.everything(schema)]))
            of_key = np.zeros(len(rows), np.int64)
        instants = ordinals_of(self._type, waiting.take(rows, [self._timestamp])[self._timestamp])
        of_session, sessions = _sessions(of_key, instants, self._gap)
        closed = self._are_closed(keys, sessions, grown)[of_session]
        if not closed.any():
            return self.schema.empty()
        order = np.argsort(rows[closed], kind="stable")
        of_session = of_session[closed][order]
        released = waiting.remove(rows[closed][order])
        self._pending.lose(released)
        return self._with_windows(released, sessions[1][of_session], sessions[2][of_session])

    def _intervals(self, grown: list[Grown]) -> list[Punctuation]:
        """What has grown, as punctuations."""
        place, found = self.inputs[0].index(self._timestamp), []
        for one in grown:
            for span in one.spans:
                patterns = list(one.q.patterns)
                patterns[place] = WILDCARD if span == self._spans.ends else ordinals(self._type, *span)
                found.append(Punctuation(self.inputs[0], patterns))
        return found

    def _are_closed(self, keys: pl.DataFrame, sessions: tuple[Ordinals, ...], grown: list[Grown]) -> Flags:
        """For each session whether a grown interval has all instants at which something could join it."""
        of_key, firsts, lasts = sessions
        lowest, highest = self._spans.ends
        reach = np.uint64(self._gap - 1)
        lows = np.where(_distance(lowest, firsts) < reach, lowest, firsts - reach.view(np.int64))
        highs = np.where(_distance(lasts, highest) < reach, highest, lasts + reach.view(np.int64))
        spans = [(one.q, *span) for one in grown for span in one.spans]
        of_span, session = pairs(self.inputs[0], [q for q, _, _ in spans], keys, of_key)
        froms, tos = (np.array([span[i] for span in spans], np.int64)[of_span] for i in (1, 2))
        closed = np.zeros(len(firsts), np.bool_)
        closed[session[(lows[session] >= froms) & (highs[session] <= tos)]] = True
        return closed

    def _with_windows(self, tuples: pl.DataFrame, firsts: Ordinals, lasts: Ordinals) -> pl.DataFrame:
        fits = _distance(lasts, self._spans.ends[1]) >= np.uint64(self._gap)
        if not fits.all():
            told = pl.when(~booleans(fits)).then(pl.lit(f"a window of {self._timestamp} is beyond its type"))
            tuples = self.reject_failures(tuples, tuples.select(told.alias("reason")).to_series())
            firsts, lasts = firsts[fits], lasts[fits]
        bounds = zip(self._names, (firsts, lasts + self._gap), strict=True)
        columns = [values_of(self._type, at, name) for name, at in bounds if name is not None]
        return tuples.hstack(columns) if columns else tuples

    # Punctuations

    def _promised(self, grown: list[Grown]) -> Iterator[Punctuation]:
        """What prefixes say of where sessions end and begin."""
        lowest, highest = self._spans.ends
        for one in grown:
            for first, last in one.spans:
                if first == lowest and last == highest:  # all its tuples are released
                    self._starts.forget(one.q)
                    yield self._saying(one.q, None, WILDCARD)
                elif first == lowest:
                    self._starts.reach(one.q, last)
                    if self._end is not None:
                        yield self._saying(one.q, self._end, ordinals(self._type, None, last + 1))
        for q, bound in self._starts.news(self._waiting):
            until = ordinals(self._type, None, bound)
            if self._start is not None and until is not EMPTY:
                yield self._saying(q, self._start, until)

    def _saying(self, q: Punctuation, place: int | None, pattern: Pattern) -> Punctuation:
        patterns = [WILDCARD if i is None else q.patterns[i] for i in self._places]
        if place is not None:
            patterns[place] = pattern
        return Punctuation(self.schema, patterns)


def _sessions(of_key: Rows, instants: Ordinals, gap: int) -> tuple[Rows, tuple[Ordinals, ...]]:
    """For each tuple the number of its session; and of the sessions the keys, the first and the last instants."""
    order = np.lexsort((instants, of_key))
    key, at = of_key[order], instants[order]
    apart = _distance(at[:-1], at[1:]) >= np.uint64(gap)
    begins = np.append(True, apart | (key[1:] != key[:-1]))
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(order)) - 1
    of_session = np.empty(len(order), np.int64)
    of_session[order] = np.cumsum(begins) - 1
    return of_session, (key[first], at[first], at[last])


def _distance(low: Ordinals | int, high: Ordinals | int) -> NDArray[np.uint64]:
    """How far two instants are apart, which may be more than an int64 has."""
    ends = (np.asarray(end, np.int64).view(np.uint64) for end in (high, low))
    distance: NDArray[np.uint64] = next(ends) - next(ends)
    return distance
