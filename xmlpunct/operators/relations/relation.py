"""relation: a stream of tuples, or of inserts and deletes, as a relation.

Deletes, which can be invalid, make it long.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from xmlpunct.base.arrow_memory import booleans
from xmlpunct.operators.group.open_groups import ALL
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.relations.closed_prefixes import ClosedPrefixes
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.relations.partials import Partials, withdraw
from xmlpunct.operators.relations.slots import begins, group_numbers, order_by
from xmlpunct.operators.state import State
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import AT, DIFF, changes
from xmlpunct.types import STRING
from xmlpunct.types.pattern import EMPTY, WILDCARD

MOST_COPIES = 2**40
"""The most copies of a tuple in one change, so that no count overflows."""
MOST_REJECTS = 1000
"""The most deletes of one tuple at one instant that are rejected one by one."""


class Relation(Operator):
    """Emits the changes of a relation: constant, or given by inserts and deletes.

    Without a ``timestamp`` each tuple is in the relation from LO on, and its insertion is emitted at once:

    - cpass(ts, ps)  = [<e, LO, +1> | e in ts]
    - cprop(ts, ps)  = [<q, *> | q in ps]
    - ckeep(ts, ps)  = []

    Otherwise the attribute ``change`` has the number of copies that are inserted (n > 0, 'insert') or deleted (n < 0,
    'delete') at an instant. Changes are applied once a tuple is closed up to their instant: instants in order, inserts
    before deletes. A delete of a tuple that is not in the relation is rejected.

    - cpass(ts, ps)  = [<e, t, n> | n the net change of e at t, n != 0, setMatch(<e, t>, ps)]
    - cprop(ts, ps)  = [<q, (,b]> | ps close all <e, t> with e in q and t <= b]
    - ckeep(ts, ps)  = the counts of each tuple at its last closed instant, and its later changes

    See relations 4.3. Nulls are equal, and so are NaNs.

    >>> from xmlpunct.operators.notation import show
    >>> from xmlpunct.types import INT
    >>> names = Schema.parse("ip INT, at INT NOT NULL, diff INT")
    >>> relation = Relation(names, Instants(INT), "at", "diff")
    >>> show(relation, "7 1 2; 7 4 -1; 8 1 1", "P(*, (,3], *)", "P(7, *, *)")
    7 1 2; 7 4 -1; 8 1 1 ->
    P(*, (,3], *)        -> 7 1 2; 8 1 1; P(*, (,3], *)
    P(7, *, *)           -> 7 4 -1; P(7, *, *)
    """

    name = "relation"

    def __init__(
        self, schema: Schema, instants: Instants, timestamp: str | None = None, change: str | None = None
    ) -> None:
        attributes = [a for a in schema if a.name not in (timestamp, change)]
        super().__init__((schema,), changes(Schema.of(attributes), instants.type))
        self.instants, self._timestamp, self._change = instants, timestamp, change
        if timestamp is None:
            self._sources: list[int | None] = [*range(len(schema)), None, None]
            return
        self._names = [a.name for a in attributes] or [ALL]
        # A relation may have the instant LO, which no element of a stream has.
        from_lo = Instants(instants.type, instants.lo, instants.greatest)
        self._closed = ClosedPrefixes(schema, timestamp, from_lo, [a.name for a in attributes])
        empty = (
            self.schema.empty()
            if attributes
            else self.schema.empty().with_columns(pl.lit(0, pl.Int64()).alias(ALL))
        )
        self._open_changes = Partials(empty, [*self._names, AT])
        self._current = Partials(empty.drop(AT), self._names)
        self.key_paths = self._closed.key_paths
        self.state = State(open_changes=self._open_changes, now=self._current, closed=self._closed)

    def opening(self) -> list[Punctuation]:
        before = self.instants.prefix(self.instants.lo - 1)
        wildcards = [WILDCARD] * (len(self.schema) - 2)
        started = [] if before is EMPTY else [Punctuation(self.schema, [*wildcards, before, WILDCARD])]
        if self._timestamp is None:
            return started
        return [*started, *self._closed.punctuations(self._closed.opening, self.schema)]

    # Tuples

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        if self._timestamp is None:
            at = self.instants.column(AT, np.array([self.instants.lo])).new_from_index(0, tuples.height)
            return tuples.hstack([at, pl.Series(DIFF, [1], pl.Int64()).new_from_index(0, tuples.height)])
        tuples = self.reject_failures(tuples, tuples.select(self._problem()).to_series())
        diff = self._diff().alias(DIFF)
        keys = (
            [pl.col(name) for name in self._names]
            if self._names != [ALL]
            else [pl.lit(0, pl.Int64()).alias(ALL)]
        )
        self._open_changes.add(tuples.select(*keys, pl.col(self._timestamp).alias(AT), diff))
        return self.schema.empty()

    def _problem(self) -> pl.Expr:
        """The reason why a tuple is not a valid change, or null."""
        at, type_ = pl.col(str(self._timestamp)), self.instants.type
        first, last = (type_.at(i) for i in (self.instants.lo, self.instants.last))
        problem = self.instants.outside_reason(str(self._timestamp), self.instants.lo)
        outside = ~at.is_between(pl.lit(first, dtype=type_.dtype), pl.lit(last, dtype=type_.dtype))
        reason = pl.when(outside).then(pl.lit(problem))
        if self._change is None:
            return reason.otherwise(None).alias("reason")
        change = pl.col(self._change)
        if self.inputs[0][self._change].type is STRING:
            is_change, words = change.is_in(["insert", "delete"]), "'insert' or 'delete'"
        else:
            is_change = (change != 0) & change.is_between(-MOST_COPIES, MOST_COPIES)
            words = f"a number of copies from 1 to {MOST_COPIES}, negative for deletions"
        problem = f"{self._change} is not {words}"
        return reason.when(~is_change.fill_null(False)).then(pl.lit(problem)).otherwise(None).alias("reason")

    def _diff(self) -> pl.Expr:
        """The number of copies inserted (positive) or deleted (negative)."""
        if self._change is None:
            return pl.lit(1, pl.Int64())
        change = pl.col(self._change)
        if self.inputs[0][self._change].type is STRING:
            return pl.when(change == "insert").then(1).otherwise(-1).cast(pl.Int64())
        return change

    # Punctuations

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        if self._timestamp is None:
            return self.schema.empty(), batch.rebase(self.schema, self._sources)
        prefixes = self._closed.punctuations(self._closed.add(batch), self.schema)
        closed = PunctuationSet(self.schema, prefixes)
        # pass, keep
        results = self._apply(self._open_changes.close(closed)) if len(closed) else self.schema.empty()
        self._current.close(PunctuationSet(self.schema, (p for p in closed if p.patterns[-2] is WILDCARD)))
        return results, closed.all()  # prop

    def _apply(self, closed: pl.DataFrame) -> pl.DataFrame:
        """Apply closed changes, by tuple and instant; return the valid changes and reject excess deletes."""
        number, first = group_numbers(closed.select(self._names))
        order = order_by(number, self.instants.ordinals(closed[AT]))
        closed, number = closed[order], number[order]
        tuples = closed.select(self._names)[np.flatnonzero(begins(number))]
        positions, old = withdraw(self._current, tuples)
        before = np.zeros(len(first), np.int64)
        before[positions] = old[DIFF].to_numpy()
        diffs = closed[DIFF].to_numpy()
        begin = begins(number)
        is_last = np.append(begin[1:], True)[: len(begin)]
        starts = np.cumsum(begin) - 1
        sums = np.cumsum(diffs)
        sums += (before - (sums - diffs)[begin])[starts]
        # A count that would fall below 0 stays at 0: the excess deletes have no effect.
        least = pl.DataFrame({"of": starts, "sum": sums}).select(pl.col("sum").cum_min().over("of"))
        missing = np.maximum(-least["sum"].to_numpy(), 0)
        counts = sums + missing
        excess = missing - np.where(begin, 0, np.append(0, missing)[:-1])
        net = diffs + excess
        self._reject(closed, excess)
        self._current.keep(tuples.hstack([pl.Series(DIFF, counts[is_last], pl.Int64())]))
        changed = closed.with_columns(pl.Series(DIFF, net, pl.Int64())).filter(booleans(net != 0))
        return changed.select(self.schema.names)

    def _reject(self, changes: pl.DataFrame, excess: Sequence[int]) -> None:
        """Reject the deletes without a copy to delete: ``excess`` copies for each change."""
        rows = np.flatnonzero(excess)
        type_ = self.instants.type
        for row, copies in zip(
            changes[rows].iter_rows(named=True), np.asarray(excess)[rows].tolist(), strict=True
        ):
            key = {name: value for name, value in row.items() if name not in (ALL, DIFF, AT)}
            problem = f"deleted at {self.instants.text(type_.ordinal(row[AT]))} but not in the relation"
            for _ in range(min(copies, MOST_REJECTS)):
                self.reject(key, problem)
            if copies > MOST_REJECTS:
                self.reject(key, f"{problem}, {copies - MOST_REJECTS} more times")

    def waits(self) -> list[int]:
        return [0 if self._timestamp is None else len(self._open_changes)]
