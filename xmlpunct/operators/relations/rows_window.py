"""rows: a stream as the relation of its last elements, so many of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from xmlpunct.base.arrow_memory import Flags, booleans
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.group.open_groups import ALL
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.relations.closing import Closing, is_outside
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.relations.partials import withdraw
from xmlpunct.operators.relations.slots import Numbers, begins, numbered, order_by
from xmlpunct.operators.state import State
from xmlpunct.punctuations.ownership import Ways
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import AT, DIFF, changes
from xmlpunct.types.pattern import EMPTY, WILDCARD

NUMBER, FIRST, BEHIND = "$number", "$first", "$behind"
"""The number of an element in its partition; the number of its instant's first one, and of the one behind the last."""


class RowsWindow(Operator):
    """The last ``count`` elements of each partition ``by``, in whole instants: all elements of an instant or none.

    - R(τ)           = {e | <e,t> in S, t <= τ, count >= #{<e',u> in S | e'.by = e.by, t <= u <= τ}}
    - cpass(ts, ps)  = [<e, t, +1>, <e', t, -1> | e comes at t, e' is in the window no longer, setMatch(<by, t>, ps)]
    - cprop(ts, ps)  = [<k, (,b]> | ps close all <e, t> with e.by in k and t <= b]
    - ckeep(ts, ps)  = the elements that are not closed, and for each partition the window

    A punctuation on other attributes says nothing of the window, since an old element may go later. Nulls are one
    partition. The closed elements of a partition are numbered as they come; an element goes once the number of the last
    one is so far ahead. See relations 4.2.

    >>> from xmlpunct.operators.notation import show
    >>> from xmlpunct.types import INT
    >>> packet = Schema.parse("src INT, len INT, ts INT NOT NULL")
    >>> show(RowsWindow(packet, "ts", Instants(INT), 1, ["src"]), "7 60 1; 7 40 3", "P(7, *, (,3])")
    7 60 1; 7 40 3 ->
    P(7, *, (,3])  -> 7 60 1 1; 7 40 3 1; 7 60 3 -1; P(7, *, (,3], *)
    """

    name = "rows"

    def __init__(
        self, schema: Schema, timestamp: str, instants: Instants, count: int, by: Sequence[str]
    ) -> None:
        kept = [a for a in schema if a.name != timestamp]
        super().__init__((schema,), changes(Schema.of(kept), instants.type))
        self.instants, self._timestamp, self._count = instants, timestamp, count
        self._by = list(by) or [ALL]
        self._closing = Closing(schema, by, timestamp, instants)
        empty = self._keyed(schema.empty())
        numbers = [pl.Series(name, [], pl.Int64()) for name in (NUMBER, FIRST, BEHIND)]
        self._later = Arrangement(empty, [*self._by, AT])
        self._window = Arrangement(empty.drop(AT).hstack(numbers), [*self._by, NUMBER])
        self._ends = Arrangement(empty[:, self._by].hstack(numbers[1:]), self._by)
        """For each partition with a window the number of its first element, and of the one behind its last."""
        self.state = State(later=self._later, window=self._window, ends=self._ends, **self._closing.parts)

    def spread(self, ways: Ways) -> None:
        super().spread(ways)
        self._closing.spread(ways, self.sifted)

    def opening(self) -> list[Punctuation]:
        before = self.instants.prefix(self.instants.first - 1)
        rest = [WILDCARD] * (len(self.schema) - 2)
        started = [] if before is EMPTY else [Punctuation(self.schema, [*rest, before, WILDCARD])]
        return [*started, *self._closing.opening(self.schema)]

    # Tuples

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        within = self.instants.within(self.instants.ordinals(tuples[self._timestamp]))
        if not within.all():
            told = is_outside(self._timestamp, self.instants, self.instants.first)
            reasons = tuples.select(pl.when(~booleans(within)).then(pl.lit(told)).alias("reason"))
            tuples = self.reject_failures(tuples, reasons.to_series())
        self._later.append(self._keyed(tuples))
        return self.schema.empty()

    def _keyed(self, tuples: pl.DataFrame) -> pl.DataFrame:
        """Elements with the instant as that of a change, and something to tell partitions by."""
        tuples = tuples.rename({self._timestamp: AT})
        return tuples if self._by != [ALL] else tuples.with_columns(pl.lit(0, pl.Int64()).alias(ALL))

    # Punctuations

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        closed = PunctuationSet(self.schema, self._closing.add(batch, self.schema))
        if not len(closed):
            return self.schema.empty(), PunctuationBatch()
        passed = self._moved(self._later.remove(self._later.matching(closed)))  # pass, keep
        over = PunctuationSet(self.schema, (p for p in closed if p.patterns[-2] is WILDCARD))
        for part in (self._window, self._ends) if len(over) else ():
            part.remove(part.matching(over))
        return passed, closed.all()  # prop

    def _moved(self, fresh: pl.DataFrame) -> pl.DataFrame:
        """How the windows change when some elements come."""
        if not fresh.height:
            return self.schema.empty()
        partition, _ = numbered(fresh.select(self._by))
        order = order_by(partition, self.instants.ordinals(fresh[AT]))
        fresh, partition = fresh[order], partition[order]
        starts = begins(partition)
        partition = np.cumsum(starts) - 1
        keys = fresh.select(self._by)[np.flatnonzero(starts)]
        places, known = withdraw(self._ends, keys)
        first, behind = np.zeros((2, keys.height), np.int64)
        first[places], behind[places] = known[FIRST].to_numpy(), known[BEHIND].to_numpy()
        shift = behind - np.flatnonzero(starts)  # an element's number is its place in fresh and this
        at = self.instants.ordinals(fresh[AT])
        cuts = np.append(np.flatnonzero(begins(partition, at)), len(at))
        instant = np.repeat(np.arange(len(cuts) - 1), np.diff(cuts))
        fresh = self._numbered(fresh, shift[partition], cuts[:-1][instant], cuts[1:][instant])

        ends = np.append(np.flatnonzero(starts)[1:], len(at)) + shift
        begin = self._begin(keys, fresh, first, behind, ends)
        gone, whose = self._take(keys, first, np.minimum(begin, behind))
        stays = fresh[NUMBER].to_numpy() >= begin[partition]
        left = pl.concat([gone, fresh.filter(booleans(~stays)).select(gone.columns)])
        self._window.append(fresh.filter(booleans(stays)).select(gone.columns))
        limits = _columns({FIRST: begin, BEHIND: ends})
        self._ends.append(keys.hstack(limits).filter(booleans(begin < ends)))

        # An element goes at the first instant that ends more than so many behind its own first one.
        firsts = left[FIRST].to_numpy() - shift[np.concatenate((whose, partition[~stays]))]
        leaves = np.searchsorted(cuts[1:], firsts + self._count, side="right")
        goes = np.append(np.full(gone.height, -1), instant[~stays]) != leaves
        comes = np.ones(len(at), np.bool_)
        comes[~stays] = goes[gone.height :]  # more than fit at one instant: they are never in the window
        coming = self._changes(fresh, at, comes, 1)
        return pl.concat([coming, self._changes(left, at[cuts[leaves]], goes, -1)])

    def _numbered(self, fresh: pl.DataFrame, shift: Numbers, first: Numbers, behind: Numbers) -> pl.DataFrame:
        """Elements with their numbers, and those of their instants."""
        numbers = {NUMBER: np.arange(fresh.height) + shift, FIRST: first + shift, BEHIND: behind + shift}
        return fresh.hstack(_columns(numbers))

    def _begin(
        self, keys: pl.DataFrame, fresh: pl.DataFrame, first: Numbers, behind: Numbers, ends: Numbers
    ) -> Numbers:
        """Where the windows begin that went from ``first`` to ``behind`` and now end at ``ends``: whole instants go."""
        starts = np.append(0, np.cumsum(ends - behind)[:-1])
        last = ends - self._count - 1  # the last element that has to go
        begin = first.copy()
        goes = last >= first
        is_fresh = goes & (last >= behind)
        begin[is_fresh] = fresh[BEHIND].to_numpy()[(last - behind + starts)[is_fresh]]
        old = np.flatnonzero(goes & (last < behind))
        places, rows = self._window.probe(keys[old].hstack(_columns({NUMBER: last[old]})))
        begin[old[places]] = self._window.take(rows, [BEHIND])[BEHIND].to_numpy()
        return begin

    def _take(self, keys: pl.DataFrame, first: Numbers, behind: Numbers) -> tuple[pl.DataFrame, Numbers]:
        """Let the elements of these numbers go; return them, each with the place of its partition."""
        counts = behind - first
        whose = np.repeat(np.arange(keys.height), counts)
        within = np.arange(len(whose)) - np.repeat(np.cumsum(counts) - counts, counts)
        asked = keys[whose].hstack(_columns({NUMBER: first[whose] + within}))
        places, gone = withdraw(self._window, asked)
        return gone, whose[places]

    def _changes(self, tuples: pl.DataFrame, at: Numbers, marked: Flags, diff: int) -> pl.DataFrame:
        """The changes of the marked elements."""
        found = tuples.drop(AT, strict=False).filter(booleans(marked))
        diffs = pl.Series(DIFF, [diff], pl.Int64()).new_from_index(0, found.height)
        return found.hstack([self.instants.column(AT, at[marked]), diffs]).select(self.schema.names)

    def waits(self) -> list[int]:
        return [len(self._later)]


def _columns(numbers: dict[str, Numbers]) -> list[pl.Series]:
    return [pl.Series(name, column, pl.Int64()) for name, column in numbers.items()]
