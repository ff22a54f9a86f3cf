"""partial-group-by: partial aggregates of a slice, before an exchange."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xmlpunct.operators.group.aggregate import Aggregate, accumulators, each_once
from xmlpunct.operators.group.open_groups import ALL
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.types import INT


class PartialGroupBy(Operator):
    """Emits for each slice one tuple per group: the grouping attributes and the partial aggregates.

    - step(ts)       = [partial γ(g) | g a group of ts]
    - cpass(ts, ps)  = []
    - cprop(ts, ps)  = ps on the grouping attributes and on the attributes ``null_columns``
    - ckeep(ts, ps)  = []

    Several punctuations may close a group jointly, by their patterns on other attributes. The group-by detects that,
    so these attributes are ``null_columns``. Their punctuations refer to the aggregated tuples. In the partial
    aggregates they are null, which only ``*`` matches.

    >>> from xmlpunct.operators.notation import show
    >>> reports = Schema.parse("hour INT, temp INT")
    >>> it = PartialGroupBy(reports, ["hour"], [Aggregate("MAX", "temp", False, "top")])
    >>> show(it, "5 70; 5 80; 6 60; P(5, *)")
    5 70; 5 80; 6 60; P(5, *) -> 5 80; 6 60; P(5, *)
    """

    name = "partial-group-by"

    def __init__(
        self,
        schema: Schema,
        keys: Sequence[str],
        aggregates: Sequence[Aggregate],
        null_columns: Sequence[str] = (),
    ) -> None:
        self._parts = accumulators(schema, aggregates)
        carried = [schema[name] for name in (*keys, *null_columns)]
        attributes = dict.fromkeys(p for a in self._parts for p in a.attributes())
        super().__init__((schema,), Schema.of([*carried, *attributes]))
        self._key_expressions = [pl.col(key) for key in keys] or [pl.lit(0, INT.dtype).alias(ALL)]
        self._nulls = [pl.lit(None, dtype=schema[name].type.dtype).alias(name) for name in null_columns]
        self._carried = [schema.index(a.name) for a in carried]
        self._sources = [*self._carried, *[None] * (len(self.schema) - len(carried))]

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        partials = each_once(e for a in self._parts for e in a.partials())
        sent = each_once(e for a in self._parts for e in a.sent())
        groups = tuples.group_by(self._key_expressions, maintain_order=True).agg(partials)
        return groups.with_columns(*self._nulls, *sent).select(self.schema.names)

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        closed = batch.closing(self._carried)
        return self.schema.empty(), closed.rebase(self.schema, self._sources).unique()
