"""M_R2R is "the SQL query over the bags of the instant": DuckDB gives the same rows for the printed SQL."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import duckdb
import pytest

from tests.oracle.cql import query as cql
from tests.oracle.cql.feeds import Input, Inputs
from tests.oracle.cql.generate import SETS, Case
from tests.oracle.cql.meaning import Meaning
from tests.oracle.cql.query import is_stream, names
from tests.oracle.cql.text import Named, Printer
from tests.oracle.values import Row
from xmlpunct.schema import Schema
from xmlpunct.types import DATE, DOUBLE, INT, STRING, TIMESTAMP, DecimalType

DUCK = {INT: "BIGINT", STRING: "VARCHAR", DOUBLE: "DOUBLE", DATE: "DATE", TIMESTAMP: "TIMESTAMPTZ"}
BLOCKS, CASES = 2, 25


class Bags(Printer):
    """Prints a query over one table for each window or relation."""

    def __init__(self, inputs: Inputs) -> None:
        super().__init__(inputs)
        self.tables: dict[cql.Query, list[str]] = {}

    def select(self, q: cql.Query) -> Named:
        if isinstance(q, cql.Relation | cql.Window | cql.Rows):
            columns = self.columns(q.name) if isinstance(q, cql.Relation) else self.stream(q.stream)[1]
            self.tables[q] = columns
            return self.picked(columns, self.table(f"leaf{len(self.tables) - 1}"))
        return super().select(q)


def types(case: Case, leaf: cql.Query) -> list[str]:
    """DuckDB's types of the columns of a window or relation; one more for a copied timestamp."""
    input_ = case.inputs[names(leaf)[0]]
    column_types = [input_.schema.attributes[i].type for i in input_.places]
    return [DUCK.get(t, str(t)) for t in (*column_types, input_.type)]


def duckdb_supports(q: cql.Query) -> bool:
    """Whether DuckDB computes the query: it has no exact AVG of DECIMAL and fails on sums of infinities."""
    for node in q.walk():
        if isinstance(node, cql.GroupBy):
            for a in node.aggregates:
                if a.function in ("SUM", "AVG") and (a.type is DOUBLE or isinstance(a.type, DecimalType)):
                    return False
    return True


def plain(row: Row) -> tuple[object, ...]:
    """A row in comparable form: DuckDB's SUM of BIGINT is HUGEINT."""
    return tuple("nan" if v != v else float(v) if isinstance(v, int | float | Decimal) else v for v in row)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_r2r_is_sql(block: int) -> None:
    compared = 0
    with duckdb.connect() as db:
        for seed in range(block * CASES, (block + 1) * CASES):
            case = Case(seed, INT)
            q = case.query.inputs[0] if is_stream(case.query) else case.query
            nested = any(isinstance(node, cql.IStream | cql.DStream | cql.RStream) for node in q.walk())
            if nested or not duckdb_supports(q):
                continue
            meaning = Meaning(case.inputs, case.feed, case.time)
            printer = Bags(case.inputs)
            text = printer.sql(q)
            for tau in meaning.instants(q)[::3]:
                for i, (leaf, columns) in enumerate(printer.tables.items()):
                    bag = meaning.m_r(leaf, tau)
                    listed = ", ".join(f"{c} {t}" for c, t in zip(columns, types(case, leaf), strict=False))
                    db.execute(f"CREATE OR REPLACE TABLE leaf{i} ({listed})")
                    if bag:
                        marks = ", ".join("?" * len(columns))
                        db.executemany(f"INSERT INTO leaf{i} VALUES ({marks})", list(bag.elements()))
                rows = Counter(map(plain, db.execute(text).fetchall()))
                assert rows == Counter(map(plain, meaning.m_r(q, tau).elements())), (seed, text)
                compared += 1
    assert compared > 25


A, B = cql.Relation("a"), cql.Relation("b")
KEYS = ((0, 0),)
OF_DOUBLES: list[cql.Query] = [
    cql.Distinct(A),
    cql.GroupBy(
        A, (0,), (cql.Aggregate("COUNT"), cql.Aggregate("COUNT", 0, True, DOUBLE), cql.Aggregate("MAX", 1))
    ),
    *(cql.Join(kind, A, B, KEYS) for kind in ("inner", "semi", "anti", "left", "full")),
    *(cql.SetOp(kind, A, B) for kind in SETS),
    cql.UnionAll(A, B),
    cql.NotIn(A, cql.Distinct(B), 0, 0, ((1, 1),)),
]


@pytest.mark.parametrize("q", OF_DOUBLES, ids=str)
def test_zeros_and_nans_are_equal_as_in_duckdb(q: cql.Query) -> None:
    """In keys and in tuples; the database receives -0.0 and NaN unchanged."""
    nan = float("nan")
    rows = {
        "a": [(-0.0, 1), (0.0, 1), (nan, 2), (-nan, 2), (None, 3), (1.5, 1), (-0.0, 2)],
        "b": [(0.0, 1), (-0.0, 2), (nan, 2), (None, 3), (2.5, 1)],
    }
    inputs = {name: Input(name, Schema.parse("x DOUBLE, n INT")) for name in rows}
    feed = [(name, row) for name, its in rows.items() for row in its]
    meaning, printer = Meaning(inputs, feed), Bags(inputs)
    text = printer.sql(q)
    with duckdb.connect() as db:
        for i, leaf in enumerate(printer.tables):
            db.execute(f"CREATE TABLE leaf{i} (x DOUBLE, n BIGINT)")
            db.executemany(f"INSERT INTO leaf{i} VALUES (?, ?)", rows[names(leaf)[0]])
        rows_of_duckdb = Counter(map(plain, db.execute(text).fetchall()))
    assert rows_of_duckdb == Counter(map(plain, meaning.m_r(q, meaning.time.low).elements()))
