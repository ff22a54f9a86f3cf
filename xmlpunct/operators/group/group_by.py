"""group-by: one tuple per group, with aggregates over the group's tuples."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.group.aggregate import Aggregate, accumulators
from xmlpunct.operators.group.finality import Finality
from xmlpunct.operators.group.open_groups import Groups
from xmlpunct.operators.hash_index import Rows
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.state import Cell, State
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.ownership import Ownership, Ways
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

    groupPs are the punctuations on grouping attributes alone. ``<hour=5, sid=S1>`` closes no hour, unless others close
    it for all other values of sid. Only ``*`` closes the null group. Without grouping attributes there is one group
    from the start, which is released once. It retains `Groups`, not tuples.

    A group that no tuple can change any more leaves before it is closed: ``<hour=5, temp=(80,)>`` after a maximum of 80
    (`Finality`). Tuples of it that still come change nothing. If there are no grouping attributes, its result is the
    last.

    With ``whole``, a `PartialGroupBy` below has aggregated tuples of that schema already.

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
        whole: Schema | None = None,
    ) -> None:
        source = whole or schema
        self._keys = Schema.of(schema[key] for key in keys)
        results = [a.attribute(source, bool(keys)) for a in aggregates]
        super().__init__((schema,), Schema.of([*self._keys, *results]))
        self._accumulators = accumulators(source, aggregates)
        self._groups = Groups(source, self._keys, self._accumulators, partial=whole is not None)
        self._places = [schema.index(key) for key in keys]
        self._joint = JointCover(schema, [i for i in range(len(schema)) if i not in self._places])
        self._over = Cell(False)  # whether the one group has been released
        self._finality = Finality.of(schema, self._keys, self._accumulators)
        self._left = Arrangement(self._keys.empty(), self._keys.names)
        """The keys of groups that have left before they were closed."""
        self._unsaid: list[PunctuationBatch] = []
        early = {} if self._finality is None else {"left": self._left, **self._finality.parts}
        self.speaks = self._finality is not None  # a tuple may make its group final
        self.state = State(groups=self._groups, joint=self._joint, over=self._over, **early)

    def spread(self, ways: Ways) -> None:
        super().spread(ways)
        ownership = Ownership(self.inputs[0], ways, self.sifted)
        self._joint.spread(ownership)
        if self._finality is not None:
            self._finality.spread(ownership)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        if self._over.value:
            return self.schema.empty()
        if len(self._left):
            tuples = without(tuples, self._left.has(tuples))
        self._groups.add(tuples)
        if self._finality is None or not self._finality.may_hold(tuples):
            return self.schema.empty()
        return self._leave(self._finality.among(self._groups, self._groups.touched(tuples)))

    def _leave(self, rows: Rows) -> pl.DataFrame:
        """The results of final groups, which go; their keys stay until they are closed."""
        groups = self._groups.leave(rows)
        if len(self._keys):
            keys = groups.select(self._keys.names)
            self._left.append(keys)
            self._unsaid.append(self._punctuations(keys))
        elif groups.height:
            self._over.value = True
            self._unsaid.append(PunctuationBatch([Punctuation.everything(self._keys)]))
        return self._results(groups)

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        closed = PunctuationSet(self._keys)
        if not self._over.value:
            closed.update(self._joint.add(batch).rebase(self._keys, self._places))
        passed = self.schema.empty()
        if len(closed):
            passed = self._results(self._groups.release(closed))  # pass, keep
            self._over.value = not len(self._keys)
        said = closed.all()
        if self._finality is not None:
            passed, said = self._early(self._finality, batch, passed, closed)
        places = [i if i < len(self._keys) else None for i in range(len(self.schema))]
        return passed, said.rebase(self.schema, places)  # prop

    def _early(
        self, finality: Finality, batch: PunctuationBatch, passed: pl.DataFrame, closed: PunctuationSet
    ) -> tuple[pl.DataFrame, PunctuationBatch]:
        """What passes and is said, with the groups that are final and not closed."""
        if not self._over.value:
            finality.hear(batch)
        if len(closed) and len(self._keys):
            finality.forget(closed.all())
            gone = self._left.remove(self._left.matching(closed))
            closed.discard(self._punctuations(gone))  # said when they left
        rows = finality.touched(self._groups)
        if len(rows):
            passed = pl.concat([passed, self._leave(rows)])
        unsaid, self._unsaid = self._unsaid, []
        return passed, PunctuationBatch.union([closed.all(), *unsaid])

    def _punctuations(self, keys: pl.DataFrame) -> PunctuationBatch:
        """That no tuple of these groups comes; of a null in a key nothing can be said."""
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
            bad = a.failed(groups, results)
            if not bad.any():
                continue
            for row in groups.filter(bad & ~failed).iter_rows(named=True):
                key = {name: row[name] for name in self._keys.names}
                self.reject(key, f"{a.aggregate.name} does not fit {self.schema[a.aggregate.name].type}")
            failed = failed | bad
        return without(pl.DataFrame(columns, schema=self.schema.dtypes), failed)
