"""group-by over changes: a relation with one tuple per group, with aggregates over the group's tuples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from xmlpunct.arrow import Flags, booleans
from xmlpunct.changes import AT, DIFF, changes
from xmlpunct.operators.aggregate import Accumulator, Aggregate, accumulators
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.groups import ALL
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.relations.partials import Partials, withdraw
from xmlpunct.operators.relations.slots import Numbers, Slots
from xmlpunct.operators.relations.weights import COUNT, is_linear, weighted
from xmlpunct.operators.state import Cell, State
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.ownership import Ownership, Ways
from xmlpunct.punctuations.pattern import WILDCARD
from xmlpunct.punctuations.set import PunctuationSet
from xmlpunct.schema import Schema


class ChangeGroupBy(Operator):
    """Groups the tuples of each instant by ``keys``; gives the changes of a group's tuple once the group is closed.

    - R(τ)    = {γ(g) | g a group of R1(τ)}; without keys the one group is there from LO on
    - cpass   = [<γ(g) before t, t, -1>, <γ(g) at t, t, +1> | γ(g) changes at t, setMatch(<g, t>, groupPs(ps))]
    - cprop   = groupPs(ps), with ``*`` for the aggregates
    - ckeep   = the partial aggregates of each group up to where it is closed, and its later changes

    groupPs are the prefix punctuations on grouping attributes alone. A tuple that goes is retracted: COUNT, SUM and AVG
    are of sums; MIN, MAX and the DISTINCT forms retain how many there are of each value. A group whose aggregate
    does not fit its type is rejected at that instant, and has no tuple until it changes. See WINDOWS.md 4, group-by.

    >>> from xmlpunct.operators.notation import show
    >>> from xmlpunct.types import INT
    >>> sales = changes(Schema.parse("shop STRING, price INT"), INT)
    >>> it = ChangeGroupBy(sales, ["shop"], [Aggregate("SUM", "price", False, "total")], Instants(INT))
    >>> show(it, "a 5 1 1; a 7 3 1; a 5 4 -1", "P(*, *, (,3], *)", "P(a, *, *, *)")
    a 5 1 1; a 7 3 1; a 5 4 -1 ->
    P(*, *, (,3], *)           -> a 5 1 1; a 5 3 -1; a 12 3 1; P(*, *, (,3], *)
    P(a, *, *, *)              -> a 12 4 -1; a 7 4 1; P(a, *, *, *)
    """

    name = "group-by"

    def __init__(
        self, schema: Schema, keys: Sequence[str], aggregates: Sequence[Aggregate], instants: Instants
    ) -> None:
        by = [schema[key] for key in keys]
        results = [a.attribute(schema, bool(keys)) for a in aggregates]
        super().__init__((schema,), changes(Schema.of([*by, *results]), instants.type))
        self.instants = instants
        self._keys = list(keys) or [ALL]
        self._by = [pl.col(key) for key in keys] or [pl.lit(0, dtype=pl.Int64()).alias(ALL)]
        self._closing = Schema.of([*by, schema[AT]])
        self._places = [schema.index(a.name) for a in self._closing]
        dropped = [i for i in range(len(schema)) if i not in self._places]
        self._joint = JointCover(schema, dropped)
        self._accumulators = accumulators(schema, aggregates)
        partials = self._partials(schema.empty())
        self._later = Partials(partials, [*self._keys, AT])
        self._now = Partials(partials.drop(AT), self._keys)
        self._begun = Cell(bool(keys))  # whether LO is closed, from which on the one group has a row
        self.state = State(later=self._later, now=self._now, joint=self._joint, begun=self._begun)

    def spread(self, ways: Ways) -> None:
        super().spread(ways)
        self._joint.spread(Ownership(self.inputs[0], ways, self.sifted))

    # Tuples

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        self._later.add(self._partials(tuples))
        return self.schema.empty()

    def _partials(self, tuples: pl.DataFrame) -> pl.DataFrame:
        """What changes of tuples add to the sums of their groups."""
        sums = [e for a in self._accumulators if is_linear(a) for e in weighted(a)]
        return tuples.select(*self._by, AT, pl.col(DIFF).alias(COUNT), *sums)

    # Punctuations

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        closed = PunctuationSet(self._closing, self._joint.add(batch).rebase(self._closing, self._places))
        passed = self._advance(closed) if len(closed) else self.schema.empty()  # pass, keep
        places: list[int | None] = [*range(len(self._closing) - 1)]
        places += [None] * len(self._accumulators) + [len(self._closing) - 1, None]
        return passed, closed.all().rebase(self.schema, places)  # prop

    def _advance(self, closed: PunctuationSet) -> pl.DataFrame:
        """The groups move on to where they are closed now; the changes of their tuples."""
        gone = self._later.close(closed)
        begun = self._begun.value
        if not begun:
            gone = self._begin(gone, closed)
        if not gone.height:
            self._forget(closed)
            return self.schema.empty()
        slots = Slots(gone.select(self._keys), self.instants.ordinals(gone[AT]))
        places, known = withdraw(self._now, slots.groups)
        pieces = [(slots.bases[places], known), (slots.row_slots, gone)]
        states = slots.totals(pieces, self._now.empty.drop(self._keys))
        last = states[slots.ends - 1].cast({k: v for k, v in self._now.empty.schema.items() if k in states})
        self._now.keep(slots.groups.hstack(last))
        self._forget(closed)
        exists = slots.is_step | begun if self._keys == [ALL] else states[COUNT].to_numpy() > 0
        return self._changes(slots, states, exists)

    def _begin(self, gone: pl.DataFrame, closed: PunctuationSet) -> pl.DataFrame:
        """Closed changes, with one at LO if that is closed for the first time."""
        lo = self.instants.lo
        self._begun.value = any(self.instants.bound(p.patterns[-1]) >= lo for p in closed)
        if not self._begun.value:
            return gone
        first = self._later.empty.clear(1).fill_null(0)
        first = first.with_columns(self.instants.column(AT, np.array([lo])))
        return first if not gone.height or (gone[AT] != first[AT][0]).all() else gone

    def _forget(self, closed: PunctuationSet) -> None:
        """Let the groups go that are closed for ever."""
        over = PunctuationSet(self._closing, (p for p in closed if p.patterns[-1] is WILDCARD))
        if len(over):
            self._now.remove(self._now.matching(over))

    # Results

    def _changes(self, slots: Slots, states: pl.DataFrame, exists: Flags) -> pl.DataFrame:
        """How the groups' tuples change, given the partial aggregates in each slot and where there is a group."""
        results, fits = self._results(slots, states, exists)
        is_there, differs = exists & fits, np.zeros(len(slots), np.bool_)
        for column in results:
            differs[1:] |= column[1:].ne_missing(column[:-1]).to_numpy()
        old, new = slots.steps - 1, slots.steps
        changed = (is_there[old] != is_there[new]) | differs[new]
        goes, comes = new[changed & is_there[old]], new[changed & is_there[new]]
        slot = np.concatenate((goes, comes))
        row = np.concatenate((goes - 1, comes))
        diffs = np.ones(len(slot), np.int64)
        diffs[: len(goes)] = -1
        order = np.argsort(2 * slot + (diffs > 0), kind="stable")
        slot, row = slot[order], row[order]
        found = [*slots.groups[slots.of[slot]].iter_columns()] if self._keys != [ALL] else []
        found += [column[row] for column in results]
        found += [self.instants.column(AT, slots.at[slot]), pl.Series(DIFF, diffs[order], pl.Int64())]
        return pl.DataFrame(found, schema=self.schema.dtypes)

    def _results(
        self, slots: Slots, states: pl.DataFrame, exists: Flags
    ) -> tuple[list[pl.Series], Flags]:
        """The aggregates in each slot, and where all fit; groups are rejected where one does not."""
        results, fits = [], np.ones(len(slots), np.bool_)
        for a in self._accumulators:
            result = a.finish(states)
            results.append(result.alias(a.aggregate.name))
            bad = a.failed(states, result).to_numpy() & exists
            if bad.any():
                self._reject(slots, np.flatnonzero(bad & fits & slots.is_step), a)
                fits &= ~bad
        return results, fits

    def _reject(self, slots: Slots, which: Numbers, a: Accumulator) -> None:
        name, type_ = a.aggregate.name, self.instants.type
        rows = slots.groups[slots.of[which]].iter_rows(named=True)
        for row, at in zip(rows, slots.at[which].tolist(), strict=True):
            instant = type_.format(type_.at(at))
            key = {name: value for name, value in row.items() if name != ALL}
            self.reject(key, f"{name} does not fit {self.schema[name].type} at {instant}")

    def waits(self) -> list[int]:
        return [len(self._later)]
