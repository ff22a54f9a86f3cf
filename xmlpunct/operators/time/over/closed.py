"""The instants up to which the partitions of OVER are closed."""

from __future__ import annotations

from collections.abc import Sequence

from xmlpunct.operators.relations.closed_prefixes import ClosedPrefixes
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.schema.change_columns import AT
from xmlpunct.types.pattern import EMPTY, ordinals


class ClosedPartitions:
    """C(k): the instant up to which each partition k is closed, by the attributes ``keys``.

    `ClosedPrefixes` retains the closed instants. Each other attribute counts only as far as all its values are closed.
    """

    def __init__(self, schema: Schema, timestamp: str, keys: Sequence[str]) -> None:
        type_ = schema[timestamp].type
        self.instants = Instants(type_, least=type_.ordinal(type_.lowest))
        self._keys = [key for key in keys if key != timestamp]
        self.prefixes = ClosedPrefixes(schema, timestamp, self.instants, self._keys)
        self._input, self._at = schema, len(keys)
        self._schema = Schema.of([*(schema[key] for key in keys), Attribute(AT, type_, False)])
        self._key_positions: list[int | None] = [*map(schema.index, keys)]
        names = {timestamp: AT}
        self._sources = [
            self._schema.index(name) if name in self._schema else None
            for name in (names.get(name, name) for name in schema.names)
        ]

    def add(self, batch: PunctuationBatch) -> PunctuationBatch:
        """Receive punctuations; return the prefixes ``<k, (,b]>`` that have grown, ``*`` if k is closed for ever."""
        by_key = batch.position is not None and self._input.names[batch.position] in self._keys
        if by_key and not batch.ranged and self.prefixes.is_simple:
            return batch.rebase(self._schema, [*self._key_positions, None])
        return self.prefixes.punctuations(self.prefixes.add(batch), self._schema)

    def older(self, closed: PunctuationBatch, count: int) -> PunctuationSet:
        """The instants at least ``count`` before the ends of prefixes, as punctuations of the input."""
        if closed.position not in (None, self._at):
            return PunctuationSet(self._input, closed.rebase(self._input, self._sources))
        older = PunctuationSet(self._input)
        for p in closed:
            bound = self.instants.bound(p.patterns[self._at])
            if bound < self.instants.last and count:
                pattern = ordinals(self.instants.type, None, bound - count)
                if pattern is EMPTY or bound - count < self.instants.lo:
                    continue
                p = p.with_pattern(self._at, pattern)
            older.add(p.rebase(self._input, self._sources))
        return older
