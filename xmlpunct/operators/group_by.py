"""group-by: one tuple per group, with aggregates over the group's tuples."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xmlpunct.frames import Snapshot, join
from xmlpunct.operators.aggregate import Accumulator, Aggregate, accumulators
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.ownership import Ownership, Ways
from xmlpunct.punctuations.set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.slice import without


class GroupBy(Operator):
    """Groups tuples by the attributes ``keys`` and releases a group's result when the group is closed.

    - cpass(ts, ps)  = [γ(g) | g a group of ts, setMatch(g, groupPs(ps))]
    - cprop(ts, ps)  = groupPs(ps), with ``*`` for the aggregates
    - ckeep(ts, ps)  = [t | t in ts, setNomatch(t, groupPs(ps))]

    groupPs are the punctuations that say something about grouping attributes alone: ``<hour=5, sid=S1>``
    closes no hour, unless others close it for all other values that sid can have. The null group is closed by ``*``
    alone. Without grouping attributes there is one group, from the start, released once. Retained are not the
    tuples but each group's partial aggregates, and for a DISTINCT aggregate the group's distinct values.

    With ``whole``, what comes in are such partial aggregates already, of tuples of that schema: a
    `PartialGroupBy` below has made them.
    """

    name = "group-by"

    def __init__(
        self,
        schema: Schema,
        keys: Sequence[str],
        aggregates: Sequence[Aggregate],
        whole: Schema | None = None,
    ) -> None:
        self._partial, whole = whole is not None, whole or schema
        self._keys = Schema.of(schema[key] for key in keys)
        results = [a.attribute(whole, bool(keys)) for a in aggregates]
        super().__init__((schema,), Schema.of([*self._keys, *results]))
        self._places = [schema.index(key) for key in keys]
        self._by = [pl.col(key) for key in keys] or [pl.lit(0).alias("$all")]
        found = accumulators(whole, aggregates)
        self._plain = [a for a in found if not a.aggregate.needs_values]
        self._distinct = [a for a in found if a.aggregate.needs_values]
        self._arguments = sorted({str(a.aggregate.argument) for a in self._distinct})
        self._groups = Arrangement(self._aggregate(whole.empty(), self._plain), self._names)
        pairs = {a: self._pairs(whole.empty(), a) for a in self._arguments}
        self._values = {a: Arrangement(empty, empty.columns) for a, empty in pairs.items()}
        self._released = False
        self._joint = JointCover(schema, [i for i in range(len(schema)) if i not in self._places])

    def spread(self, ways: Ways) -> None:
        super().spread(ways)
        self._joint.spread(Ownership(self.inputs[0], ways, self.sifted))

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        if self._partial:
            fresh = tuples.select(*self._by, *(e for a in self._plain for e in a.received()))
        else:
            fresh = self._aggregate(tuples, self._plain)
        merges = [e for a in self._plain for e in a.merges()]
        self._groups.merge(fresh, merges, apart=not self._partial)
        for argument, seen in self._values.items():
            seen.insert(self._pairs(tuples, argument))
        return self.schema.empty()

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        closed = self._close(batch)
        passed = self._release(closed)
        if len(closed):  # keep
            for seen in self._values.values():
                seen.remove(seen.matching(closed))
        places = [i if i < len(self._keys) else None for i in range(len(self.schema))]
        return passed, closed.all().rebase(self.schema, places)

    def _release(self, closed: PunctuationSet) -> pl.DataFrame:
        """The results of the groups that are closed, which are retained no longer."""
        if not len(closed) or (self._released and not len(self._keys)):
            return self.schema.empty()
        groups = self._groups.remove(self._groups.matching(closed))
        if not len(self._keys):
            self._released = True
            if not groups.height:  # the one group exists even if no tuple came
                row = {"$all": 0} | {k: v for a in self._plain for k, v in a.empty().items()}
                groups = pl.DataFrame([row], schema=self._groups.empty.schema)
        for a in self._distinct:
            groups = self._with_distinct(groups, a, closed)
        return self._finish(groups)

    def _close(self, batch: PunctuationBatch) -> PunctuationSet:
        """groupPs that these punctuations add, as punctuations of the grouping attributes."""
        return PunctuationSet(self._keys, self._joint.add(batch).rebase(self._keys, self._places))

    @property
    def _names(self) -> list[str]:
        return list(self._keys.names) or ["$all"]

    def _aggregate(self, tuples: pl.DataFrame, accumulators: list[Accumulator]) -> pl.DataFrame:
        partials = [e for a in accumulators for e in a.partials()]
        return tuples.group_by(self._by, maintain_order=True).agg(partials)

    def _pairs(self, tuples: pl.DataFrame, argument: str) -> pl.DataFrame:
        """The (group, value) pairs of some tuples."""
        return tuples.select(*self._by, pl.col(argument).alias("$value"))

    def _with_distinct(self, groups: pl.DataFrame, a: Accumulator, closed: PunctuationSet) -> pl.DataFrame:
        """The groups that are closed, with the partial columns of a DISTINCT aggregate."""
        argument = str(a.aggregate.argument)
        seen = self._values[argument]
        values = seen.take(seen.matching(closed))
        values = values if argument in self._keys else values.rename({"$value": argument})
        if argument in self._keys:  # the group's own key: the pair repeats it
            values = values.drop("$value")
        found = values.group_by(self._names).agg(a.partials())
        joined = join(groups, found, self._names, "left", nulls_equal=True, order="left")
        return joined.with_columns(pl.col(k).fill_null(v) for k, v in a.empty().items() if v is not None)

    def _finish(self, groups: pl.DataFrame) -> pl.DataFrame:
        """Results from partial columns; a group with a result that does not fit its type is rejected."""
        columns = {key: groups[key] for key in self._keys.names}
        failed = pl.Series([False]).new_from_index(0, groups.height)
        for a in sorted([*self._plain, *self._distinct], key=lambda a: int(a.prefix[1:])):
            results = columns[a.aggregate.name] = a.finish(groups)
            bad = a.failed(groups, results)
            if not bad.any():
                continue
            for row in groups.filter(bad & ~failed).iter_rows(named=True):
                key = {name: row[name] for name in self._keys.names}
                self.reject(key, f"{a.aggregate.name} does not fit {self.schema[a.aggregate.name].type}")
            failed = failed | bad
        return without(pl.DataFrame(columns, schema=self.schema.dtypes), failed)

    @property
    def rows(self) -> int:
        return max([self._groups.height, *(seen.height for seen in self._values.values())])

    @property
    def held(self) -> int:
        return len(self._joint)

    def snapshot(self) -> Snapshot:
        state = {f"joint.{k}": v for k, v in self._joint.snapshot().items()}
        state |= {**self._groups.snapshot("groups"), "released": pl.DataFrame({"released": [self._released]})}
        for argument, seen in self._values.items():
            state |= seen.snapshot(f"values.{argument}")
        return state

    def restore(self, snapshot: Snapshot) -> None:
        self._joint.restore(
            {k.removeprefix("joint."): v for k, v in snapshot.items() if k.startswith("joint.")}
        )
        self._groups.restore("groups", snapshot)
        self._released = snapshot["released"].item()
        for argument, seen in self._values.items():
            seen.restore(f"values.{argument}", snapshot)
