"""Gather and route: a stream is divided over shards by keys, and merged again."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.harness import FEWER, assert_proper, mixed, promised
from tests.oracle import bag
from tests.plans.feeds import cuts as cut_somehow
from tests.strategies import FLAG, SIGNED, Element, Space, slice_of, streams
from xmlpunct.engine.partition.routing import owners_of, route
from xmlpunct.operators import Aggregate, GroupBy, Join, Operator, Pointwise, run
from xmlpunct.operators.merge.gather import Gather
from xmlpunct.punctuations.punctuation import Punctuation, Tuple
from xmlpunct.schema import Schema

SPACE = Space.of(a=SIGNED, b=(SIGNED, "NOT NULL"), c=FLAG)
X = Schema.parse("x INT")


class Shards:
    """An operator on several shards: ``inputs[port]`` are the shard keys of an input."""

    def __init__(
        self, operators: Sequence[Operator], inputs: Sequence[Sequence[str]], ways: Sequence[Sequence[str]]
    ) -> None:
        self.operators, self.inputs = operators, inputs
        first = operators[0]
        owners = owners_of(first.inputs[0], inputs[0], len(operators))
        self.gather = Gather(first.schema, len(operators), ways, owners)
        self.tuples: list[Tuple] = []
        self.promised: list[Punctuation] = []

    def push(self, port: int, elements: Sequence[Element]) -> list[Punctuation]:
        """Route a slice to the shards; returns the new punctuations. No earlier one may be violated."""
        schema = self.operators[0].inputs[port]
        routed = route(mixed(schema, elements), schema, self.inputs[port], len(self.operators))
        before = len(self.promised)
        for shard, part in routed.items():
            output = run(self.gather, shard, run(self.operators[shard], port, part))
            rows = output.tuples.rows()
            assert_proper(rows, self.promised)
            self.tuples += rows
            self.promised += output.punctuations
        return self.promised[before:]


@pytest.mark.parametrize("shards", [1, 2, 3, 8])
@pytest.mark.parametrize("keys", [("a",), ("b", "a"), ("a", "b", "c")], ids=",".join)
@FEWER
@given(data=st.data())
def test_one_input(keys: tuple[str, ...], shards: int, data: st.DataObject) -> None:
    """dupelim and group-by: after every slice the results of one shard, no punctuation violated, and an end."""
    stream = data.draw(streams(SPACE, ends=True, closing=keys))
    rng = random.Random(data.draw(st.integers(0, 99)))
    count = [Aggregate("COUNT", None, False, "n")]
    operators: Sequence[Operator] = [
        *(Pointwise([SPACE.schema], "distinct") for _ in range(shards + 1)),
        *(GroupBy(SPACE.schema, keys, count) for _ in range(shards + 1)),
    ]
    for instances in (operators[: shards + 1], operators[shards + 1 :]):
        reference = instances[0]
        many = Shards(instances[1:], [keys], [keys])
        expected: list[Tuple] = []
        for port, elements in cut_somehow(rng, [stream]):
            output = run(reference, port, slice_of(SPACE.schema, elements))
            expected += output.tuples.rows()
            many.push(port, elements)
            assert bag(many.tuples) == bag(expected)
        assert any(p.is_everything for p in many.promised)


LEFT, RIGHT = Space.of(k=SIGNED, v=FLAG), Space.of(l=SIGNED, w=FLAG)


@pytest.mark.parametrize("shards", [2, 3, 5])
@pytest.mark.parametrize(
    ("kind", "ways"),
    [
        ("inner", [("k",)]),
        ("left", [("k",), ("l",)]),
        ("right", [("k",), ("l",)]),
        ("full", [("k",), ("l",)]),
    ],
)
@FEWER
@given(data=st.data())
def test_joins(kind: str, ways: list[tuple[str, ...]], shards: int, data: st.DataObject) -> None:
    """Two output attributes of an outer join are the key or null: either one determines the owner."""
    inputs = [data.draw(streams(s, ends=True, closing=s.schema.names[:1])) for s in (LEFT, RIGHT)]
    rng = random.Random(data.draw(st.integers(0, 99)))
    operators = [Join(LEFT.schema, RIGHT.schema, [("k", "l")], kind) for _ in range(shards + 1)]
    many, expected = Shards(operators[1:], [("k",), ("l",)], ways), list[Tuple]()
    for port, elements in cut_somehow(rng, inputs):
        schema = (LEFT, RIGHT)[port].schema
        expected += run(operators[0], port, slice_of(schema, elements)).tuples.rows()
        many.push(port, elements)
        assert bag(many.tuples) == bag(expected)
    assert any(p.is_everything for p in many.promised)


@pytest.mark.parametrize("size", [1, 999, 1000, 1001, 5000])
@pytest.mark.parametrize("keys", [("a",), ("b", "a")], ids=",".join)
def test_a_pattern_at_the_limit_of_enumeration(keys: tuple[str, ...], size: int) -> None:
    """Up to 1,000 values are listed and split by owner, larger ranges go to all shards: both close the values."""
    schema = Schema.parse("a INT, b INT")
    many = Shards([Pointwise([schema], "distinct") for _ in range(3)], [keys], [keys])
    p = (
        Punctuation.of(schema, a=f"[1,{size}]", b="7")
        if len(keys) == 2
        else Punctuation.of(schema, a=f"[1,{size}]")
    )
    emitted = many.push(0, [(1, 7), (size, 7), p])
    for value in (1, size // 2 + 1, size):
        assert any(q.patterns[0].matches(value) and q.patterns[1].matches(7) for q in emitted)
    assert not any(q.patterns[0].matches(size + 1) for q in emitted)
    assert (len(emitted) == 1) == (size > 1000 or size == 1)


def test_a_shard_closes_only_its_own_values() -> None:
    """Punctuations of two shards must not fuse to a range that the third shard has not closed."""
    owners = owners_of(X, ("x",), 3)
    gather = Gather(X, 3, [("x",)], owners)
    by_shard = {shard: n for n, shard in zip(range(50), owners([(n,) for n in range(50)]), strict=True)}
    ranged = Punctuation.of(X, x="[0,49]")
    emitted = promised(gather, 0, [ranged])
    owned = [n for n, shard in zip(range(50), owners([(n,) for n in range(50)]), strict=True) if shard == 0]
    assert [n for n in range(50) if any(p.patterns[0].matches(n) for p in emitted)] == owned
    other = by_shard[2]
    assert promised(gather, 1, [Punctuation.of(X, x=other)]) == []
    assert promised(gather, 2, [Punctuation.of(X, x=other)]) == [Punctuation.of(X, x=other)]


def test_without_the_keys_all_shards_must_agree() -> None:
    gather = Gather(X, 2, [], owners_of(X, (), 2))
    assert promised(gather, 0, [Punctuation.of(X, x=5)]) == []
    assert [str(p) for p in promised(gather, 1, [Punctuation.of(X, x="[4,6]")])] == ["<5>"]


def test_the_order_of_the_shards_does_not_matter() -> None:
    """Punctuations combine only if any two of them are alike; of these three, only two pairs are."""
    schema = Schema.parse("a INT, b INT")
    on_a, on_a_and_b, on_b = (
        Punctuation.of(schema, a="[0,5]"),
        Punctuation.of(schema, a=1, b=1),
        Punctuation.of(schema, b="[0,5]"),
    )
    for by_shard, expected in (((on_a, on_a_and_b, on_b), []), ((on_a, on_a_and_b, on_a), [on_a_and_b])):
        for order in permutations(range(3)):
            gather = Gather(schema, 3, [], owners_of(schema, (), 3))
            combined = [p for shard in order for p in promised(gather, shard, [by_shard[shard]])]
            assert combined == expected
