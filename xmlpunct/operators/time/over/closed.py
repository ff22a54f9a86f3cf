"""How far the partitions of OVER are closed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from xmlpunct.base.frames import Snapshot, restore, snapshot_of
from xmlpunct.operators.relations.bounds import closed_bounds, for_ever
from xmlpunct.operators.relations.closed_prefixes import ClosedPrefixes
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.schema.change_columns import AT
from xmlpunct.types.ordinals import Ordinals
from xmlpunct.types.pattern import EMPTY, Pattern, ordinals


class ClosedPartitions:
    """C(k): for the partitions k, by the attributes ``keys``, the instants up to which they are closed.

    A punctuation counts once the punctuations of all other attributes together close all their values (`JointCover`).
    `ClosedPrefixes` fuses the closed instants.
    """

    def __init__(self, schema: Schema, timestamp: str, keys: Sequence[str]) -> None:
        type_ = schema[timestamp].type
        self.instants = Instants(type_, least=type_.ordinal(type_.lowest))
        known = [*keys, *([] if timestamp in keys else [timestamp])]
        self._places: list[int | None] = [*(schema.index(key) for key in keys), schema.index(timestamp)]
        self._joint = JointCover(schema, [i for i, name in enumerate(schema.names) if name not in known])
        own = schema[timestamp]
        at = Attribute(AT, type_, False, domain=own.domain)
        self._schema = Schema.of([*(schema[key] for key in keys), at])
        self._at = len(keys)
        self._prefixes = ClosedPrefixes(self._schema, AT, self.instants)
        self._input, self._timestamp = schema, timestamp

    def add(self, batch: PunctuationBatch) -> PunctuationBatch:
        """Take punctuations; return the prefixes ``<k, (,b]>`` that have grown, ``*`` for those closed for ever."""
        known = self._joint.add(batch).rebase(self._schema, self._places)
        if known.position not in (None, self._at) and not known.ranged and self._prefixes.is_simple:
            return known
        grown = self._prefixes.add(known)
        return PunctuationBatch(self._prefix(q, self.instants.prefix(last)) for q, _, last in grown)

    def _prefix(self, q: Punctuation, prefix: Pattern) -> Punctuation:
        return Punctuation(self._schema, [*q.patterns[: self._at], prefix])

    def ends(self, closed: PunctuationBatch) -> PunctuationBatch:
        """Those of some prefixes that close partitions for ever."""
        return for_ever(closed)

    def older(self, closed: PunctuationBatch, count: int) -> PunctuationSet:
        """What is ``count`` instants older than some prefixes end, as punctuations of the input."""
        places = [self._place(a.name) for a in self._input]
        if closed.position not in (None, self._at):
            return PunctuationSet(self._input, closed.rebase(self._input, places))
        found = PunctuationSet(self._input)
        for p in closed:
            bound = self.instants.bound(p.patterns[self._at])
            if bound < self.instants.last and count:
                pattern = ordinals(self.instants.type, None, bound - count)
                if pattern is EMPTY or bound - count < self.instants.lo:
                    continue
                p = self._prefix(p, pattern)
            found.add(p.rebase(self._input, places))
        return found

    def _place(self, name: str) -> int | None:
        if name == self._timestamp:
            return self._at
        return self._schema.index(name) if name in self._schema else None

    def bounds(self, closed: PunctuationBatch, keys: pl.DataFrame) -> Ordinals:
        """The last instants that are closed for some partitions; the last of all stands for ever."""
        if closed.position not in (None, self._at):
            return np.full(keys.height, self.instants.last)
        return closed_bounds(closed, keys, self.instants)

    # As a part of the state

    def __len__(self) -> int:
        return len(self._joint) + len(self._prefixes)

    def snapshot(self) -> Snapshot:
        """What is retained, for a checkpoint."""
        return snapshot_of({"joint": self._joint, "prefixes": self._prefixes})

    def restore(self, snapshot: Snapshot) -> None:
        """The inverse of `snapshot`."""
        restore({"joint": self._joint, "prefixes": self._prefixes}, snapshot)
