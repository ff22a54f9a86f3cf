"""Promises after a prefix of the input do not depend on slices and shards (semantics 1.2, semantics 5.3)."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.oracle.values import Row
from tests.plans.engines import Recording, engine, probes, watch
from tests.plans.feeds import NAMES, STREAMS, feed
from tests.plans.random_plans import column
from tests.plans.sharded import Sharded
from tests.plans.test_release import counted, picked, scan
from tests.strategies import Element, slice_of
from xmlpunct.engine.plan import (
    Difference,
    DupElim,
    GroupBy,
    Intersect,
    Join,
    Merge,
    Node,
    Project,
    Scan,
    Sort,
    Union,
    numbered,
)
from xmlpunct.engine.rules import optimize
from xmlpunct.engine.sql import plan
from xmlpunct.expressions.functions import call, literal
from xmlpunct.operators import Aggregate, SortKey
from xmlpunct.punctuations.punctuation import Punctuation, match
from xmlpunct.schema import Schema
from xmlpunct.types import INT

RUNS = 200 if os.environ.get("XMLPUNCT_LONG") == "1" else 2
"""Random streams per plan."""


def left() -> Node:
    return scan(0, "a", "b", "s")


def right() -> Node:
    return scan(1, "c", "d")


def third() -> Node:
    return scan(2, "e", "f", "g")


def join(kind: str = "inner", *keys: tuple[str, str]) -> Node:
    return Join(left(), right(), keys or (("a", "c"),), kind)


def semi(anti: bool = False) -> Node:
    return join("anti" if anti else "semi")


def pair(below: Node, *names: str) -> Node:
    """A projection to some columns, renamed."""
    return Project(below, tuple((f"{name}_", column(below.schema, name)) for name in names))


def halved(below: Node) -> Node:
    """A stateful project: b / 2, and a."""
    half = call("/", column(below.schema, "b"), literal(INT, 2))
    return Project(below, (("h", half), ("k", column(below.schema, "a"))))


def grouped(below: Node, *keys: str) -> Node:
    return GroupBy(below, keys, (Aggregate("COUNT", None, False, "n"),))


def upon(kind: str, below: Node, key: str) -> Node:
    """A join of a plan with the third stream."""
    return Join(below, third(), ((key, "e"),), kind)


PLANS: dict[str, Callable[[], Node]] = {
    "inner": join,
    "inner by two": lambda: join("inner", ("a", "c"), ("b", "d")),
    "left": lambda: join("left"),
    "left by two": lambda: join("left", ("a", "c"), ("b", "d")),
    "right": lambda: join("right"),
    "full": lambda: join("full"),
    "semi": semi,
    "anti": lambda: semi(anti=True),
    "intersect": lambda: Intersect(scan(0, "a", "b"), right()),
    "except": lambda: Difference(scan(0, "a", "b"), right()),
    "dupelim": lambda: DupElim(left()),
    "union": lambda: Union((scan(0, "a", "b"), right())),
    "group": lambda: counted(left(), "a"),
    "group over inner": lambda: counted(join(), "a"),
    "group by two over inner": lambda: grouped(join(), "a", "b"),
    "group over left": lambda: counted(join("left"), "a"),
    "group over a joint cover": lambda: grouped(Join(third(), scan(1, "c", "d"), (("f", "d"),)), "f", "g"),
    "inner over inner": lambda: upon("inner", join(), "a"),
    "left over inner": lambda: upon("left", join(), "b"),
    "left over left": lambda: upon("left", join("left"), "a"),
    "inner over full": lambda: upon("inner", join("full"), "a"),
    "inner over right": lambda: upon("inner", join("right"), "d"),
    "inner over semi": lambda: upon("inner", semi(), "a"),
    "inner over anti": lambda: upon("inner", semi(anti=True), "a"),
    "inner over intersect": lambda: upon("inner", Intersect(scan(0, "a", "b"), right()), "a"),
    "inner over except": lambda: upon("inner", Difference(scan(0, "a", "b"), right()), "a"),
    "left over union": lambda: upon("left", Union((scan(0, "a", "b"), right())), "a"),
    "inner over group over left": lambda: upon("inner", counted(join("left"), "a"), "a"),
    "inner over project over inner": lambda: optimize(numbered(upon("inner", halved(join()), "k"))),
    "except over semi": lambda: Difference(picked(semi(), "a", "x"), picked(scan(1, "p", "q"), "p", "y")),
    "intersect over except": lambda: Intersect(Difference(scan(0, "a", "b"), right()), scan(1, "p", "q")),
    "union over inner": lambda: Union((pair(join(), "a", "d"), scan(1, "p", "q"))),
    "group over merge over left": lambda: counted(Merge((pair(join("left"), "a", "d"), right())), "a_"),
    "dupelim over inner": lambda: DupElim(pair(join(), "a", "b")),
    "project over inner": lambda: optimize(numbered(halved(join()))),
    "group over project over semi": lambda: optimize(numbered(counted(halved(semi()), "k"))),
    "sort over union": lambda: Sort(Union((scan(0, "a", "b"), right())), (SortKey("a"),)),
}


def parts(rng: random.Random, inputs: Sequence[list[Element]], count: int = 3) -> list[list[list[Element]]]:
    """The feeds cut into parts with a piece of every feed; some feeds end in the first part."""
    result: list[list[list[Element]]] = [[] for _ in range(count)]
    for elements in inputs:
        marks = [rng.choice([rng.randint(0, len(elements)), len(elements)]) for _ in range(count - 1)]
        marks = [0, *sorted(marks), len(elements)]
        for number in range(count):
            result[number].append(elements[marks[number] : marks[number + 1]])
    return result


def can_occur(schema: Schema, t: Row) -> bool:
    """Whether a join can return the tuple: equal or null keys, and a left part if it has a right part."""
    row = dict(zip(schema.names, t, strict=True))
    equal = {row[name] for name in ("a", "c", "e") if row.get(name) is not None}
    supplied = row.get("a") is None and any(row.get(name) is not None for name in ("c", "d"))
    return len(equal) <= 1 and not supplied


@pytest.mark.parametrize("name", PLANS)
def test_promises_do_not_depend_on_slices(name: str) -> None:
    """After each part, the closed probes do not depend on the slices; several shards close at least as many.

    `watch` asserts that the output is grammatical, that it ends once, and that no state is retained after the end,
    with a restart in each part.
    """
    for run in range(RUNS):
        rng = random.Random(f"{name} {run}")
        root = PLANS[name]()
        read = {node.stream.name for node in root.walk() if isinstance(node, Scan)}
        inputs = [feed(rng, s.schema, rng.choice([4, 10, 24])) if s.name in read else [] for s in STREAMS]
        feeds, probe_rows = parts(rng, inputs), probes(root.schema, rng)

        def record(shards: int) -> Recording:
            running = engine(root, NAMES, shards)  # noqa: B023
            return watch(running, STREAMS, feeds, rng, root.schema, probe_rows)  # noqa: B023

        one_shard, one_shard_again = record(0), record(rng.choice([0, 1]))
        assert one_shard.closed == one_shard_again.closed, (
            f"run {run}: on one shard the promises depend on the slices"
        )
        shards = rng.choice([2, 3, 4])
        several_shards, several_shards_again = record(shards), record(shards)
        assert several_shards.closed == several_shards_again.closed, (
            f"run {run}: on {shards} shards the promises depend on the slices"
        )
        assert several_shards.bags == several_shards_again.bags, (
            f"run {run}: the output depends on the slices"
        )
        for closed_on_one, closed_on_several in zip(one_shard.closed, several_shards.closed, strict=True):
            lost = [
                probe_rows[i]
                for i in closed_on_one - closed_on_several
                if can_occur(root.schema, probe_rows[i])
            ]
            assert "right" in name or not lost, f"run {run}: {shards} shards promise less, not {lost[0]}"


LEFT = [(2, 1, None), Punctuation.everything(STREAMS[0].schema)]
RIGHT = [(1, 0), (3, 0), (3, 0)]
ZERO = Punctuation.of(STREAMS[1].schema, k=0)
THIRD: list[Element] = [Punctuation.of(STREAMS[2].schema, k=0)]
ENDING = {
    "inner": join,
    "semi": semi,
    "intersect": lambda: Intersect(picked(left(), "a", "x"), picked(right(), "c", "y")),
    "except": lambda: Difference(picked(left(), "a", "x"), picked(right(), "c", "y")),
    "group over inner": lambda: counted(join(), "a"),
    "inner over inner": lambda: upon("inner", join(), "a"),
    "left over semi": lambda: upon("left", semi(), "a"),
    "union over inner": lambda: Union((picked(join(), "a", "x"), picked(scan(2, "e"), "e", "y"))),
    "dupelim over inner": lambda: DupElim(picked(join(), "a", "x")),
    "project with a memory over inner": lambda: optimize(numbered(halved(join()))),
}


def emitted(root: Node, shards: int, pieces: Sequence[tuple[int, list[Element]]]) -> Iterator[Punctuation]:
    running = Sharded(root, NAMES, shards)
    for output in running.open():
        yield from output.punctuations
    for port, elements in pieces:
        for output in running.push(port, slice_of(STREAMS[port].schema, elements)):
            yield from output.punctuations


@pytest.mark.parametrize("shards", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ENDING)
def test_sharding_does_not_delay_a_promise(name: str, shards: int) -> None:
    """The left input is finished on the shard of 0 and waits on the shard of 2; 0 is closed anyway."""
    root = ENDING[name]()
    before = [(2, THIRD), (1, [*RIGHT, ZERO]), (0, LEFT)]
    after: list[tuple[int, list[Element]]] = [(2, THIRD), (1, RIGHT), (0, LEFT), (1, [ZERO])]
    key = root.schema.index("k") if "k" in root.schema else 0
    zero = [(*t[:key], 0, *t[key + 1 :]) for t in probes(root.schema, random.Random(name), 20)]
    rows = [*zero, *probes(root.schema, random.Random(name))]
    promised = [list(emitted(root, shards, pieces)) for pieces in (before, after)]
    first, second = ({row for row in rows if any(match(row, p) for p in ps)} for ps in promised)
    assert first == second
    assert first.issuperset(zero), "0 is closed"


IMPLIED: dict[str, tuple[int, list[tuple[int, list[str | Row]]]]] = {
    "the shard of 0 cannot emit the end": (2, [(1, ["<2, *>"]), (0, [(0, 2, "b"), "<*, *, *>"])]),
    "the join above withholds the end": (
        0,
        [
            (1, [(1, 2)]),
            (0, [(1, -1, "b"), (2, 2, "b"), "<(,1], *, *>", "<*, *, *>"]),
            (1, ["<{0,2}, *>", "<*, *>"]),
        ],
    ),
}
"""A value of ``a`` that is closed, and slices; a join emits a punctuation that implies it before, or at once."""


@pytest.mark.parametrize("shards", [1, 2, 3, 4])
@pytest.mark.parametrize("name", IMPLIED)
def test_implied_punctuations_are_emitted_where_a_receiver_needs_them(name: str, shards: int) -> None:
    """The examples of semantics 5.3, below another left join."""
    value, slices = IMPLIED[name]
    pieces: list[tuple[int, list[Element]]] = [
        (port, [Punctuation.parse(STREAMS[port].schema, e) if isinstance(e, str) else e for e in elements])
        for port, elements in slices
    ]
    root = PLANS["left over left"]()
    assert Punctuation.of(root.schema, a=value) in set(emitted(root, shards, pieces))


SEVERAL = """
CREATE STREAM a (k INT CHECK (k BETWEEN 0 AND 5), v INT) WITH (source = '-');
CREATE STREAM b (k INT CHECK (k BETWEEN 0 AND 5), w INT) WITH (source = '-');
CREATE STREAM c (k INT) WITH (source = '-');
"""
ADDED_UP = {
    "dropped": ("SELECT v, w FROM a JOIN b ON a.k = b.k", (7, 7)),
    "dropped by a group above": ("SELECT v, COUNT(*) AS n FROM a JOIN b ON a.k = b.k GROUP BY v", (7, 1)),
    "followed": ("SELECT a.k, a.k / 3 AS h FROM a JOIN b ON a.k = b.k", (9, 1)),
    "null in another input of a union": ("SELECT k FROM a UNION SELECT k FROM c", (None,)),
    "null in another input of a merge": (
        "SELECT k FROM (SELECT DISTINCT k FROM a) AS x UNION ALL SELECT k FROM (SELECT DISTINCT k FROM c) AS y",
        (None,),
    ),
}


@pytest.mark.parametrize("shards", [2, 3, 4])
@pytest.mark.parametrize("name", ADDED_UP)
def test_punctuations_of_single_shard_key_values_combine_on_every_shard(name: str, shards: int) -> None:
    """All values of a shard key together close a tuple, although each value belongs to one shard."""
    sql, t = ADDED_UP[name]
    root = plan(SEVERAL + sql).root
    schemas = {node.stream.name: node.stream.schema for node in root.walk() if isinstance(node, Scan)}
    names = sorted(schemas)
    feed = [(0, Punctuation.of(schemas["a"], k=k)) for k in (3, 0, 5, 4, 1, 2)]
    feed.append((1, Punctuation.everything(schemas[names[1]])))

    def closed(shards: int) -> list[bool]:
        """For each punctuation, whether it has closed ``t``."""
        running = engine(root, names, shards)
        list(running.open())
        outputs = (list(running.push(port, slice_of(schemas[names[port]], [p]))) for port, p in feed)
        return [any(match(t, p) for part in output for p in part.punctuations) for output in outputs]

    assert closed(shards) == closed(0)
    assert True in closed(0)
