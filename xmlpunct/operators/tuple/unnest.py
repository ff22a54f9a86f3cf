"""unnest: a tuple for each item of an array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import ArrayType
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import INT

_ITEM, _NUMBER = "$item", "$number"


class Unnest(Operator):
    """Emits a tuple for each item of its array, with the item's columns after its own.

    - cpass(ts, ps)  = [t + i | t in ts, i in t[array]]
    - cprop(ts, ps)  = [p + <*, ..., *> | p in ps]
    - ckeep(ts, ps)  = []

    ``fields`` are pairs of a column name and the name of its attribute in an item. A column named ``number`` counts the
    items of a tuple, from 1. With ``outer``, a tuple without items is emitted once, with nulls. Without ``keeps``, the
    array is not in the output.

    >>> orders = Schema.parse("id INT, line ARRAY(sku STRING)")
    >>> unnest = Unnest(orders, "line", [("sku", "sku")], number="n", keeps=False)
    >>> unnest.step(0, orders.frame([(1, [{"sku": "a"}, {"sku": "b"}]), (2, [])])).rows()
    [(1, 'a', 1), (1, 'b', 2)]
    """

    name = "unnest"
    tuplewise = True

    def __init__(
        self,
        schema: Schema,
        array: str,
        fields: Sequence[tuple[str, str]],
        number: str | None = None,
        outer: bool = False,
        keeps: bool = True,
    ) -> None:
        type_ = schema[array].type
        assert isinstance(type_, ArrayType)
        rows = Schema.of(type_.attributes)
        columns = [replace(rows[field], name=name) for name, field in fields]
        if number is not None:
            columns.append(Attribute(number, INT, False))
        sources = [i for i, a in enumerate(schema) if keeps or a.name != array]
        retained = [schema.attributes[i] for i in sources]
        super().__init__((schema,), Schema.of((*retained, *(a.weakened() if outer else a for a in columns))))
        self.array, self.fields, self.ordinal, self.outer = array, tuple(fields), number, outer
        self._retained = [a.name for a in retained]
        self._sources: list[int | None] = [*sources, *[None] * len(columns)]

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        items = pl.col(self.array)
        exploded = tuples.select(
            *self._retained, items.alias(_ITEM), pl.int_ranges(1, items.list.len() + 1).alias(_NUMBER)
        )
        exploded = exploded.explode(_ITEM, _NUMBER, empty_as_null=self.outer, keep_nulls=self.outer)
        columns = [pl.col(_ITEM).struct.field(field).alias(name) for name, field in self.fields]
        if self.ordinal is not None:
            columns.append(pl.col(_NUMBER).alias(self.ordinal))
        return exploded.select(*self._retained, *columns)

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        return self.schema.empty(), batch.rebase(self.schema, self._sources)
