"""The exchange: divides tuples and punctuations among shards."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xmlpunct.engine.partition.hashing import shard_of, split_rows
from xmlpunct.operators.merge.gather import Owners, split_by_owner
from xmlpunct.punctuations.punctuation import Tuple
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice


def owners_of(schema: Schema, keys: Sequence[str], shards: int) -> Owners:
    """A function that maps values of the attributes ``keys`` to shards."""
    dtypes = {str(i): schema[key].type.dtype for i, key in enumerate(keys)}

    def owners(points: list[Tuple]) -> list[int]:
        numbers = shard_of(pl.DataFrame(points, schema=dtypes, orient="row"), shards)
        return [int(shard) for shard in numbers]

    return owners


def route(
    input_slice: Slice, schema: Schema, keys: Sequence[str], shards: int, broadcast: bool = False
) -> dict[int, Slice]:
    """Divide a slice among shards.

    A tuple goes to the shard of its ``keys``. A punctuation goes to all shards that may have matching tuples: the
    owners of its values if they can be listed, otherwise every shard. ``broadcast``: every shard receives all
    punctuations.
    """
    if shards == 1 or not keys:
        return {0: input_slice}
    by_shard = {shard: Slice(part) for shard, part in split_rows(input_slice.tuples, keys, shards).items()}
    positions, owners = [schema.index(key) for key in keys], owners_of(schema, keys, shards)

    def of_values(values: pl.Series) -> dict[int, pl.Series]:
        column = values.alias(keys[0]).to_frame()
        return {shard: part.to_series() for shard, part in split_rows(column, keys, shards).items()}

    punctuations_of = dict.fromkeys(range(shards), input_slice.punctuations)
    if not (broadcast and input_slice.punctuations):
        punctuations_of = input_slice.punctuations.route(
            positions, range(shards), of_values, lambda p: split_by_owner(p, positions, owners)
        )
    for shard, punctuations in punctuations_of.items():
        by_shard.setdefault(shard, Slice(schema.empty())).punctuations = punctuations
    return by_shard
