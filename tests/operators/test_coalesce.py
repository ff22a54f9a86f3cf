"""Projects with COALESCE columns: their punctuations, against all tuples that can still arrive (semantics 7.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.harness import check_table, drive_twice
from tests.oracle.operators import Oracle, Port, Ports, Promise, nothing, set_match
from tests.oracle.scalar import evaluate_row
from tests.oracle.values import Row, bag, same
from tests.strategies import FLAG, SIGNED, Space, streams
from xmlpunct.expressions.expression import Column, Expression
from xmlpunct.expressions.functions import call, literal
from xmlpunct.operators import Project
from xmlpunct.operators.tuple.alternatives import MOST
from xmlpunct.schema import Schema
from xmlpunct.types import INT

SPACES = (
    Space.of(a=SIGNED, b=SIGNED, f=(FLAG, "NOT NULL")),
    Space.of(a=SIGNED, b=(SIGNED, "NOT NULL"), f=FLAG),
    Space.of(a=SIGNED, b=(SIGNED, "[-1,1]"), f=(FLAG, "NOT NULL")),
    Space.of(a=(SIGNED, "NOT NULL"), b=SIGNED, f=FLAG),
)
A, B = Column(INT, True, "a"), Column(INT, True, "b")
EITHER, OTHER = call("COALESCE", A, B), call("COALESCE", B, A)
CHOICES: dict[str, Sequence[tuple[str, Expression]]] = {
    "alone": [("c", EITHER)],
    "beside f": [("c", EITHER), ("f", Column(FLAG.type, True, "f"))],
    "with a": [("c", EITHER), ("a", A)],
    "with b": [("c", EITHER), ("b", B)],
    "with a constant": [("c", call("COALESCE", A, literal(INT, 0)))],
    "of three": [("c", call("COALESCE", A, B, literal(INT, 1)))],
    "nested": [("c", call("COALESCE", EITHER, literal(INT, 1)))],
    "of a sum": [("c", call("COALESCE", call("+", A, literal(INT, 1)), B))],
    "two": [("c", EITHER), ("d", OTHER)],
}


SOUND_ONLY = ("with a", "with b", "two", "of a sum")
"""Choices that need not emit all justified punctuations.

No punctuation expresses that c = b where a is null, and a value of a + 1 may belong to no a of these streams.
"""


def columns(space: Space, choice: Sequence[tuple[str, Expression]]) -> list[tuple[str, Expression]]:
    """The columns, with the nullability that a space declares for their attributes."""

    def declared(e: Expression) -> Expression | None:
        if not isinstance(e, Column):
            return None
        a = space.schema[e.name]
        return Column(a.type, a.nullable, a.name)

    return [(name, e.rewrite(declared)) for name, e in choice]


def largest(space: Space, choice: Sequence[tuple[str, Expression]], owes: bool) -> Oracle:
    """An oracle that closes all results that no later tuple has; with ``owes`` it requires them."""

    def row(t: Row) -> Row:
        read: dict[str, Any] = dict(zip(space.schema.names, t, strict=True))
        return tuple(evaluate_row(e, read) for _, e in choice)

    def promised(ports: Ports) -> Promise:
        coming = {tuple(map(same, row(t))) for t in space.tuples() if not set_match(t, ports[0].ps)}
        return lambda u: tuple(map(same, u)) not in coming

    def owed(ports: Ports) -> Promise:
        return promised(ports) if owes else lambda u: False

    return Oracle(lambda ports: [row(t) for t in ports[0].ts], promised, nothing, owed)


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_all_justified_punctuations_are_emitted(space: Space, name: str) -> None:
    choice = columns(space, CHOICES[name])
    expected = largest(space, choice, name not in SOUND_ONLY)
    rows = {tuple(map(same, t)): t for t in expected.cpass([Port(space.tuples(), [])])}
    probes = list(rows.values())  # all possible results

    def make() -> Project:
        operator = Project(space.schema, choice)
        operator.opening()
        return operator

    from_the_start = Project(space.schema, choice).opening()
    assert not [t for t in probes if set_match(t, from_the_start)]

    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        stream = data.draw(streams(space))
        first_run, second_run = drive_twice(data, make, expected, [stream], probes)
        assert bag(first_run.tuples) == bag(second_run.tuples)

    check()


def test_table() -> None:
    """Punctuations on b count where a is null, which only `*` matches."""
    schema = Schema.parse("a INT, b INT, v INT")
    check_table(
        Project(schema, [("c", EITHER), ("v", Column(INT, True, "v"))]),
        """
        1 2 0; null 3 0; null null 0  -> 1 0; 3 0; null 0
        P(*, *, 6)                    -> P(*, 6)
        P([1,5], *, *)                ->
        P(*, 2, 7)                    -> P(2, 7)
        P(8, [1,9], *)                ->
        P(*, [3,9], *)                -> P([3,5], *)
        """,
    )


def test_too_many_alternatives_promise_nothing() -> None:
    names = [f"x{i}" for i in range(10)]
    schema = Schema.parse(", ".join(f"{name} INT" for name in [*names, "v"]))
    pairs = [call("COALESCE", *(Column(INT, True, n) for n in names[i : i + 2])) for i in range(0, 10, 2)]
    assert 2 ** len(pairs) > MOST
    operator = Project(schema, [*((f"c{i}", e) for i, e in enumerate(pairs)), ("v", Column(INT, True, "v"))])
    closed = ", ".join(["*"] * 10)
    check_table(operator, f"P({closed}, 7) -> P(*, *, *, *, *, 7)")
