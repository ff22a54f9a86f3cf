"""project: new tuples, and the punctuations that survive."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle
from tests.operators.harness import check_table, drive_twice
from tests.strategies import SMALL, SPACES, Pool, Space, streams
from xmlpunct.base.errors import SchemaError
from xmlpunct.expressions.expression import Column, Expression, Literal
from xmlpunct.operators import Project
from xmlpunct.schema import Schema
from xmlpunct.types import INT

SEVEN = Literal(INT, False, 7)
SEVENS = Pool("sevens", INT, (7,), (7,))


def columns_of(space: Space, choice: list[int | None]) -> list[tuple[str, Expression]]:
    """Columns c0, c1...: for each an attribute's position, or None for a computed column."""

    def column(i: int) -> Column:
        a = space.schema.attributes[i]
        return Column(a.type, a.nullable, a.name)

    return [(f"c{k}", SEVEN if i is None else column(i)) for k, i in enumerate(choice)]


@pytest.mark.parametrize("space", SPACES, ids=str)
@given(data=st.data())
def test_against_the_oracle(space: Space, data: st.DataObject) -> None:
    """Plain columns in any order, dropped, repeated, and computed ones between them."""
    positions = st.integers(0, len(space.schema) - 1)
    choice = data.draw(st.lists(st.none() | positions, min_size=1, max_size=3))
    stream = data.draw(streams(space))
    columns = columns_of(space, choice)
    probes = st_product(space, choice)
    expected = oracle.project(
        space.schema, [i if i is not None else (lambda t: 7) for i in choice], space.tuples()
    )
    outcomes = drive_twice(data, lambda: Project(space.schema, columns), expected, [stream], probes)
    assert oracle.bag(outcomes[0].tuples) == oracle.bag(outcomes[1].tuples)


def st_product(space: Space, choice: list[int | None]) -> list[tuple[object, ...]]:
    """All tuples of the output schema."""
    rows: list[tuple[object, ...]] = [()]
    for i in choice:
        rows = [(*t, v) for t in rows for v in ([7] if i is None else space.values(i))]
    return rows


ABC = Schema.parse("a INT, b INT, c INT")


def project(schema: Schema, **columns: str) -> Project:
    return Project(schema, [(n, Column(schema[a].type, schema[a].nullable, a)) for n, a in columns.items()])


def test_dropped_attributes_must_be_open() -> None:
    check_table(
        project(ABC, b="b"),
        """
        1 2 3; 4 5 6; 4 5 7  -> 2; 5; 5
        P(1, 2, *)           ->
        P(*, 2, *)           -> P(2)
        P(*, *, 3)           ->
        P(*, [5,6], (,))     ->
        P(*, *, *)           -> P(*)
        """,
    )


def test_what_closes_a_not_null_attribute_is_as_good_as_a_star() -> None:
    schema = Schema.parse("a INT NOT NULL, b INT, h INT CHECK (h BETWEEN 0 AND 23)")
    check_table(
        project(schema, b="b"),
        """
        P((,), 1, *)         -> P(1)
        P(*, 2, [0,23])      -> P(2)
        P(*, 3, [-5,99])     -> P(3)
        P(*, 4, [0,22])      ->
        P([0,), 5, *)        ->
        P(*, (,), *)         -> P((,))
        """,
    )


def test_one_promise_for_each_choice_of_carrying_columns() -> None:
    check_table(
        project(ABC, x="a", y="a", z="b"),
        """
        1 2 3          -> 1 1 2
        P(1, *, *)     -> P(1, *, *); P(*, 1, *)
        P(1, 2, *)     -> P(1, *, 2); P(*, 1, 2)
        P(*, *, *)     -> P(*, *, *)
        """,
    )


def test_dropped_attributes_may_be_covered_together() -> None:
    schema = Schema.parse("sid STRING CHECK (sid IN ('S1', 'S2')), m INT NOT NULL, hour INT")
    check_table(
        project(schema, hour="hour"),
        """
        P(S1, *, 5)        ->
        P(S2, (,20], 5)    ->
        P(S2, (20,), *)    -> P(5)
        P(S2, *, *)        ->
        P(S1, *, [6,7])    -> P([6,7])
        """,
    )


def test_rename() -> None:
    operator = Project.rename(ABC, ("c", "a"), ("x", "y"))
    assert operator.schema.names == ("x", "y")
    check_table(operator, "1 2 3; P(1, *, {3,5}) -> 3 1; P({3,5}, 1)")


def test_computed_columns_promise_nothing() -> None:
    operator = Project(ABC, [("x", SEVEN), ("y", Column(INT, True, "b"))])
    check_table(operator, "1 2 3; P(*, 2, *); P(1, *, *) -> 7 2; P(*, 2)")


def test_constants_alone_come_once_per_tuple() -> None:
    check_table(
        Project(ABC, [("x", SEVEN), ("n", Literal(INT, True, None))]),
        """
        1 2 3; 1 2 3; 4 5 6  -> 7 null; 7 null; 7 null
        1 2 3; P(*, *, *)    -> 7 null; P(*, *)
        """,
    )


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(SchemaError, match="two"):
        Project(ABC, [("x", SEVEN), ("x", SEVEN)])


def test_nullability_and_domain_travel_with_the_column() -> None:
    schema = Space.of(a=(SMALL, "[0,3]"), b=(SMALL, "NOT NULL"), c=SMALL).schema
    projected = project(schema, x="a", y="b", z="c").schema
    assert [(a.nullable, str(a.domain), a.path) for a in projected] == [
        (False, "[0,3]", "x"),
        (False, "*", "y"),
        (True, "*", "z"),
    ]
