"""The outline of an operator's state: few boxes, and each retained tuple is in one of them."""

from __future__ import annotations

import math
import random

import pytest

from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.group.aggregate import Aggregate
from xmlpunct.operators.group.group_by import GroupBy
from xmlpunct.operators.retained_outline import COUNT, HIGH, MOST, NULL, outline
from xmlpunct.operators.state import State
from xmlpunct.schema import Schema

SCHEMA = Schema.parse("sid STRING, hour INT, x DOUBLE")


def is_in(value: object, low: object, high: object, null: bool) -> bool:
    if value is None:
        return null
    key = SCHEMA["x"].type.key if isinstance(value, float) else lambda v: v
    return low is not None and key(low) <= key(value) <= key(high)


@pytest.mark.parametrize("size", [3, MOST, 2 * MOST, 40 * MOST])
def test_each_tuple_is_in_a_box(size: int) -> None:
    rng = random.Random(size)
    rows = [
        (rng.choice(["a", "b", None]), n, rng.choice([0.5, math.nan, None, -math.inf])) for n in range(size)
    ]
    waiting = Arrangement(SCHEMA.empty(), ["hour"])
    for at in range(0, size, MOST):
        waiting.append(SCHEMA.frame(rows[at : at + MOST]))
    boxes = outline(State(waiting=waiting))["waiting"]
    assert boxes.height == (size if size <= MOST else 1)
    assert boxes[COUNT].sum() == size
    for row, box in zip(rows, boxes.iter_rows(named=True), strict=size <= MOST):
        for name, value in zip(SCHEMA.names, row, strict=True):
            assert is_in(value, box[name], box[name + HIGH], box[name + NULL])
    box = boxes.row(0, named=True)
    assert size <= MOST or (box["hour"], box["hour" + HIGH], box["sid" + NULL]) == (0, size - 1, True)


def test_equal_tuples_are_in_one_box_and_an_empty_state_has_none() -> None:
    waiting = Arrangement(SCHEMA.empty(), ["hour"])
    assert outline(State(waiting=waiting)) == {}
    waiting.append(SCHEMA.frame([("a", 1, None)] * 5000))
    (box,) = outline(State(waiting=waiting))["waiting"].iter_rows(named=True)
    assert (box["sid"], box["hour"], box["x"], box[COUNT]) == ("a", 1, None, 5000)


def test_groups_are_outlined_by_their_keys_only() -> None:
    it = GroupBy(SCHEMA, ["hour"], [Aggregate("SUM", "x", False, "total")])
    it.step(0, SCHEMA.frame([("a", 1, 0.5), ("b", 1, 0.5), ("a", 2, 0.5)]))
    boxes = outline(it.state)["groups"]
    assert boxes.columns == ["hour", "hour" + HIGH, "hour" + NULL, COUNT]
    assert boxes["hour"].to_list() == [1, 2]
