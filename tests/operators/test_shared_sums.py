"""SUM, AVG, COUNT and VARIANCE of one column share its partial columns."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.operators.harness import mixed
from xmlpunct.operators import Aggregate, GroupBy, PartialGroupBy, run
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.notation import read
from xmlpunct.schema import Schema


@pytest.mark.parametrize(
    ("type_", "functions", "shared"),
    [
        ("INT", ("SUM", "AVG", "COUNT"), ["$0.count", "$0.sum"]),
        ("DOUBLE", ("SUM", "AVG", "COUNT"), ["$0.sum", "$0.count"]),
        ("DOUBLE", ("VAR_POP", "SUM", "AVG"), ["$0.sum", "$0.squares", "$0.count"]),
        ("DECIMAL(5,2)", ("AVG", "SUM"), ["$0.count", "$0.high", "$0.low"]),
    ],
)
def test_functions_of_one_column_share_its_sums(
    type_: str, functions: Sequence[str], shared: list[str]
) -> None:
    """Each has the result that it has alone, also by partial aggregates."""
    schema = Schema.parse(f"k INT, v {type_}")
    tuples = "1 1; 1 3; 1 null; 2 null; 2 7; 3 null; P(*, *)"

    def results(functions: Sequence[str]) -> list[tuple[object, ...]]:
        aggregates = [Aggregate(f, "v", False, f.lower()) for f in functions]
        operator = GroupBy(schema, ["k"], aggregates)
        partial = PartialGroupBy(schema, ["k"], aggregates)
        final = GroupBy(partial.schema, ["k"], aggregates, schema)
        slice_ = mixed(schema, read(schema, tuples))
        rows = run(operator, 0, slice_).tuples.rows()
        assert run(final, 0, run(partial, 0, slice_)).tuples.rows() == rows
        return rows

    alone = [results([f]) for f in functions]
    assert results(functions) == [(r[0][0], *(row[1] for row in r)) for r in zip(*alone, strict=True)]
    groups = GroupBy(schema, ["k"], [Aggregate(f, "v", False, f.lower()) for f in functions]).state.parts[
        "groups"
    ]
    assert isinstance(groups, Arrangement)
    assert groups.empty.columns == ["k", *shared]
