"""Relations whose instants are days or microseconds."""

from __future__ import annotations

import pytest

from tests.operators.harness import check_table
from xmlpunct.operators.group.aggregate import Aggregate
from xmlpunct.operators.relations.change_group_by import ChangeGroupBy
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.relations.relation import Relation
from xmlpunct.operators.relations.rows_window import RowsWindow
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import changes
from xmlpunct.types import DATE, TIMESTAMP, Type

CASES = [
    (DATE, "2026-03-01", "2026-03-02", "0001-01-01"),
    (TIMESTAMP, "2026-03-01T00:00:00Z", "2026-03-01T00:00:01Z", "0001-01-01T00:00:00Z"),
]


@pytest.mark.parametrize(("type_", "a", "b", "lo"), CASES)
def test_instants_of_a_calendar(type_: Type, a: str, b: str, lo: str) -> None:
    named = Schema.parse(f"k INT, at {type_} NOT NULL, what STRING")
    end = f"P(*, (,{a}], *)"
    check_table(
        Relation(named, Instants(type_), "at", "what"),
        f"7 {a} insert; 7 {b} delete; 8 {lo} insert; {end} -> 7 {a} 1; 8 {lo} 1; {end}",
    )
    packet = Schema.parse(f"k INT, ts {type_} NOT NULL")
    check_table(
        RowsWindow(packet, "ts", Instants(type_), 1, []),
        f"7 {a}; 8 {b}; P(*, *) -> 7 {a} 1; 8 {b} 1; 7 {b} -1; P(*, *, *)",
    )
    count = Aggregate("COUNT", None, False, "n")
    check_table(
        ChangeGroupBy(changes(Schema.parse("k INT"), type_), [], [count], Instants(type_)),
        f"7 {a} 1; 7 {b} -1; P(*, *, *) -> 0 {lo} 1; 0 {a} -1; 1 {a} 1; 1 {b} -1; 0 {b} 1; P(*, *, *)",
    )
    check_table(
        ChangeGroupBy(changes(Schema.parse("k INT"), type_), ["k"], [count], Instants(type_)),
        f"7 {a} 1; 7 {b} -1; {end} -> 7 1 {a} 1; P(*, *, (,{a}], *)",
    )
