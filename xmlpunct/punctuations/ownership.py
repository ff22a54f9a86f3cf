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
    """What of an operator's output somebody may need to hear though something else implies it.

    On several shards, what lists values of the partition attributes is *owned*: it is heard and said by the owner of
    these values alone. All else every shard hears, and it is true of the whole only when every shard has said it. So
    what is owned has to be said even if something implies it that other shards cannot say yet.

    Where what is said is ``sifted``, an operator above holds back a punctuation that tuples of its own match. So it
    has to hear all that is implied, on one shard as well: its one way is without attributes, and all is owned.

    Without ``ways`` nobody has to hear what is implied.

    >>> s = Schema.parse("k INT, v INT")
    >>> by_k = Ownership(s, [("k",)])
    >>> [by_k.owned(Punctuation.of(s, **said)) for said in ({"k": "{1,7}"}, {"k": "(,7]"}, {"v": 1})]
    [True, False, False]
    """

    def __init__(self, schema: Schema, ways: Ways = (), sifted: bool = False) -> None:
        self._ways = [list(dict.fromkeys(schema.index(name) for name in way)) for way in ways]
        self._sifted = sifted

    def __bool__(self) -> bool:
        """Whether somebody has to hear what is implied."""
        return bool(self._ways)

    def owned(self, p: Punctuation) -> bool:
        """Whether a punctuation is about listed values of the partition attributes."""
        return not p.is_everything and any(listed(p, way) is not None for way in self._ways)

    def needs(self, p: Punctuation) -> bool:
        """Whether a punctuation has to be said though it is implied."""
        return self._sifted or self.owned(p)

    def lasts(self, p: Punctuation) -> bool:
        """Whether a punctuation that has been said may imply others that have to be said."""
        return bool(self) and (self._sifted or not self.owned(p))

    def lasting(self, batch: PunctuationBatch) -> bool:
        """Whether some of a batch about one attribute may."""
        owned = not batch.ranged and any(way in ([], [batch.place]) for way in self._ways)
        return bool(self) and (self._sifted or not owned)


ONE_SHARD: Ways = ((),)
ANYTHING = Ownership(Schema.of(()))
"""Of an operator that may leave unsaid what is implied."""
