"""The expected rows of a plan: DuckDB over the complete input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import duckdb
import polars as pl

from tests.oracle.values import Row
from tests.plans.text import Printer
from xmlpunct.engine import plan
from xmlpunct.schema import Schema


def answer(root: plan.Node, tables: Mapping[str, tuple[Schema, Sequence[Row]]]) -> list[Row]:
    """The rows of a plan over complete tables, in the order of the plan if it has one."""
    with duckdb.connect() as connection:
        for name, (schema, rows) in tables.items():
            naive = schema.frame(rows).with_columns(pl.col(pl.Datetime).dt.replace_time_zone(None))
            connection.register(name, naive.to_arrow())
        result_rows = connection.execute(Printer(duck=True).sql(root)).fetchall()
    return [
        tuple(v.replace(tzinfo=UTC) if isinstance(v, datetime) else v for v in row) for row in result_rows
    ]
