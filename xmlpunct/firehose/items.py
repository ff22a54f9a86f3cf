"""The items of arrays, as columns of lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import pyarrow as pa

from xmlpunct.arrays import ArrayType, array_of
from xmlpunct.arrow import from_arrow
from xmlpunct.firehose.cells import Cells, Ints
from xmlpunct.firehose.columns import column
from xmlpunct.firehose.shape import Table


@dataclass(frozen=True, slots=True)
class Items:
    """The items of an array: their cells, and the rows ``of`` which they are, in order."""

    cells: list[Cells]
    of: Ints


def array_column(
    name: str, items: Sequence[Items], tables: Sequence[Table], number: int, count: int
) -> tuple[pl.Series, dict[int, str]]:
    """The column of the arrays of one table, for ``count`` rows, and what is wrong by row."""
    table, mine = tables[number], items[number]
    fields: list[pa.Array] = []
    wrong: dict[int, str] = {}
    for a, slot in zip(table.schema, table.slots, strict=True):
        if isinstance(a.type, ArrayType):
            values, faulty = array_column(a.name, items, tables, slot, len(mine.of))
        else:
            named = replace(a, name=f"{table.prefix}{a.name}")
            values, faulty = column(named, mine.cells[slot - table.first])
        fields.append(values.to_arrow())
        for item, reason in faulty.items():
            wrong.setdefault(int(mine.of[item]), reason)
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(mine.of, minlength=count), out=offsets[1:])
    rows = pa.StructArray.from_arrays(fields, names=list(table.schema.names))
    found = from_arrow(name, pa.LargeListArray.from_arrays(pa.array(offsets), rows))
    return found.cast(array_of(table.schema).dtype), wrong
