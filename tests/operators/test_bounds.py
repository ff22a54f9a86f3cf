"""State is bounded by open items: an auction that never ends, item after item, bid after bid."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from xmlpunct.expressions.expression import Column, Expression
from xmlpunct.expressions.functions import call, literal
from xmlpunct.operators import (
    Aggregate,
    GroupBy,
    Join,
    Merge,
    Operator,
    Pipeline,
    Pointwise,
)
from xmlpunct.operators.join.join_output import PRESERVED
from xmlpunct.punctuations.punctuation import Punctuation, Tuple
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice
from xmlpunct.types import INT

ITEMS = 100_000 if os.environ.get("XMLPUNCT_LONG") == "1" else 10_000
STEP, LAG = 500, 2
"""Items per slice; the number of slices after which an item's bids are closed."""
ITEM = Schema.parse("id INT NOT NULL, seller STRING")
BID = Schema.parse("item INT NOT NULL, price INT")
OFFER = Schema.parse("id INT NOT NULL, least INT")
NUMBER = Schema.parse("x INT")


def items(schema: Schema, first: int, per_item: int, stride: int = 1) -> Slice:
    """``per_item`` tuples for every ``stride``-th item of a slice, and each item's closing punctuation."""
    numbers = range(first, first + STEP)
    rows: list[Tuple] = [
        (n, "ann" if schema is ITEM else n)[: len(schema)]
        for n in numbers
        if n % stride == 0
        for _ in range(per_item)
    ]
    name = schema.names[0]
    return Slice(schema.frame(rows), [Punctuation.of(schema, **{name: n}) for n in numbers])


def auction(left: Schema, right: Schema) -> Iterator[tuple[int, Slice]]:
    """Items on the left; their bids, none for every second item, ``LAG`` slices later on the right."""
    for first in range(0, ITEMS, STEP):
        yield 0, items(left, first, 1)
        if first >= LAG * STEP:
            yield 1, items(right, first - LAG * STEP, 2, stride=2)


def backwards(left: Schema, right: Schema) -> Iterator[tuple[int, Slice]]:
    """The same auction with the bids first."""
    for port, slice_ in auction(right, left):
        yield 1 - port, slice_


def joins(kind: str) -> Callable[[], list[Operator]]:
    return lambda: [Join(ITEM, BID, [("id", "item")], kind)]


def enough(twice: bool) -> Expression:
    """A condition: a bid is not below an offer, or not below half of it, which bounds no attribute of offers."""
    price = Column(INT, True, "price")
    return call(">=", call("*", price, literal(INT, 2)) if twice else price, Column(INT, True, "least"))


def bounded(kind: str, twice: bool = False) -> Callable[[], list[Operator]]:
    return lambda: [Join(OFFER, BID, [("id", "item")], kind, enough(twice))]


def counted() -> list[Operator]:
    join = Join(ITEM, BID, [("id", "item")], "left")
    return [join, GroupBy(join.schema, ("id",), [Aggregate("MAX", "price", False, "best")])]


MADE: dict[str, tuple[Callable[[], list[Operator]], Schema, Schema]] = {
    **{kind: (joins(kind), ITEM, BID) for kind in PRESERVED},
    "full, bounded": (bounded("full"), OFFER, BID),
    "left, bounded on one side": (bounded("left", twice=True), OFFER, BID),
    "anti, bounded": (bounded("anti"), OFFER, BID),
    "left join, group-by": (counted, ITEM, BID),
    "intersect": (lambda: [Pointwise([NUMBER, NUMBER], "intersect")], NUMBER, NUMBER),
    "difference": (lambda: [Pointwise([NUMBER, NUMBER], "except")], NUMBER, NUMBER),
    "merge": (lambda: [Merge([NUMBER, NUMBER])], NUMBER, NUMBER),
    "merge, dupelim": (lambda: [Merge([NUMBER, NUMBER]), Pointwise([NUMBER], "distinct")], NUMBER, NUMBER),
    "union": (lambda: [Pointwise([NUMBER, NUMBER], "union")], NUMBER, NUMBER),
}


BOTH = ("left", "semi", "anti", "full, bounded", "left join, group-by", "difference")
"""Cases with different sides, for which the order of the inputs matters."""


@pytest.mark.parametrize(
    ("name", "order"), [*((name, auction) for name in MADE), *((name, backwards) for name in BOTH)]
)
def test_state_stays_small(name: str, order: Callable[[Schema, Schema], Iterator[tuple[int, Slice]]]) -> None:
    stages, left, right = MADE[name]
    operators = stages()
    targets = [*([(i + 1, 0)] for i in range(len(operators) - 1)), []]
    pipeline = Pipeline(operators, [[(0, 0)], [(0, 1)]], targets)
    promised = 0
    for port, slice_ in order(left, right):
        promised += len(pipeline.push(port, slice_).punctuations)
    peaks = [(c.state_rows_peak, c.held_punctuations_peak) for c in pipeline.counters]
    open_items = (LAG + 1) * STEP
    assert all(rows <= 3 * open_items and punctuations <= 3 * open_items for rows, punctuations in peaks), (
        peaks
    )
    last = [(c.state_rows, c.held_punctuations) for c in pipeline.counters]
    assert all(rows <= 3 * LAG * STEP and punctuations <= 3 * LAG * STEP for rows, punctuations in last), last
    assert promised >= ITEMS - 2 * open_items
