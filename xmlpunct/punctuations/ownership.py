"""Ownership: which punctuations are about values of one shard, so that it alone hears and says them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.pattern import ENUMERABLE, enumerate_values
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.types import Value

Ways = Sequence[Sequence[str]]
"""The ways to find a tuple's partition values, each an attribute per value, which has it or is null."""


def listed(p: Punctuation, places: Sequence[int]) -> list[list[Value]] | None:
    """The values of some attributes that a punctuation is about, of each; None if these are too many to list."""
    found: list[list[Value]] = []
    for place in places:
        members = enumerate_values(p.patterns[place])
        if members is None:
            return None
        found.append(list(members))
    return found if prod(map(len, found)) <= ENUMERABLE else None


class Ownership:
    """Tells, on one of several shards, which punctuations are `owned`: they list values of the partition attributes.

    What is owned is heard and said by the owner of these values alone; all else every shard hears, and it is true of
    the whole only when every shard has said it. So what is owned has to be said even if something else implies it
    that other shards cannot say yet. Without ``ways`` there are no other shards, and nothing is owned.

    >>> s = Schema.parse("k INT, v INT")
    >>> by_k = Ownership(s, [("k",)])
    >>> [by_k.owned(Punctuation.of(s, **said)) for said in ({"k": "{1,7}"}, {"k": "(,7]"}, {"v": 1})]
    [True, False, False]
    """

    def __init__(self, schema: Schema, ways: Ways = ()) -> None:
        self._ways = [list(dict.fromkeys(schema.index(name) for name in way)) for way in ways]

    def __bool__(self) -> bool:
        """Whether there are other shards."""
        return bool(self._ways)

    def owned(self, p: Punctuation) -> bool:
        """Whether a punctuation is about listed values of the partition attributes."""
        return any(listed(p, way) is not None for way in self._ways)

    def unowned(
        self,
        batch: PunctuationBatch,
        places: Sequence[int | None] | None = None,
        schema: Schema | None = None,
    ) -> PunctuationBatch:
        """Those that are not owned; with ``places``: once they are rebased to ``schema`` by them."""
        if not self._ways:
            return batch
        moved = batch if places is None or schema is None else batch.rebase(schema, places)
        if moved.place is not None and not moved.ranged:
            return PunctuationBatch() if [moved.place] in self._ways else batch
        return PunctuationBatch(p for p, q in zip(batch, moved, strict=True) if not self.owned(q))


ALONE = Ownership(Schema.of(()))
"""Of an operator that runs on one shard."""
