"""The exchange: which shard gets which tuples and which punctuations."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xmlpunct.engine.partition.hashing import shard_of, split_rows
from xmlpunct.operators.merge.gather import Owners, split_by_owner
from xmlpunct.punctuations.punctuation import Tuple
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice


def owners_of(schema: Schema, keys: Sequence[str], shards: int) -> Owners:
    """The function that finds the shards of value tuples of the attributes ``keys``."""
    dtypes = {str(i): schema[key].type.dtype for i, key in enumerate(keys)}

    def owners(points: list[Tuple]) -> list[int]:
        numbers = shard_of(pl.DataFrame(points, schema=dtypes, orient="row"), shards)
        return [int(shard) for shard in numbers]

    return owners


def route(
    given: Slice, schema: Schema, keys: Sequence[str], shards: int, whole: bool = False
) -> dict[int, Slice]:
    """Cut a slice into one for each shard that has to hear of it.

    Tuples go where their ``keys`` hash to. A punctuation goes to the shards that could hold tuples it matches: the
    owners of its values if these can be listed, otherwise every shard. ``whole``: every shard hears all of them.
    """
    if shards == 1 or not keys:
        return {0: given}
    by_shard = {shard: Slice(part) for shard, part in split_rows(given.tuples, keys, shards).items()}
    places, owners = [schema.index(key) for key in keys], owners_of(schema, keys, shards)

    def of_values(values: pl.Series) -> dict[int, pl.Series]:
        named = values.alias(keys[0]).to_frame()
        return {shard: part.to_series() for shard, part in split_rows(named, keys, shards).items()}

    said = dict.fromkeys(range(shards), given.punctuations)
    if not (whole and given.punctuations):
        said = given.punctuations.route(
            places, range(shards), of_values, lambda p: split_by_owner(p, places, owners)
        )
    for shard, punctuations in said.items():
        by_shard.setdefault(shard, Slice(schema.empty())).punctuations = punctuations
    return by_shard
