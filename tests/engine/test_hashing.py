"""The hash that decides the shard of a tuple: stable across versions, and even."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal

import polars as pl

from xmlpunct import Schema
from xmlpunct.engine.partition.hashing import shard_of

SCHEMA = Schema.parse("i INT, s STRING, x DOUBLE, d DECIMAL(20,2), b BOOLEAN, day DATE, at TIMESTAMP")
ROWS = [
    (17, "S01", 1.5, Decimal("12.34"), True, date(2026, 1, 2), datetime(2026, 1, 2, 3, tzinfo=UTC)),
    (-1, "", float("nan"), Decimal("-0.01"), False, date(1, 1, 1), datetime(1, 1, 1, tzinfo=UTC)),
    (None,) * 7,
]


def test_the_hash_never_changes() -> None:
    """Checkpoints store state by this hash. If this test fails, increment `hashing.VERSION`."""
    frame = SCHEMA.frame(ROWS)
    shards = {name: shard_of(frame.select(name), 1000).tolist() for name in SCHEMA.names}
    assert shards == EXPECTED
    assert shard_of(frame, 1000).tolist() == EXPECTED_TOGETHER


def test_equal_values_have_the_same_shard() -> None:
    frame = pl.DataFrame({"x": [0.0, -0.0, float("nan"), -float("nan")]})
    shards = shard_of(frame, 1000).tolist()
    assert shards[0] == shards[1]
    assert shards[2] == shards[3]


def test_the_hash_is_even() -> None:
    frame = pl.DataFrame({"i": range(8000)})
    counts = Counter(shard_of(frame, 8).tolist())
    assert len(counts) == 8
    assert max(counts.values()) < 1.2 * min(counts.values())


EXPECTED = {
    "i": [634, 0, 535],
    "s": [718, 957, 535],
    "x": [985, 75, 535],
    "d": [421, 176, 535],
    "b": [752, 957, 535],
    "day": [334, 935, 535],
    "at": [577, 53, 535],
}
EXPECTED_TOGETHER = [644, 796, 782]
