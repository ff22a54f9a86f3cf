"""Plans over streams that close key after key: results and promises come long before the end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.oracle.values import bag
from tests.plans.duck import answer
from tests.plans.random_plans import NAMES, STREAMS, column
from tests.plans.sharded import Sharded
from tests.strategies import Element, slice_of, tuples_of
from xmlpunct.engine.plan import (
    Difference,
    DupElim,
    GroupBy,
    Intersect,
    Join,
    Node,
    Project,
    Scan,
    SemiJoin,
    Union,
)
from xmlpunct.operators import Aggregate
from xmlpunct.punctuation import Punctuation

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
        picked(SemiJoin(scan(0, "a", "b"), scan(1, "c", "d"), (("a", "c"),)), "a", "x")
    ),
    "anti, group-by": lambda: counted(
        SemiJoin(scan(0, "a", "b"), scan(1, "c", "d"), (("a", "c"),), True), "a"
    ),
    "intersect": lambda: Intersect(picked(scan(0, "a"), "a", "x"), picked(scan(1, "c"), "c", "y")),
    "difference": lambda: Difference(picked(scan(0, "a"), "a", "x"), picked(scan(1, "c"), "c", "y")),
    "join of group-bys": lambda: Join(
        counted(scan(0, "a", "b"), "a"), counted(scan(1, "c", "d"), "c"), (("a", "c"),)
    ),
}


def items(stream: int, n: int) -> list[Element]:
    """Two tuples of an item, none for some items, and its closing."""
    schema = STREAMS[stream].schema
    rows = [(n, v, "x")[: len(schema)] for v in (1, 2) if (n + stream) % 5]
    return [*rows, Punctuation.of(schema, k=n)]


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("name", PLANS)
def test_most_is_out_before_the_last_tenth(name: str, shards: int) -> None:
    engine, root = Sharded(PLANS[name](), NAMES, shards), PLANS[name]()
    found, promised, rows = [], 0, []
    for first in range(0, ITEMS * 9 // 10, 5):
        for port in (0, 1):
            elements = [e for n in range(first, first + 5) for e in items(port, n)]
            for output in engine.push(port, slice_of(STREAMS[port].schema, elements)):
                found += output.tuples.rows()
                promised += len(output.punctuations)
        rows.append(engine.rows)
    tables = {
        NAMES[port]: STREAMS[port].schema.frame(
            tuples_of(e for n in range(ITEMS * 9 // 10) for e in items(port, n))
        )
        for port in (0, 1)
    }
    assert bag(found) == bag(answer(root, tables)), "what is closed on all inputs is out"
    assert promised >= ITEMS / 2
    assert max(rows) == 0, "and forgotten"


def test_sides_of_different_types_are_refused_with_a_reason() -> None:
    with pytest.raises(ValueError, match="CAST"):
        Join(scan(0, "a", "b", "s"), scan(1, "c", "d"), (("s", "c"),)).operator()
    with pytest.raises(ValueError, match="types"):
        Union((scan(0, "a", "b", "s"), scan(1, "c", "d"))).operator()


@pytest.mark.parametrize("shards", [3])
def test_one_attribute_as_two_partition_attributes(shards: int) -> None:
    """SELECT k AS x, k AS y ... EXCEPT ...: both columns are the same one below the project."""
    below = DupElim(scan(0, "a"))
    a = column(below.schema, "a")
    root = Difference(Project(below, (("x", a), ("y", a))), scan(1, "c", "d"))
    engine = Sharded(root, NAMES, shards)
    found = [
        t
        for s in engine.push(0, slice_of(STREAMS[0].schema, [(1, 2, "x"), (2, 2, "x")]))
        for t in s.tuples.rows()
    ]
    ends = [Punctuation.everything(STREAMS[port].schema) for port in (0, 1)]
    for port in (0, 1):
        for s in engine.push(port, slice_of(STREAMS[port].schema, [ends[port]])):
            found += s.tuples.rows()
    assert bag(found) == bag([(1, 1), (2, 2)])
