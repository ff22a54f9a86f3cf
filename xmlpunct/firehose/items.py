"""The items of arrays, as list columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import pyarrow as pa

from xmlpunct.base.arrow_memory import from_arrow
from xmlpunct.firehose.cells import CellInts, Cells, typed_column
from xmlpunct.firehose.shape import ShapeTable
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import ArrayType, array_of


@dataclass(frozen=True, slots=True)
class Items:
    """The items of an array: their cells, and the row ``of`` each item, ascending."""

    cells: list[Cells]
    of: CellInts


def array_column(
    name: str, items: Sequence[Items], tables: Sequence[ShapeTable], number: int, count: int
) -> tuple[pl.Series, dict[int, str]]:
    """The column of the arrays of one table, for ``count`` rows, and faults by row."""
    table, array_items = tables[number], items[number]
    fields: list[pl.Series] = []
    wrong: dict[int, str] = {}
    for a, slot in zip(table.schema, table.slots, strict=True):
        if isinstance(a.type, ArrayType):
            values, faulty = array_column(a.name, items, tables, slot, len(array_items.of))
        else:
            prefixed = replace(a, name=f"{table.prefix}{a.name}")
            values, faulty = typed_column(prefixed, array_items.cells[slot - table.first])
        fields.append(values)
        for item, reason in faulty.items():
            wrong.setdefault(int(array_items.of[item]), reason)
    return lists(name, table.schema, fields, array_items.of, count), wrong


def lists(name: str, schema: Schema, fields: Sequence[pl.Series], of: CellInts, count: int) -> pl.Series:
    """The array column of ``count`` rows. The items have these ``fields`` and belong to the rows ``of``.

    >>> schema = Schema.parse("sku STRING")
    >>> lists("line", schema, [pl.Series(["a", "b"])], np.array([0, 0]), 2).to_list()
    [[{'sku': 'a'}, {'sku': 'b'}], []]
    """
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(of, minlength=count), out=offsets[1:])
    rows = pa.StructArray.from_arrays([values.to_arrow() for values in fields], names=list(schema.names))
    array = from_arrow(name, pa.LargeListArray.from_arrays(pa.array(offsets), rows))
    return array.cast(array_of(schema).dtype)
