"""group-by over changes: a relation with one tuple per group, with aggregates over the group's tuples.

A class of its own beside `GroupBy`: a group has a result at each instant, and only its changes are emitted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from xmlpunct.base.arrow_memory import Flags, integers
from xmlpunct.operators.group.aggregate import Aggregate, accumulators
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.relations.aggregates import COUNT, Retracted
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.relations.slots import Numbers, Slots
from xmlpunct.operators.state import State, StateCell
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import AT, DIFF, changes
from xmlpunct.types.pattern import WILDCARD


class ChangeGroupBy(Operator):
    """Groups the tuples of each instant by ``keys``; emits the changes of a group's tuple once the group is closed.

    - R(τ)    = {γ(g) | g a group of R1(τ)}; without keys there is one group from LO on
    - cpass   = [<γ(g) before t, t, -1>, <γ(g) at t, t, +1> | γ(g) changes at t, setMatch(<g, t>, groupPs(ps))]
    - cprop   = groupPs(ps), with ``*`` for the aggregates
    - ckeep   = the partial aggregates of each group at its last closed instant, and its later changes

    groupPs are the prefix punctuations on grouping attributes only. A deleted tuple is retracted: COUNT, SUM and AVG
    use sums; MIN, MAX and the DISTINCT forms retain the number of copies of each value. A group with an aggregate
    outside the range of its type is rejected at that instant, and has no tuple until it changes. See relations 4.7.

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
    speaks = True  # `step` leaves the tuples of the slice to `punctuate`

    def __init__(
        self, schema: Schema, keys: Sequence[str], aggregates: Sequence[Aggregate], instants: Instants
    ) -> None:
        key_attributes = [schema[key] for key in keys]
        results = [a.attribute(schema, bool(keys)) for a in aggregates]
        super().__init__((schema,), changes(Schema.of([*key_attributes, *results]), instants.type))
        self.instants, self._has_keys = instants, bool(keys)
        self._closing = Schema.of([*key_attributes, schema[AT]])
        self._positions = [schema.index(a.name) for a in self._closing]
        self._joint = JointCover(schema, [i for i in range(len(schema)) if i not in self._positions])
        self._tuples = schema.empty()
        self._accumulators = accumulators(schema, aggregates)
        self._groups = Retracted(schema, keys, self._accumulators)
        self._begun = StateCell(
            False
        )  # whether LO is closed: from then on, the only group without keys has a tuple
        self.key_paths = [(self._joint, None)]
        self.state = State(**self._groups.parts, joint=self._joint, begun=self._begun)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        self._tuples = tuples  # `punctuate` is next: changes that the slice itself closes are not retained
        return self.schema.empty()

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        closed = PunctuationSet(self._closing, self._joint.add(batch).rebase(self._closing, self._positions))
        results = self._advance(closed)  # pass, keep
        keys = range(len(self._closing) - 1)
        sources = [*keys, *[None] * len(self._accumulators), len(keys), None]
        return results, closed.all().rebase(self.schema, sources)  # prop

    def waits(self) -> list[int]:
        return [self._groups.waiting]

    def _advance(self, closed: PunctuationSet) -> pl.DataFrame:
        """Advance the groups to their last closed instants; return the changes of their tuples."""
        begun = self._has_keys or self._begun.value
        begins = not begun and any(self.instants.bound(p.patterns[-1]) >= self.instants.lo for p in closed)
        self._begun.value |= begins
        tuples, self._tuples = self._tuples, self._tuples.clear()
        first = self.instants.lo if begins else None
        slots, states = self._groups.advance(tuples, closed, self.instants, first)
        over = PunctuationSet(self._closing, (p for p in closed if p.patterns[-1] is WILDCARD))
        if len(over):
            self._groups.forget(over)
        if not len(slots):
            return self.schema.empty()
        exists = states[COUNT].to_numpy() > 0 if self._has_keys else slots.is_step | begun
        return self._changes(slots, states, exists)

    # Results

    def _changes(self, slots: Slots, states: pl.DataFrame, exists: Flags) -> pl.DataFrame:
        """The changes of the groups' tuples. ``exists``: whether the group exists in each slot; shape (slots,)."""
        results, fits = self._results(slots, states, exists)
        has_tuple, differs = exists & fits, np.zeros(len(slots), np.bool_)
        for column in results:
            differs[1:] |= column[1:].ne_missing(column[:-1]).to_numpy()
        # Each slot has a deletion of the former tuple, and an insertion of the new one.
        is_emitted = np.zeros((len(slots), 2), np.bool_)
        changed = slots.is_step[1:] & (differs[1:] | (has_tuple[1:] != has_tuple[:-1]))
        is_emitted[1:, 0] = changed & has_tuple[:-1]
        is_emitted[1:, 1] = changed & has_tuple[1:]
        emitted = np.flatnonzero(is_emitted)
        slot, is_insert = emitted >> 1, emitted & 1
        rows = pl.Series(slot - 1 + is_insert, dtype=pl.get_index_type())
        columns = list(slots.groups[slots.slot_groups[slot]].iter_columns()) if self._has_keys else []
        columns += [column.gather(rows) for column in results]
        columns += [self.instants.column(AT, slots.at[slot]), integers(DIFF, 2 * is_insert - 1)]
        return pl.DataFrame(columns, schema=self.schema.dtypes)

    def _results(self, slots: Slots, states: pl.DataFrame, exists: Flags) -> tuple[list[pl.Series], Flags]:
        """The aggregates in each slot, and whether all fit their types; rejects the groups that do not."""
        results, fits = [], np.ones(len(slots), np.bool_)
        for a in self._accumulators:
            result = a.finish(states)
            results.append(result.alias(a.aggregate.name))
            is_bad = a.failed(states, result).to_numpy() & exists
            if is_bad.any():
                self._reject(slots, np.flatnonzero(is_bad & fits & slots.is_step), a.aggregate.name)
                fits &= ~is_bad
        return results, fits

    def _reject(self, slots: Slots, bad_slots: Numbers, name: str) -> None:
        """Reject groups at slots in which an aggregate does not fit its type."""
        rows = slots.groups[slots.slot_groups[bad_slots]].iter_rows(named=True)
        for row, at in zip(rows, slots.at[bad_slots].tolist(), strict=True):
            key = {key: value for key, value in row.items() if self._has_keys}
            self.reject(key, f"{name} does not fit {self.schema[name].type} at {self.instants.text(at)}")
