"""Grouping keys of shards, chosen so that Spark distributes them over all partitions.

Spark assigns a grouping key to a partition by its own hash. Keys 0 and 1 both fall into partition 1 of 2, so two shards
would run one after the other. The keys here fill all partitions.
"""

from __future__ import annotations

_MASK = 0xFFFFFFFF
_SEED = 42


def _rotate(x: int, bits: int) -> int:
    return (x << bits | x >> 32 - bits) & _MASK


def spark_hash(value: int) -> int:
    """The result of Spark's ``hash`` for one INT column: Murmur3 (x86, 32 bits) with seed 42, as a signed int.

    >>> spark_hash(0), spark_hash(1)
    (933211791, -559580957)
    """
    mixed = _rotate((value & _MASK) * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    state = (_rotate(_SEED ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    state ^= 4  # the length in bytes
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    state ^= state >> 16
    return state - 2**32 if state >= 2**31 else state


def shard_keys(shards: int) -> list[int]:
    """For each shard i, the smallest int that Spark assigns to partition i of ``shards`` partitions."""
    by_shard: dict[int, int] = {}
    key = 0
    while len(by_shard) < shards:
        by_shard.setdefault(spark_hash(key) % shards, key)
        key += 1
    return [by_shard[shard] for shard in range(shards)]
