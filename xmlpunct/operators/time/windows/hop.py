"""hop: each tuple with each of its windows; and what closed instants say of windows."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from xmlpunct.base.arrow_memory import booleans
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.state import State
from xmlpunct.operators.time.windows.frame import Frame
from xmlpunct.operators.time.windows.spans import Grown, Spans
from xmlpunct.punctuations.ownership import Ownership, Ways
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types.ordinals import ordinals_of, values_of
from xmlpunct.types.pattern import EMPTY, WILDCARD, Pattern


class Hop(Operator):
    """Passes a tuple on once for each window that its timestamp is in: TUMBLE and HOP (relations 11.1).

    - cpass(ts, ps)  = [t + <w, w + size> | t in ts, w = origin + j * slide, w <= t[timestamp] < w + size]
    - cprop(ts, ps)  = [p + <*, *> | p in ps]
    - ckeep(ts, ps)  = []

    What punctuations say of the windows, `WindowPromises` tells. ``start`` and ``end`` are the names of the window's
    columns (None: it is left out). A tuple is rejected for each window that begins before the type's least value or
    ends behind its greatest.

    >>> from xmlpunct.operators.notation import show
    >>> from xmlpunct.types import INT
    >>> hop = Hop(Schema.parse("ts INT NOT NULL"), "ts", Frame(INT, slide=5, size=10), "start", "end")
    >>> show(hop, "12; -3", "P((,20])")
    12; -3   -> 12 5 15; 12 10 20; -3 -10 0; -3 -5 5
    P((,20]) -> P((,20], *, *)
    """

    name = "hop"
    tuplewise = True

    def __init__(
        self, schema: Schema, timestamp: str, frame: Frame, start: str | None, end: str | None
    ) -> None:
        bounds = [Attribute(name, frame.type, False) for name in (start, end) if name is not None]
        super().__init__((schema,), Schema.of((*schema, *bounds)))
        self.frame, self._timestamp, self._names = frame, timestamp, (start, end)
        self._places: list[int | None] = [*range(len(schema)), *[None] * len(bounds)]

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        instants = ordinals_of(self.frame.type, tuples[self._timestamp])
        places, starts, ends, misfits = self.frame.windows(instants)
        if places is not None:
            tuples = tuples[places]
        if misfits is not None:
            told = pl.when(booleans(misfits)).then(
                pl.lit(f"a window of {self._timestamp} is beyond its type")
            )
            tuples = self.reject_failures(tuples, tuples.select(told.alias("reason")).to_series())
            starts, ends = starts[~misfits], ends[~misfits]
        bounds = zip(self._names, (starts, ends), strict=True)
        columns = [values_of(self.frame.type, at, name) for name, at in bounds if name is not None]
        return tuples.hstack(columns) if columns else tuples

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        return self.schema.empty(), batch.rebase(self.schema, self._places)


class WindowPromises(Operator):
    """Passes tuples with their windows on, and tells what closed timestamps say of the windows (relations 11.1).

    - cpass(ts, ps)  = ts
    - cprop(ts, ps)  = ps ++ [<q, window_start = (w1 - slide, w2 + slide)>, <q, window_end = the same + size>]
    - ckeep(ts, ps)  = []

    for each q and each interval [a, b] of timestamps that ps close for q, as a whole: w1 = up(a) is the first window
    that begins in it, w2 = down(b + 1 - size) the last that ends in it. An interval that reaches an end of the type has
    no such bound there. `Spans` retains what ps have closed. Without ``keeps`` the timestamp's column is dropped, and
    what is said of it.

    >>> from xmlpunct.operators.notation import show
    >>> from xmlpunct.types import INT
    >>> s = Schema.parse("ts INT NOT NULL, start INT NOT NULL, end INT NOT NULL")
    >>> show(WindowPromises(s, "ts", Frame(INT, 5, 10), "start", "end"), "12 5 15; 12 10 20", "P((,20],*,*)")
    12 5 15; 12 10 20 -> 12 5 15; 12 10 20
    P((,20],*,*)      -> P((,20], *, *); P(*, (,14], *); P(*, *, (,24])
    """

    name = "window promises"
    tuplewise = True

    def __init__(
        self,
        schema: Schema,
        timestamp: str,
        frame: Frame,
        start: str | None,
        end: str | None,
        keeps: bool = True,
    ) -> None:
        self._kept = [i for i, a in enumerate(schema) if keeps or a.name != timestamp]
        super().__init__((schema,), Schema.of(schema.attributes[i] for i in self._kept))
        self.frame, self._place, self._keeps = frame, schema.index(timestamp), keeps
        self._bounds = [None if name is None else self.schema.index(name) for name in (start, end)]
        self._spans = Spans(schema, timestamp)
        self.state = State(spans=self._spans)

    def spread(self, ways: Ways) -> None:
        super().spread(ways)
        self._spans.spread(Ownership(self.inputs[0], ways, self.sifted))

    def opening(self) -> list[Punctuation]:
        """What the timestamp's domain leaves out."""
        return list(self._promised(self._spans.opening))

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        return tuples if self._keeps else tuples.select(self.schema.names)

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        if self._keeps:
            passed = batch
        elif batch.place == self._place:
            passed = PunctuationBatch()
        else:
            passed = batch.closing([i for i in range(len(self.inputs[0])) if i != self._place])
        passed = passed.rebase(self.schema, self._kept)
        news = batch
        if self._spans.is_simple:  # what leaves the timestamp open says nothing of windows beyond itself
            if batch.place not in (None, self._place):
                return self.schema.empty(), passed
            if batch.place is None:
                at = self._place
                news = PunctuationBatch(p for p in batch if p.is_everything or p.patterns[at] is not WILDCARD)
        promised = list(self._promised(self._spans.add(news)))
        return self.schema.empty(), PunctuationBatch.union([passed, promised]) if promised else passed

    def _promised(self, grown: list[Grown]) -> Iterator[Punctuation]:
        """What grown intervals newly say of the windows."""
        for one in grown:
            known = {pattern for span in one.known() for pattern in self._patterns(span)}
            for span in one.spans:
                for place, pattern in self._patterns(span):
                    if pattern is not EMPTY and (place, pattern) not in known:
                        patterns = [one.q.patterns[i] for i in self._kept]
                        if place is not None:
                            patterns[place] = pattern
                        yield Punctuation(self.schema, patterns)

    def _patterns(self, span: tuple[int, int]) -> Iterator[tuple[int | None, Pattern]]:
        """What an interval closes of the columns that are here; of none, if it closes all."""
        for place, pattern in zip(self._bounds, self.frame.closed(span), strict=True):
            if pattern is WILDCARD:
                yield None, pattern
            elif place is not None:
                yield place, pattern
