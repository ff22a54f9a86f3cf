"""The shard of a tuple: a stable hash of typed values.

The hash is our own, so that a new version of a library does not separate tuples from their shard's state. Equal values
of one type have the same hash on every machine. Null has a fixed hash.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.base.arrow_memory import integers
from xmlpunct.base.doubles import words
from xmlpunct.expressions.int128 import unscaled

VERSION = 1
"""Stored in checkpoints. A checkpoint with another version is not readable."""

RowHashes = NDArray[np.uint64]
"""A word per row: shape (n,), uint64."""

_NULL = np.uint64(0x9E3779B97F4A7C15)


def shard_of(keys: pl.DataFrame, shards: int) -> NDArray[np.int64]:
    """The shard (0 to ``shards`` - 1) of each row of ``keys``: shape (n,), int64.

    >>> shard_of(pl.DataFrame({"a": [1, 2, 1]}), 7).tolist()
    [0, 4, 0]
    """
    if shards == 1:
        return np.zeros(keys.height, dtype=np.int64)
    mixed = np.zeros(keys.height, dtype=np.uint64)
    for column in keys.iter_columns():
        mixed = _scramble(mixed * np.uint64(31) + _hash(column))
    return (mixed % np.uint64(shards)).astype(np.int64)


def _scramble(x: RowHashes) -> RowHashes:
    """A bijection of 64-bit words in which every output bit depends on every input bit (splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _hash(column: pl.Series) -> RowHashes:
    hashes = _scramble(_words(column) + np.uint64(1))
    if column.null_count():
        hashes = np.where(column.is_null().to_numpy(), _NULL, hashes)
    return hashes


def _words(column: pl.Series) -> RowHashes:
    """A 64-bit word per value, the same for equal values; arbitrary for nulls."""
    dtype = column.dtype
    if dtype == pl.String:
        # Usually few strings are distinct, so each distinct string is hashed once.
        names = column.unique().drop_nulls()
        sums = pl.Series([zlib.crc32(name.encode()) for name in names], dtype=pl.UInt64)
        return column.replace_strict(names, sums, default=0, return_dtype=pl.UInt64).to_numpy()
    if dtype == pl.Float64:
        return words(column)
    if dtype == pl.Decimal:
        wide = unscaled(pl.col(column.name)).fill_null(0)
        parts = column.to_frame().select(low=wide % 2**32, high=(wide // 2**32) % 2**62)
        low, high = (parts[name].cast(pl.UInt64).to_numpy() for name in ("low", "high"))
        return low + _scramble(high)
    numbers = column if dtype == pl.Int64 else column.to_physical().cast(pl.Int64)
    return (numbers.fill_null(0) if numbers.null_count() else numbers).to_numpy().view(np.uint64)


def split_rows(frame: pl.DataFrame, keys: Sequence[str], shards: int) -> dict[int, pl.DataFrame]:
    """The rows of each shard, by shard, in order. Shards without rows are omitted."""
    if not frame.height:
        return {}
    if shards == 1 or not keys:
        return {0: frame}
    values = pl.DataFrame([frame[key].alias(str(i)) for i, key in enumerate(keys)])
    owners = integers("$shard", shard_of(values, shards))
    parts = frame.hstack([owners]).partition_by("$shard", as_dict=True, include_key=False)
    return {int(key[0]): part for key, part in sorted(parts.items())}
