"""session: each tuple with the window of its session, a run of tuples without a longer gap.

Punctuations on the starts and ends of windows make it long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from xmlpunct.base.arrow_memory import booleans
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.pending import Pending
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.relations.pending_prefixes import PendingPrefixes
from xmlpunct.operators.state import State
from xmlpunct.operators.time.windows.open_sessions import OpenSessions, distance
from xmlpunct.punctuations.closed_attribute import ClosedAttribute, Growth
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.schema.change_columns import changes
from xmlpunct.types.ordinals import Ordinals, values_of
from xmlpunct.types.pattern import EMPTY, WILDCARD, Pattern, ordinals


class Session(Operator):
    """Sessions of each value of ``keys``: tuples that follow each other by less than ``gap`` instants (relations 11.2).

    A session begins with its first tuple and ends ``gap`` after its last one. It is closed once no later tuple can join
    it: all of [first - gap + 1, last + gap - 1] is closed for the key. Then all its tuples are released.

    - cpass(ts, ps)  = [t + <first, last + gap> | t in ts, its session is closed by ps]
    - cprop(ts, ps)  = [p | p in ps, setNomatch(ts', p)] ++ [<q, window_end = (, C + 1]>, <q, window_start = (, S]>]
    - ckeep(ts, ps)  = ts' = [t | t in ts, its session is not closed by ps]

    for each q whose prefix (, C] ps close, with S = C, or less than the first instant of ts' that q matches.
    `ClosedAttribute` retains the closed intervals. Null is a key like any value, but only ``*`` closes it. A session
    that ends outside the range of the type is rejected.

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
        keys: Sequence[str],
        start: str | None,
        end: str | None,
    ) -> None:
        self._type = schema[timestamp].type
        bounds = [Attribute(name, self._type, False) for name in (start, end) if name is not None]
        super().__init__((schema,), Schema.of((*schema, *bounds)))
        self._timestamp, self._gap, self._names = timestamp, gap, (start, end)
        self._sources: list[int | None] = [*range(len(schema)), *[None] * len(bounds)]
        self._start, self._end = (None if n is None else self.schema.index(n) for n in (start, end))
        constrained = {schema.index(name) for name in (*keys, timestamp)}
        self._joint = JointCover(schema, [i for i in range(len(schema)) if i not in constrained])
        self._reach = self._type.ordinal(self._type.lowest), self._type.ordinal(self._type.highest)
        self._closed = ClosedAttribute(schema, timestamp, forgets_complete=True)
        self._sessions = OpenSessions(schema, timestamp, gap, keys)
        self._pending = Pending(schema)
        self._instants = Instants(self._type, least=self._reach[0])
        key_schema = changes(Schema.of(schema[name] for name in dict.fromkeys(keys)), self._type)
        self._keys = [key_schema.index(n) if n in key_schema else None for n in schema.names]
        self._starts = PendingPrefixes(key_schema, self._instants)
        """For each key the instants at which no session can begin any more; retained sessions block them."""
        self.key_paths = [
            (part, None) for part in (self._joint, self._closed.joint, self._closed, self._starts)
        ]
        self.state = State(
            waiting=self._sessions.tuples,
            sessions=self._sessions,
            joint=self._joint,
            closed=self._closed,
            pending=self._pending,
            starts=self._starts,
        )

    def opening(self) -> list[Punctuation]:
        """Punctuations on windows outside of the timestamp's domain."""
        return list(self._window_punctuations(self._closed.opening))

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        self._sessions.add(tuples)
        return self.schema.empty()

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        self._pending.add(batch)
        grown = self._closed.add(self._joint.add(batch))
        closed = self._sessions.close(grown)
        self._pending.lose(closed.tuples)
        self._starts.lose(closed.sessions)
        free = self._pending.free([self._sessions.tuples]).rebase(self.schema, self._sources)
        punctuations = list(self._window_punctuations(grown))
        released = self._with_windows(closed.tuples, closed.firsts, closed.lasts)
        return released, PunctuationBatch.union([free, punctuations]) if punctuations else free

    # Tuples

    def _with_windows(self, tuples: pl.DataFrame, firsts: Ordinals, lasts: Ordinals) -> pl.DataFrame:
        fits = distance(lasts, self._reach[1]) >= np.uint64(self._gap)
        if not fits.all():
            reason = pl.when(~booleans(fits)).then(
                pl.lit(f"a window of {self._timestamp} exceeds the range of its type")
            )
            tuples = self.reject_failures(tuples, tuples.select(reason.alias("reason")).to_series())
            firsts, lasts = firsts[fits], lasts[fits]
        bounds = zip(self._names, (firsts, lasts + self._gap), strict=True)
        columns = [values_of(self._type, instants, name) for name, instants in bounds if name is not None]
        return tuples.hstack(columns) if columns else tuples

    # Punctuations

    def _window_punctuations(self, grown: list[Growth]) -> Iterator[Punctuation]:
        """The punctuations on window_end and window_start that closed prefixes imply."""
        lowest, highest = self._reach
        reached = []
        for growth in grown:
            for first, last in growth.values.spans:
                if first != lowest:
                    continue
                reached.append(self._prefix(growth.outline, last))
                if last == highest:  # all its tuples are released
                    yield self._punctuation(growth.outline, None, WILDCARD)
                elif self._end is not None:
                    yield self._punctuation(growth.outline, self._end, ordinals(self._type, None, last + 1))
        if self._start is not None:
            self._starts.add(reached)
            for p in self._starts.free(self._sessions.least):
                if p.patterns[-2] is not WILDCARD and p.patterns[-2] is not EMPTY:
                    yield self._punctuation(p.rebase(self.inputs[0], self._keys), self._start, p.patterns[-2])

    def _prefix(self, q: Punctuation, last: int) -> Punctuation:
        """The punctuation, in the schema of `PendingPrefixes`, that q is closed up to an instant."""
        schema = self._starts.schema
        patterns = [q.patterns[self.inputs[0].index(name)] for name in schema.names[:-2]]
        return Punctuation(schema, [*patterns, self._instants.prefix(last), WILDCARD])

    def _punctuation(self, q: Punctuation, position: int | None, pattern: Pattern) -> Punctuation:
        patterns = [WILDCARD if i is None else q.patterns[i] for i in self._sources]
        if position is not None:
            patterns[position] = pattern
        return Punctuation(self.schema, patterns)
