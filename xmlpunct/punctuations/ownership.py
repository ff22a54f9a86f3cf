"""Ownership: the punctuations on shard key values of one shard, which only that shard receives and emits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Protocol

from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.types import Value
from xmlpunct.types.pattern import ENUMERABLE, enumerate_values

Ways = Sequence[Sequence[str]]
"""Alternative lists of attributes that contain a tuple's shard key; in a tuple each has the value or is null."""


def listed_values(p: Punctuation, positions: Sequence[int]) -> list[list[Value]] | None:
    """The values that the pattern of each attribute matches; None if they are too many to list."""
    values: list[list[Value]] = []
    for position in positions:
        members = enumerate_values(p.patterns[position])
        if members is None:
            return None
        values.append(list(members))
    return values if prod(map(len, values)) <= ENUMERABLE else None


class Ownership:
    """The punctuations that an operator must emit although earlier ones imply them.

    On several shards, a punctuation that lists values of the shard key is *owned*: only the shard of these values
    receives and emits it. Every shard receives all other punctuations, and they hold for the whole stream only when
    every shard has emitted them. So an owned punctuation must be emitted even if this shard has emitted one that
    implies it, because other shards may not emit that one yet.

    ``all_needed``: an operator above withholds punctuations that its own retained tuples match. So it must receive all
    implied punctuations, on one shard as well. Without ``ways`` and ``all_needed``, none must be emitted.

    >>> s = Schema.parse("k INT, v INT")
    >>> by_k = Ownership(s, [("k",)])
    >>> [by_k.owned(Punctuation.of(s, **patterns)) for patterns in ({"k": "{1,7}"}, {"k": "(,7]"}, {"v": 1})]
    [True, False, False]
    """

    def __init__(self, schema: Schema, ways: Ways = (), all_needed: bool = False) -> None:
        self.ways, self.all_needed = ways, all_needed
        self._positions = [list(dict.fromkeys(schema.index(name) for name in way)) for way in ways]

    def over(self, schema: Schema, names: Mapping[str, str] | None = None) -> Ownership:
        """The ownership of punctuations of another schema.

        ``names`` maps attributes to those of ``schema``; None if they have the same names. Ways by other attributes
        are omitted.

        >>> s, t = Schema.parse("k INT, v INT"), Schema.parse("l INT, w INT")
        >>> Ownership(s, [("k",), ("v",)]).over(t, {"k": "l"}).ways
        [['l']]
        """
        names = dict(zip(schema.names, schema.names, strict=True)) if names is None else names
        ways = [[names[name] for name in way] for way in self.ways if names.keys() >= set(way)]
        return Ownership(schema, ways, self.all_needed)

    def __bool__(self) -> bool:
        """Whether any implied punctuation must be emitted."""
        return self.all_needed or bool(self.ways)

    def owned(self, p: Punctuation) -> bool:
        """Whether a punctuation lists values of the shard key."""
        return not p.is_everything and any(listed_values(p, way) is not None for way in self._positions)

    def needs(self, p: Punctuation) -> bool:
        """Whether a punctuation must be emitted even if it is implied."""
        return self.all_needed or self.owned(p)

    def lasts(self, p: Punctuation) -> bool:
        """Whether an emitted punctuation may imply punctuations that must still be emitted."""
        return bool(self) and (self.all_needed or not self.owned(p))

    def lasting(self, batch: PunctuationBatch) -> bool:
        """Whether `lasts` holds for a punctuation of a columnar batch."""
        is_owned = not batch.ranged and [batch.position] in self._positions
        return bool(self) and (self.all_needed or not is_owned)


class Owner(Protocol):
    """An operator, or a part of one, that emits owned punctuations although earlier ones imply them."""

    ownership: Ownership

    @property
    def schema(self) -> Schema: ...


KeyPath = tuple[Owner, Mapping[str, str] | None]
"""A part of an operator, and its names of the operator's output attributes; None if it has the same names."""
ANYTHING = Ownership(Schema.of(()))
"""Default: implied punctuations need not be emitted."""
