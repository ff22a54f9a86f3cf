"""rows: a stream as the relation of its last ``count`` elements.

Partitions, and elements of the same instant, make it long.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from xmlpunct.base.arrow_memory import Flags, booleans
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.group.open_groups import ALL
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.relations.closed_prefixes import ClosedPrefixes
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.relations.partials import withdraw
from xmlpunct.operators.relations.slots import Numbers, begins, group_numbers, order_by
from xmlpunct.operators.state import State
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import AT, DIFF, changes
from xmlpunct.types.pattern import EMPTY, WILDCARD

NUMBER, FIRST, BEHIND = "$number", "$first", "$behind"
"""An element's number in its partition; the numbers of its instant's elements, from `FIRST` to `BEHIND` (exclusive)."""


class RowsWindow(Operator):
    """The last ``count`` elements of each value of ``keys``, in whole instants: all elements of an instant or none.

    - R(τ)           = {e | <e,t> in S, t <= τ, count >= #{<e',u> in S | e'.keys = e.keys, t <= u <= τ}}
    - cpass(ts, ps)  = [<e, t, +1>, <e', t, -1> | e arrives at t, e' leaves the window, setMatch(<keys, t>, ps)]
    - cprop(ts, ps)  = [<k, (,b]> | ps close all <e, t> with e.keys in k and t <= b]
    - ckeep(ts, ps)  = the elements that are not closed, and for each partition the window

    A punctuation on other attributes does not close the window, because an old element may leave later. Nulls are one
    partition. The closed elements of a partition are numbered in order. An element leaves once the last number is at
    least ``count`` higher than the first number of the element's instant. See relations 4.2.

    >>> from xmlpunct.operators.notation import show
    >>> from xmlpunct.types import INT
    >>> packet = Schema.parse("src INT, len INT, ts INT NOT NULL")
    >>> show(RowsWindow(packet, "ts", Instants(INT), 1, ["src"]), "7 60 1; 7 40 3", "P(7, *, (,3])")
    7 60 1; 7 40 3 ->
    P(7, *, (,3])  -> 7 60 1 1; 7 40 3 1; 7 60 3 -1; P(7, *, (,3], *)
    """

    name = "rows"

    def __init__(
        self, schema: Schema, timestamp: str, instants: Instants, count: int, keys: Sequence[str]
    ) -> None:
        attributes = [a for a in schema if a.name != timestamp]
        super().__init__((schema,), changes(Schema.of(attributes), instants.type))
        self.instants, self._timestamp, self._count = instants, timestamp, count
        self._keys = list(keys) or [ALL]
        self._closed = ClosedPrefixes(schema, timestamp, instants, keys)
        empty = self._with_keys(schema.empty())
        numbers = [pl.Series(name, [], pl.Int64()) for name in (NUMBER, FIRST, BEHIND)]
        self._open_elements = Arrangement(empty, [*self._keys, AT])
        self._window = Arrangement(empty.drop(AT).hstack(numbers), [*self._keys, NUMBER])
        self._ends = Arrangement(empty[:, self._keys].hstack(numbers[1:]), self._keys)
        """For each partition with a window, the numbers of its elements, from `FIRST` to `BEHIND` (exclusive)."""
        self.key_paths = self._closed.key_paths
        self.state = State(
            open_elements=self._open_elements, window=self._window, ends=self._ends, closed=self._closed
        )

    def opening(self) -> list[Punctuation]:
        before = self.instants.prefix(self.instants.first - 1)
        wildcards = [WILDCARD] * (len(self.schema) - 2)
        started = [] if before is EMPTY else [Punctuation(self.schema, [*wildcards, before, WILDCARD])]
        return [*started, *self._closed.punctuations(self._closed.opening, self.schema)]

    # Tuples

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        within = self.instants.within(self.instants.ordinals(tuples[self._timestamp]))
        if not within.all():
            problem = self.instants.outside_reason(self._timestamp, self.instants.first)
            reasons = tuples.select(pl.when(~booleans(within)).then(pl.lit(problem)).alias("reason"))
            tuples = self.reject_failures(tuples, reasons.to_series())
        self._open_elements.append(self._with_keys(tuples))
        return self.schema.empty()

    def _with_keys(self, tuples: pl.DataFrame) -> pl.DataFrame:
        """Elements with the timestamp as the instant of a change, and at least one key column for partitions."""
        tuples = tuples.rename({self._timestamp: AT})
        return tuples if self._keys != [ALL] else tuples.with_columns(pl.lit(0, pl.Int64()).alias(ALL))

    # Punctuations

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        prefixes = self._closed.punctuations(self._closed.add(batch), self.schema)
        closed = PunctuationSet(self.schema, prefixes)
        if not len(closed):
            return self.schema.empty(), PunctuationBatch()
        elements = self._open_elements.remove(self._open_elements.matching(closed))
        results = self._advance(elements)  # pass, keep
        over = PunctuationSet(self.schema, (p for p in closed if p.patterns[-2] is WILDCARD))
        for part in (self._window, self._ends) if len(over) else ():
            part.remove(part.matching(over))
        return results, closed.all()  # prop

    def _advance(self, elements: pl.DataFrame) -> pl.DataFrame:
        """Add closed elements to the windows; return the changes of the windows."""
        if not elements.height:
            return self.schema.empty()
        partition, _ = group_numbers(elements.select(self._keys))
        order = order_by(partition, self.instants.ordinals(elements[AT]))
        elements, partition = elements[order], partition[order]
        starts = begins(partition)
        partition = np.cumsum(starts) - 1
        keys = elements.select(self._keys)[np.flatnonzero(starts)]
        positions, old_ends = withdraw(self._ends, keys)
        first, stop = np.zeros((2, keys.height), np.int64)
        first[positions], stop[positions] = old_ends[FIRST].to_numpy(), old_ends[BEHIND].to_numpy()
        shift = stop - np.flatnonzero(starts)  # an element's number is its position in ``elements`` plus this
        at = self.instants.ordinals(elements[AT])
        cuts = np.append(np.flatnonzero(begins(partition, at)), len(at))
        instant = np.repeat(np.arange(len(cuts) - 1), np.diff(cuts))
        elements = self._with_numbers(elements, shift[partition], cuts[:-1][instant], cuts[1:][instant])

        ends = np.append(np.flatnonzero(starts)[1:], len(at)) + shift
        begin = self._begin(keys, elements, first, stop, ends)
        old, old_partition = self._take(keys, first, np.minimum(begin, stop))
        stays = elements[NUMBER].to_numpy() >= begin[partition]
        leaving = pl.concat([old, elements.filter(booleans(~stays)).select(old.columns)])
        self._window.append(elements.filter(booleans(stays)).select(old.columns))
        limits = _columns({FIRST: begin, BEHIND: ends})
        self._ends.append(keys.hstack(limits).filter(booleans(begin < ends)))

        # An element leaves at the first instant whose last element is ``count`` or more after its own instant's first.
        firsts = leaving[FIRST].to_numpy() - shift[np.concatenate((old_partition, partition[~stays]))]
        leave_instant = np.searchsorted(cuts[1:], firsts + self._count, side="right")
        is_deleted = np.append(np.full(old.height, -1), instant[~stays]) != leave_instant
        is_inserted = np.ones(len(at), np.bool_)
        is_inserted[~stays] = is_deleted[
            old.height :
        ]  # more than ``count`` at one instant: never in the window
        inserts = self._changes(elements, at, is_inserted, 1)
        return pl.concat([inserts, self._changes(leaving, at[cuts[leave_instant]], is_deleted, -1)])

    def _with_numbers(
        self, elements: pl.DataFrame, shift: Numbers, first: Numbers, stop: Numbers
    ) -> pl.DataFrame:
        """Elements with their numbers, and the numbers of their instants' elements."""
        numbers = {NUMBER: np.arange(elements.height) + shift, FIRST: first + shift, BEHIND: stop + shift}
        return elements.hstack(_columns(numbers))

    def _begin(
        self, keys: pl.DataFrame, elements: pl.DataFrame, first: Numbers, stop: Numbers, ends: Numbers
    ) -> Numbers:
        """The first element of windows that had the numbers ``first`` to ``stop`` and now end at ``ends``.

        Only whole instants leave. Shape (partitions,).
        """
        starts = np.append(0, np.cumsum(ends - stop)[:-1])
        last = ends - self._count - 1  # the last element that has to leave
        begin = first.copy()
        has_leaving = last >= first
        is_new = has_leaving & (last >= stop)
        begin[is_new] = elements[BEHIND].to_numpy()[(last - stop + starts)[is_new]]
        old = np.flatnonzero(has_leaving & (last < stop))
        positions, rows = self._window.probe(keys[old].hstack(_columns({NUMBER: last[old]})))
        begin[old[positions]] = self._window.take(rows, [BEHIND])[BEHIND].to_numpy()
        return begin

    def _take(self, keys: pl.DataFrame, first: Numbers, stop: Numbers) -> tuple[pl.DataFrame, Numbers]:
        """Remove the elements numbered ``first`` to ``stop``; return them, each with the position of its partition."""
        counts = stop - first
        partition = np.repeat(np.arange(keys.height), counts)
        within = np.arange(len(partition)) - np.repeat(np.cumsum(counts) - counts, counts)
        numbers = keys[partition].hstack(_columns({NUMBER: first[partition] + within}))
        positions, elements = withdraw(self._window, numbers)
        return elements, partition[positions]

    def _changes(self, tuples: pl.DataFrame, at: Numbers, marked: Flags, diff: int) -> pl.DataFrame:
        """The changes of the elements for which ``marked`` is True."""
        elements = tuples.drop(AT, strict=False).filter(booleans(marked))
        diffs = pl.Series(DIFF, [diff], pl.Int64()).new_from_index(0, elements.height)
        return elements.hstack([self.instants.column(AT, at[marked]), diffs]).select(self.schema.names)

    def waits(self) -> list[int]:
        return [len(self._open_elements)]


def _columns(numbers: dict[str, Numbers]) -> list[pl.Series]:
    return [pl.Series(name, column, pl.Int64()) for name, column in numbers.items()]
