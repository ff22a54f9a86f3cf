"""window: a stream as the relation of its latest elements.

Windows that slide in steps make it long.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl

from xmlpunct.base.arrow_memory import Flags, booleans
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.relations.closed_prefixes import ClosedPrefix, ClosedPrefixes
from xmlpunct.operators.relations.instants import Instants, up
from xmlpunct.operators.state import State
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import AT, DIFF, changes
from xmlpunct.types.ordinals import Ordinals
from xmlpunct.types.pattern import EMPTY, WILDCARD


class Window(Operator):
    """Inserts e of each <e, t> at t, and deletes it when it is older than ``length`` (None: never).

    With a ``slide``, both happen at the next multiple of the slide, counted from ``origin``. Lengths are ordinals; NOW
    is of length 0.

    - R(τ) = {e : <e,t> in S, d - length <= t <= d}, with d = τ, or the last multiple of the slide that is not after τ
    - cpass(ts, ps)  = [<e, up(t), +1>, <e, up(t + length + 1), -1> | <e,t> in ts]
    - cprop(ts, ps)  = [<q, (,up(b + 1) - 1]> | ps close all <e,t> with e in q and t <= b]
    - ckeep(ts, ps)  = []

    `ClosedPrefixes` retains the closed instants. From the start, all instants before the first one are closed
    (relations 3.2, relations 4.1). There are no changes after T's end.

    >>> from xmlpunct.operators.notation import show
    >>> from xmlpunct.types import INT
    >>> packet = Schema.parse("src INT, ts INT NOT NULL")
    >>> show(Window(packet, "ts", Instants(INT), 5), "7 1; 8 2; P(*, [1,2])", "P(7, (,0])")
    7 1; 8 2; P(*, [1,2]) -> 7 1 1; 8 2 1; 7 7 -1; 8 8 -1
    P(7, (,0])            -> P(7, (,2], *)
    """

    name = "window"

    def __init__(
        self,
        schema: Schema,
        timestamp: str,
        instants: Instants,
        length: int | None,
        slide: int | None = None,
        origin: int = 0,
    ) -> None:
        attributes = [a for a in schema if a.name != timestamp]
        super().__init__((schema,), changes(Schema.of(attributes), instants.type))
        self.instants, self._timestamp, self._position = instants, timestamp, schema.index(timestamp)
        self._length, self._slide, self._origin = length, slide, origin
        sources: list[int | None] = [schema.index(a.name) for a in attributes]
        self._sources = [*sources, None, None]
        self._closed = ClosedPrefixes(schema, timestamp, instants)
        self.key_paths = self._closed.key_paths
        self.state = State(closed=self._closed)

    # Tuples

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        instants = self.instants.ordinals(tuples[self._timestamp])
        within = self.instants.within(instants)
        if not within.all():
            tuples, instants = self._reject_outside(tuples, within), instants[within]
        elements = tuples.drop(self._timestamp)
        inserted_at, is_inserted = self._next_moves(instants)
        if self._length is None:
            return self._changes(elements, inserted_at, is_inserted, 1)
        deleted_at, is_deleted = self.instants.shift(instants, self._length + 1)
        if self._slide is not None:
            deleted_at, in_time = self._next_moves(deleted_at)
            is_deleted &= in_time
            is_skipped = (
                is_inserted & is_deleted & (inserted_at == deleted_at)
            )  # in no window, between two multiples
            is_inserted, is_deleted = is_inserted & ~is_skipped, is_deleted & ~is_skipped
        inserts = self._changes(elements, inserted_at, is_inserted, 1)
        return pl.concat([inserts, self._changes(elements, deleted_at, is_deleted, -1)])

    def _next_moves(self, instants: Ordinals) -> tuple[Ordinals, Flags]:
        """The next instants at which the window moves, and whether these are in T."""
        if self._slide is None:
            return instants, np.ones(len(instants), np.bool_)
        return self.instants.up(instants, self._slide, self._origin)

    def _changes(self, elements: pl.DataFrame, at: Ordinals, marked: Flags, diff: int) -> pl.DataFrame:
        """The changes of the elements for which ``marked`` is True."""
        if not marked.all():
            elements, at = elements.filter(booleans(marked)), at[marked]
        diffs = pl.Series(DIFF, [diff], pl.Int64()).new_from_index(0, len(at))
        return elements.hstack([self.instants.column(AT, at), diffs])

    def _reject_outside(self, tuples: pl.DataFrame, within: Flags) -> pl.DataFrame:
        """Reject the tuples whose instants are outside of the range of elements."""
        problem = self.instants.outside_reason(self._timestamp, self.instants.first)
        reason = pl.when(~booleans(within)).then(pl.lit(problem))
        return self.reject_failures(tuples, tuples.select(reason.alias("reason")).to_series())

    # Punctuations

    def opening(self) -> list[Punctuation]:
        all_elements = Punctuation.everything(self.inputs[0])
        start = ClosedPrefix(all_elements, -1, self.instants.first - 1)
        return list(self._prefixes([start, *self._closed.opening], from_the_start=True))

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        if batch.position not in (None, self._position) and self._closed.is_simple:
            return self.schema.empty(), batch.rebase(self.schema, self._sources)
        return self.schema.empty(), PunctuationBatch(self._prefixes(self._closed.add(batch)))

    def _prefixes(self, grown: Iterable[ClosedPrefix], from_the_start: bool = False) -> Iterable[Punctuation]:
        """The new prefixes of the changes that grown prefixes of the stream imply."""
        for q, before, last in grown:
            bound = self._last_unchanged(last)
            if bound > self._last_unchanged(before) or from_the_start:
                at = self.instants.prefix(bound)
                if at is not EMPTY:
                    patterns = [WILDCARD if i is None else q.patterns[i] for i in self._sources]
                    patterns[-2] = at
                    yield Punctuation(self.schema, patterns)

    def _last_unchanged(self, bound: int) -> int:
        """The last instant without further changes, if there are no more elements up to ``bound``."""
        return bound if self._slide is None else up(bound + 1, self._slide, self._origin) - 1
