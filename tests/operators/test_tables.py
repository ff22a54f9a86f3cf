"""The paper's Tables 2 to 4 as examples, and mistakes of earlier implementations (semantics 9)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.operators.harness import check_table, give, notation, promised
from xmlpunct.engine.partition.routing import owners_of
from xmlpunct.expressions.expression import Column, Literal
from xmlpunct.expressions.functions import call
from xmlpunct.operators import (
    Aggregate,
    GroupBy,
    Join,
    Merge,
    Operator,
    Pointwise,
    Project,
    Select,
)
from xmlpunct.operators.merge.gather import Gather
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.types import INT
from xmlpunct.types.pattern_text import parse_pattern

TABLES = Path(__file__).parents[1] / "fixtures" / "tables"


@dataclass(frozen=True)
class Entry:
    """A row of a table: an operator, its invariant as text, and slices with their outputs."""

    table: str
    operator: str
    invariant: str
    slices: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.table}: {self.operator.partition('(')[0]}"


def entries() -> Iterator[Entry]:
    """All rows of all tables: each paragraph after the title."""
    for path in sorted(TABLES.glob("*.txt")):
        for paragraph in path.read_text("utf-8").split("\n\n")[1:]:
            operator, invariant, *slices = paragraph.strip().splitlines()
            yield Entry(path.stem, operator, invariant, tuple(slices))


def parse_operator(text: str) -> Operator:
    """An operator from its line in a table: its name, its inputs' schemas, then its other arguments."""
    name, _, arguments_text = text.removesuffix(")").partition("(")
    first, *arguments = (part.strip() for part in arguments_text.split(";"))
    schema = Schema.parse(first)
    if name == "join":
        right = Schema.parse(arguments[0])
        return Join(schema, right, [(schema.names[0], right.names[0])], arguments[1])
    if name == "group-by":
        function, argument = arguments[1].split()
        return GroupBy(schema, [arguments[0]], [Aggregate(function, argument, False, "r")])
    if name == "project":
        return Project.rename(schema, arguments, arguments)
    if name == "select":
        column, comparison, value = arguments[0].split()
        return Select(schema, call(comparison, Column(INT, True, column), Literal(INT, False, int(value))))
    if name == "dupelim":
        return Pointwise([schema], "distinct")
    if name == "merge":
        return Merge([schema, Schema.parse(arguments[0])])
    return Pointwise([schema, schema], {"difference": "except"}.get(name, name))


@pytest.mark.parametrize("entry", list(entries()), ids=str)
def test_table(entry: Entry) -> None:
    operator = parse_operator(entry.operator)
    for line in entry.slices:
        slices, _, rows = line.partition("=>")
        check_table(operator, slices)
        assert not rows or operator.state.rows == int(rows), line


# Mistakes of earlier implementations

X = Schema.parse("x INT")
ITEM, BID = "k INT, v INT", "l INT, w INT"


def test_range_bounds_are_read_whole() -> None:
    pattern = parse_pattern(INT, "(,100)")
    assert pattern.matches(99)
    assert not pattern.matches(100)


def test_group_by_does_not_close_on_a_punctuation_that_constrains_more_than_keys() -> None:
    operator = parse_operator("group-by(sid STRING, hour INT, temp INT; hour; MAX temp)")
    check_table(operator, "S1 5 70; P(S1, 5, *) ->\n P(*, 5, [0,99]) ->\n P(*, 5, *) -> 5 70; P(5, *)")


@pytest.mark.parametrize("kind", ["inner", "left", "right", "full"])
def test_join_does_not_purge_on_other_attributes(kind: str) -> None:
    operator = parse_operator(f"join({ITEM}; {BID}; {kind})")
    give(operator, 0, notation(operator, 0, "1 10"))
    give(operator, 1, notation(operator, 1, "P(1, 5); P(*, 6); P(1, [7,))"))
    output = give(operator, 1, notation(operator, 1, "1 4"))
    assert output.tuples.height == 1


def test_union_does_not_wait_for_equal_punctuations() -> None:
    check_table(Pointwise([X, X], "union"), "1: P([5,15]) ->\n 2: P([10,20]) -> P([10,15])")


def test_group_by_propagates() -> None:
    check_table(parse_operator("group-by(k INT, v INT; k; SUM v)"), "P(5, *) -> P(5, *)\n P(6, *) -> P(6, *)")


@pytest.mark.parametrize("kind", ["inner", "left", "full"])
def test_an_item_s_punctuation_is_emitted_in_the_slice_that_frees_it(kind: str) -> None:
    """prop applies after keep: the end of its bids frees the item's own punctuation at once."""
    operator = parse_operator(f"join({ITEM}; {BID}; {kind})")
    assert not give(operator, 0, notation(operator, 0, "1 10; P(1, *)")).punctuations
    punctuations = give(operator, 1, notation(operator, 1, "P(1, *)")).punctuations
    assert any(p.patterns[0].matches(1) and len(p.constrained) == 1 for p in punctuations)


def test_punctuations_that_fuse_are_released_one_by_one() -> None:
    operator = parse_operator(f"join({ITEM}; {BID}; inner)")
    check_table(operator, "1: 0 1; 1 2; P(*, 1); P(*, 2) ->\n 2: P(0, *) -> P(0, *, *); P(*, 1, *)")


def test_two_shards_do_not_fuse_into_a_range_that_the_third_has_not_closed() -> None:
    """Two of three shards close their values in [0,9]; the third's stay open."""
    owners = owners_of(X, ("x",), 3)
    gather = Gather(X, 3, [("x",)], owners)
    ranged = Punctuation.of(X, x="[0,9]")
    emitted = [*promised(gather, 0, [ranged]), *promised(gather, 1, [ranged])]
    shards = owners([(n,) for n in range(10)])
    assert [n for n in range(10) if any(p.patterns[0].matches(n) for p in emitted)] == [
        n for n in range(10) if shards[n] != 2
    ]


def test_an_empty_right_side_of_a_left_join_does_not_close_the_output() -> None:
    check_table(
        parse_operator(f"join({ITEM}; {BID}; left)"),
        """
        2: P(*, *)           -> P(*, *, (,), *); P(*, *, *, (,))
        1: 1 10              -> 1 10 null null
        1: P(1, *)           -> P(1, *, *, *)
        1: 2 11; P(*, *)     -> 2 11 null null; P(*, *, *, *)
        """,
    )


def test_a_half_closed_maximum_is_not_reported() -> None:
    operator = parse_operator("group-by(sid STRING, hour INT, temp INT; hour; MAX temp)")
    check_table(operator, "S1 5 70; P(S1, *, *) ->\n S2 5 80; P(*, 5, *) -> 5 80; P(5, *)")
