"""Plans over streams that close one key after another emit results and promises long before the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import pytest

from tests.oracle.values import Row, bag
from tests.plans.duck import answer
from tests.plans.feeds import NAMES, STREAMS
from tests.plans.random_plans import column
from tests.plans.sharded import Sharded
from tests.strategies import Element, slice_of, tuples_of
from xmlpunct.engine.plan import (
    Difference,
    DupElim,
    GroupBy,
    Intersect,
    Join,
    Limit,
    Node,
    Project,
    Punctuate,
    Scan,
    Sort,
    Union,
    numbered,
)
from xmlpunct.engine.rules import optimize
from xmlpunct.expressions.expression import Expression
from xmlpunct.expressions.functions import call, literal
from xmlpunct.operators import Aggregate, SortKey
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.types import INT

ITEMS = 100


def scan(stream: int, *names: str) -> Node:
    return Scan(STREAMS[stream], STREAMS[stream].schema.names[: len(names)], names)


def counted(below: Node, key: str) -> Node:
    return GroupBy(below, (key,), (Aggregate("COUNT", None, False, f"n_{key}"),))


def picked(below: Node, name: str, new: str) -> Node:
    return Project(below, ((new, column(below.schema, name)),))


PLANS: dict[str, Callable[[], Node]] = {
    "group-by": lambda: counted(scan(0, "a", "b"), "a"),
    "union, group-by": lambda: counted(Union((scan(0, "a", "b"), scan(1, "c", "d"))), "a"),
    "inner join, group-by": lambda: counted(Join(scan(0, "a", "b"), scan(1, "c", "d"), (("a", "c"),)), "a"),
    "left join, group-by": lambda: counted(
        Join(scan(0, "a", "b"), scan(1, "c", "d"), (("a", "c"),), "left"), "a"
    ),
    "right join, group-by": lambda: counted(
        Join(scan(0, "a", "b"), scan(1, "c", "d"), (("a", "c"),), "right"), "c"
    ),
    "full join": lambda: Join(scan(0, "a", "b"), scan(1, "c", "d"), (("a", "c"),), "full"),
    "two joins": lambda: Join(
        Join(scan(0, "a", "b"), scan(1, "c", "d"), (("a", "c"),)), scan(1, "e", "f"), (("a", "e"),), "left"
    ),
    "semi, dupelim": lambda: DupElim(
        picked(Join(scan(0, "a", "b"), scan(1, "c", "d"), (("a", "c"),), "semi"), "a", "x")
    ),
    "anti, group-by": lambda: counted(Join(scan(0, "a", "b"), scan(1, "c", "d"), (("a", "c"),), "anti"), "a"),
    "intersect": lambda: Intersect(picked(scan(0, "a"), "a", "x"), picked(scan(1, "c"), "c", "y")),
    "difference": lambda: Difference(picked(scan(0, "a"), "a", "x"), picked(scan(1, "c"), "c", "y")),
    "join of group-bys": lambda: Join(
        counted(scan(0, "a", "b"), "a"), counted(scan(1, "c", "d"), "c"), (("a", "c"),)
    ),
}


def items(stream: int, n: int) -> list[Element]:
    """Two tuples of an item (none for some items), and a punctuation that closes it."""
    schema = STREAMS[stream].schema
    rows = [(n, v, "x")[: len(schema)] for v in (1, 2) if (n + stream) % 5]
    return [*rows, Punctuation.of(schema, k=n)]


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("name", PLANS)
def test_closed_results_are_released_before_the_last_tenth(name: str, shards: int) -> None:
    engine, root = Sharded(PLANS[name](), NAMES, shards), PLANS[name]()
    released, promised, retained = [], 0, []
    for first in range(0, ITEMS * 9 // 10, 5):
        for port in (0, 1):
            elements = [e for n in range(first, first + 5) for e in items(port, n)]
            for output in engine.push(port, slice_of(STREAMS[port].schema, elements)):
                released += output.tuples.rows()
                promised += len(output.punctuations)
        retained.append(sum(o.state.rows for o in engine.operators))
    tables = {
        NAMES[port]: (
            STREAMS[port].schema,
            tuples_of(e for n in range(ITEMS * 9 // 10) for e in items(port, n)),
        )
        for port in (0, 1)
    }
    assert bag(released) == bag(answer(root, tables)), "a tuple that all inputs have closed is released"
    assert promised >= ITEMS / 2
    assert max(retained) == 0, "and its state is purged"


def upto(stream: int, n: int) -> list[Element]:
    """Some tuples of an item, and a punctuation that closes it and all earlier items."""
    return [*items(stream, n)[:-1], Punctuation.of(STREAMS[stream].schema, k=f"(,{n}]")]


def by_letter(stream: int, n: int) -> list[Element]:
    """Tuples of an item, and a punctuation that closes it for each letter."""
    schema = STREAMS[stream].schema
    letters = ("a", "b")
    rows = [(n, None, None, t) for t in letters]
    return [*rows, *(Punctuation.of(schema, k=n, t=t) for t in letters)]


def unpunctuated(stream: int, n: int) -> list[Element]:
    """Tuples without punctuations, slightly out of order where the stream allows it."""
    if STREAMS[stream].name == "s6":
        return [(n, "a", 1), (n, "b", 2)]
    return [(n, 1, Decimal(0)), (n - 1, 2, Decimal(0))]


def ordered(below: Node, *keys: str) -> Node:
    return Sort(below, tuple(SortKey(key) for key in keys))


def coarse(below: Node) -> Expression:
    return call("/", column(below.schema, "a"), literal(INT, 10))


def in_order(stream: int, *names: str) -> Node:
    order = STREAMS[stream].order
    assert order is not None
    sender_column = (
        None if order.sender_column is None else names[STREAMS[stream].schema.index(order.sender_column)]
    )
    return Punctuate(scan(stream, *names), replace(order, attribute=names[0], sender_column=sender_column))


ORDERED: dict[str, tuple[Callable[[], Node], Callable[[int, int], list[Element]], int, int]] = {
    "sort": (lambda: ordered(scan(0, "a", "b", "c"), "a"), upto, 0, 0),
    "sort of a group-by": (lambda: ordered(counted(scan(0, "a", "b"), "a"), "a"), upto, 0, 0),
    "sort of a union": (lambda: ordered(Union((scan(1, "a", "b"), scan(1, "c", "d"))), "a"), upto, 1, 0),
    "group-by a monotone expression": (
        lambda: optimize(numbered(counted(Project(s := scan(0, "a", "b"), (("x", coarse(s)),)), "x"))),
        upto,
        0,
        0,
    ),
    "joint covers, group-by": (lambda: counted(scan(4, "a", "x", "y", "t"), "a"), by_letter, 4, 0),
    "joint covers, dupelim": (
        lambda: DupElim(picked(scan(4, "a", "x", "y", "t"), "a", "z")),
        by_letter,
        4,
        0,
    ),
    "punctuate, group-by": (lambda: counted(in_order(5, "a", "b", "c"), "a"), unpunctuated, 5, 2),
    "punctuate by sender, group-by": (lambda: counted(in_order(6, "a", "t", "b"), "a"), unpunctuated, 6, 1),
    "punctuate, sort": (lambda: ordered(in_order(5, "a", "b", "c"), "a", "b"), unpunctuated, 5, 2),
}
"""A plan, the elements of an item, the number of the stream, and the number of items that stay open."""


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("name", ORDERED)
def test_results_closed_in_order_are_released(name: str, shards: int) -> None:
    make, elements_of, stream, open_items = ORDERED[name]
    engine, schema = Sharded(make(), NAMES, shards), STREAMS[stream].schema
    rows = [t for output in engine.open() for t in output.tuples.rows()]
    for n in range(ITEMS // 2):
        for output in engine.push(stream, slice_of(schema, elements_of(stream, n))):
            rows += output.tuples.rows()
        assert sum(o.state.rows for o in engine.operators) <= 3 * (
            open_items + (n % 10 != 9) * ("monotone" in name)
        )
    closed = [
        t
        for n in range(ITEMS // 2 + 1)
        for t in tuples_of(elements_of(stream, n))
        if isinstance(t[0], int) and t[0] < ITEMS // 2 - open_items
    ]
    expected = answer(make(), {NAMES[stream]: (schema, closed)})
    assert bag(rows) == bag(expected), "closed tuples are released"
    if "sort" in name:
        assert rows == expected


@pytest.mark.parametrize("shards", [1, 3])
def test_the_end_of_the_null_supplied_side_closes_all_its_values(shards: int) -> None:
    """Later tuples have nulls on that side, so only the null group of a group-by on it stays open."""
    root = counted(Join(scan(0, "a", "b"), scan(1, "c", "d"), (("a", "c"),), "left"), "c")
    engine, released = Sharded(root, NAMES, shards), list[Row]()
    schemas = [STREAMS[port].schema for port in (0, 1)]
    feeds: list[list[Element]] = [
        [(n, 0, "x") for n in range(9)] + [Punctuation.of(schemas[0], k="[0,20]")],
        [(n, 0) for n in range(3, 12)] + [Punctuation.everything(schemas[1])],
        [(30, 0, "x"), Punctuation.everything(schemas[0])],
    ]
    rows = []
    for port, elements in zip((0, 1, 0), feeds, strict=True):
        for output in engine.push(port, slice_of(schemas[port], elements)):
            released += output.tuples.rows()
        rows.append(sorted(released, key=str))
    groups = [(n, 1) for n in range(3, 9)]
    assert rows == [[], groups, [*groups, (None, 4)]]


@pytest.mark.parametrize("shards", [1, 3])
def test_limit_ends_the_output(shards: int) -> None:
    """LIMIT ends the output after the first rows of ORDER BY, or after any rows without it."""
    sorted_, any_ = Limit(ordered(scan(0, "a", "b", "c"), "a"), 5), Limit(scan(0, "a", "b", "c"), 5)
    for root in map(numbered, (sorted_, any_)):
        engine, rows, ended = Sharded(root, NAMES, shards), list[Row](), 0
        for n in range(20):
            for output in engine.push(0, slice_of(STREAMS[0].schema, upto(0, n))):
                assert not (ended and output)
                rows += output.tuples.rows()
                ended += sum(p.is_everything for p in output.punctuations)
        assert rows == [t for n in range(20) for t in tuples_of(upto(0, n))][:5]
        assert ended == 1


def test_sides_of_different_types_are_refused_with_a_reason() -> None:
    with pytest.raises(ValueError, match="CAST"):
        Join(scan(0, "a", "b", "s"), scan(1, "c", "d"), (("s", "c"),)).operator()
    with pytest.raises(ValueError, match="types"):
        Union((scan(0, "a", "b", "s"), scan(1, "c", "d"))).operator()


@pytest.mark.parametrize("shards", [3])
def test_one_attribute_as_two_partition_attributes(shards: int) -> None:
    """SELECT k AS x, k AS y ... EXCEPT ...: both columns carry one attribute below the project."""
    below = DupElim(scan(0, "a"))
    a = column(below.schema, "a")
    root = Difference(Project(below, (("x", a), ("y", a))), scan(1, "c", "d"))
    engine = Sharded(root, NAMES, shards)
    rows = [
        t
        for s in engine.push(0, slice_of(STREAMS[0].schema, [(1, 2, "x"), (2, 2, "x")]))
        for t in s.tuples.rows()
    ]
    ends = [Punctuation.everything(STREAMS[port].schema) for port in (0, 1)]
    for port in (0, 1):
        for s in engine.push(port, slice_of(STREAMS[port].schema, [ends[port]])):
            rows += s.tuples.rows()
    assert bag(rows) == bag([(1, 1), (2, 2)])
