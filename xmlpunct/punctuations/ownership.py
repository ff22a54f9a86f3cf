"""Ownership: which punctuations are about values of one shard, so that it alone hears and says them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.types import Value
from xmlpunct.types.pattern import ENUMERABLE, enumerate_values

Ways = Sequence[Sequence[str]]
"""The ways to find a tuple's partition values. Each names an attribute per value, which has it or is null."""


def listed(p: Punctuation, places: Sequence[int]) -> list[list[Value]] | None:
    """For each of some attributes the values that a punctuation is about; None if they are too many to list."""
    values: list[list[Value]] = []
    for place in places:
        members = enumerate_values(p.patterns[place])
        if members is None:
            return None
        values.append(list(members))
    return values if prod(map(len, values)) <= ENUMERABLE else None


class Ownership:
    """Which punctuations of an operator's output have to be said though others imply them.

    On several shards, a punctuation that lists values of the partition attributes is *owned*: the owner of these values
    alone hears and says it. Every shard hears all others, and they hold for the whole only when every shard has said
    them. So what is owned has to be said even if something implies it that other shards cannot say yet.

    ``sifted``: an operator above holds back a punctuation that tuples of its own match. So it has to hear all that is
    implied, on one shard as well; its one way is without attributes, and everything is owned.

    Without ``ways`` nothing implied has to be said.

    >>> s = Schema.parse("k INT, v INT")
    >>> by_k = Ownership(s, [("k",)])
    >>> [by_k.owned(Punctuation.of(s, **said)) for said in ({"k": "{1,7}"}, {"k": "(,7]"}, {"v": 1})]
    [True, False, False]
    """

    def __init__(self, schema: Schema, ways: Ways = (), sifted: bool = False) -> None:
        self._ways = [list(dict.fromkeys(schema.index(name) for name in way)) for way in ways]
        self._sifted = sifted

    def __bool__(self) -> bool:
        """Whether anything implied has to be said."""
        return bool(self._ways)

    def owned(self, p: Punctuation) -> bool:
        """Whether a punctuation is about listed values of the partition attributes."""
        return not p.is_everything and any(listed(p, way) is not None for way in self._ways)

    def needs(self, p: Punctuation) -> bool:
        """Whether a punctuation has to be said though it is implied."""
        return self._sifted or self.owned(p)

    def lasts(self, p: Punctuation) -> bool:
        """Whether a punctuation that was said may imply others that have to be said."""
        return bool(self) and (self._sifted or not self.owned(p))

    def lasting(self, batch: PunctuationBatch) -> bool:
        """Whether `lasts` holds for some of a batch in columns."""
        owned = not batch.ranged and any(way in ([], [batch.place]) for way in self._ways)
        return bool(self) and (self._sifted or not owned)


ONE_SHARD: Ways = ((),)
"""The one way where there is one shard: by no attribute."""
ANYTHING = Ownership(Schema.of(()))
"""An operator may leave unsaid whatever is implied."""
