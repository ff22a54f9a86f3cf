"""hop: each tuple with each of its windows; and the windows that closed instants close.

It has two operators: the windows, and the punctuations on them.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from xmlpunct.base.arrow_memory import booleans
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.state import State
from xmlpunct.operators.time.windows.frame import HoppingWindows
from xmlpunct.punctuations.closed_attribute import ClosedAttribute, Growth
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.single_attribute import columnar, constraining_beyond
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types.ordinals import ordinals_of, values_of
from xmlpunct.types.pattern import EMPTY, WILDCARD, Pattern


class Hop(Operator):
    """Emits a tuple once for each window that contains its timestamp: TUMBLE and HOP (relations 11.1).

    - cpass(ts, ps)  = [t + <w, w + size> | t in ts, w = origin + j * slide, w <= t[timestamp] < w + size]
    - cprop(ts, ps)  = [p + <*, *> | p in ps]
    - ckeep(ts, ps)  = []

    `WindowPromises` emits punctuations on the windows. ``start`` and ``end`` are the names of the window's columns
    (None: no column). A tuple is rejected for each window that begins before the type's least value or ends after its
    greatest.

    >>> from xmlpunct.operators.notation import show
    >>> from xmlpunct.types import INT
    >>> hop = Hop(Schema.parse("ts INT NOT NULL"), "ts", HoppingWindows(INT, slide=5, size=10), "start", "end")
    >>> show(hop, "12; -3", "P((,20])")
    12; -3   -> 12 5 15; 12 10 20; -3 -10 0; -3 -5 5
    P((,20]) -> P((,20], *, *)
    """

    name = "hop"
    tuplewise = True

    def __init__(
        self, schema: Schema, timestamp: str, frame: HoppingWindows, start: str | None, end: str | None
    ) -> None:
        bounds = [Attribute(name, frame.type, False) for name in (start, end) if name is not None]
        super().__init__((schema,), Schema.of((*schema, *bounds)))
        self.frame, self._timestamp, self._names = frame, timestamp, (start, end)
        self._sources: list[int | None] = [*range(len(schema)), *[None] * len(bounds)]

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        instants = ordinals_of(self.frame.type, tuples[self._timestamp])
        positions, starts, ends, misfits = self.frame.windows(instants)
        if positions is not None:
            tuples = tuples[positions]
        if misfits is not None:
            reason = pl.when(booleans(misfits)).then(
                pl.lit(f"a window of {self._timestamp} exceeds the range of its type")
            )
            tuples = self.reject_failures(tuples, tuples.select(reason.alias("reason")).to_series())
            starts, ends = starts[~misfits], ends[~misfits]
        bounds = zip(self._names, (starts, ends), strict=True)
        columns = [
            values_of(self.frame.type, instants, name) for name, instants in bounds if name is not None
        ]
        return tuples.hstack(columns) if columns else tuples

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        return self.schema.empty(), batch.rebase(self.schema, self._sources)


class WindowPromises(Operator):
    """Emits tuples with their windows, and punctuations on the windows that closed timestamps imply (relations 11.1).

    - cpass(ts, ps)  = ts
    - cprop(ts, ps)  = ps ++ [<q, window_start = (w1 - slide, w2 + slide)>, <q, window_end = the same + size>]
    - ckeep(ts, ps)  = []

    for each q and each interval [a, b] of timestamps that ps close completely for q: w1 = up(a) is the first window
    that begins in it, w2 = down(b + 1 - size) the last window that ends in it. An interval that reaches an end of the
    type has no bound there. `ClosedAttribute` retains the closed intervals. Without ``keeps``, the timestamp's column
    and the patterns on it are dropped.

    >>> from xmlpunct.operators.notation import show
    >>> from xmlpunct.types import INT
    >>> s = Schema.parse("ts INT NOT NULL, start INT NOT NULL, end INT NOT NULL")
    >>> show(WindowPromises(s, "ts", HoppingWindows(INT, 5, 10), "start", "end"), "12 5 15; 12 10 20", "P((,20],*,*)")
    12 5 15; 12 10 20 -> 12 5 15; 12 10 20
    P((,20],*,*)      -> P((,20], *, *); P(*, (,14], *); P(*, *, (,24])
    """

    name = "window promises"
    tuplewise = True

    def __init__(
        self,
        schema: Schema,
        timestamp: str,
        frame: HoppingWindows,
        start: str | None,
        end: str | None,
        keeps: bool = True,
    ) -> None:
        self._sources = [i for i, a in enumerate(schema) if keeps or a.name != timestamp]
        super().__init__((schema,), Schema.of(schema.attributes[i] for i in self._sources))
        self.frame, self._position, self._keeps = frame, schema.index(timestamp), keeps
        self._bounds = [None if name is None else self.schema.index(name) for name in (start, end)]
        self._closed = ClosedAttribute(schema, timestamp, forgets_complete=True)
        self.key_paths = [(self._closed.joint, None), (self._closed, None)]
        self.state = State(closed=self._closed)

    def opening(self) -> list[Punctuation]:
        """Punctuations on windows outside of the timestamp's domain."""
        return list(self._window_punctuations(self._closed.opening))

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        return tuples if self._keeps else tuples.select(self.schema.names)

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        if self._keeps:
            propagated = batch
        elif batch.in_columns:
            propagated = constraining_beyond(batch, [self._position])
        else:
            propagated = batch.closing([i for i in range(len(self.inputs[0])) if i != self._position])
        propagated = propagated.rebase(self.schema, self._sources)
        relevant = batch
        if self._closed.is_simple:  # punctuations that leave the timestamp open imply no others on windows
            i = self._position
            if batch.in_columns:
                relevant = PunctuationBatch.of_parts([part for part in batch.parts if part.position == i])
            else:
                relevant = PunctuationBatch(
                    p for p in batch if p.is_everything or p.patterns[i] is not WILDCARD
                )
        implied = columnar([*self._window_punctuations(self._closed.add(relevant))])
        return self.schema.empty(), PunctuationBatch.union([propagated, implied])

    def _window_punctuations(self, grown: list[Growth]) -> Iterator[Punctuation]:
        """The punctuations on windows that grown intervals newly imply."""
        for growth in grown:
            old_spans = growth.old_values.overlapping(growth.values).spans
            emitted = {pattern for span in old_spans for pattern in self._patterns(span)}
            for span in growth.values.spans:
                for position, pattern in self._patterns(span):
                    if pattern is not EMPTY and (position, pattern) not in emitted:
                        patterns = [growth.outline.patterns[i] for i in self._sources]
                        if position is not None:
                            patterns[position] = pattern
                        yield Punctuation(self.schema, patterns)

    def _patterns(self, span: tuple[int, int]) -> Iterator[tuple[int | None, Pattern]]:
        """The output columns that a closed interval closes, with the patterns; no column if it closes everything."""
        for position, pattern in zip(self._bounds, self.frame.closed(span), strict=True):
            if pattern is WILDCARD:
                yield None, pattern
            elif position is not None:
                yield position, pattern
