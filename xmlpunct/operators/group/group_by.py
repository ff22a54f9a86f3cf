"""group-by: one tuple per group, with aggregates over the group's tuples.

Final groups make it long: they are released before they are closed.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.group.aggregate import Aggregate, accumulators
from xmlpunct.operators.group.finality import Finality
from xmlpunct.operators.group.open_groups import Groups
from xmlpunct.operators.hash_index import Rows
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.state import State, StateCell
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.slice import without
from xmlpunct.types.pattern import constant


class GroupBy(Operator):
    """Groups tuples by the attributes ``keys`` and releases a group's result when the group is closed.

    - cpass(ts, ps)  = [γ(g) | g a group of ts, setMatch(g, groupPs(ps))]
    - cprop(ts, ps)  = groupPs(ps), with ``*`` for the aggregates
    - ckeep(ts, ps)  = [t | t in ts, setNomatch(t, groupPs(ps))]

    groupPs are the punctuations on grouping attributes only. ``<hour=5, sid=S1>`` closes no hour, unless other
    punctuations close it for all other values of sid. Only ``*`` closes the null group. Without grouping attributes
    there is one group from the start, which is released once. The operator retains `Groups`, not tuples.

    A group that no tuple can change any more is final, and is released before it is closed: ``<hour=5, temp=(80,)>``
    after a maximum of 80 (`Finality`). Later tuples of the group are dropped. Without grouping attributes, the output
    ends then.

    With ``tuple_schema``, the input has partial aggregates of tuples with this schema (`PartialGroupBy`).

    See semantics 4.6.

    >>> from xmlpunct.operators.notation import show
    >>> reports = Schema.parse("sid STRING, hour INT, temp INT")
    >>> it = GroupBy(reports, ["hour"], [Aggregate("MAX", "temp", False, "top")])
    >>> show(it, "S1 5 70; S2 5 80; S1 6 60", "P(S1, 5, *)", "P(*, 5, *)")
    S1 5 70; S2 5 80; S1 6 60 ->
    P(S1, 5, *)               ->
    P(*, 5, *)                -> 5 80; P(5, *)
    >>> show(it, "P(*, 6, (60,))", "S2 6 50", "P(*, 6, *)")
    P(*, 6, (60,)) -> 6 60; P(6, *)
    S2 6 50        ->
    P(*, 6, *)     ->
    """

    name = "group-by"

    def __init__(
        self,
        schema: Schema,
        keys: Sequence[str],
        aggregates: Sequence[Aggregate],
        tuple_schema: Schema | None = None,
    ) -> None:
        source = tuple_schema or schema
        self._keys = Schema.of(schema[key] for key in keys)
        results = [a.attribute(source, bool(keys)) for a in aggregates]
        super().__init__((schema,), Schema.of([*self._keys, *results]))
        self._accumulators = accumulators(source, aggregates)
        self._groups = Groups(source, self._keys, self._accumulators, partial=tuple_schema is not None)
        self._key_positions = [schema.index(key) for key in keys]
        self._joint = JointCover(schema, [i for i in range(len(schema)) if i not in self._key_positions])
        self._over = StateCell(False)  # whether the one group has been released
        self._finality = Finality.of(schema, self._keys, self._accumulators)
        self._final_keys = Arrangement(self._keys.empty(), self._keys.names)
        """The keys of final groups that were released and are not closed yet."""
        self._unemitted: list[PunctuationBatch] = []
        joints = [] if self._finality is None else self._finality.joints
        self.key_paths = [(joint, None) for joint in (self._joint, *joints)]
        early = {} if self._finality is None else {"left": self._final_keys, **self._finality.parts}
        self.speaks = self._finality is not None  # a tuple may make its group final
        self.state = State(groups=self._groups, joint=self._joint, over=self._over, **early)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        if self._over.value:
            return self.schema.empty()
        if len(self._final_keys):
            tuples = without(tuples, self._final_keys.has(tuples))
        self._groups.add(tuples)
        if self._finality is None or not self._finality.may_hold(tuples):
            return self.schema.empty()
        return self._release_final(self._finality.final_rows(self._groups, self._groups.rows_of(tuples)))

    def _release_final(self, rows: Rows) -> pl.DataFrame:
        """Remove final groups and return their results; their keys are retained until they are closed."""
        groups = self._groups.take_out(rows)
        if len(self._keys):
            keys = groups.select(self._keys.names)
            self._final_keys.append(keys)
            self._unemitted.append(self._punctuations(keys))
        elif groups.height:
            self._over.value = True
            self._unemitted.append(PunctuationBatch([Punctuation.everything(self._keys)]))
        return self._results(groups)

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        closed = PunctuationSet(self._keys)
        if not self._over.value:
            closed.update(self._joint.add(batch).rebase(self._keys, self._key_positions))
        released = self.schema.empty()
        if len(closed):
            released = self._results(self._groups.release(closed))  # pass, keep
            self._over.value = not len(self._keys)
        punctuations = closed.all()
        if self._finality is not None:
            released, punctuations = self._with_final(self._finality, batch, released, closed)
        sources = [i if i < len(self._keys) else None for i in range(len(self.schema))]
        return released, punctuations.rebase(self.schema, sources)  # prop

    def _with_final(
        self, finality: Finality, batch: PunctuationBatch, released: pl.DataFrame, closed: PunctuationSet
    ) -> tuple[pl.DataFrame, PunctuationBatch]:
        """The released results and punctuations; groups that are final but not closed are added."""
        if not self._over.value:
            finality.receive(batch)
        if len(closed) and len(self._keys):
            finality.forget(closed.all())
            keys = self._final_keys.remove(self._final_keys.matching(closed))
            closed.discard(self._punctuations(keys))  # emitted when the groups were final
        rows = finality.newly_final(self._groups)
        if len(rows):
            released = pl.concat([released, self._release_final(rows)])
        unemitted, self._unemitted = self._unemitted, []
        return released, PunctuationBatch.union([closed.all(), *unemitted])

    def _punctuations(self, keys: pl.DataFrame) -> PunctuationBatch:
        """Punctuations that close these groups. A constant pattern matches no null, so null keys have none."""
        return PunctuationBatch(
            Punctuation(self._keys, [constant(a.type, v) for a, v in zip(self._keys, key, strict=True)])
            for key in keys.drop_nulls().iter_rows()
        )

    def _results(self, groups: pl.DataFrame) -> pl.DataFrame:
        """Results from partial columns; a group with a result that does not fit its type is rejected."""
        columns = {key: groups[key] for key in self._keys.names}
        failed = pl.Series([False]).new_from_index(0, groups.height)
        for a in self._accumulators:
            results = columns[a.aggregate.name] = a.finish(groups)
            is_bad = a.failed(groups, results)
            if not is_bad.any():
                continue
            for row in groups.filter(is_bad & ~failed).iter_rows(named=True):
                key = {name: row[name] for name in self._keys.names}
                self.reject(key, f"{a.aggregate.name} does not fit {self.schema[a.aggregate.name].type}")
            failed = failed | is_bad
        return without(pl.DataFrame(columns, schema=self.schema.dtypes), failed)
