"""unnest: a tuple for each item of an array, and all punctuations."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle
from tests.operators.harness import check_table, drive_twice, give
from tests.strategies import LETTER, SMALL, Pool, Space, streams
from xmlpunct.operators import Unnest
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import array_of
from xmlpunct.schema.attribute import Attribute

ITEM = Schema.parse("s STRING NOT NULL, q INT, deep ARRAY(v INT)")
_ONE = {"s": "a", "q": 1, "deep": []}
_TWO = {"s": "", "q": None, "deep": [{"v": 1}, {"v": None}]}
LINES = Pool("lines", array_of(ITEM), (), ([], [_ONE], [_TWO, _ONE], [_ONE, _ONE, _ONE]))
SPACES = (Space.of(k=SMALL, l=LINES), Space.of(l=LINES, t=(LETTER, "NOT NULL"), k=(SMALL, "[0,3]")))


@pytest.mark.parametrize("space", SPACES, ids=str)
@given(data=st.data())
def test_against_the_oracle(space: Space, data: st.DataObject) -> None:
    """Some fields of the items, numbered or not, with or without the array, and tuples without items."""
    fields = data.draw(st.lists(st.sampled_from(ITEM.names), unique=True))
    numbered, outer, keeps = (data.draw(st.booleans()) for _ in range(3))
    stream = data.draw(streams(space))
    positions = [i for i, a in enumerate(space.schema) if keeps or a.name != "l"]
    extra = len(fields) + numbered
    probes: list[tuple[Any, ...]] = [
        (*values, *[None] * extra)
        for values in product(*([[]] if i == space.schema.index("l") else space.values(i) for i in positions))
    ]

    def make() -> Unnest:
        named = [(f"l.{field}", field) for field in fields]
        return Unnest(space.schema, "l", named, "l.n" if numbered else None, outer, keeps)

    expected = oracle.unnest(space.schema, "l", fields, numbered, outer, keeps)
    outcomes = drive_twice(data, make, expected, [stream], probes)
    received = [str(p) for p in stream if isinstance(p, Punctuation)]
    for outcome in outcomes:
        assert len(outcome.punctuations) == len(received)


def test_table() -> None:
    schema = Schema.parse("k INT, l ARRAY(v INT)")
    operator = Unnest(schema, "l", [("v", "v")], number="n", outer=True, keeps=False)
    assert give(operator, 0, [(1, [{"v": 5}, {"v": None}]), (2, [])]).tuples.rows() == [
        (1, 5, 1),
        (1, None, 2),
        (2, None, None),
    ]
    check_table(
        operator,
        """
        P(1, *)      -> P(1, *, *)
        P(*, *)      -> P(*, *, *)
        """,
    )


def test_item_fields_are_nullable_where_there_may_be_no_item() -> None:
    schema = Schema.of([Attribute("l", LINES.type, False)])
    for outer in (False, True):
        unnested = Unnest(schema, "l", [("s", "s")], number="n", outer=outer).schema
        assert [a.nullable for a in unnested] == [False, outer, outer]
