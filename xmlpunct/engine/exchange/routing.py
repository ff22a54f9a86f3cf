"""The exchange: which shard gets which tuples and which punctuations."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xmlpunct.engine.exchange.hashing import shard_of, split_rows
from xmlpunct.operators.gather import Owners, split_by_owner
from xmlpunct.punctuations.bundle import Bundle
from xmlpunct.punctuations.punctuation import Punctuation, Tuple
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice


def owners_of(schema: Schema, keys: Sequence[str], shards: int) -> Owners:
    """The function that finds the shards of value tuples of the attributes ``keys``."""
    dtypes = {str(i): schema[key].type.dtype for i, key in enumerate(keys)}

    def owners(points: list[Tuple]) -> list[int]:
        found = shard_of(pl.DataFrame(points, schema=dtypes, orient="row"), shards)
        return [int(shard) for shard in found]

    return owners


def route(given: Slice, schema: Schema, keys: Sequence[str], shards: int) -> dict[int, Slice]:
    """Cut a slice into one per shard that has to hear of it.

    Tuples go where their ``keys`` hash to; a punctuation goes to the shards that could hold tuples it
    matches: the owners of its values where they can be listed, else every shard.
    """
    if shards == 1 or not keys:
        return {0: given}
    found = {shard: Slice(part) for shard, part in split_rows(given.tuples, keys, shards).items()}
    places, owners = [schema.index(key) for key in keys], owners_of(schema, keys, shards)

    said: dict[int, Sequence[Punctuation]] = {}
    if isinstance(given.punctuations, Bundle):
        said = _split_bundle(given.punctuations, places, keys, shards)
    else:
        lists: dict[int, list[Punctuation]] = {}
        for p in given.punctuations:
            parts = split_by_owner(p, places, owners)
            for shard in range(shards) if parts is None else parts:
                lists.setdefault(shard, []).extend([p] if parts is None else parts[shard])
        said.update(lists)
    for shard, punctuations in said.items():
        found.setdefault(shard, Slice(schema.empty())).punctuations = punctuations
    return found


def _split_bundle(
    bundle: Bundle, places: Sequence[int], keys: Sequence[str], shards: int
) -> dict[int, Sequence[Punctuation]]:
    """What of a bundle each shard has to hear: what is about tuples that go there."""
    if any(place != bundle.place for place in places):
        return dict.fromkeys(range(shards), bundle)
    named = bundle.values.alias(keys[0]).to_frame()
    parts = split_rows(named, keys, shards).items()
    return {shard: Bundle(bundle.schema, bundle.place, part.to_series()) for shard, part in parts}
